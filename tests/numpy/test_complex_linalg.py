"""Linear systems and decompositions of complex matrices: NumPy's, and JAX's derivatives.

The kernels are compared with the reference, and derivatives with differences, for every recorded
use of their ops (`tests/op_records`); here is what the functions make of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.jax as jax
import rlx.jax.numpy as jnp
from rlx.numpy import linalg

RNG = np.random.default_rng(11)


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


A, TALL, B, WEIGHTS = drawn(2, 4, 4), drawn(2, 6, 4), drawn(2, 4, 2), drawn(6, 6)
WIDE, DEFICIENT = TALL.swapaxes(-1, -2), np.concatenate([TALL, 1j * TALL[..., :1]], -1)
H = A @ A.conj().swapaxes(-1, -2) + np.eye(4)


def adjoint(x: Any) -> Any:
    return np.conj(x).swapaxes(-1, -2)


SAME: dict[str, Callable[[Any], Any]] = {
    "solve": lambda n: n.solve(A, B), "solve vector": lambda n: n.solve(A[0], B[0, :, 0]),
    "inv": lambda n: n.inv(A), "det": lambda n: n.det(A), "slogdet": lambda n: n.slogdet(A),
    "cholesky": lambda n: n.cholesky(H), "cholesky upper": lambda n: n.cholesky(H, upper=True),
    "qr": lambda n: n.qr(TALL), "qr of wide": lambda n: n.qr(WIDE),
    "eigvalsh": lambda n: n.eigvalsh(H),
    "eigvalsh of a lower triangle": lambda n: n.eigvalsh(A, UPLO="L"),
    "eigvalsh of an upper triangle": lambda n: n.eigvalsh(A, UPLO="U"),
    "svdvals": lambda n: n.svdvals(TALL), "pinv": lambda n: n.pinv(TALL),
    "pinv wide": lambda n: n.pinv(WIDE), "pinv deficient": lambda n: n.pinv(DEFICIENT),
    "matrix_rank": lambda n: n.matrix_rank(DEFICIENT), "cond": lambda n: n.cond(A),
    "lstsq": lambda n: n.lstsq(TALL[0], WEIGHTS[:, :2]),
    "norms": lambda n: [n.norm(TALL, order, (1, 2)) for order in ("fro", "nuc", 1, 2, -2, np.inf)],
    "matrix_power": lambda n: n.matrix_power(A, -3),
    "tensorsolve": lambda n: n.tensorsolve(A[0].reshape(2, 2, 4), B[:2, 0]),
}  # fmt: skip


def same(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    if isinstance(expected, (tuple, list)):
        for one, other in zip(found, expected, strict=True):
            same(one, other, tolerance)
    else:
        assert np.asarray(found).dtype.kind == np.asarray(expected).dtype.kind
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", SAME)
def test_function_is_numpys(name: str) -> None:
    expected = SAME[name](np.linalg)
    same(SAME[name](linalg), expected)
    same(rlx.jit(lambda: SAME[name](linalg))(), expected)


def test_what_is_built_on_factors_is_scipys() -> None:
    scipy = pytest.importorskip("scipy.linalg")
    a, h, b = A[0], H[0], B[0]
    for trans in (0, 1, 2):
        same(
            linalg.lu_solve(linalg.lu_factor(a), b, trans),
            scipy.lu_solve(scipy.lu_factor(a), b, trans),
        )
        expected = scipy.solve_triangular(a, b, trans=trans, lower=True)
        same(linalg.solve_triangular(a, b, trans=trans, lower=True), expected)
    for lower in (False, True):
        same(
            linalg.cho_solve(linalg.cho_factor(h, lower), b),
            scipy.cho_solve(scipy.cho_factor(h, lower), b),
        )
    same(linalg.expm(a), scipy.expm(a))


@pytest.mark.parametrize("matrix", [A, TALL, DEFICIENT, drawn(3, 70, 65), np.zeros((3, 2), "c16")])
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_decompositions_are_orthogonal_and_multiply_to_the_matrix(
    matrix: Any, backend: str
) -> None:
    """Generated kernels, and LAPACK's from 64 columns on where there is a library."""

    def parts(a: Any) -> Any:
        gram = rlx.numpy.conj(a.mT) @ a
        return linalg.svd(a, full_matrices=False), linalg.qr(a), linalg.eigh(gram), gram

    (u, s, vh), (q, r), (w, v), gram = rlx.jit(parts, backend=backend)(matrix)
    same((u * s[..., None, :]) @ vh, matrix, 1e-8)
    same(q @ r, matrix, 1e-8)
    same((v * w[..., None, :]) @ adjoint(v), gram, 1e-6)
    for axes in (u, adjoint(vh), q, v):
        same(adjoint(axes) @ axes, np.zeros_like(gram) + np.eye(gram.shape[-1]), 1e-8)
    assert (np.diagonal(r, axis1=-2, axis2=-1).imag == 0).all()


