"""Large systems go to LAPACK, and mean there what they mean everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import SingularMatrixError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.lowering import Library, Lowering
from rlx.numpy import linalg
from rlx.passes.layout.use_lapack import LARGE as LARGE_OF
from rlx.passes.layout.use_lapack import use_lapack
from rlx.runtime.blas import has_lapack
from rlx.runtime.compile import compile
from rlx.runtime.executable import Executable
from rlx.target import detect_target

LARGE = LARGE_OF[ops.solve]

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


DECOMPOSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "eigh": ("syevd", lambda a: linalg.eigh(a, UPLO="L")),
    "svd": ("gesdd", lambda a: linalg.svd(a, full_matrices=False)),
    "svd, all columns": ("gesdd", linalg.svd),
    "svd of wide": ("gesdd", lambda a: linalg.svd(a[..., :-20, :])),
    "qr": ("geqrf", linalg.qr),
    "qr of tall, all columns": ("orgqr", lambda a: linalg.qr(a[..., :-20], mode="complete")),
    "qr of wide": ("orgqr", lambda a: linalg.qr(a[..., :-20, :])),
    "eig": ("geev", linalg.eig),
    "eig of complex": ("geev", lambda a: linalg.eig(a + 1j * a.swapaxes(-1, -2))),
}


def product_of(name: str, parts: tuple[Any, ...]) -> Any:
    """Multiply the factors of a decomposition out; of eigenvectors, the right-hand side."""
    if name.startswith("qr"):
        return parts[0] @ parts[1]
    if name.startswith("svd"):
        u, s, vt = parts
        count = s.shape[-1]
        return (u[..., :count] * s[..., None, :]) @ vt[..., :count, :]
    return parts[1] * parts[0][..., None, :]


@needs_lapack
@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions_of_lapack_are_those_of_the_reference(
    name: str, dtype: str, backend: str
) -> None:
    """One of three slices is not finite; threads change no bit."""
    routine, run = DECOMPOSED[name]
    rng = np.random.default_rng(7)
    left, _ = np.linalg.qr(rng.standard_normal((3, 90, 90)))
    right = left if name == "eigh" else np.linalg.qr(rng.standard_normal((3, 90, 90)))[0]
    a = ((left * (np.arange(90) - 30.25)) @ right.swapaxes(-1, -2)).astype(dtype)
    a[1, 40, 3] = np.nan
    compiled = rlx.jit(run, backend=backend, threads=1)
    found = [np.asarray(each) for each in compiled(a)]
    executable = compiled.lower(a).compile().executable
    assert routine in (executable.c_source if backend == "c" else executable.llvm_ir)
    again = rlx.jit(run, backend=backend, threads=2)(a)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.isnan(one[1]).all()
    good, expected = ([part[::2] for part in run_] for run_ in (found, reference(name, a)))
    tolerance = 2e-3 if dtype == "f4" else 2e-11
    given = a[::2]
    if name == "eig of complex":
        given = given + 1j * given.swapaxes(-1, -2)
    if name.startswith("eig"):
        given = given @ good[1]
    elif "tall" in name:
        given = given[..., :-20]
    elif "wide" in name:
        given = given[..., :-20, :]
    np.testing.assert_allclose(product_of(name, tuple(good)), given, atol=tolerance)
    for one, other in zip(good, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=tolerance)


def reference(name: str, a: Any) -> Any:
    return [np.asarray(each) for each in rlx.jit(DECOMPOSED[name][1], backend="reference")(a)]


@needs_lapack
def test_derivatives_and_examples_go_through_lapack() -> None:
    a = np.random.default_rng(1).standard_normal((2, 60, 60))

    def loss(a: Any) -> Any:
        return linalg.svd(a, full_matrices=False).S[0] + linalg.eigvalsh(a)[0]

    slopes = np.asarray(rlx.jit(rlx.vmap(rlx.grad(loss)))(a))
    step = np.random.default_rng(2).standard_normal(a.shape) * 1e-6
    for one, da, slope in zip(a, step, slopes, strict=True):
        expected = (float(loss(one + da)) - float(loss(one - da))) / 2
        np.testing.assert_allclose(np.sum(slope * da), expected, rtol=1e-5, atol=1e-11)
