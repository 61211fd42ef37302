"""Static arguments of compiled functions: their positions, and the keys by which they differ."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx.ir.source_lines import calling_source
from rlx.tracing.arguments import parameter_names
from rlx.tracing.errors import StaticArgumentError


def static_positions(
    fun: Callable[..., Any], numbers: int | Sequence[int], names: Sequence[str]
) -> frozenset[int]:
    known = parameter_names(fun)
    given = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    takes_any = _takes_any(fun)
    for number in given:
        if not takes_any and not -len(known) <= number < len(known):
            raise StaticArgumentError(
                f"static_argnums names argument {number}; the function has {len(known)}",
                source=calling_source(),
                remedy="count positional arguments from 0",
            )
    for name in names:
        if name not in inspect.signature(fun).parameters and not takes_any:
            raise StaticArgumentError(
                f"static_argnames names {name!r}; the function has {', '.join(known) or 'none'}",
                source=calling_source(),
                remedy="use the name of an argument in the function's signature",
            )
    numbered = {number if number >= 0 else number + len(known) for number in given}
    return frozenset(numbered | {known.index(name) for name in names if name in known})


def _takes_any(fun: Callable[..., Any]) -> bool:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.kind in kinds for p in inspect.signature(fun).parameters.values())


def static_key(name: Any, value: Any) -> tuple[Any, Any, Any]:
    """Return a static argument with a key that separates equal values with different programs."""
    _require_hashable(name, value)
    return name, _kind(value), value


def _kind(value: Any) -> Any:
    """Return the class of a value and of all within: `(1,)`, `(1.0,)` and `(True,)` are equal.

    So are 0.0 and -0.0.
    """
    within: Any = None
    if isinstance(value, (float, np.floating)):
        within = math.copysign(1, value)
    elif isinstance(value, (complex, np.complexfloating)):
        within = _kind(value.real), _kind(value.imag)
    elif isinstance(value, tuple):
        within = tuple(map(_kind, value))
    elif isinstance(value, frozenset):
        within = frozenset((_kind(x), x) for x in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        within = tuple(_kind(getattr(value, field.name)) for field in dataclasses.fields(value))
    return value.__class__, within


def _require_hashable(name: Any, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise StaticArgumentError(
            f"static argument {name!r} of type {type(value).__name__} is not hashable",
            source=calling_source(),
            remedy="pass a tuple instead of a list or an array, or do not make it static",
        ) from None
