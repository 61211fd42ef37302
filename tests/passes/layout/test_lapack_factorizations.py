"""Large matrices are factored by LAPACK, into what the reference and the generated kernels give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import SingularMatrixError
from rlx.ir import ops
from rlx.numpy import linalg
from rlx.passes.layout.use_lapack import LARGE as LARGE_OF
from rlx.runtime.blas import has_lapack
from rlx.scipy import linalg as scipy_linalg
from rlx.target import detect_target

LARGE = LARGE_OF[ops.lu]
DTYPES = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}
TOLERANCES = {"f4": 2e-4, "f8": 1e-11, "c8": 2e-4, "c16": 1e-11}

pytestmark = pytest.mark.skipif(
    not has_lapack(detect_target()), reason="no BLAS library with LAPACK"
)


def matrices(dtype: str, n: int = LARGE, count: int = 3) -> Any:
    """Well-conditioned: singular values from 1 to 3."""
    rng = np.random.default_rng(n)
    size = (count, n, n)
    q, _ = np.linalg.qr(
        rng.normal(size=size) + (1j * rng.normal(size=size) if dtype[0] == "c" else 0)
    )
    return (q[::-1] @ (q * np.linspace(3, 1, n))).astype(dtype)


def positive(dtype: str, **kwargs: Any) -> Any:
    """Hermitian, with something in the diagonal's imaginary parts, which are not read."""
    a = matrices(dtype, **kwargs)
    product = a @ a.conj().swapaxes(-1, -2)
    n = a.shape[-1]
    if dtype[0] == "c":
        product[:, range(n), range(n)] = product[:, range(n), range(n)].real + 0.5j
    return product


def lower(a: Any) -> Any:
    return linalg.cholesky(a, symmetrize_input=False)


def upper(a: Any) -> Any:
    return linalg.cholesky(a, upper=True, symmetrize_input=False)


def code_of(function: Callable[..., Any], backend: str, *args: Any) -> str:
    executable = rlx.jit(function, backend=backend).lower(*args).compile().executable
    return str(executable.c_source if backend == "c" else executable.llvm_ir)


@pytest.mark.parametrize(
    ("dtype", "backend"),
    [("f4", "llvm"), ("f8", "c"), ("c8", "c"), ("c8", "llvm"), ("c16", "llvm")],
)
@pytest.mark.parametrize("function", [lower, upper])
def test_cholesky_by_lapack_is_that_of_the_reference(
    function: Callable[[Any], Any], dtype: str, backend: str
) -> None:
    a = positive(dtype)
    # What is not read may be anything
    side = np.triu_indices(LARGE, 1) if function is lower else np.tril_indices(LARGE, -1)
    a[:, side[0], side[1]] = np.nan
    assert f"{DTYPES[dtype]}potrf_" in code_of(function, backend, a)
    found = np.asarray(rlx.jit(function, backend=backend, threads=1)(a))
    expected = np.asarray(rlx.jit(function, backend="reference")(a))
    np.testing.assert_allclose(found, expected, atol=TOLERANCES[dtype])
    assert not found[:, side[0], side[1]].any()
    np.testing.assert_array_equal(found, rlx.jit(function, backend=backend, threads=2)(a))


@pytest.mark.parametrize("dtype", ["f8", "c8"])
def test_what_is_not_positive_definite_fails_or_is_nan_and_nan_is_no_fault(dtype: str) -> None:
    a = positive(dtype)
    a[1, 100, 100] = -1
    with pytest.raises(SingularMatrixError, match="position 1"):
        rlx.jit(lower)(a)
    found = np.asarray(rlx.jit(lambda a: linalg.cholesky(a, on_singular="nan"))(a))
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[::2]).all()
    a[1, 100, 100] = np.nan
    found = np.asarray(rlx.jit(lower)(a))
    assert np.isnan(np.diagonal(found[1])[100:]).all()
    assert np.isnan(found[1, 101:, 100]).all()
    assert np.isfinite(found[::2]).all()


@pytest.mark.parametrize(
    ("dtype", "backend"),
    [("f4", "llvm"), ("f8", "c"), ("c8", "c"), ("c8", "llvm"), ("c16", "llvm")],
)
def test_lu_by_lapack_is_that_of_the_reference(dtype: str, backend: str) -> None:
    a = matrices(dtype)
    a[1, :, 7] = 0  # singular matrices have factors, too
    run = scipy_linalg.lu_factor
    assert f"{DTYPES[dtype]}getrf_" in code_of(run, backend, a)
    factors, pivots = (np.asarray(x) for x in rlx.jit(run, backend=backend, threads=2)(a))
    expected = [np.asarray(x) for x in rlx.jit(run, backend="reference")(a)]
    np.testing.assert_array_equal(pivots, expected[1])
    np.testing.assert_allclose(factors, expected[0], atol=TOLERANCES[dtype])
    p, low, up = (np.asarray(x) for x in rlx.jit(scipy_linalg.lu, backend=backend)(a[1]))
    np.testing.assert_allclose(p @ low @ up, a[1], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants_by_lapack_are_numpys_and_zero_where_singular(dtype: str) -> None:
    a = matrices(dtype) / 2
    a[1, :, 7] = 0
    assert f"{DTYPES[dtype]}getrf_" in code_of(linalg.det, "llvm", a)
    found, (sign, logarithm) = rlx.jit(linalg.det)(a), rlx.jit(linalg.slogdet)(a)
    expected = np.linalg.det(a.astype("c16" if dtype[0] == "c" else "f8"))
    np.testing.assert_allclose(found, expected, rtol=5 * TOLERANCES[dtype])
    wide = np.linalg.slogdet(a.astype("c16" if dtype[0] == "c" else "f8"))
    np.testing.assert_allclose(sign, wide[0], atol=TOLERANCES[dtype])
    np.testing.assert_allclose(logarithm, wide[1], atol=5 * TOLERANCES[dtype])
    assert found[1] == 0
    assert logarithm[1] == -np.inf


def test_a_nan_reaches_determinants_and_solutions_of_its_slice_alone() -> None:
    a = matrices("c16")
    a[1, 50, :] = np.nan
    a[2, :, 0] = np.nan
    found = np.asarray(rlx.jit(linalg.det)(a))
    assert np.isfinite(found[0])
    assert np.isnan(found[1:]).all()


def test_slopes_go_through_lapack_for_complex_matrices_too() -> None:
    a = matrices("c16", count=1)[0]

    def loss(a: Any) -> Any:
        gram = a @ rlx.numpy.conj(a.mT)
        return linalg.slogdet(a).logabsdet + rlx.numpy.real(linalg.cholesky(gram)[-1, 0])

    da = matrices("c16", n=LARGE, count=2)[1] * 1e-6
    _, slope = rlx.jvp(loss, (a,), (da,))
    expected = (float(loss(a + da)) - float(loss(a - da))) / 2
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
