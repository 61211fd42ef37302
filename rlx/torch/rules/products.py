"""Products of matrices."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.torch.registry import rule
from rlx.tracing.apply import emit


@rule("mm", "bmm", "mv", "dot", "matmul")
def matmul(x: Any, y: Any, *_: Any) -> Any:
    return rnp.matmul(x, y)


@rule("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    product = rnp.matmul(x, rnp.transpose(weight))
    return product if bias is None else product + bias


@rule("addmm", "baddbmm", "addmv")
def addmm(c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * c + alpha * x @ y`; where beta is 0, c is not read."""
    return _added(c, rnp.matmul(x, y), beta, alpha)


@rule("addbmm")
def addbmm(c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _added(c, rnp.sum(rnp.matmul(x, y), 0), beta, alpha)


def _added(c: Any, product: Any, beta: Any, alpha: Any) -> Any:
    if not product.value.dtype.is_differentiable:
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        product = (product * alpha).astype(product.dtype)
    if beta == 0:
        return rnp.broadcast_to(product, rnp.broadcast_shapes(product.shape, c.shape))
    return product + (c if beta == 1 else (c * beta).astype(c.dtype))


@rule("_trilinear")
def trilinear(
    x: Any, y: Any, z: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any,
    unroll_dim: int = 1,
) -> Any:  # fmt: skip
    """The sum over `sumdim` of the product of three arrays with new axes."""
    parts = []
    for part, axes in ((x, expand1), (y, expand2), (z, expand3)):
        for axis in sorted(axes):
            part = rnp.expand_dims(part, axis)
        parts.append(part)
    return rnp.sum(parts[0] * parts[1] * parts[2], tuple(sumdim))


@rule("_int_mm")
def int_mm(x: Any, y: Any) -> Any:
    return rnp.matmul(x.astype("i32"), y.astype("i32"))


@rule("_grouped_mm", "transformers.grouped_mm_fallback")
def grouped_mm(x: Any, y: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """A product of matrices for each group; `offs` are the ends of the groups along one axis.

    That is an axis without groups of its own: rows of x `[M, K]` with y `[G, K, N]`, columns of y
    `[K, N]` with x `[G, M, K]`, or both operands' K.
    """
    if x.ndim == y.ndim == 3:
        product = rnp.matmul(x, y)
    elif y.ndim == 3:
        product = emit(ops.ragged_matmul, x, y, _bounds(offs))
    elif x.ndim == 3:
        product = rnp.transpose(
            emit(ops.ragged_matmul, rnp.transpose(y), rnp.swapaxes(x, 1, 2), _bounds(offs))
        )
    else:
        product = emit(ops.ragged_outer, rnp.transpose(x), y, _bounds(offs))
    del out_dtype  # that of the operands, on the CPU
    return product if bias is None else product + bias


@rule("transformers.grouped_mm_fallback_backward")
def grouped_mm_backward(x: Any, y: Any, offs: Any, d_product: Any) -> Any:
    bounds = _bounds(offs)
    d_x = emit(ops.ragged_matmul, d_product, rnp.swapaxes(y, 1, 2), bounds)
    return d_x, emit(ops.ragged_outer, x, d_product, bounds)


def _bounds(ends: Any) -> Any:
    return rnp.pad(ends, (1, 0))
