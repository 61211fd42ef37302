"""Forms of matrices by reflections and turns: by what defines them, compared with SciPy and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import linalg as scipy

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError, ShapeError, UnsupportedError
from rlx.lax import linalg as lax
from rlx.scipy import linalg

RNG = np.random.default_rng(9)
DTYPES = ["f4", "f8", "c8", "c16"]
HARD: dict[str, Any] = {
    "skew": np.triu(np.arange(1.0, 26).reshape(5, 5), 1) - np.triu(
        np.arange(1.0, 26).reshape(5, 5), 1).T,
    "cycle": np.roll(np.eye(5), 1, 0), "without_a_basis": np.eye(5, k=1), "zeros": np.zeros((3, 3)),
    "equal": np.ones((4, 4)), "one": np.ones((1, 1)), "none": np.zeros((0, 0)),
    "near_pair": np.array([[1.0, 1.0], [-1e-14, 1.0]]), "lower": np.tril(np.ones((5, 5))),
}  # fmt: skip


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    x = RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)
    return (x if dtype in ("c8", "c16") else x.real).astype(dtype)


def near(found: Any, expected: Any, scale: float = 1.0) -> None:
    """Agree to two hundred roundings of the dtype found; integers are equal."""
    dtype = np.asarray(found).dtype
    atol = 200 * scale * float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=atol)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(np.asarray(x), -1, -2))


def ways(f: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return `f` at once and compiled by both back ends."""
    return [f, rlx.jit(f, backend="c"), rlx.jit(f, backend="llvm")]


def require_real_form(t: Any, z: Any, a: Any) -> None:
    scale = max(1.0, float(np.abs(a).max(initial=0)))
    near(z @ t @ z.T, a, scale)
    near(z.T @ z, np.eye(len(a)))
    np.testing.assert_array_equal(np.tril(t, -2), 0)
    below = np.diag(t, -1)
    assert not ((below[1:] != 0) & (below[:-1] != 0)).any()
    for i in np.flatnonzero(below):
        assert t[i, i] == t[i + 1, i + 1]
        assert t[i, i + 1] * t[i + 1, i] < 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_real_schur_form_has_blocks_of_two(dtype: str) -> None:
    a = drawn((8, 8), dtype)
    expected = np.sort_complex(np.linalg.eigvals(a))
    for schur in ways(linalg.schur):
        t, z = schur(a)
        assert t.dtype == z.dtype == dtype
        require_real_form(t, z, a)
        near(np.sort_complex(np.linalg.eigvals(t)), expected, 10)


@pytest.mark.parametrize("name", HARD)
def test_hard_real_matrices_have_real_forms(name: str) -> None:
    a = HARD[name]
    for schur in (linalg.schur, rlx.jit(linalg.schur)):
        t, z = schur(a)
        require_real_form(np.asarray(t), np.asarray(z), a)


def test_forms_of_a_stack_are_those_of_its_matrices() -> None:
    stack = drawn((2, 3, 4, 4), "f8")
    for found in (linalg.schur(stack), rlx.vmap(rlx.vmap(lax.schur))(stack)):
        for at in np.ndindex(2, 3):
            for one, other in zip(found, linalg.schur(stack[at]), strict=True):
                np.testing.assert_allclose(one[at], other, atol=1e-12)
    (alone,) = lax.schur(stack, compute_schur_vectors=False)
    np.testing.assert_array_equal(alone, linalg.schur(stack)[0])


def test_what_is_not_finite_has_no_form() -> None:
    assert np.isnan(linalg.schur(np.array([[1.0, np.inf], [0.0, 1.0]]))[0]).all()


@pytest.mark.parametrize("form", ["ours", "scipys"])
def test_blocks_of_two_become_triangles(form: str) -> None:
    a = drawn((7, 7), "f8")
    real = linalg.schur(a) if form == "ours" else scipy.schur(a)
    for convert in (linalg.rsf2csf, rlx.jit(linalg.rsf2csf)):
        t, z = convert(*real)
        np.testing.assert_array_equal(np.tril(t, -1), 0)
        near(z @ t @ adjoint(z), a, 5)
        near(z @ adjoint(z), np.eye(7))
        for found, expected in zip((t, z), scipy.rsf2csf(*map(np.asarray, real)), strict=True):
            near(np.abs(found), np.abs(expected), 10)


