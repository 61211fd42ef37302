"""Derivatives of functions of a matrix by its eigenvalues and singular values, where equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(0)
Q = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
C = RNG.normal(size=(3, 3))
MATRICES = {
    "identity": 0.7 * np.eye(3),
    "two equal": Q @ np.diag([2.0, 2.0, 1.0]) @ Q.T,
    "two equal on the diagonal": np.diag([1.0, 3.0, 3.0]),
    "almost equal": np.diag([1.0, 1 + 1e-9, 2.0]),
    "distinct": Q @ np.diag([1.0, 2.5, 4.0]) @ Q.T,
}


def symmetric(a: Any) -> Any:
    return (a + a.T) / 2


BY_EIGENVALUES: dict[str, Callable[..., Any]] = {
    "(v * f(w)) @ v.T": lambda n, w, v: (v * n.sin(w)) @ v.T,
    "v @ diag(f(w)) @ v.T": lambda n, w, v: v @ n.diag(n.exp(w)) @ v.T,
    "v @ (f(w) * v.T)": lambda _, w, v: v @ (w[:, None] ** 3 * v.T),
    "(v / f(w)) @ v.T": lambda n, w, v: (v / n.sqrt(w)) @ v.T,
    "(v * softmax(w)) @ v.T": lambda n, w, v: (v * (n.exp(w) / n.sum(n.exp(w)))) @ v.T,
    "v @ v.T": lambda _, w, v: 0 * w + v @ v.T,
}
BY_SINGULAR_VALUES: dict[str, Callable[..., Any]] = {
    "(u * s**3) @ vt": lambda _, u, s, vt: (u * s**3) @ vt,
    "u @ diag(sin(s)) @ vt": lambda n, u, s, vt: u @ n.diag(n.sin(s)) @ vt,
    "u @ vt": lambda _, u, s, vt: 0 * s + u @ vt,
}


def losses(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the sum over `C` times the function of a matrix, in rlx and in NumPy."""

    def of(n: Any, a: Any) -> Any:
        if name in BY_EIGENVALUES:
            found = BY_EIGENVALUES[name](n, *n.linalg.eigh(symmetric(a)))
        else:
            found = BY_SINGULAR_VALUES[name](n, *n.linalg.svd(a))
        return n.sum(C * found)

    return lambda a: of(rnp, a), lambda a: of(np, a)


def differences(f: Callable[[Any], Any], a: Array, size: float = 1e-5) -> Array:
    steps = size * np.eye(a.size).reshape(-1, *a.shape)
    return np.array([(f(a + s) - f(a - s)) / (2 * size) for s in steps])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", [*BY_EIGENVALUES, *BY_SINGULAR_VALUES])
def test_functions_of_a_matrix_have_their_derivative_at_equal_values(name: str, dtype: str) -> None:
    ours, numpys = losses(name)
    both = rlx.jit(lambda a: (rlx.grad(ours)(a), rlx.jacfwd(ours)(a)), backend="reference")
    for case, a in MATRICES.items():
        expected = differences(numpys, a).reshape(3, 3)
        for found in both(a.astype(dtype)):
            tolerance = 1e-7 if dtype == "f8" else 3e-4
            np.testing.assert_allclose(found, expected, tolerance, tolerance * 10, err_msg=case)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
def test_odd_functions_of_singular_values_have_derivatives_at_zero(shape: tuple[int, int]) -> None:
    weights = RNG.normal(size=shape)
    u, _, vt = np.linalg.svd(RNG.normal(size=shape), full_matrices=False)

    def of(n: Any, a: Any) -> Any:
        u, s, vt = n.linalg.svd(a, full_matrices=False)
        return n.sum(weights * ((u * (s / (1 + s * s))) @ vt))

    gradient = rlx.jit(rlx.grad(lambda a: of(rnp, a)), backend="reference")
    for values in ([2, 2, 1], [1, 1, 1], [2, 1, 0], [2, 0, 0], [0, 0, 0], [3, 2, 1]):
        a = (u * np.array(values, float)) @ vt
        expected = differences(lambda a: of(np, a), a).reshape(shape)
        np.testing.assert_allclose(gradient(a), expected, atol=1e-7)


