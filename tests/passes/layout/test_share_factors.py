"""Systems that share a matrix share its factors: counted, and compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.codegen.kernels.build import thunk_body
from rlx.codegen.schedule import Thunk
from rlx.errors import SingularMatrixError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.layout.share_factors import LEAST, share_factors
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.runtime.compile import compile
from rlx.runtime.executable import Executable

BACKENDS = ("c", "llvm")


def two_systems(n: int, *, batch: tuple[int, ...] = (), columns: int = 0, **attrs: Any) -> Graph:
    """Solve for `b` and, with the transposed matrix, for the solution."""
    g = Graph("systems")
    a = g.input("a", (*batch, n, n), "f64")
    b = g.input("b", (*batch, n, columns) if columns else (*batch, n), "f64")
    x = ops.solve(a, b, vector=not columns, **attrs)
    g.set_outputs([x, ops.solve(a, x, vector=not columns, transposed=True, **attrs)])
    return g


def arrays(g: Graph) -> dict[str, Any]:
    random = np.random.default_rng(4)
    return {str(x.node.name): random.standard_normal(x.type.static_shape) for x in g.inputs}


def factorizations(compiled: object) -> int:
    """Count the thunks that factor a matrix: by themselves or to solve."""
    assert isinstance(compiled, Executable)
    thunks = [thunk for thunk in compiled.schedule.thunks if isinstance(thunk, Thunk)]
    nodes = [node for thunk in thunks for node in thunk_body(thunk).nodes]
    return sum(node.op in (ops.solve, ops.lu) for node in nodes)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("batch", "columns"), [((), 0), ((3,), 0), ((2, 2), 3)])
def test_two_systems_of_a_matrix_are_solved_with_one_factorization(
    backend: str, batch: tuple[int, ...], columns: int
) -> None:
    g = two_systems(LEAST + 3, batch=batch, columns=columns)
    feeds = arrays(g)
    compiled = compile(g, backend=backend, threads=2)
    assert factorizations(compiled) == 1
    for got, expected in zip(compiled.run(feeds), evaluate(g, feeds), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8)


def test_the_gradient_of_a_solve_factors_once_and_is_that_of_the_reference() -> None:
    def loss(a: Any, b: Any) -> Any:
        return rnp.sum(rnp.linalg.solve(a, b) ** 2)

    random = np.random.default_rng(0)
    a, b = random.standard_normal((40, 40)) + 8 * np.eye(40), random.standard_normal(40)
    slopes = rlx.jit(rlx.value_and_grad(loss, argnums=(0, 1)))
    value, (da, db) = slopes(a, b)
    assert factorizations(slopes.lower(a, b).compile().executable) == 1
    x = np.linalg.solve(a, b)
    expected = np.linalg.solve(a.T, 2 * x)
    np.testing.assert_allclose(value, np.sum(x * x), rtol=1e-10)
    np.testing.assert_allclose(db, expected, rtol=1e-8)
    np.testing.assert_allclose(da, -np.outer(expected, x), rtol=1e-8, atol=1e-12)


def test_small_systems_and_single_ones_stay_as_they_are() -> None:
    small = two_systems(LEAST - 1)
    assert share_factors(small) is small
    g = Graph("one")
    a, b = g.input("a", (40, 40)), g.input("b", (40,))
    g.set_outputs([ops.solve(a, b, vector=True)])
    assert share_factors(g) is g


def test_what_the_pass_makes_means_the_same_and_has_one_lu() -> None:
    g = two_systems(LEAST, batch=(2,))
    done = common_subexpressions(share_factors(g))
    assert [node.op for node in done.nodes].count(ops.lu) == 1
    assert all(node.op is not ops.solve for node in done.nodes)
    for got, expected in zip(evaluate(done, arrays(g)), evaluate(g, arrays(g)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_singular_matrix_is_named_or_nan(backend: str) -> None:
    g = two_systems(LEAST, batch=(3,))
    feeds = arrays(g)
    feeds["a"][1] = 0.0
    with pytest.raises(SingularMatrixError, match="at position 1"):
        compile(g, backend=backend, threads=1).run(feeds)
    g = two_systems(LEAST, batch=(3,), on_singular="nan")
    x, y = compile(g, backend=backend, threads=1).run(feeds)
    for solution in (x, y):
        assert np.isnan(solution[1]).all()
        assert np.isfinite(solution[[0, 2]]).all()
