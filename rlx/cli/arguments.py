"""Parsers of command-line arguments, which import no NumPy."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from pathlib import Path

from rlx.dataclass import dataclass

WEIGHTS = ("file", "embed", "argument")
LIMITS = ("bytes", "nodes", "elements", "nesting", "seconds")
_SHAPE = re.compile(r"(?P<dtype>[a-z]+[0-9]*)\[(?P<extents>[^\]]*)\]\Z")
_SYMBOL = re.compile(r"(?P<name>[A-Za-z_]\w*)(<=(?P<max>\d+))?\Z")


@dataclass(frozen=True, slots=True)
class NamedFile:
    """`x=x.npy`, or a file of several arrays without a name: `inputs.npz`."""

    name: str | None
    path: Path


@dataclass(frozen=True, slots=True)
class SymbolicExtent:
    """`n` or `n<=64` inside a shape."""

    name: str
    max: int | None


@dataclass(frozen=True, slots=True)
class NamedShape:
    """`x=f32[8, n<=64]`."""

    name: str
    dtype: str
    extents: tuple[int | SymbolicExtent, ...]


@dataclass(frozen=True, slots=True)
class WeightsChoice:
    """Storage of a param in an artifact (file, embedded, argument), or of all params if unnamed."""

    name: str | None
    keep: str


@dataclass(frozen=True, slots=True)
class NamedExtent:
    """`n=32`: the value of a symbol."""

    name: str
    value: int


def named_file(text: str) -> NamedFile:
    """Parse `x=x.npy` or `inputs.npz`."""
    name, equals, path = text.partition("=")
    if equals and name and path:
        return NamedFile(name, Path(path))
    if not equals and Path(text).suffix in (".npz", ".safetensors"):
        return NamedFile(None, Path(text))
    raise ArgumentTypeError(f"{text!r} is neither NAME=FILE.npy nor a FILE.npz")


def named_shape(text: str) -> NamedShape:
    """Parse `x=f32[8, 128]`."""
    name, _, type_text = text.partition("=")
    match = _SHAPE.match(type_text.strip())
    if not name or match is None:
        raise ArgumentTypeError(f"{text!r} is not NAME=DTYPE[EXTENTS], such as x=f32[8,128]")
    words = [word.strip() for word in match["extents"].split(",") if word.strip()]
    return NamedShape(name, match["dtype"], tuple(_extent(word) for word in words))


@dataclass(frozen=True, slots=True)
class NamedLimit:
    """`nodes=1000000`: one of `rlx.LoadLimits`."""

    name: str
    value: float


def named_limit(text: str) -> NamedLimit:
    """Parse `nodes=1000000` or `seconds=0.5`."""
    name, _, value = text.partition("=")
    try:
        number = float(value) if name == "seconds" else int(value)
    except ValueError:
        number = 0
    if name not in LIMITS or not number > 0:
        known = ", ".join(LIMITS)
        raise ArgumentTypeError(f"{text!r} is not NAME=NUMBER, with a name of: {known}")
    return NamedLimit(name, number)


def named_extent(text: str) -> NamedExtent:
    """Parse `n=32`."""
    name, _, value = text.partition("=")
    if not name or not value.isdigit():
        raise ArgumentTypeError(f"{text!r} is not NAME=NUMBER, such as n=32")
    return NamedExtent(name, int(value))


def weights_choice(text: str) -> WeightsChoice:
    """Parse `embed` or `w=embed`."""
    name, equals, keep = text.rpartition("=")
    if keep not in WEIGHTS or (equals and not name):
        raise ArgumentTypeError(f"{text!r} is neither {', '.join(WEIGHTS)} nor NAME= one of them")
    return WeightsChoice(name or None, keep)


def positive(text: str) -> int:
    """Parse a number of 1 or more."""
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def seed(text: str) -> int:
    """Parse a seed of random numbers: 0 or more."""
    if not text.isdigit():
        raise ArgumentTypeError(f"{text!r} is not a seed; it must be a number, 0 or more")
    return int(text)


def _extent(word: str) -> int | SymbolicExtent:
    if word.isdigit():
        return int(word)
    match = _SYMBOL.match(word)
    if match is None:
        raise ArgumentTypeError(f"extent {word!r} is neither a number nor a symbol such as n<=64")
    return SymbolicExtent(match["name"], int(match["max"]) if match["max"] else None)
