"""Functions of f16 and bf16 are computed in f32, and their results rounded once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.tracing.promotion import promote_types
from rlx.tracing.trace import element_type

_NARROW = (DType.F16, DType.BF16)


def rounded_once(special: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function, made of many steps, round arrays of few digits once, and not at each step.

    Complex numbers have no parts of few digits, and stay as they are.
    """

    @functools.wraps(special)
    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = _narrow_dtype([*args, *kwargs.values()])
        if dtype is None:
            return special(*args, **kwargs)
        named = {name: _widened(x) for name, x in kwargs.items()}
        found = special(*map(_widened, args), **named)
        return tuple(map(dtype, found)) if isinstance(found, tuple) else dtype(found)

    return call


def _narrow_dtype(arguments: list[Any]) -> Callable[[Any], Any] | None:
    """Return the cast to the dtype of few digits to which the arrays promote; None for another."""
    types = [element_type(x) for x in arguments if hasattr(x, "dtype")]
    if not any(type.dtype in _NARROW for type in types):
        return None
    dtype = promote_types(types).dtype
    return functools.partial(_narrowed, dtype) if dtype in _NARROW else None


def _narrowed(dtype: DType, x: Any) -> Any:
    return x if element_type(x).dtype.is_complex else rnp.astype(x, dtype.numpy)


def _widened(x: Any) -> Any:
    narrow = hasattr(x, "dtype") and element_type(x).dtype in _NARROW
    return rnp.astype(x, "float32") if narrow else x
