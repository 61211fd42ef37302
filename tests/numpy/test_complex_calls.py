"""Functions of arrays and matrices of complex numbers are NumPy's and SciPy's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import rlx.numpy as rnp
from rlx.scipy import linalg

RANDOM = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)


A, B, C, V, W, LONG = drawn(4, 4), drawn(4, 3), drawn(4, 3), drawn(4), drawn(4), drawn(7)
HERMITIAN = A + A.conj().T
POSITIVE = A @ A.conj().T + np.eye(4)
PLACES = np.arange(4.0)
PAIRS = ((LONG, V), (V, LONG))
SPOILT = np.where(np.arange(4) == 1, np.nan, V)

ARRAYS: Mapping[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "angle": [((V,), {})],
    "average": [((V,), {"weights": W})],
    "convolve": [((LONG, V), {"mode": mode}) for mode in ("full", "same", "valid")],
    "corrcoef": [((B,), {})],
    "correlate": [(pair, {"mode": mode}) for mode in ("full", "same") for pair in PAIRS],
    "cov": [((B,), {}), ((B, C), {"rowvar": False})],
    "cross": [((B, C), {})],
    "cumprod": [((V,), {})],
    "cumsum": [((A,), {"axis": 1})],
    "einsum": [(("ij,kj->ik", B, C), {})],
    "expm1": [((V,), {})],
    "float_power": [((V, 2), {})],
    "geomspace": [((1j, 2 + 2j, 4), {}), ((-1, -8, 4), {}), ((V, W, 5), {})],
    "gradient": [((V,), {})],
    "inner": [((B, C), {})],
    "interp": [((np.array([-1, 0.5, 1.2, 9]), PLACES, V), {}),
               ((np.array([0.5, 7.2]), PLACES, V), {"period": 4})],
    "kron": [((V, W), {})],
    "linspace": [((1j, 2, 5), {})],
    "logspace": [((0, 1j, 4), {})],
    "nancumsum": [((SPOILT,), {})],
    "nanmean": [((SPOILT,), {})],
    "nanstd": [((SPOILT,), {}), ((B,), {"axis": 0, "ddof": 1})],
    "nansum": [((SPOILT,), {})],
    "nanvar": [((SPOILT,), {}), ((B,), {"axis": 1})],
    "outer": [((V, W), {})],
    "poly": [((V,), {})],
    "polyfit": [((PLACES, V, 2), {})],
    "polymul": [((V, W), {})],
    "polyval": [((V, W), {})],
    "power": [((V, W), {})],
    "round": [((V, 2), {})],
    "sign": [((V,), {})],
    "std": [((B,), {"axis": 0, "ddof": 1})],
    "tensordot": [((A, B), {"axes": 1})],
    "trapezoid": [((V, PLACES), {})],
    "vander": [((V, 3), {})],
    "var": [((B,), {"axis": 0}), ((B,), {"where": B.real > 0})],
    "vdot": [((V, W), {})],
    "vecdot": [((B, C), {})],
    "vecmat": [((V, A), {})],
}  # fmt: skip

MATRICES: Mapping[str, tuple[Any, ...]] = {
    "block_diag": (A, B), "cholesky": (POSITIVE,), "circulant": (V,), "companion": (V,),
    "det": (A,), "eigvals": (A,), "eigvalsh": (HERMITIAN,), "expm": (A * 0.3,),
    "expm_frechet": (A * 0.2, HERMITIAN), "fiedler_companion": (V,), "hankel": (V,),
    "hessenberg": (A,), "inv": (A,), "khatri_rao": (B, C), "lu": (A,), "norm": (A,), "pinv": (B,),
    "polar": (B,), "qr_multiply": (A, A.T), "solve": (A, B),
    "solve_sylvester": (A, A.T + 2, HERMITIAN), "solve_triangular": (np.triu(A), B),
    "sqrtm": (POSITIVE,), "svdvals": (B,), "toeplitz": (V,),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_complex_numbers_are_numpys(name: str) -> None:
    for args, how in ARRAYS[name]:
        expected = getattr(np, name)(*args, **how)
        found = np.asarray(getattr(rnp, name)(*args, **how))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in MATRICES if hasattr(linalg, name)])
def test_matrices_of_complex_numbers_are_scipys(name: str) -> None:
    scipy = pytest.importorskip("scipy.linalg")
    args = MATRICES[name]
    found, expected = (
        result if isinstance(result, tuple) else (result,)
        for result in (getattr(module, name)(*args) for module in (linalg, scipy))
    )
    if name == "eigvals":  # in an order of their own
        found, expected = ((np.sort_complex(each[0]),) for each in (found, expected))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
