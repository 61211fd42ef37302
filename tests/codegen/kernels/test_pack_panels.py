"""Packing: the stored panels hold the elements of the matrix, and zeros after them."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.llvm.jit import LlvmBackend
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.layout import Panels
from rlx.ir.lowering import Turned
from rlx.ir.op import make_attrs
from rlx.target import detect_target
from tests.codegen.kernels.native import case_of, module_of, run_case


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "bf16"])
@pytest.mark.parametrize(
    ("shape", "width", "lanes"),
    [
        ((3, 8), 4, None),
        ((5, 17), 8, None),
        ((17, 5), 8, 1),
        ((17, 9), 8, 4),
        ((40, 33), 16, 8),
        ((2, 3, 5), 4, None),
    ],
)
def test_panels_hold_the_elements_and_end_in_zeros(
    shape: tuple[int, ...], width: int, lanes: int | None, dtype: str
) -> None:
    """With `lanes` the matrix is given transposed, and turned in squares of so many."""
    graph = Graph("pack")
    b = graph.input("b", shape, dtype)
    attrs = make_attrs(ops.pack_panels, {"layout": Panels(width), "transposed": lanes is not None})
    turned = Turned(lanes) if lanes and lanes > 1 and dtype in ("f32", "f64") else None
    graph.set_outputs(graph.append(ops.pack_panels, (b,), attrs, lowering=turned))
    case = case_of(graph, "pack")
    given = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * 9
    given = given.astype(b.dtype.numpy)
    module = LlvmBackend().load(module_of([case]), detect_target())
    status, (stored,) = run_case(case, module.address(case.entry.name), [given])
    matrix = given if lanes is None else np.swapaxes(given, -1, -2)
    assert status == 0
    np.testing.assert_array_equal(Panels(width).elements(stored, matrix.shape), matrix)
    padding = np.moveaxis(stored, -1, -2)[..., -1, matrix.shape[-1] % width or width :, :]
    assert not padding.astype(np.float64).any()
