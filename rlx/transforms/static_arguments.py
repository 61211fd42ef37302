"""Static arguments of compiled functions: which positions they are, and that they hash."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from rlx.ir.graph import calling_source
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


def require_hashable(name: Any, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise StaticArgumentError(
            f"static argument {name!r} of type {type(value).__name__} is not hashable",
            source=calling_source(),
            remedy="pass a tuple instead of a list or an array, or do not make it static",
        ) from None