def test_projections_on_spaces_of_equal_values_have_derivatives() -> None:
    a = MATRICES["two equal"]

    def of(n: Any, a: Any) -> Any:
        _, v = n.linalg.eigh(symmetric(a))
        u, s, vt = n.linalg.svd(a)
        return n.sum(C * (v[:, 1:] @ v[:, 1:].T)) + n.sum(C * ((u[:, :2] * s[:2]) @ vt[:2]))

    found = rlx.jit(rlx.grad(lambda a: of(rnp, a)), backend="reference")(a)
    expected = differences(lambda a: of(np, a), a).reshape(3, 3)
    np.testing.assert_allclose(found, expected, atol=1e-7)


SYMMETRIC: dict[str, Callable[[Any], Any]] = {
    "sum of roots": lambda a: rnp.sum(rnp.sqrt(rnp.linalg.eigvalsh(symmetric(a)))),
    "logsumexp": lambda a: rnp.log(rnp.sum(rnp.exp(rnp.linalg.eigvalsh(symmetric(a))))),
    "product": lambda a: rnp.prod(rnp.linalg.eigvalsh(symmetric(a))),
    "variance": lambda a: rnp.var(rnp.linalg.eigvalsh(symmetric(a))),
    "Schatten norm": lambda a: rnp.sum(rnp.linalg.svdvals(a) ** 4),
    "nuclear norm": lambda a: rnp.linalg.norm(a, "nuc"),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_functions_have_second_derivatives_at_equal_values(name: str) -> None:
    f = SYMMETRIC[name]

    def derivatives(a: Any) -> Any:
        return rlx.hessian(f)(a), rlx.jacrev(rlx.grad(f))(a)

    run, gradient = (rlx.jit(each, backend="reference") for each in (derivatives, rlx.grad(f)))
    for case in ("identity", "two equal", "distinct"):
        a = MATRICES[case]
        expected = differences(lambda a: np.asarray(gradient(a)), a).reshape(3, 3, 3, 3)
        for found in run(a):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7, err_msg=case)


SECOND: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "forward of reverse": rlx.hessian,
    "reverse of reverse": lambda f: rlx.jacrev(rlx.grad(f)),
    "forward of forward": lambda f: rlx.jacfwd(rlx.jacfwd(f)),
    "reverse of forward": lambda f: rlx.jacrev(rlx.jacfwd(f)),
}


def cube(a: Any) -> Any:
    return symmetric(a) @ symmetric(a) @ symmetric(a)


PRODUCTS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "(v * w**3) @ v.T": (lambda w, v: (v * w**3) @ v.T, lambda a: cube(a)),
    "(v / (4 + w)) @ v.T": (
        lambda w, v: (v / (4 + w)) @ v.T, lambda a: rnp.linalg.inv(4 * np.eye(3) + symmetric(a))
    ),
    "(v * w**3 / sum(w**2)) @ v.T": (
        lambda w, v: (v * (w**3 / (1 + rnp.sum(w * w)))) @ v.T,
        lambda a: cube(a) / (1 + rnp.sum(symmetric(a) ** 2)),
    ),
    "sum(w**3)": (lambda w, _: rnp.sum(w**3), lambda a: rnp.trace(cube(a))),
    "var(w)": (
        lambda w, _: rnp.var(w), lambda a: rnp.sum(symmetric(a) ** 2) / 3 - (rnp.trace(a) / 3) ** 2
    ),
    "(u * s**3) @ vt": (lambda u, s, vt: (u * s**3) @ vt, lambda a: a @ a.T @ a),
    "sum(s**4) * (u * s**3) @ vt": (
        lambda u, s, vt: rnp.sum(s**4) * ((u * s**3) @ vt),
        lambda a: rnp.sum((a @ a.T) ** 2) * (a @ a.T @ a),
    ),
}  # fmt: skip
ZEROS = {"zeros": np.zeros((3, 3)), "one value": np.diag([2.0, 0, 0]), "signs": np.diag([1, -1, 1])}


