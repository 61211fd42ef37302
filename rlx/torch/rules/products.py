"""Products of matrices."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.torch.registry import rule


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
