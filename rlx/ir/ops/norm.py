"""Normalization over one axis.

The variance is biased (divided by the count) and taken from centered values, in two passes;
`eps` is added inside the root.
"""

from __future__ import annotations

from rlx.ir.declaration import op
from rlx.ir.graph import Value
from rlx.ir.op import ROW_WISE, Trait
from rlx.ir.ops.elementwise import rsqrt
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.reduction import reduce_mean
from rlx.ir.ops.requirements import (
    require_dtype,
    require_nonempty_axis,
    require_same_dtype,
    require_shape,
)
from rlx.ir.ops.shape import reshape
from rlx.ir.shape import normalize_axis
from rlx.ir.types import TensorType

_FAMILY = "norm"


@in_single_precision
def layer_norm_formula(x: Value, gamma: Value, beta: Value, *, axis: int, eps: float) -> Value:
    """Two passes: the mean of squares minus the squared mean would cancel."""
    centered = x - reduce_mean(x, axes=(axis,), keepdims=True)
    variance = reduce_mean(centered * centered, axes=(axis,), keepdims=True)
    normalized = centered * rsqrt(variance + eps)
    return normalized * along_axis(gamma, x, axis) + along_axis(beta, x, axis)


@op(_FAMILY, Trait.IN_PLACE, *ROW_WISE, decompose=layer_norm_formula)
def layer_norm(
    x: TensorType, gamma: TensorType, beta: TensorType, *, axis: int, eps: float
) -> TensorType:
    """Center and scale `x` to unit variance along `axis`, then `* gamma + beta`."""
    _require_affine(x, axis, gamma=gamma, beta=beta)
    return x


@in_single_precision
def rms_norm_formula(
    x: Value, gamma: Value, beta: Value | None = None, *, axis: int, eps: float
) -> Value:
    """Multiply by the reciprocal root of the mean square."""
    scale = rsqrt(reduce_mean(x * x, axes=(axis,), keepdims=True) + eps)
    result: Value = x * scale * along_axis(gamma, x, axis)
    return result if beta is None else result + along_axis(beta, x, axis)


@op(_FAMILY, Trait.IN_PLACE, *ROW_WISE, decompose=rms_norm_formula)
def rms_norm(
    x: TensorType, gamma: TensorType, beta: TensorType | None = None, *, axis: int, eps: float
) -> TensorType:
    """Scale `x` to unit mean square along `axis`, then `* gamma` and, if given, `+ beta`."""
    affine = {"gamma": gamma} if beta is None else {"gamma": gamma, "beta": beta}
    _require_affine(x, axis, **affine)
    return x


def along_axis(vector: Value, x: Value, axis: int) -> Value:
    """View `vector` so that it broadcasts along `axis` of `x`."""
    position = normalize_axis(axis, x.rank)
    if position == x.rank - 1:
        return vector
    return reshape(vector, shape=(x.shape[position], *(1,) * (x.rank - 1 - position)))


def _require_affine(x: TensorType, axis: int, **vectors: TensorType) -> None:
    require_dtype(x, "float", "x")
    position = require_nonempty_axis(x, axis)
    require_same_dtype(x, *vectors.values())
    for name, vector in vectors.items():
        require_shape(vector, (x.shape[position],), name)
