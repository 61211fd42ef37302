"""Persistent buffers of an arena: params, state, and what `setup` makes of them.

Programs with equal layouts of residents may share them: the step of a decoder and its program for
prompts have the same weights, keys and values. Their runs take turns.

A param that `setup` alone reads is needed for as long as `setup` takes. If it was given as an
array that is read-only, such as a file mapped into memory, the array is kept instead: `setup`
reads it there if the program has an entry for that (`codegen.setup_at`). Otherwise it is copied,
and the param's pages go back to the system. So do the file's, and those of what `setup` made on
its way. State that is zeros at first takes memory as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.locks import call_lock
from rlx.runtime.arena import Arena, discard_pages, fill_slowly
from rlx.runtime.signature import Array

Setup: TypeAlias = Callable[[Mapping[str, Array]], int]
"""Runs `setup` and returns its status, given the params that are not in the arena."""

_LARGE = 1 << 20
"""Bytes of temporaries from which they are given back: a run may need fewer than `setup`."""

_LARGE_VIEW = 1 << 16
"""Bytes of what is not written yet from which a call of the system is worth the memory."""


@dataclass(eq=False)
class Residents:
    """An arena with its params, for one program or several."""

    arena: Arena
    passing: Collection[str] = ()
    """Params that `setup` alone reads."""
    shared: bool = False
    """True if several programs run over them."""
    temporaries: int = 0
    """Where in the arena nothing stays from call to call; 0 if not known, or given back."""
    needs_setup: bool = True
    lock: Any = field(default_factory=call_lock)
    views: dict[str, Array] = field(default_factory=dict)
    """Addresses of the params."""
    unset: set[str] = field(default_factory=set)
    _kept: dict[str, Array] = field(default_factory=dict)

    def find(self, views: Mapping[str, Array]) -> None:
        """Register the offsets of a program's params; they must equal those of earlier programs."""
        if not self.views:
            self.views.update(views)
            self.unset.update(views)

    def write(self, name: str, value: Array) -> None:
        """Write a param, or keep the array; the caller notes that it is set."""
        fresh = name in self.unset
        self._kept.pop(name, None)
        if name in self.passing and _is_frozen(value):
            self._kept[name] = value
        elif not (fresh and _is_one_zero(value)):  # a new arena holds zeros, on no page yet
            self.views[name][...] = value
            return
        if fresh and self.views[name].nbytes >= _LARGE_VIEW:
            fill_slowly(self.views[name])

    def read(self, name: str) -> Array:
        """Return a copy of a param."""
        copy: Array = self._kept.get(name, self.views[name]).copy()
        return copy

    def note(self, name: str) -> None:
        """Note that a param was set: `setup` is due."""
        self.unset.discard(name)
        self.needs_setup = True

    def set_up(self, program: str, run: Setup, *, reads_elsewhere: bool = False) -> int:
        """Run `setup`, which finds all params in the arena; return its status.

        If it reads params elsewhere it is given those arrays that are kept.
        """
        if self.unset:
            names = ", ".join(sorted(map(repr, self.unset)))
            raise InputError(
                f"{program}: params not set: {names}",
                remedy="pass params= to rlx.compile, or call set_param",
            )
        there = {k: v for k, v in self._kept.items() if reads_elsewhere and _is_dense(v)}
        copied = [name for name in self._kept if name not in there]
        for name in copied:
            self.views[name][...] = self._kept[name]
            _let_go(self._kept[name])
        status = run(there)
        for value in there.values():
            _let_go(value)
        for name in copied:
            discard_pages(self.views[name])
        self._give_back_temporaries()
        self.needs_setup = status != 0
        return status

    def _give_back_temporaries(self) -> None:
        """Discard what the first `setup` left after the residents: inputs are written after it.

        Callers that set params often need the pages again.
        """
        room = len(self.arena.bytes) - self.temporaries
        if self.temporaries and room >= _LARGE:
            discard_pages(self.arena.bytes[self.temporaries :])
        self.temporaries = 0


def _is_dense(array: Array) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


def _let_go(array: Array) -> None:
    """Give back the pages of an array that a file is mapped to: they can be read again."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    if isinstance(owner, np.memmap) and owner.mode == "r" and array.flags.c_contiguous:
        discard_pages(array)


def _is_frozen(array: Array) -> bool:
    """True if neither the array nor what it is a view of can be written."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return True


def _is_one_zero(array: Array) -> bool:
    """True if the array is one zero, repeated without memory of its own."""
    return array.size > 0 and not any(array.strides) and not any(array.flat[0].tobytes())
