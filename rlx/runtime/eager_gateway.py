"""The fast path of calls outside `jit`: repeated in C where a call of the same kind was traced.

See `eager_gateway.c`. Functions go the long way until it is compiled, where there is no C
compiler, and with versions of NumPy that do not keep their floating-point settings in a context
variable.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from rlx.errors import RlxError
from rlx.ir.reference.replay import Replay
from rlx.runtime.arrays import Array, WeakArray
from rlx.runtime.gateway import find_gateway

_MOST_VALUES = 48
_MOST_ARGUMENTS = 16
LOOK_EVERY = 16
"""Calls on the long way between two looks whether the module has been compiled."""
_TAKEN = {np.ndarray, Array, WeakArray, int, bool, str, float, type(None), type, tuple}
"""Classes of arguments; a tuple holds integers."""
HANDLED = (RlxError, ValueError, TypeError)
"""Exceptions after which a call is traced anew, so that they name the right line."""


class _Replays(Protocol):
    """The C table of a function: called with arguments, it returns their result, or None."""

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any: ...

    def add(self, replay: Any, /) -> None: ...


def _long_way(args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
    del args, kwargs


_used: list[FastCalls] = []


class FastCalls:
    """The fast calls of one function."""

    __slots__ = ("_replays", "call")

    def __init__(self) -> None:
        self.call: Callable[[tuple[Any, ...], dict[str, Any]], Any] = _long_way
        """Returns the result for arguments of a kind that was added; None for others."""
        self._replays: _Replays | None = None

    def add(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        replay: Replay,
        *,
        weak: bool,
    ) -> None:
        """Repeat `replay`, which has one output, for arguments of the same kind.

        Its inputs are the arrays among the arguments, keyword arguments in the order of their
        names.
        """
        made = _module()
        if made is None or replay.shared or len(replay.values) > _MOST_VALUES:
            return
        given = (*args, *kwargs.values())
        if len(given) > _MOST_ARGUMENTS or not _TAKEN.issuperset(map(type, given)):
            return
        steps = tuple((s.compute, s.operands, s.result, s.count) for s in replay.steps)
        (output,) = replay.outputs
        shown_as = WeakArray if weak else Array
        places, values = _places(args, kwargs), tuple(replay.values)
        self._table(made).add(made.Replay(args, kwargs, places, values, steps, output, shown_as))

    def _table(self, made: Any) -> _Replays:
        if self._replays is None:
            table: _Replays = made.Replays()
            self._replays = self.call = table
            _used.append(self)
        return self._replays

    def forget(self) -> None:
        """Let all calls go the long way."""
        self._replays, self.call = None, _long_way


def forget_fast_calls() -> None:
    """Let all calls of all functions go the long way, until they are added anew."""
    while _used:
        _used.pop().forget()


def _places(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """Return the number among the inputs of each argument; -1 for what is no array."""
    by_name = {name: index for index, name in enumerate(kwargs, len(args))}
    places = [-1] * (len(args) + len(kwargs))
    arrays = itertools.count()
    for index, x in (*enumerate(args), *((by_name[name], kwargs[name]) for name in sorted(kwargs))):
        if isinstance(x, np.ndarray):
            places[index] = next(arrays)
    return tuple(places)


class _OfProcess:
    looks = 0
    module: Any = None


def _module() -> Any:
    """Return the extension module, once it is there; most calls do not look."""
    if _OfProcess.module is None:
        if _OfProcess.looks % LOOK_EVERY == 0:
            _OfProcess.module = _bound(find_gateway("eager_gateway"))
        _OfProcess.looks += 1
    return _OfProcess.module


def _bound(module: Any) -> Any:
    """Set what all replays share; None where NumPy keeps its settings elsewhere."""
    core = getattr(np, "_core", None)
    variable = getattr(getattr(core, "umath", None), "_extobj_contextvar", None)
    if module is None or variable is None:
        return None
    with np.errstate(all="ignore"):
        module.bind((Array, WeakArray), HANDLED, variable, variable.get())
    return module
