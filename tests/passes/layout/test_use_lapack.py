"""Large systems go to LAPACK, and mean there what they mean everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import SingularMatrixError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.lowering import Library, Lowering
from rlx.passes.layout.use_lapack import LARGE, use_lapack
from rlx.runtime.blas import has_lapack
from rlx.runtime.compile import compile
from rlx.runtime.executable import Executable
from rlx.target import detect_target

needs_lapack = pytest.mark.skipif(
    not has_lapack(detect_target()), reason="no BLAS library with LAPACK"
)


def graph_of(n: int, columns: int = 0, **attributes: Any) -> Graph:
    graph = Graph("large")
    a = graph.input("a", (2, n, n), "f64")
    b = graph.input("b", (2, n, columns) if columns else (2, n), "f64")
    graph.set_outputs([graph.solve(a, b, vector=not columns, **attributes)])
    return graph


def arrays(n: int, *rest: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    return {"a": rng.standard_normal((2, n, n)), "b": rng.standard_normal((2, n, *rest))}


def lowering_of(graph: Graph) -> Lowering | None:
    (node,) = (node for node in graph.nodes if node.op is ops.solve)
    return node.lowering


def test_only_large_systems_go_to_lapack() -> None:
    run = use_lapack(lambda: True)
    assert lowering_of(run(graph_of(LARGE))) == Library("lapack")
    assert lowering_of(run(graph_of(LARGE - 1))) is None


def test_without_a_library_nothing_changes_and_small_systems_do_not_look_for_one() -> None:
    def asked() -> bool:
        raise AssertionError("looked for a library")

    assert lowering_of(use_lapack(lambda: False)(graph_of(LARGE))) is None
    assert lowering_of(use_lapack(asked)(graph_of(3))) is None


@needs_lapack
@pytest.mark.parametrize("columns", [0, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_solutions_of_lapack_are_numpys(columns: int, transposed: bool) -> None:
    n = LARGE + 5
    feeds = arrays(n, columns) if columns else arrays(n)
    compiled = compile(graph_of(n, columns, transposed=transposed), backend="llvm")
    assert isinstance(compiled, Executable)
    assert "dgesv" in compiled.llvm_ir
    matrices = feeds["a"].transpose(0, 2, 1) if transposed else feeds["a"]
    sides = feeds["b"] if columns else feeds["b"][..., None]
    expected = np.linalg.solve(matrices, sides).reshape(feeds["b"].shape)
    np.testing.assert_allclose(compiled(**feeds)[0], expected, rtol=1e-8, atol=1e-8)


@needs_lapack
def test_a_singular_matrix_is_found_by_lapack_too() -> None:
    feeds = arrays(LARGE)
    feeds["a"][1, :, 7] = 0.0
    with pytest.raises(SingularMatrixError, match="position 1"):
        compile(graph_of(LARGE), backend="llvm")(**feeds)
    (x,) = compile(graph_of(LARGE, on_singular="nan"), backend="llvm")(**feeds)
    assert np.isnan(x[1]).all()
    assert np.isfinite(x[0]).all()
