"""Value analysis: what is one number everywhere, or never negative."""

from __future__ import annotations

import math
from typing import Any

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait


def splat(value: Value) -> Any:
    """Return the NumPy scalar that all elements of `value` equal bit for bit, or None."""
    while value.op.has(Trait.REINDEXES) and not value.op.has(Trait.SUBSET):
        value = value.node.operands[0]
    if value.op is not ops.constant:
        return None
    array = value.node.attribute("value").array
    if array.size == 0:
        return None
    first = array.reshape(-1)[0]
    if array.size > 1 and array.tobytes() != first.tobytes() * array.size:
        return None
    return first


def number(value: Value) -> int | float | None:
    """Return `splat(value)` as a Python number, or None; complex and bool values are none."""
    scalar = splat(value)
    if scalar is None or value.dtype.is_complex or value.dtype is DType.BOOL:
        return None
    return int(scalar) if value.dtype.is_int else float(scalar)


def is_negative_zero(value: float) -> bool:
    """True for -0.0 alone."""
    return value == 0 and math.copysign(1.0, value) < 0


def is_power_of_two(value: float) -> bool:
    """True if both `value` and its reciprocal are normal f16 numbers and powers of two."""
    magnitude = abs(value)
    return 2.0**-14 <= magnitude <= 2.0**14 and math.frexp(magnitude)[0] == 0.5


def is_nonnegative(value: Value) -> bool:
    """True if no element is below zero or -0.0 (NaN may occur)."""
    if value.op.has(Trait.NONNEGATIVE):
        return not value.dtype.is_complex
    if value.op is ops.square:
        return not value.dtype.is_complex and value.dtype.is_float
    return value.op is ops.mul and value.node.operands[0] is value.node.operands[1]
