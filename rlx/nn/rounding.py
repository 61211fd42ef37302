"""Rounding to eight, four or two bits in training (quantization-aware training)."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.ops.quant import StraightThrough
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, emit, emit_several, function


@function
def fake_quantize(
    x: Any,
    scale: Any = None,
    *,
    bits: int = 8,
    axis: int | None = None,
    straight_through: StraightThrough = "identity",
) -> Array:
    """Round `x` to multiples of a scale, as if quantized to 8, 4 or 2 bits.

    The scale is given, `[1]` or one for each index of `axis`, or that of `x` itself: its largest
    magnitude is the largest integer. `straight_through` is what passes for the derivative of
    rounding: "identity", "clipped_identity", "tanh" or "hard_tanh".
    """
    scales = () if scale is None else (as_tracer(scale),)
    return emit(
        ops.fake_quantize, as_tracer(x), *scales, bits=bits, axis=axis,
        straight_through=straight_through,
    )  # fmt: skip


@function
def fake_quantize_ema(
    x: Any,
    state: Any,
    *,
    decay: float,
    bits: int = 8,
    axis: int | None = None,
    straight_through: StraightThrough = "identity",
) -> tuple[Array, Array]:
    """`fake_quantize` by a moving average of the batches' scales; return it and the new average.

    An average of 0 is not known yet, and becomes the first batch's scale.
    """
    made = emit_several(
        ops.fake_quantize_ema, as_tracer(x), as_tracer(state), decay=decay, bits=bits, axis=axis,
        straight_through=straight_through,
    )  # fmt: skip
    return made[0], made[1]


@function
def fake_quantize_lsq(x: Any, scale: Any, *, bits: int = 8, axis: int | None = None) -> Array:
    """`fake_quantize` by a learned scale, `[1]` or one for each index of `axis`, with a gradient.

    Esser et al., Learned Step Size Quantization (2020).
    """
    return emit(ops.fake_quantize_lsq, as_tracer(x), as_tracer(scale), bits=bits, axis=axis)
