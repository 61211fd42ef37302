"""Memory of results that are not copied out of the arena.

Fresh memory costs a page fault for every 4 KiB, more than most kernels take to fill it. So what
a result was in is reused as soon as the array and its views are released. What is kept for
that is bounded, over all executables together; what was used longest ago is given back first.
"""

from __future__ import annotations

import itertools
import math
import sys
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy import ndarray

from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.runtime.signature import Array

_ALIGNMENT = 64
_BLOCKS_KEPT = 2
"""Per result: `y = f(x)` in a loop holds the last result while the next is computed."""

MOST_KEPT = 128 * 1024 * 1024
"""Bytes that are kept for the results of all executables, whether they are referenced or not."""


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
    def memory_size(self) -> int:
        """Bytes that hold an array of this kind at an aligned address."""
        return math.prod(self.shape) * self.dtype.itemsize + _ALIGNMENT


class Block:
    """Memory for one array, from its first aligned address on."""

    def __init__(self, kind: ArrayKind) -> None:
        self._kind = kind
        self._memory = np.empty(kind.memory_size, np.uint8)
        self._start = -address_of(self._memory) % _ALIGNMENT
        self.address = address_of(self._memory) + self._start
        self._unheld = sys.getrefcount(self._memory)

    def is_held(self) -> bool:
        """True if an array that `view` returned, or a view of it, is referenced."""
        return sys.getrefcount(self._memory) != self._unheld

    def view(self) -> Array:
        """Return a new array over the memory, which it keeps alive."""
        return ndarray(self._kind.shape, self._kind.dtype, self._memory, self._start)


class ResultMemory:
    """A large result. The array that `show` gives keeps its values while anyone holds it."""

    def __init__(self, kind: ArrayKind) -> None:
        self._kind = kind
        self._blocks: list[Block] = []
        self._taken: Block | None = None
        """What a run writes to: other threads may give `_blocks` back meanwhile."""
        self._used = 0
        _register(self)

    def take(self) -> int:
        self._used = next(_calls)
        blocks = self._blocks
        for place, block in enumerate(blocks):
            if not block.is_held():
                blocks.append(blocks.pop(place))
                self._taken = block
                return block.address
        self._taken = block = Block(self._kind)
        if self._kind.memory_size <= MOST_KEPT:
            self._blocks = [*blocks[1 - _BLOCKS_KEPT :], block]
            _give_back(MOST_KEPT)
        return block.address

    def show(self) -> Array:
        taken, self._taken = self._taken, None
        if taken is None:
            raise InternalError("a result is shown that no run has written")
        return taken.view()

    @property
    def kept(self) -> int:
        """Bytes that are kept for the next runs."""
        return len(self._blocks) * self._kind.memory_size

    def give_back(self, excess: int) -> None:
        """Let go of the oldest blocks, `excess` bytes or more, if there are so many."""
        self._blocks = self._blocks[-(-excess // self._kind.memory_size) :]


_calls = itertools.count(1)
_memories: dict[int, weakref.ref[ResultMemory]] = {}
"""What is alive, by identity. Changed and copied in single steps, so that no lock is needed."""


def _register(memory: ResultMemory) -> None:
    key = id(memory)
    _memories[key] = weakref.ref(memory, lambda _: _memories.pop(key, None))


def _living() -> list[ResultMemory]:
    found = [reference() for reference in list(_memories.values())]
    return [memory for memory in found if memory is not None]


def kept_bytes() -> int:
    """Return the bytes that are kept for results of all executables."""
    return sum(memory.kept for memory in _living())


def _give_back(most: int) -> None:
    """Give back what was used longest ago until at most `most` bytes are kept."""
    memories = _living()
    excess = sum(memory.kept for memory in memories) - most
    if excess <= 0:
        return
    for memory in sorted(memories, key=lambda memory: memory._used):
        before = memory.kept
        memory.give_back(excess)
        excess -= before - memory.kept
        if excess <= 0:
            return


class State:
    """A param that every run replaces: stays in place unless its last value is referenced."""

    def __init__(self, kind: ArrayKind) -> None:
        self._kind = kind
        self._block = Block(kind)

    def set(self, value: Array) -> None:
        self.take()
        self._block.view()[...] = value

    def take(self) -> int:
        if self._block.is_held():
            held, self._block = self._block, Block(self._kind)
            self._block.view()[...] = held.view()
        return self._block.address

    def show(self) -> Array:
        array = self._block.view()
        array.setflags(write=False)
        return array


class DonatedMemory(ndarray[tuple[int], np.dtype[np.uint8]]):
    """Memory of arrays that replaced a donated argument: it marks them as ours to overwrite."""


def donated_copy(array: Array, cls: type[Array] = ndarray) -> Array:
    """Return a copy of `array`, of class `cls`, that may be overwritten when it is donated.

    Its base is an array of bytes over a `DonatedMemory`. NumPy gives every view of the copy that
    same base, so that the base's reference count says whether there are views.
    """
    kind = ArrayKind(array.shape, array.dtype)
    memory = DonatedMemory(kind.memory_size, np.uint8)
    base = ndarray(memory.shape, np.uint8, memory)
    start = -address_of(memory) % _ALIGNMENT
    ndarray(kind.shape, kind.dtype, base, start)[...] = array
    copy = cls(kind.shape, kind.dtype, base, start)
    ndarray.setflags(copy, write=cls is ndarray)
    return copy


def may_overwrite(array: Array, cls: type[Array] = ndarray) -> bool:
    """True for what `donated_copy` returned and has no live view; not for views of it."""
    flags = array.flags
    base = array.base
    ours = type(array) is cls and type(base) is ndarray and type(base.base) is DonatedMemory
    free = ours and base is not None and base.flags.writeable
    del base
    alone = free and _references_to_base(array) == _ONE_HOLDER
    return alone and flags.c_contiguous and (flags.writeable or cls is not ndarray)


def _references_to_base(array: Array) -> int:
    return sys.getrefcount(array.base)


def overlaps(array: Array, others: Sequence[Array]) -> bool:
    """True if `array`, which is contiguous, has bytes in common with one of `others`."""
    start = address_of(array)
    stop = start + array.nbytes
    return any(address_of(x) < stop and start < address_of(x) + x.nbytes for x in others)


def address_of(array: Array) -> int:
    """Return the address of the first element."""
    address: int = array.__array_interface__["data"][0]
    return address


_ONE_HOLDER = _references_to_base(donated_copy(np.zeros(1)))
"""What is counted for a base that one array alone refers to; versions of Python differ."""
