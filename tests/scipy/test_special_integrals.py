"""Integrals, the complex error function and recurrences compared with SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.scipy import special

scipy = pytest.importorskip("scipy.special")

ENDS = np.array([0.0, np.inf, np.nan])
POSITIVE = np.concatenate([np.geomspace(1e-8, 600, 150), ENDS])
BOTH = np.concatenate([POSITIVE, -POSITIVE])
H, A = np.meshgrid([-9.0, -1, 0, 0.3, 2, 12, 30], [-40.0, -1, -0.2, 0, 0.5, 1, 1.2, 9, np.inf])
ORDERS, BEYOND = np.meshgrid(np.arange(0.0, 12), np.geomspace(1e-3, 300, 40))
KUMMER = np.meshgrid([0.5, 1.0, 3.5], [0.7, 2.0, 6.0], [-150.0, -20, -1, 0, 0.3, 5, 60])
CASES: dict[str, tuple[tuple[Any, ...], float]] = {
    "expi": ((BOTH,), 4e-14),
    "expn": ((ORDERS, BEYOND), 4e-13),
    "spence": ((POSITIVE[:-2],), 3e-15),
    "dawsn": ((BOTH,), 1e-14),
    "erfcx": ((np.concatenate([POSITIVE, -np.linspace(0, 20, 30)]),), 6e-15),
    "owens_t": ((H, A), 3e-13),
    "hyp1f1": (tuple(KUMMER), 2e-13),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_over_their_domain(name: str) -> None:
    args, tolerance = CASES[name]
    with np.errstate(all="ignore"):
        expected = getattr(scipy, name)(*args)
        found = getattr(special, name)(*args)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 1e-2)


def test_the_dilogarithm_at_its_ends() -> None:
    found = special.spence(np.array([np.inf, np.nan, -1.0, 1.0]))
    np.testing.assert_array_equal(found, [-np.inf, np.nan, np.nan, 0])


@pytest.mark.parametrize("name", ["expi", "spence", "dawsn", "erfcx"])
def test_single_precision_stays_single(name: str) -> None:
    x = np.geomspace(1e-3, 50, 60).astype(np.float32)
    found = getattr(special, name)(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, getattr(scipy, name)(x.astype(float)), rtol=2e-5, atol=1e-6)


def test_pairs_of_integrals() -> None:
    x = np.concatenate([np.geomspace(1e-6, 25, 120), ENDS])
    x = np.concatenate([x, -x])
    for found, expected in zip(special.fresnel(x), scipy.fresnel(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=2e-13)
    for found, expected in zip(special.sici(x), scipy.sici(np.abs(x)), strict=True):
        np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-12, atol=1e-14)
    assert float(special.sici(-2.0)[0]) == -float(special.sici(2.0)[0])
    assert float(special.sici(-2.0)[1]) == float(special.sici(2.0)[1])


def test_faddeevas_function_in_all_quadrants() -> None:
    x, y = np.meshgrid(np.linspace(-12, 12, 41), np.linspace(-3, 12, 31))
    z = (x + 1j * y).ravel()
    expected = scipy.wofz(z)
    found = special.wofz(z)
    np.testing.assert_allclose(
        np.abs(found - expected) / np.abs(expected), 0 * x.ravel(), atol=3e-12
    )
    single = special.wofz(z.astype(np.complex64)[y.ravel() >= 0])
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, expected[y.ravel() >= 0], atol=2e-5)


def test_bessel_functions_of_integer_orders() -> None:
    z = np.concatenate([np.linspace(-25, 25, 61), [0.0, 1e-9]])
    found = special.bessel_jn(z, v=6)
    expected = [scipy.jv(order, z) for order in range(7)]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=2e-14)


def test_spherical_harmonics() -> None:
    n, m = np.meshgrid(np.arange(7), np.arange(-7, 8))
    theta, phi = (
        np.linspace(0.1, 3, n.size).reshape(n.shape),
        np.linspace(-3, 6, n.size).reshape(n.shape),
    )
    with np.errstate(all="ignore"):
        expected = np.where(np.abs(m) > n, 0, scipy.sph_harm_y(n, m, theta, phi))
    np.testing.assert_allclose(special.sph_harm_y(n, m, theta, phi), expected, atol=1e-13)
    with pytest.raises(InputError, match="n_max"):
        rlx.jit(special.sph_harm_y)(n, m, theta, phi)
    with pytest.raises(InputError, match="diff_n"):
        special.sph_harm_y(1, 0, 0.1, 0.2, diff_n=1)


@pytest.mark.parametrize(
    "name", ["expi", "spence", "dawsn", "erfcx", "sici", "fresnel", "hyp1f1", "owens_t"]
)
def test_slopes_are_those_of_differences(name: str) -> None:
    x, h = np.array([0.3, 1.0, 1.7, 5.0]), 1e-6
    first = {"hyp1f1": (0.7, 1.3), "owens_t": (0.6,)}.get(name, ())

    def total(x: Any) -> Any:
        found = getattr(special, name)(*first, x)
        return rnp.stack(found) if isinstance(found, tuple) else found

    _, slope = rlx.jvp(total, (x,), (np.ones_like(x),))
    expected = (np.asarray(total(x + h)) - np.asarray(total(x - h))) / (2 * h)
    np.testing.assert_allclose(slope, expected, rtol=2e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["spence", "sici"])
def test_compiled_functions_are_the_same(name: str) -> None:
    x = np.geomspace(0.01, 30, 40)
    found = rlx.jit(getattr(special, name))(x)
    np.testing.assert_allclose(found, getattr(special, name)(x), rtol=1e-13)
