"""Memory of results that are not copied out of the arena.

Fresh memory costs a page fault for every 4 KiB, more than most kernels take to fill it. So what
a result lay in is used again as soon as nobody holds the array, or a view of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy import ndarray

from rlx.runtime.signature import Array

_ALIGNMENT = 64
_BLOCKS_KEPT = 2
"""Per result: `y = f(x)` in a loop holds the last result while the next is computed."""


class Result(Protocol):
    """Where one output goes, call after call."""

    def take(self) -> int:
        """Return the address of memory that the next run may write."""
        ...

    def show(self) -> Array:
        """Return the array that the run has written."""
        ...


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """The shape and dtype of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def over(self, memory: Array) -> Array:
        """Return the array of this kind at the first aligned address of `memory`."""
        start = -address_of(memory) % _ALIGNMENT
        return ndarray(self.shape, self.dtype, memory, start)


class Block:
    """One array in memory of its own; `shown` is what others get to see of it."""

    def __init__(self, kind: ArrayKind, *, writable: bool) -> None:
        self._memory = np.empty(kind.size + _ALIGNMENT, np.uint8)
        self.array = kind.over(self._memory)
        self.address = address_of(self.array)
        self.shown = kind.over(self._memory)
        self.shown.setflags(write=writable)
        self._alone = self._references()

    def is_held(self) -> bool:
        """True if somebody has `shown`, or a view of it."""
        return self._references() != self._alone

    def _references(self) -> tuple[int, int]:
        return sys.getrefcount(self._memory), sys.getrefcount(self.shown)


class ResultMemory:
    """A large result. The array that `show` gives keeps its values while anyone holds it."""

    def __init__(self, kind: ArrayKind) -> None:
        self._kind = kind
        self._blocks: list[Block] = []

    def take(self) -> int:
        for place, block in enumerate(self._blocks):
            if not block.is_held():
                self._blocks.append(self._blocks.pop(place))
                return block.address
        block = Block(self._kind, writable=True)
        self._blocks = [*self._blocks[1 - _BLOCKS_KEPT :], block]
        return block.address

    def show(self) -> Array:
        return self._blocks[-1].shown


class State:
    """A param that every run replaces: stays where it is unless somebody holds its last value."""

    def __init__(self, kind: ArrayKind) -> None:
        self._kind = kind
        self._block = Block(kind, writable=False)

    @property
    def value(self) -> Array:
        """The state, to be read."""
        return self._block.shown

    def set(self, value: Array) -> None:
        self.take()
        self._block.array[...] = value

    def take(self) -> int:
        if self._block.is_held():
            held, self._block = self._block, Block(self._kind, writable=False)
            self._block.array[...] = held.array
        return self._block.address

    def show(self) -> Array:
        return self._block.shown


class DonatedMemory(ndarray[tuple[int], np.dtype[np.uint8]]):
    """Memory of arrays that replaced a donated argument: it marks them as ours to overwrite."""


def donated_copy(array: Array) -> Array:
    """Return a copy of `array` that may be overwritten when it is donated."""
    kind = ArrayKind(array.shape, array.dtype)
    copy = kind.over(DonatedMemory(kind.size + _ALIGNMENT, np.uint8))
    copy[...] = array
    return copy


def may_overwrite(array: Array) -> bool:
    """True for what `donated_copy` returned, not for views of it."""
    flags = array.flags
    ours = type(array.base) is DonatedMemory and type(array) is ndarray
    return ours and flags.c_contiguous and flags.writeable


def overlaps(array: Array, others: Sequence[Array]) -> bool:
    """True if `array`, which is contiguous, has bytes in common with one of `others`."""
    start = address_of(array)
    stop = start + array.nbytes
    return any(address_of(x) < stop and start < address_of(x) + x.nbytes for x in others)


def address_of(array: Array) -> int:
    """Return where the first element lies."""
    address: int = array.__array_interface__["data"][0]
    return address