def test_singular_and_indefinite_matrices_are_errors_or_nan_in_their_slice() -> None:
    singular = A.copy()
    singular[1] = np.array([[1, 1j], [1j, -1]]).repeat(2, 0).repeat(2, 1)
    with pytest.raises(rlx.errors.SingularMatrixError, match="position 1"):
        rlx.jit(linalg.solve)(singular, B)
    found = rlx.jit(lambda a: linalg.cholesky(a, on_singular="nan"))(np.stack([H[0], -H[1]]))
    assert np.isnan([found[1].real, found[1].imag]).all()
    same(found[0], np.linalg.cholesky(H[0]))
    assert rlx.jit(linalg.det)(singular)[1] == 0


def _weighed(x: Any) -> Any:
    return (x * WEIGHTS[: x.shape[0], : x.shape[1]]).real.sum()


SCALARS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "solve": (lambda n, a: _weighed(n.solve(a, B[0])), A[0]),
    "solve side": (lambda n, b: _weighed(n.solve(A[0], b)), B[0]),
    "inv": (lambda n, a: _weighed(n.inv(a)), A[0]),
    "det": (lambda n, a: _weighed(n.det(a)[None, None]), A[0]),
    "det of a singular matrix": (
        lambda n, a: _weighed(n.det(a)[None, None]),
        np.outer(A[0, 0], A[0, 1]) + np.diag([0, 1, 1j, 0]),
    ),
    "slogdet": (lambda n, a: _weighed(n.slogdet(a)[0][None, None]) * n.slogdet(a)[1], A[0]),
    "cholesky": (lambda n, a: _weighed(n.cholesky(a)), H[0]),
    "qr": (lambda n, a: _weighed(n.qr(a)[0]) + _weighed(n.qr(a)[1]), TALL[0]),
    "qr of wide": (lambda n, a: _weighed(n.qr(a)[1]), WIDE[0]),
    "eigvalsh": (lambda n, a: (n.eigvalsh(a) * np.arange(4.0)).sum(), H[0]),
    "functions of eigenvalues": (lambda n, a: _weighed(_of_values(*n.eigh(a))), H[0]),
    "singular values": (lambda n, a: (n.svd(a, compute_uv=False) * np.arange(4.0)).sum(), TALL[0]),
    "functions of singular values": (
        lambda n, a: _weighed(_of_singular(*n.svd(a, full_matrices=False))), TALL[0],
    ),
    "pinv": (lambda n, a: _weighed(n.pinv(a)), WIDE[0]),
    "nuclear norm": (lambda n, a: n.norm(a, "nuc"), TALL[0]),
    "spectral norm": (lambda n, a: n.norm(a, 2), TALL[0]),
}  # fmt: skip


def _of_values(w: Any, v: Any) -> Any:
    return (v * (w / (1 + w * w))) @ v.conj().T


def _of_singular(u: Any, s: Any, vh: Any) -> Any:
    return (u * (s / (1 + s * s))) @ vh


@pytest.mark.parametrize("name", SCALARS)
def test_derivatives_are_jaxs(name: str) -> None:
    """Of functions that do not depend on the direction that vectors are given."""
    theirs = pytest.importorskip("jax")
    function, x = SCALARS[name]
    direction = x * (1 + 0.5j) + 0.1j * x.conj()
    if name.startswith(("cholesky", "eig", "functions of eig")):
        direction = direction + direction.conj().T
    with theirs.enable_x64(True):
        expected = derivatives(theirs, theirs.numpy.linalg, function, x, direction)
    same(derivatives(jax, jnp.linalg, function, x, direction), expected)


def derivatives(home: Any, own: Any, function: Any, x: Any, direction: Any) -> list[Any]:
    def of(a: Any) -> Any:
        return function(own, a)

    value, slope = home.jvp(of, (x,), (direction,))
    gradients = home.vmap(home.grad(of))(np.stack([x, 1.5 * x]))
    return [np.asarray(part) for part in (value, slope, home.grad(of)(x), gradients)]
