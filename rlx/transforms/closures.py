"""What a function reads besides its arguments: a trace of it is valid while that is unchanged."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from rlx.tracing.trace import TracedArray

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype)
_FIXED = (types.ModuleType, types.BuiltinFunctionType, type, np.ufunc)
_MOST_BYTES = 1 << 16
"""Arrays above it are not read again at every call; functions that hold them share no trace."""


class _UnknownError(Exception):
    """An object whose state is not known, as it may change unseen."""


def state_of(*functions: Callable[..., Any]) -> Hashable:
    """Return what `functions` read from closures, defaults and globals, functions inside included.

    Equal states are equal traces, while the objects live that are known by their identity. None
    where an object may have changed unseen.
    """
    seen: dict[int, int] = {}
    try:
        return tuple(_state(function, seen) for function in functions)
    except _UnknownError:
        return None


def _state(value: Any, seen: dict[int, int]) -> Hashable:
    if isinstance(value, _PLAIN):
        return type(value), repr(value)
    if isinstance(value, _FIXED):
        return id(value)
    if isinstance(value, TracedArray):  # the value itself, which the key keeps from being freed
        return TracedArray, value.value, value.weak
    if id(value) in seen:  # by its place: functions may call each other
        return "seen", seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, tuple | list):
        return type(value), tuple(_state(item, seen) for item in value)
    if isinstance(value, dict):
        return dict, tuple((_state(k, seen), _state(v, seen)) for k, v in value.items())
    if isinstance(value, np.ndarray) and value.dtype != object and value.nbytes <= _MOST_BYTES:
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, functools.partial):
        inner = (value.func, value.args, value.keywords)
        return id(value.func), tuple(_state(each, seen) for each in inner)
    if isinstance(value, types.MethodType):
        return _state(value.__func__, seen), _state(value.__self__, seen)
    if isinstance(value, types.FunctionType):
        return id(value.__code__), tuple(_state(each, seen) for each in _reads(value))
    if hasattr(value, "reads"):
        return id(value), tuple(_state(each, seen) for each in value.reads())
    raise _UnknownError


def _reads(function: types.FunctionType) -> Iterator[Any]:
    if (function.__module__ or "").split(".")[0] == "rlx" and not function.__closure__:
        return  # the library's own have no state
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        yield _content(cell)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield function.__globals__[name]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _names(code: types.CodeType) -> set[str]:
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))