def test_triangles_of_blocks_have_derivatives() -> None:
    real, basis = linalg.schur(drawn((4, 4), "f8"))
    way = np.where(np.asarray(real) != 0, drawn((4, 4), "f8"), 0)

    def total(t: Any) -> Any:
        turned, z = linalg.rsf2csf(t, basis)
        return rnp.sum(rnp.abs(turned) * np.arange(16.0).reshape(4, 4)) + rnp.sum(rnp.real(z) ** 2)

    slope = (total(real + 1e-6 * way) - total(real - 1e-6 * way)) / 2e-6
    np.testing.assert_allclose(rlx.jvp(total, (real,), (way,))[1], slope, rtol=1e-5)
    np.testing.assert_allclose(np.sum(rlx.grad(total)(real) * way), slope, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 6])
def test_hessenberg_forms_are_scipys(n: int, dtype: str) -> None:
    a = drawn((n, n), dtype)
    h, q = scipy.hessenberg(a, calc_q=True)

    def both(a: Any) -> Any:
        return linalg.hessenberg(a, calc_q=True)

    for run in ways(both) if n == 6 else [both]:
        found, basis = run(a)
        assert found.dtype == dtype
        near(found, h, 4)
        near(basis, q)
    near(linalg.hessenberg(a), h, 4)


def test_hessenberg_forms_of_matrices_that_have_it_and_of_many() -> None:
    for a in (np.triu(drawn((4, 4), "f8")), np.zeros((4, 4)), 1e-200 * drawn((4, 4), "f8")):
        near(linalg.hessenberg(a), scipy.hessenberg(a), float(np.abs(a).max()))
    stack = drawn((3, 4, 4), "c16")
    for found in (linalg.hessenberg(stack), rlx.vmap(linalg.hessenberg)(stack)):
        near(found, np.stack([scipy.hessenberg(a) for a in stack]), 4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_three_diagonals_and_reflections_make_the_matrix(dtype: str, lower: bool) -> None:
    a = drawn((2, 5, 5), dtype)
    a = a + adjoint(a)
    read = np.tril(a) if lower else np.triu(a)

    def form_of(x: Any) -> Any:
        return lax.tridiagonal(x, lower=lower)

    for run in (form_of, rlx.vmap(form_of)):
        form, main, off, taus = run(read)
        whole = np.stack([np.diag(m) + np.diag(e, 1) + np.diag(e, -1)
                          for m, e in zip(main, off, strict=True)])  # fmt: skip
        near(np.linalg.eigvalsh(whole), np.linalg.eigvalsh(a), 10)
        if lower:
            inner = lax.householder_product(form[:, 1:, :-1], taus)
            q = np.zeros_like(a)
            q[:, 0, 0], q[:, 1:, 1:] = 1, inner
            near(q @ whole @ adjoint(q), a, 10)
            np.testing.assert_array_equal(np.triu(form, 1), np.triu(read, 1))


def raw(a: Any) -> tuple[Any, Any]:
    """Return reflections and factors of LAPACK's."""
    (reflections, taus), _ = scipy.qr(a, mode="raw")
    return np.array(reflections), taus


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 4), (4, 4), (3, 5)])
def test_products_of_reflections_are_lapacks(shape: tuple[int, int], dtype: str) -> None:
    a, c = drawn(shape, dtype), drawn((shape[0], 2), dtype)
    reflections, taus = raw(a)
    q, _ = scipy.qr(a)
    if shape[0] >= shape[1]:
        for product in ways(lax.householder_product):
            near(product(reflections, taus), q[:, : shape[1]])
    near(lax.ormqr(reflections, taus, c), q @ c, 4)
    near(lax.ormqr(reflections, taus, c, transpose=True), adjoint(q) @ c, 4)
    near(lax.ormqr(reflections, taus, c.T, left=False), c.T @ q, 4)
    near(lax.ormqr(reflections, taus, c.T, left=False, transpose=True), c.T @ adjoint(q), 4)


