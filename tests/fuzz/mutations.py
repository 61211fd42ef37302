"""Damage to files: of bytes, of the words of a text, and of the leaves of JSON."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

_WORD = re.compile(rb"\w+|[^\w\s]")
_STRANGE_WORDS = (
    b"0", b"1", b"-1", b"7", b"64", b"4096", b"99999999999999999999", b"1e999", b"nan", b"f32",
    b"f64", b"i8", b"bool", b"c64", b"x", b"%0", b"%99", b"(", b")", b"[", b"]", b"{", b"}", b",",
    b":", b"=", b"add", b"matmul", b"constant", b"raw", b"n", b"'", b'"', b"\\", b"#", b"@", b"\n",
)  # fmt: skip
_STRANGE_LEAVES: tuple[Any, ...] = (
    0, 1, -1, 8, 64, 2**31, 2**63, 2**70, 1.5, None, True, "", "x", [], {}, [0], "f32",
)  # fmt: skip


def damaged_bytes(content: bytes, pick: random.Random) -> bytes:
    """Flip a bit, cut, repeat, move or replace some bytes."""
    data, place = bytearray(content), pick.randrange(len(content))
    stop = min(len(data), place + pick.choice((1, 2, 8, 64)))
    kind = pick.randrange(6)
    if kind == 0:
        data[place] ^= 1 << pick.randrange(8)
    elif kind == 1:
        del data[place:]
    elif kind == 2:
        del data[place:stop]
    elif kind == 3:
        data[place:place] = data[place:stop]
    elif kind == 4:
        data[place:stop] = pick.randbytes(stop - place)
    else:
        data += pick.randbytes(pick.randrange(1, 9))
    return bytes(data)


def damaged_words(text: bytes, pick: random.Random) -> bytes:
    """Replace, remove, repeat or exchange words; or lines."""
    if pick.random() < 0.2:
        lines = text.split(b"\n")
        a, b = pick.randrange(len(lines)), pick.randrange(len(lines))
        lines[a], lines[b] = (lines[b], lines[a]) if pick.random() < 0.5 else (lines[a], lines[a])
        return b"\n".join(lines)
    words = list(_WORD.finditer(text))
    word, other = pick.choice(words), pick.choice(words)
    new = pick.choice((other.group(), pick.choice(_STRANGE_WORDS), b"", word.group() * 2))
    return text[: word.start()] + new + text[word.end() :]


def damaged_json(data: Any, pick: random.Random) -> Any:
    """Replace, shift, exchange or remove one leaf or branch of a copy."""
    data = copy.deepcopy(data)
    holder, key = pick.choice(list(_places(data)))
    old, kind = holder[key], pick.randrange(4)
    if kind == 0 and isinstance(old, int):
        holder[key] = old + pick.choice((-64, -1, 1, 64))
    elif kind == 1 and isinstance(holder, list):
        del holder[key]
    elif kind == 2:
        other, there = pick.choice(list(_places(data)))
        holder[key] = copy.deepcopy(other[there])
    else:
        holder[key] = pick.choice(_STRANGE_LEAVES)
    return data


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    keys = data if isinstance(data, dict) else range(len(data))
    for key in keys:
        yield data, key
        if isinstance(data[key], (dict, list)):
            yield from _places(data[key])
