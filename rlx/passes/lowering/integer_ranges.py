"""Ranges of integer values: by dtype, casts and what is added to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.passes.scalars import splat

EXACT = 1 << 24
"""Integers up to here are f32 numbers."""
_MOST_STEPS = 12
"""Nodes that are followed from a product towards what bounds its operand."""
_RANGES = {DType.BOOL: (0, 1), DType.I8: (-128, 127), DType.U8: (0, 255)}


class Range(NamedTuple):
    """The least and the greatest that an integer value may be."""

    low: int
    high: int

    @property
    def magnitude(self) -> int:
        return max(abs(self.low), abs(self.high))


def range_of(value: Value, steps: int = _MOST_STEPS) -> Range | None:
    """Return what is known of an integer's range: by its dtype, casts, and constants added.

    Arithmetic that may wrap is not followed, nor anything more than `steps` nodes away.
    """
    if value.dtype in _RANGES:
        return Range(*_RANGES[value.dtype])
    if steps == 0 or not value.dtype.is_int:
        return None
    found = _range_by_operands(value, steps - 1)
    limits = np.iinfo(value.dtype.numpy)
    fits = found is not None and limits.min <= found.low and found.high <= limits.max
    return found if fits else None


def _range_by_operands(value: Value, steps: int) -> Range | None:
    if value.op is ops.constant:
        return _constant_range(value)
    operands = value.node.operands
    if value.op.has(Trait.REINDEXES) or value.op is ops.cast:
        return range_of(operands[0], steps)
    if value.op in (ops.add, ops.sub):
        left, right = (range_of(operand, steps) for operand in operands)
        return _moved(left, right, negated=value.op is ops.sub)
    return None


def _constant_range(value: Value) -> Range | None:
    array = value.node.attribute("value").array
    scalar = splat(value)
    if scalar is not None:
        return Range(int(scalar), int(scalar))
    return Range(int(np.min(array)), int(np.max(array))) if array.size else None


def _moved(left: Range | None, right: Range | None, *, negated: bool) -> Range | None:
    if left is None or right is None:
        return None
    low, high = (-right.high, -right.low) if negated else right
    return Range(left.low + low, left.high + high)
