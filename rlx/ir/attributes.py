"""Attribute values: what fits a declared type, exact equality, and what they contain.

An attribute is a bool, int, float, string, None, enum member, `DType`, `TensorType`, extent,
`Literal`, `Graph`, or a tuple of those. The declaration of an op gives each attribute a type
hint; `conform` brings a user's value (lists, NumPy scalars, dtype strings) into that form.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
import types
import typing
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlx.errors import DTypeError, GraphError
from rlx.ir.dtype import DType, as_dtype

_MISFIT = object()


def conform(name: str, hint: Any, value: Any) -> Any:
    """Return `value` in canonical form, or raise GraphError if it does not fit `hint`."""
    fitted = _fit(hint, value)
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


def _fit(hint: Any, value: Any) -> Any:
    value = _plain(value)
    if hint is None or hint is type(None):
        return None if value is None else _MISFIT
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        fits = (_fit(argument, value) for argument in arguments)
        return next((fitted for fitted in fits if fitted is not _MISFIT), _MISFIT)
    if origin is typing.Literal:
        return value if exact(value) in map(exact, arguments) else _MISFIT
    if origin is tuple:
        return _fit_tuple(arguments, value)
    return _fit_class(hint, value) if isinstance(hint, type) else value


def _fit_tuple(arguments: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, tuple):
        return _MISFIT
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        return _MISFIT
    items = tuple(_fit(hint, item) for hint, item in zip(arguments, value, strict=True))
    return _MISFIT if any(item is _MISFIT for item in items) else items


def _fit_class(hint: type[Any], value: Any) -> Any:
    if isinstance(value, bool):
        return value if hint in (bool, object) else _MISFIT
    if hint is float and isinstance(value, int):
        return value
    if hint is DType:
        return _fit_dtype(value)
    if issubclass(hint, enum.Enum) and isinstance(value, str) and not isinstance(value, hint):
        return hint(value) if value in hint._value2member_map_ else _MISFIT
    return value if isinstance(value, hint) else _MISFIT


def _fit_dtype(value: Any) -> Any:
    try:
        return _MISFIT if value is None else as_dtype(value)
    except DTypeError:
        return _MISFIT


def _plain(value: Any) -> Any:
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    if isinstance(value, (list, range)):
        return tuple(_plain(item) for item in value)
    return value
