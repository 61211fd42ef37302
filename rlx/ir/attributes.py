"""Attribute values: what fits a declared type, exact equality, and what they contain.

An attribute is a bool, int, float, string, None, enum member, `DType`, `TensorType`, extent,
`Literal`, `Graph`, or a tuple of those. The declaration of an op gives each attribute a type
hint; `conform` brings a user's value (lists, NumPy scalars, dtype strings) into that form.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import struct
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from rlx.errors import DTypeError, GraphError
from rlx.ir.dtype import DType, as_dtype

_MISFIT = object()
_PLAIN = frozenset({bool, int, float, str, type(None), tuple, DType})


def conform(name: str, hint: Any, value: Any) -> Any:
    """Return `value` in canonical form, or raise GraphError if it does not fit `hint`."""
    fitted = _fitter(hint)(_plain(value))
    if fitted is _MISFIT:
        raise GraphError(
            f"attribute {name} is {value!r}; it must be {describe_hint(hint)}",
            remedy=f"pass {name}= as {describe_hint(hint)}",
        )
    return fitted


def describe_hint(hint: Any) -> str:
    """Return a type hint as it would be written."""
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(describe_hint(argument) for argument in arguments)
    if origin is typing.Literal:
        return " or ".join(repr(argument) for argument in arguments)
    if hint is Ellipsis:
        return "..."
    if hint is type(None):
        return "None"
    if origin is not None:
        return f"{describe_hint(origin)}[{', '.join(map(describe_hint, arguments))}]"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return f"{hint.__name__} ({', '.join(str(member.value) for member in hint)})"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def exact(value: Any) -> Any:
    """Return a key that is equal only for the same value of the same type, bit for bit.

    Python takes `0.0 == -0.0` and `1 == True`, and a NaN differs from itself; attributes of
    two nodes that are to be merged must agree exactly.
    """
    if isinstance(value, tuple):
        return tuple(exact(item) for item in value)
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    if isinstance(value, (bool, int)):
        return type(value), value
    return value


def parts(value: Any) -> Iterator[Any]:
    """Yield `value`, or the items of a (nested) tuple."""
    if isinstance(value, tuple):
        for item in value:
            yield from parts(item)
    else:
        yield value


def classes_in(hint: Any) -> dict[str, type[Any]]:
    """Return the enums and dataclasses that values of `hint` may be made of, by name."""
    if isinstance(hint, type) and (issubclass(hint, enum.Enum) or dataclasses.is_dataclass(hint)):
        return {hint.__name__: hint}
    found: dict[str, type[Any]] = {}
    for argument in typing.get_args(hint):
        found |= classes_in(argument)
    return found


Fitter: TypeAlias = Callable[[Any], Any]
"""Returns the canonical form of a plain value, or `_MISFIT`."""

_fitters: dict[int, tuple[Any, Fitter]] = {}
"""By the identity of a hint, which is kept: unions are equal in any order of what they join."""


def _fitter(hint: Any) -> Fitter:
    """Return what fits values to a type hint; ops have few hints, and each is looked at once."""
    known = _fitters.get(id(hint))
    if known is None:
        known = _fitters[id(hint)] = hint, _make_fitter(hint)
    return known[1]


def _make_fitter(hint: Any) -> Fitter:
    if hint is None or hint is type(None):
        return lambda value: None if value is None else _MISFIT
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _any_of([_fitter(argument) for argument in arguments])
    if origin is typing.Literal:
        allowed = [exact(argument) for argument in arguments]
        return lambda value: value if exact(value) in allowed else _MISFIT
    if origin is tuple:
        return _tuple_of(arguments)
    return _instance_of(hint) if isinstance(hint, type) else lambda value: value


def _any_of(fitters: list[Fitter]) -> Fitter:
    def fit(value: Any) -> Any:
        for fitter in fitters:
            fitted = fitter(value)
            if fitted is not _MISFIT:
                return fitted
        return _MISFIT

    return fit


def _tuple_of(hints: tuple[Any, ...]) -> Fitter:
    is_open = len(hints) == 2 and hints[1] is Ellipsis
    fitters = [_fitter(hint) for hint in (hints[:1] if is_open else hints)]

    def fit(value: Any) -> Any:
        if not isinstance(value, tuple) or not (is_open or len(fitters) == len(value)):
            return _MISFIT
        each = itertools.repeat(fitters[0], len(value)) if is_open else fitters
        items = tuple([fitter(_plain(item)) for fitter, item in zip(each, value, strict=True)])
        return _MISFIT if any(item is _MISFIT for item in items) else items

    return fit


def _instance_of(hint: type[Any]) -> Fitter:
    if hint is DType:
        return _fit_dtype
    members = hint._value2member_map_ if issubclass(hint, enum.Enum) else {}
    holds_bool, holds_int = hint in (bool, object), hint is float

    def fit(value: Any) -> Any:
        if isinstance(value, bool):
            return value if holds_bool else _MISFIT
        if isinstance(value, hint) or (holds_int and isinstance(value, int)):
            return value
        return members.get(value, _MISFIT) if isinstance(value, str) else _MISFIT

    return fit


def _fit_dtype(value: Any) -> Any:
    if isinstance(value, bool):
        return _MISFIT
    try:
        return _MISFIT if value is None else as_dtype(value)
    except DTypeError:
        return _MISFIT


def _plain(value: Any) -> Any:
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    if isinstance(value, (list, range)):
        return tuple(_plain(item) for item in value)
    return value
