"""Derivatives of quantization: rounding passes what its straight-through estimator says.

Cotangents and tangents of i8 values are f32; what is an integer product is differentiated as the
product of centered floats that it represents.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.declaration import takes
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Attrs
from rlx.ir.ops.quant import lsq_slope, spread
from rlx.passes.autodiff.registry import (
    Derivatives,
    Pullback,
    Pushforward,
    jvp,
    straight_through,
    zero,
)

for _integer in (ops.quantize, ops.qmatmul, ops.qconv):
    straight_through.register(_integer, None)

zero(
    ops.bytes_as_words,
    ops.map_bytes,
    because="integers only; passes make them",
)


@jvp(ops.quantize, ops.dequantize)
def as_it_is_jvp(at: Pushforward, x: Value, **attributes: Any) -> Derivatives:
    return at.tangent


@jvp(ops.fake_quantize)
def fake_quantize_jvp(at: Pushforward, x: Value, *scale: Value, **attributes: Any) -> Derivatives:
    tangent = at.tangents[0]
    if tangent is None:
        return None
    return ops.fake_quantize_backward(x, tangent, *scale, **attributes)


@jvp(ops.fake_quantize_ema)
def fake_quantize_ema_jvp(
    at: Pushforward, x: Value, state: Value, *, decay: float, **attributes: Any
) -> Derivatives:
    tangent = at.tangents[0]
    if tangent is None:
        return None
    return [ops.fake_quantize_backward(x, tangent, at.results[1], **attributes), None]


@jvp(ops.fake_quantize_lsq)
def fake_quantize_lsq_jvp(
    at: Pushforward, x: Value, scale: Value, *, bits: int, axis: int | None
) -> Derivatives:
    of_x, of_scale = at.tangents
    total: Value | None = None
    if of_x is not None:
        total = ops.fake_quantize_lsq_backward_x(x, scale, of_x, bits=bits, axis=axis)
    if of_scale is not None:
        slope = lsq_slope(x, scale, bits=bits, axis=axis)
        term = slope * spread(of_scale, x, axis)
        total = term if total is None else total + term
    return total


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Requantized(Attrs):
    """Scales and zero points of a product of codes, apart from the geometry of a convolution."""

    multiplier: tuple[float, ...]
    x_zero_point: int
    w_zero_point: int
    out_zero_point: int

    def operands(self, x: Value, w: Value) -> tuple[Value, Value]:
        """Return the codes as centered floats."""
        return _centered(x, self.x_zero_point), _centered(w, self.w_zero_point)


@jvp(ops.qmatmul, ops.qconv)
@takes(_Requantized)
def product_jvp(
    at: Pushforward, x: Value, w: Value, bias: Value, by: _Requantized, **geometry: Any
) -> Derivatives:
    """As of the product or convolution of centered floats, times `multiplier`."""
    product = functools.partial(ops.conv, **geometry) if geometry else ops.matmul
    (of_x, of_w, _), (given, weights) = at.tangents, by.operands(x, w)
    terms = []
    if of_x is not None:
        terms.append(product(of_x, weights))
    if of_w is not None:
        terms.append(product(given, of_w))
    trailing = x.rank - 2 if geometry else 0
    return functools.reduce(operator.add, terms) * _factors(at, by.multiplier, trailing=trailing)


def _factors(
    at: Pullback | Pushforward, multiplier: tuple[float, ...], trailing: int = 0
) -> Value | float:
    if len(multiplier) == 1:
        return multiplier[0]
    column = np.array(multiplier, np.float32).reshape(-1, *(1,) * trailing)
    return at.graph.constant(column)


def _centered(q: Value, zero_point: int) -> Value:
    wide = ops.cast(q, to=DType.F32)
    return wide - float(zero_point) if zero_point else wide