@pytest.mark.parametrize("order", SECOND)
@pytest.mark.parametrize("name", PRODUCTS)
def test_functions_of_a_matrix_have_their_second_derivatives_at_equal_values(
    name: str, order: str
) -> None:
    """Those of products of the matrix, which have no vectors."""
    of_vectors, of_matrix = PRODUCTS[name]

    def spectral(a: Any) -> Any:
        decomposed = rnp.linalg.svd(a) if "s**" in name else rnp.linalg.eigh(symmetric(a))
        return rnp.sum(C * of_vectors(*decomposed))

    derivative = SECOND[order]
    run = rlx.jit(
        lambda a: [derivative(f)(a) for f in (spectral, lambda a: rnp.sum(C * of_matrix(a)))],
        backend="reference",
    )
    for case, a in (MATRICES | ZEROS).items():
        found, expected = run(a.astype(float))
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11, err_msg=case)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
def test_second_derivatives_by_singular_values_hold_for_rectangles(shape: tuple[int, int]) -> None:
    weights = RNG.normal(size=shape)
    u, _, vt = np.linalg.svd(weights, full_matrices=False)

    def spectral(a: Any) -> Any:
        u, s, vt = rnp.linalg.svd(a, full_matrices=False)
        return rnp.sum(weights * ((u * s**3) @ vt))

    both = (spectral, lambda a: rnp.sum(weights * (a @ a.T @ a)))
    run = rlx.jit(lambda a: [rlx.hessian(f)(a) for f in both], backend="reference")
    for values in ([1, 1, 1], [2, 0, 0], [0, 0, 0], [3, 2, 1]):
        found, expected = run((u * np.array(values, float)) @ vt)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_third_derivatives_hold_for_distinct_values_and_are_not_finite_for_equal_ones() -> None:
    def spectral(a: Any) -> Any:
        w, v = rnp.linalg.eigh(symmetric(a))
        return rnp.sum(C * ((v * w**3) @ v.T))

    both = (spectral, lambda a: rnp.sum(C * cube(a)))
    run = rlx.jit(lambda a: [rlx.jacfwd(rlx.hessian(f))(a) for f in both], backend="reference")
    found, expected = run(MATRICES["distinct"])
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert not np.isfinite(run(MATRICES["two equal"])[0]).all()


@pytest.mark.parametrize("case", ["identity", "two equal", "two equal on the diagonal"])
def test_what_has_no_derivative_at_equal_values_is_not_finite(case: str) -> None:
    """One vector of several; weights by place, also where products are 0; a polar factor."""

    def vector(a: Any) -> Any:
        return rnp.sum(C[0] * rnp.linalg.eigh(symmetric(a))[1][:, 1] ** 2)

    def uneven(a: Any) -> Any:
        w, v = rnp.linalg.eigh(symmetric(a))
        return rnp.sum(C * ((v * (w * np.array([1.0, 2.0, 4.0]))) @ v.T))

    def vanishing(weigh: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def of(a: Any) -> Any:
            w, v = rnp.linalg.eigh(symmetric(a))
            return rnp.sum(C * ((v * weigh(w - w[1])) @ v.T))

        return of

    def polar(a: Any) -> Any:
        u, _, vt = rnp.linalg.svd(a - MATRICES[case])
        return rnp.sum(C * (u @ vt))

    by_place = vanishing(lambda w: np.array([1.0, 2.0, 4.0]) * w), vanishing(rnp.cumsum)
    run = rlx.jit(
        lambda a: [rlx.grad(f)(a) for f in (vector, uneven, *by_place, polar)], backend="reference"
    )
    for found in run(MATRICES[case]):
        assert not np.isfinite(found).all()


@pytest.mark.slow
def test_batches_and_compiled_programs_have_them_too() -> None:
    stack = np.stack(list(MATRICES.values()))
    f, expected = losses("(v * f(w)) @ v.T")
    found = rlx.jit(rlx.vmap(rlx.grad(f)), backend="c")(stack)
    for a, slope in zip(stack, found, strict=True):
        np.testing.assert_allclose(slope, differences(expected, a).reshape(3, 3), atol=1e-7)

    def whole(a: Any) -> Any:
        w, v = rnp.linalg.eigh(a)
        return rnp.sum(C * ((v * rnp.sin(w)[:, None]) @ rnp.matrix_transpose(v)))

    np.testing.assert_allclose(rlx.jit(rlx.grad(whole), backend="c")(stack), found, atol=1e-12)


def test_sums_of_values_that_a_reshape_moved_have_their_gradient() -> None:
    """Batches whose axes are joined, and matrices of one row, whose values have no axis of rows."""

    def joined(a: Any) -> Any:
        values = rnp.linalg.eigvalsh(a)
        return rnp.sum(rnp.sin(values.reshape(-1, a.shape[-1])))

    def apart(a: Any) -> Any:
        return rnp.sum(rnp.sin(rnp.linalg.eigvalsh(a)))

    for shape in ((2, 3, 4, 4), (2, 1, 1)):
        a = np.random.default_rng(0).standard_normal(shape)
        a += np.swapaxes(a, -1, -2)
        found, expected = (rlx.jit(rlx.grad(f), backend="reference")(a) for f in (joined, apart))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
