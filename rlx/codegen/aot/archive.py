"""Static libraries, written without an archiver: the `ar` format, with an index for linkers.

    archive_bytes({"mlp.o": code}, {"mlp_run_phase": "mlp.o"})

An archive is a magic line and members, each after a header of 60 characters and at an even
offset. The first member is the index: the number of symbols, the offset of each one's member,
both as big-endian u32, and the symbols' names. Names of members over 15 characters are in a
member of their own. No dates or owners: equal objects give equal archives.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
_LONGEST_PLAIN_NAME = 15


def archive_bytes(members: Mapping[str, bytes], symbols: Mapping[str, str]) -> bytes:
    """Return an archive of `members`; `symbols` names the member that defines each symbol."""
    names, table = _member_names(members)
    index_bytes = 4 + 4 * len(symbols) + sum(len(symbol) + 1 for symbol in symbols)
    long_names = _member("//", table.encode()) if table else b""
    offset = len(_MAGIC) + _HEADER_BYTES + _even(index_bytes) + len(long_names)
    body, starts = b"", {}
    for name, data in members.items():
        starts[name] = offset + len(body)
        body += _member(names[name], data)
    offsets = [starts[member] for member in symbols.values()]
    index = struct.pack(f">{len(symbols) + 1}I", len(symbols), *offsets)
    index += b"".join(symbol.encode() + b"\0" for symbol in symbols)
    return _MAGIC + _member("/", index) + long_names + body


def _member_names(members: Mapping[str, bytes]) -> tuple[dict[str, str], str]:
    """Return how headers spell the names of members, and the table of long ones."""
    spelled, table = {}, ""
    for name in members:
        if len(name) <= _LONGEST_PLAIN_NAME:
            spelled[name] = f"{name}/"
        else:
            spelled[name] = f"/{len(table)}"
            table += f"{name}/\n"
    return spelled, table


def _member(name: str, data: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n"
    return header.encode() + data + b"\n" * (_even(len(data)) - len(data))


def _even(size: int) -> int:
    return size + size % 2