def test_products_of_reflections_are_mapped_and_have_derivatives() -> None:
    stack = [raw(drawn((5, 3), "f8")) for _ in range(2)]
    reflections, taus = (np.stack(x) for x in zip(*stack, strict=True))
    expected = np.stack([lax.householder_product(*each) for each in stack])
    near(rlx.vmap(lax.householder_product)(reflections, taus), expected)
    near(lax.householder_product(reflections, taus), expected)
    c, way = drawn((5, 3), "f8"), drawn((5, 3), "f8")

    def total(a: Any, t: Any) -> Any:
        return rnp.sum(lax.ormqr(a, t, c) * way) + rnp.sum(lax.householder_product(a, t) ** 3)

    a, t = stack[0]
    slope = (total(a + 1e-6 * way, t) - total(a - 1e-6 * way, t)) / 2e-6
    np.testing.assert_allclose(np.sum(rlx.grad(total)(a, t) * way), slope, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_products_with_orthogonal_factors_are_scipys(shape: tuple[int, int], dtype: str) -> None:
    a, rows, count = drawn(shape, dtype), shape[0], min(shape)
    factors = {"right": ((2, rows), (rows,)), "left": ((count, 2), (count,))}
    for mode, c in ((m, drawn(s, dtype)) for m, shapes in factors.items() for s in shapes):
        for conjugate in (False, True):
            found = linalg.qr_multiply(a, c, mode, conjugate=conjugate)
            expected = scipy.qr_multiply(a, c, mode, conjugate=conjugate)
            for one, other in zip(found, expected, strict=True):
                near(one, other, 4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 4), (3, 5)])
def test_columns_are_exchanged_as_in_scipy(shape: tuple[int, int], dtype: str) -> None:
    a = drawn(shape, dtype)
    for mode in ("full", "economic", "r"):
        expected = scipy.qr(a, mode=mode, pivoting=True)
        for found, other in zip(linalg.qr(a, mode=mode, pivoting=True), expected, strict=True):
            near(found, other, 4)
    full = scipy.qr(a, pivoting=True)
    for run in ways(lambda a: lax.qr(a, pivoting=True)):
        for found, other in zip(run(a), full, strict=True):
            near(found, other, 4)
    c = drawn((2, shape[0]), dtype)
    pairs = zip(linalg.qr_multiply(a, c, pivoting=True), scipy.qr_multiply(a, c, pivoting=True),
                strict=True)  # fmt: skip
    for found, other in pairs:
        near(found, other, 4)


