"""Running sums, the softmax family and norms; reductions proper follow from their trait."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.op import OpDef
from rlx.passes.vmap.batching import Batching
from rlx.passes.vmap.registry import BY_FORMULA, Batched, batch, shift_axes, shifted

shift_axes(
    ops.cumsum, ops.cumprod, ops.cummax, ops.cummin, ops.softmax, ops.log_softmax, ops.logsumexp
)


def _norm(definition: OpDef) -> None:
    """Register a norm: scale and shift that examples share serve one axis further."""

    def rule(at: Batching, *operands: Value, axis: int, **attributes: Any) -> Batched:
        if any(at.batched[1:]):
            return BY_FORMULA
        result: Value = definition(*operands, axis=shifted(axis, at.result.rank), **attributes)
        return result

    batch.register(definition, rule)


_norm(ops.layer_norm)
_norm(ops.rms_norm)
