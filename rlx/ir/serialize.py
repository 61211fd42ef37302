"""Graph files: a line of facts, the text form of the graph, then raw constants.

    rlx-graph 1 <bytes of text> <bytes of data> <SHA-256 of text and data>
    graph @mlp {
      ...
      %4: f32[784, 10] = constant raw 0
    ...

The text form is that of `rlx.ir.printer` with source lines; long literals refer to the data
by offset. Data starts, and every constant in it, at a multiple of 64 bytes; equal
constants are stored once. Nothing in a file is executed, and any damage is a FormatError.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from pathlib import Path

from rlx.errors import FormatError
from rlx.files import read_file
from rlx.ir.graph import Graph
from rlx.ir.literal import Literal
from rlx.ir.parser import parse_graph
from rlx.ir.printer import Style
from rlx.limits import LoadLimits, loading

VERSION = 1
_ALIGNMENT = 64
_FIRST_LINE = re.compile(rb"rlx-graph (\d{1,9}) (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})\n")
_LONGEST_FIRST_LINE = 128


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write `graph` with its constants to `path`; a reader never sees half a file."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.partial")
    try:
        partial.write_bytes(dumps(graph))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], *, limits: LoadLimits | None = None) -> Graph:
    """Read the graph that `save` wrote to `path`; LimitError if it needs more than `limits`."""
    with loading(limits, str(path)) as budget:
        return _parse_file(read_file(path, budget), str(path), limits)


def dumps(graph: Graph) -> bytes:
    """Return the content of the file for `graph`."""
    data = _Data()
    text = Style(full=True, sources=True, long_literal=data.place).graph(graph).encode()
    blob = bytes(data.content)
    digest = hashlib.sha256(text + blob).hexdigest()
    first = f"rlx-graph {VERSION} {len(text)} {len(blob)} {digest}\n".encode()
    return _padded(first + text) + blob


def loads(content: bytes, *, limits: LoadLimits | None = None) -> Graph:
    """Return the graph of a file's content; constants are views of `content`."""
    return _parse_file(content, "<bytes>", limits)


def fingerprint(graph: Graph) -> str:
    """Return a hash of everything but source lines: constants and bodies included."""
    style = Style(full=True, sources=False, long_literal=lambda literal: literal.digest.hex())
    return hashlib.sha256(style.graph(graph).encode()).hexdigest()


class _Data:
    """The constants of a file, in the order of the printer."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._offsets: dict[Literal, int] = {}

    def place(self, literal: Literal) -> str:
        if literal not in self._offsets:
            self.content += bytes(-len(self.content) % _ALIGNMENT)
            self._offsets[literal] = len(self.content)
            self.content += literal.array.tobytes()
        return f"raw {self._offsets[literal]}"


def _padded(text: bytes) -> bytes:
    return text + b"\n" * (-len(text) % _ALIGNMENT)


def _parse_file(content: bytes, file: str, limits: LoadLimits | None) -> Graph:
    match = _FIRST_LINE.match(content[:_LONGEST_FIRST_LINE])
    if match is None:
        raise FormatError(
            f"{file}: not an rlx graph file",
            remedy="give a file that Graph.save wrote",
        )
    version, text_bytes, data_bytes = (int(match.group(i)) for i in (1, 2, 3))
    if version != VERSION:
        raise FormatError(
            f"{file}: format version {version}; this rlx reads version {VERSION}",
            remedy="save the graph again with this version of rlx",
        )
    start = match.end()
    data_start = start + text_bytes + -(start + text_bytes) % _ALIGNMENT
    if len(content) != data_start + data_bytes:
        raise FormatError(
            f"{file}: {len(content)} bytes long; "
            f"its first line announces {data_start + data_bytes}",
            remedy="copy the file again, or save the graph anew",
        )
    text, data = content[start : start + text_bytes], memoryview(content)[data_start:]
    digest = hashlib.sha256(text)
    digest.update(data)
    if digest.hexdigest().encode() != match.group(4):
        raise FormatError(
            f"{file}: damaged: the checksum does not match the content",
            remedy="copy the file again, or save the graph anew",
        )
    return parse_graph(_decoded(text, file), file=file, raw=data, limits=limits)


def _decoded(text: bytes, file: str) -> str:
    try:
        return text.decode("ascii")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{file}: the text is not ASCII: {error}",
            remedy="copy the file again, or save the graph anew",
        ) from error