def test_exchanged_columns_are_mapped_return_the_rank_and_have_derivatives() -> None:
    stack = drawn((3, 5, 2), "f8") @ drawn((3, 2, 4), "f8")
    q, r, order = rlx.vmap(lambda a: lax.qr(a, pivoting=True))(stack)
    near(q @ r, np.take_along_axis(stack, np.asarray(order)[:, None, :], -1), 10)
    sizes = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    assert (np.diff(sizes) <= 1e-12).all()
    assert ((sizes > 1e-12).sum(-1) == 2).all()
    a, way = drawn((5, 3), "f8"), drawn((5, 3), "f8")

    def total(a: Any) -> Any:
        return rnp.sum(linalg.qr(a, pivoting=True, mode="economic")[0] ** 3)

    slope = (total(a + 1e-6 * way) - total(a - 1e-6 * way)) / 2e-6
    np.testing.assert_allclose(np.sum(rlx.grad(total)(a) * way), slope, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_matrices_are_scipys(dtype: str) -> None:
    a = drawn((5, 5), dtype)
    for run in (linalg.funm, rlx.jit(linalg.funm, static_argnums=1)):
        near(run(a, rnp.exp), scipy.expm(a), 100)
    square, estimate = linalg.funm(a, lambda x: x * x, disp=False)
    near(square, a @ a, 100)
    assert estimate < 1e-3
    near(rlx.vmap(lambda a: linalg.funm(a, rnp.sin))(a[None])[0], scipy.sinm(a), 100)


def test_the_estimate_detects_equal_eigenvalues() -> None:
    _, estimate = linalg.funm(np.array([[1.0, 1.0], [0.0, 1.0]]), rnp.exp, disp=False)
    assert estimate == 1


@pytest.mark.parametrize("name", ["hessenberg", "tridiagonal", "qr_multiply"])
def test_forms_by_reflections_have_derivatives(name: str) -> None:
    a, way = drawn((4, 4), "f8"), drawn((4, 4), "f8")
    total: dict[str, Callable[[Any], Any]] = {
        "hessenberg": lambda a: rnp.sum(linalg.hessenberg(a) * way),
        "tridiagonal": lambda a: rnp.sum(rnp.stack(lax.tridiagonal(a)[2:]) ** 3),
        "qr_multiply": lambda a: rnp.sum(linalg.qr_multiply(a, way)[0] * way),
    }
    f = total[name]
    slope = (f(a + 1e-6 * way) - f(a - 1e-6 * way)) / 2e-6
    np.testing.assert_allclose(rlx.jvp(f, (a,), (way,))[1], slope, rtol=1e-6)
    np.testing.assert_allclose(np.sum(rlx.grad(f)(a) * way), slope, rtol=1e-6)


@pytest.mark.parametrize("count", range(2, 9))
def test_fiedlers_companions_are_scipys(count: int) -> None:
    p = drawn((count,), "f8")
    np.testing.assert_allclose(linalg.fiedler_companion(p), scipy.fiedler_companion(p))
    slopes = rlx.jacrev(linalg.fiedler_companion)(p)
    for i, unit in enumerate(np.eye(count)):
        step = [linalg.fiedler_companion(p + s * 1e-6 * unit) for s in (1, -1)]
        np.testing.assert_allclose(slopes[..., i], (step[0] - step[1]) / 2e-6, rtol=1e-5, atol=1e-8)


def test_forms_of_lax_are_jaxs() -> None:
    pytest.importorskip("jax")
    import jax
    from jax.lax import linalg as theirs

    with jax.enable_x64(True):
        a = drawn((5, 5), "c16")
        for x in (a, a.real):
            for found, expected in zip(lax.hessenberg(x), theirs.hessenberg(x), strict=True):
                near(found, expected, 10)
            whole = x + adjoint(x)
            for lower in (True, False):
                pairs = zip(lax.tridiagonal(whole, lower=lower),
                            theirs.tridiagonal(whole, lower=lower), strict=True)  # fmt: skip
                for found, expected in pairs:
                    near(found, expected, 10)
            t, _ = theirs.schur(x)
            found, expected = (np.sort_complex(np.linalg.eigvals(y)) for y in (lax.schur(x)[0], t))
            near(found, expected, 10)


def test_what_does_not_fit_is_reported() -> None:
    a = drawn((3, 4), "f8")
    with pytest.raises(ShapeError, match=r"a has shape \(3, 4\)"):
        lax.hessenberg(a)
    with pytest.raises(ShapeError, match="at least as many rows"):
        lax.householder_product(a, np.zeros(3))
    with pytest.raises(ShapeError, match=r"T has shape \(3, 4\)"):
        linalg.rsf2csf(a, a)
    with pytest.raises(ShapeError, match=r"A has shape \(3, 4\)"):
        linalg.funm(a, rnp.exp)
    with pytest.raises(InputError, match="mode is 'both'"):
        linalg.qr_multiply(a, a, "both")
    with pytest.raises(UnsupportedError, match="does not sort"):
        lax.schur(a[:, :3], sort_eig_vals=True)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize("full", [True, False])
def test_factors_of_empty_matrices_leave_columns_in_their_order(
    shape: tuple[int, int], full: bool
) -> None:
    def f(a: Any) -> Any:
        return lax.qr(a, pivoting=True, full_matrices=full)

    for run in ways(f):
        q, r, order = run(np.zeros(shape, np.float32))
        count = shape[0] if full else 0
        np.testing.assert_array_equal(q, np.eye(shape[0], count))
        assert r.shape == (count, shape[1])
        np.testing.assert_array_equal(order, np.arange(shape[1]))


def test_empty_matrices_have_forms_and_functions() -> None:
    a = np.zeros((0, 0))
    assert [np.shape(x) for x in linalg.rsf2csf(a, a)] == [(0, 0), (0, 0)]
    found, estimate = linalg.funm(a, rnp.exp, disp=False)
    assert (found.shape, estimate) == ((0, 0), np.finfo(np.float64).eps)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_reflections_of_few_digits_are_refused(dtype: str) -> None:
    a = rnp.asarray(drawn((3, 3), "f4"), dtype)
    calls: dict[str, Callable[[], Any]] = {
        "hessenberg": lambda: linalg.hessenberg(a),
        "tridiagonal": lambda: lax.tridiagonal(a),
        "householder_product": lambda: lax.householder_product(a, a[0]),
        "ormqr": lambda: lax.ormqr(a, a[0], a),
        "qr": lambda: lax.qr(a, pivoting=True),
    }
    for name, call in calls.items():
        with pytest.raises(DTypeError, match=f"^{name}: the matrix has dtype (bf|f)16"):
            call()
