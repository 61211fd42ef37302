"""Rows shorter than a vector, of which several are computed at once."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate

DTYPES = (DType.F64, DType.F32, DType.F16, DType.BF16, DType.I64, DType.I8, DType.U8)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_rows_are_read_in_any_order(dtype: DType, size: int) -> None:
    """Reversed rows, and operands with one element for a row or one row for all."""
    random = np.random.default_rng(size)
    graph, feeds = Graph("rows"), {}
    for name, shape in {"x": (5, 37, size), "a": (5, 37, 1), "b": (size,)}.items():
        graph.input(name, shape, dtype)
        feeds[name] = (random.random(shape) * 9).astype(dtype.numpy)
    x, a, b = graph.inputs
    turned = ops.reverse(x, axes=(2,))
    outputs = [x * a + turned * b, ops.maximum(turned, a), ops.where(x > turned, x, a)]
    graph.set_outputs([*outputs, ops.reverse(outputs[0], axes=(1,))])
    found = rlx.compile(graph, backend="llvm").run(feeds)
    for given, wanted in zip(found, evaluate(graph, feeds), strict=True):
        np.testing.assert_array_equal(given, wanted)
