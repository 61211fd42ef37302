"""Evaluation of one op on arrays, for the tests of its meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.op import OpDef
from rlx.ir.reference import evaluate


def run_all(op: OpDef, *operands: ArrayLike, **attributes: Any) -> list[NDArray[Any]]:
    """Return all results of `op` on `operands`."""
    graph = Graph(op.name)
    arrays = {f"x{i}": np.asarray(operand) for i, operand in enumerate(operands)}
    inputs = [graph.input(name, a.shape, as_dtype(a.dtype)) for name, a in arrays.items()]
    result = graph.apply(op, inputs, **attributes)
    graph.set_outputs(result if isinstance(result, tuple) else (result,))
    return evaluate(graph, arrays)


def run(op: OpDef, *operands: ArrayLike, **attributes: Any) -> NDArray[Any]:
    """Return the only result of `op` on `operands`."""
    (result,) = run_all(op, *operands, **attributes)
    return result


def f32(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


def f64(*numbers: float) -> NDArray[np.float64]:
    return np.array(numbers, np.float64)
