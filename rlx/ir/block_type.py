"""Block types: the layout and decoding formula of groups of 32 or 256 quantized weights.

A block type states its formula once, over an abstract block. NumPy evaluates it on arrays of
blocks, for the reference interpreter and for files; kernels on the bytes of one block, or of as
many as a vector has lanes. A block is cut into runs of consecutive elements which share a scale:

    element[run * length + place] = scale[run] * code[run](place) + offset[run]

All types of ggml's that are made of codes and scales have this form, with the parentheses that
give equal bits. Multi-byte fields are little-endian.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from rlx.dataclass import dataclass
from rlx.errors import DTypeError
from rlx.locks import importing

Number: TypeAlias = Any
"""A number in a formula: an array, or an expression of a kernel."""


class Block(Protocol):
    """The bytes of a block. Integers are 32 bits wide; positions are numbers or such integers."""

    def byte(self, at: Number) -> Number:
        """Return the byte at a position, in 0..255."""

    def signed(self, at: Number) -> Number:
        """Return the byte at a position, in -128..127."""

    def half(self, at: int) -> Number:
        """Return the f16 that starts at a position, as f32."""

    def single(self, at: int) -> Number:
        """Return the f32 that starts at a position."""

    def number(self, integer: Number) -> Number:
        """Return an integer as f32."""

    def integer(self, place: Number) -> Number:
        """Return a place as an integer of 32 bits."""

    def bit(self, integer: Number, place: Number) -> Number:
        """Return the bit of an integer at a place of a run, 0 or 1."""

    def level(self, code: Number, levels: Sequence[int]) -> Number:
        """Return the level of a code in 0..15: sixteen numbers in -128..127."""

    def half_of(self, bits: Number) -> Number:
        """Return the f16 that an integer of 16 bits is the bits of, as f32."""

    def float_of(self, bits: Number) -> Number:
        """Return the f32 that an integer is the bits of."""


Lookups: TypeAlias = Sequence[tuple[Number, Number]]
"""Places in a codebook, and up to 15 bits which are put above the 16 of the word found there."""

Scales: TypeAlias = Sequence[tuple[Number, Number | None]]
"""Scale and offset of every run; None for no offset."""


@dataclass(frozen=True, slots=True)
class BlockType:
    """A block of `elements` weights in `size` bytes."""

    name: str
    number: int
    """What GGUF files call the type."""
    elements: int
    size: int
    runs: int
    scales: Callable[[Block], Scales]
    codes: Callable[..., Sequence[Number]]
    """The integers at place `place` of every run."""
    halves: tuple[int, ...]
    """Byte offsets of f16 fields; types with other scales have none."""
    codebook: str | None = None
    """The book that groups of codes are looked up in."""
    lookups: Callable[[Block], Lookups] | None = None
    """What is looked up in it for a block; `codes` takes the words as its third argument."""
    front: int | None = None
    """Bytes before the codes, where these are more than f16 fields."""
    integers: Callable[[], BlockType | None] | None = None
    """The type of the same bytes whose codes are integers, for blocks that no file has."""

    def codes_at(self, block: Block, place: Number, words: Sequence[Number]) -> Sequence[Number]:
        """Return the codes at place `place` of every run."""
        if self.lookups is None:
            return self.codes(block, place)
        return self.codes(block, place, words)

    def lookups_of(self, block: Block) -> Lookups:
        """Return what is looked up for a block."""
        return () if self.lookups is None else self.lookups(block)

    @property
    def header(self) -> int:
        """Bytes that a block begins with, before its codes."""
        if self.front is not None:
            return self.front
        return 2 * len(self.halves) if 0 in self.halves else 0

    @property
    def length(self) -> int:
        """Elements of a run."""
        return self.elements // self.runs

    def elements_of(self, size: int) -> int:
        """Return the elements of a row of so many bytes."""
        return size // self.size * self.elements

    def row_bytes(self, columns: int) -> int:
        """Return the bytes of a row of so many elements, which must be whole blocks."""
        return columns // self.elements * self.size


BLOCK_TYPES: dict[str, BlockType] = {}
"""Every block type by name. Filled at import, read-only afterwards."""


BLOCK_FAMILIES: dict[str, Callable[[int], BlockType]] = {}
"""Block types of any size, `int8/32`, by the name before the slash. Read-only after import."""

ROUNDED = 32
"""Elements that share a scale, in rows that are rounded to eight bits."""

SCALED_BLOCKS = -1
"""The number of block types that no file has."""


@functools.cache
def block_type(name: str) -> BlockType:
    """Return a block type by name; a DTypeError names the known ones."""
    with importing():
        importlib.import_module("rlx.ir.block_types")  # declares them
    family, _, size = name.partition("/")
    if family in BLOCK_FAMILIES and (size.isdecimal() or name == family not in BLOCK_TYPES):
        return BLOCK_FAMILIES[family](int(size or 0))
    found = BLOCK_TYPES.get(name)
    if found is None:
        raise DTypeError(
            f"unknown block type {name!r}", remedy=f"use one of: {' '.join(BLOCK_TYPES)}"
        )
    return found


@functools.cache
def integer_blocks(name: str) -> BlockType:
    """Return a block type whose codes are multiplied as integers; a DTypeError for others."""
    kind = block_type(name)
    found = kind if kind.number != SCALED_BLOCKS else kind.integers and kind.integers()
    if found is None:
        raise DTypeError(
            f"blocks of type {name} are not multiplied as integers",
            remedy="use dequant_matmul, or a block type of GGUF files",
        )
    return found


Codes: TypeAlias = Callable[..., Sequence[Number]]


def declare_block(
    name: str,
    number: int,
    *,
    elements: int,
    size: int,
    runs: int,
    scales: Callable[[Block], Scales],
    halves: tuple[int, ...] = (0,),
    codebook: str | None = None,
    lookups: Callable[[Block], Lookups] | None = None,
    header: int | None = None,
) -> Callable[[Codes], Codes]:
    """Declare a block type by the function that gives its codes."""

    def declare(codes: Codes) -> Codes:
        BLOCK_TYPES[name] = BlockType(
            name, number, elements, size, runs, scales, codes, halves, codebook, lookups, header
        )
        return codes

    return declare
