"""The rule for formulas over f16 and bf16: compute in f32, round once at the end."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.ops.elementwise import cast

Formula = TypeVar("Formula", bound=Callable[..., Any])


def in_single_precision(formula: Formula) -> Formula:
    """Make `formula` cast its f16 and bf16 operands to f32, and its results back.

    Without this every step would round, and constants such as -1e9 would overflow f16.
    """

    @functools.wraps(formula)
    def widened(*operands: Value, **attributes: Any) -> Any:
        narrow = next(
            (x.dtype for x in operands if x.dtype.is_low_precision and not x.dtype.is_storage), None
        )
        if narrow is None:
            return formula(*operands, **attributes)
        result = formula(*map(_widen, operands), **attributes)
        if isinstance(result, Value):
            return cast(result, to=narrow)
        return tuple(cast(each, to=narrow) for each in result)

    return typing.cast(Formula, widened)


def _widen(x: Value) -> Value:
    return cast(x, to=DType.F32) if x.dtype.is_low_precision and not x.dtype.is_storage else x
