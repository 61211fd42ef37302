"""Products of matrices, contractions and determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.onnx.operators.one_hot import rows_of_one_hot
from rlx.onnx.registry import operator
from rlx.tracing.apply import emit


@operator("MatMul", sums_products=True)
def matmul(a: Any, b: Any, *, node: Any) -> Any:
    rows = rows_of_one_hot(a, b, node.importer.numbers_of(b))
    return rnp.matmul(a, b) if rows is None else rows


@operator("Gemm", sums_products=True)
def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803  as the standard has it
    transB: int = 0,  # noqa: N803
    broadcast: int = 0,
) -> Any:
    del broadcast  # always, since opset 7
    left = rnp.transpose(a) if transA else a
    right = rnp.transpose(b) if transB else b
    product = rnp.matmul(left, right)
    product = product if alpha == 1 else _scaled(product, alpha)
    if c is None:
        return product
    return emit(ops.add, product, c if beta == 1 else _scaled(c, beta))


def _scaled(x: Any, factor: float) -> Any:
    return emit(ops.mul, x, np.asarray(factor, x.dtype))


@operator("Einsum")
def einsum(*inputs: Any, equation: str) -> Any:
    return rnp.einsum(equation, *inputs)


@operator("Det")
def det(x: Any) -> Any:
    return emit(ops.det, x)
