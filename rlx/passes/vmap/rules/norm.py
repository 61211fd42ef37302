"""Norms: with scale and shift shared, one axis further; else scale and shift come after."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.op import OpDef
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.shape import normalize_axis
from rlx.passes.vmap.batching import Batching, align, expand_to, reshape_to
from rlx.passes.vmap.registry import Batched, batch, shifted


def norm(definition: OpDef) -> None:
    """Register a norm `(x, gamma[, beta]) {axis, ...}`."""

    def rule(at: Batching, *operands: Value, axis: int, **attributes: Any) -> Batched:
        if not any(at.batched[1:]):
            result: Value = definition(*operands, axis=shifted(axis, at.result.rank), **attributes)
            return result

        @in_single_precision
        def affine(x: Value, *vectors: Value) -> Value:
            """Normalize alone, so that a shared `x` is normalized once."""
            own = shifted(axis, at.result.rank) if at.batched[0] else axis
            neutral = [_filled(x, x.shape[own], value) for value in (1, 0)[: len(vectors)]]
            normalized: Value = definition(x, *neutral, axis=own, **attributes)
            gamma, *beta = _along_axis(at, vectors, axis)
            scaled = normalized * gamma
            return scaled + beta[0] if beta else scaled

        scaled: Value = affine(*operands)
        return scaled

    batch.register(definition, rule)


def _along_axis(at: Batching, vectors: tuple[Value, ...], axis: int) -> list[Value]:
    """View each vector so that it broadcasts along `axis` of one example."""
    rank = at.result.rank
    position = normalize_axis(axis, rank)
    column = (at.result.shape[position], *(1,) * (rank - 1 - position))
    return [
        align(reshape_to(vector, (at.size, *column)), rank)
        if batched
        else reshape_to(vector, column)
        for vector, batched in zip(vectors, at.batched[1:], strict=True)
    ]


def _filled(like: Value, extent: Any, value: float) -> Value:
    return expand_to(like.graph.constant(value, like.dtype), (extent,))


norm(ops.layer_norm)
norm(ops.rms_norm)
