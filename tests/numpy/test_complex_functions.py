"""Complex numbers against NumPy: functions, products, folds, special values, derivatives, C."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp

Array = NDArray[Any]
NAMES = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh",
         "arccosh", "arctanh", "expm1", "log1p", "exp2", "log2")  # fmt: skip
PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-9, 30.0, -700.0, 1e200, np.inf, -np.inf, np.nan)
UNSTATED = {("cos", np.inf, 0.0), ("cosh", 0.0, np.inf), ("expm1", np.inf, np.inf),
            ("exp2", np.inf, np.inf)}  # fmt: skip
"""Sizes of parts for which the standard leaves the sign of a zero open."""


def pairs() -> Array:
    """Return all numbers of two `PARTS`; `complex(re, im)` keeps signs and NaNs apart."""
    return np.array([complex(re, im) for re, im in itertools.product(PARTS, PARTS)])


def drawn(count: int = 300) -> Array:
    r = np.random.default_rng(4)
    sizes = 10 ** r.uniform(-3, 1.4, count)
    return np.asarray((r.normal(size=count) + 1j * r.normal(size=count)) * sizes)


@pytest.fixture(scope="module", params=["llvm", "c"])
def functions(request: pytest.FixtureRequest) -> Any:
    """All functions, compiled as one."""
    return rlx.jit(lambda z: [getattr(rnp, name)(z) for name in NAMES], backend=request.param)


def of_numpy(z: Array) -> list[Array]:
    with np.errstate(all="ignore"):
        found = {name: getattr(np, name)(z) for name in NAMES}
        # NumPy's has NaN where the standard has 0 next to an infinity
        ends = np.exp(z)
        ends.real -= 1
        usual = np.isfinite(z) & (abs(z) < 700)
        found["expm1"] = np.where(usual, found["expm1"], ends)
        # and loses the digits of small numbers
        small = (abs(z.real) < 0.4) & (abs(z.imag) < 0.4)
        size = np.log1p(z.real * (2 + z.real) + z.imag**2) / 2
        found["log1p"].real = np.where(small, size, found["log1p"].real)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.whole
def test_functions_are_numpys(functions: Any) -> None:
    z = drawn()
    for name, found, expected in zip(NAMES, functions(z), of_numpy(z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13, err_msg=name)
    narrow = z.astype(np.complex64)
    wide = of_numpy(narrow.astype(complex))
    for name, found, expected in zip(NAMES, functions(narrow), wide, strict=True):
        assert np.asarray(found).dtype == np.complex64
        np.testing.assert_allclose(found, expected, rtol=3e-7, err_msg=name)


@pytest.mark.parametrize("functions", ["llvm", "c", "reference"], indirect=True)
def test_special_values_are_numpys(functions: Any) -> None:
    """Of the standard's cases; the sign of a zero next to a NaN operand is left open by it."""
    z = pairs()
    clear = ~(np.isnan(z.real) | np.isnan(z.imag))
    for name, found, expected in zip(NAMES, functions(z), of_numpy(z), strict=True):
        for part in ("real", "imag"):
            own, theirs = (getattr(np.asarray(x), part) for x in (found, expected))
            directionless = np.isinf(theirs) & np.isnan(expected)  # of either sign
            own, theirs = (np.where(directionless, abs(x), x) for x in (own, theirs))
            np.testing.assert_allclose(own, theirs, rtol=1e-13, err_msg=name)
            for at in np.flatnonzero(clear & (theirs == 0)):
                if (name, abs(z.real[at]), abs(z.imag[at])) not in UNSTATED:
                    assert np.signbit(own[at]) == np.signbit(theirs[at]), (name, z[at])


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_differences(name: str) -> None:
    z, step = drawn(40), 1e-6
    z = z[abs(z) < 5]
    _, found = rlx.jvp(getattr(rnp, name), (z,), (np.ones_like(z),))
    function = getattr(np, name)
    expected = (function(z + step) - function(z - step)) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * abs(expected).max())
    gradient = rlx.grad(lambda z: rnp.sum(rnp.real(getattr(rnp, name)(z))))(z)
    np.testing.assert_allclose(gradient, found, rtol=1e-12)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_powers(backend: str) -> None:
    a, b = drawn(50), drawn(100)[50:]
    a, b = a / abs(a) * np.sqrt(abs(a)), b / abs(b)
    with np.errstate(all="ignore"):
        zeros = np.zeros(4, complex), np.array([0, 2, 1j, -1])
        a, b = np.concatenate([a, zeros[0]]), np.concatenate([b, zeros[1]])
        found, expected = rlx.jit(rnp.power, backend=backend)(a, b), a**b
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    a, b = a[:50], b[:50]
    by_base, by_exponent = (
        rlx.jvp(rnp.power, (a, b), tangent)[1]
        for tangent in ((np.ones_like(a), 0 * b), (0 * a, np.ones_like(b)))
    )
    np.testing.assert_allclose(by_base, b * a ** (b - 1), rtol=1e-11)
    np.testing.assert_allclose(by_exponent, np.log(a) * a**b, rtol=1e-11)


def test_signs_roundings_and_roots() -> None:
    z = np.append(drawn(20), 0)
    np.testing.assert_allclose(rnp.sign(z), np.sign(z), rtol=1e-14)
    np.testing.assert_array_equal(rnp.round(z, 1), np.round(z, 1))
    np.testing.assert_allclose(rnp.sinc(z[:5]), np.sinc(z[:5]), rtol=1e-12)
    np.testing.assert_allclose(rlx.lax.rsqrt(z[:20]), 1 / np.sqrt(z[:20]), rtol=1e-14)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_exponentials_that_overflow_themselves_times_small_numbers(backend: str) -> None:
    """The part next to a right angle is finite, where the exponential is not."""
    z = np.array([711 + 1.5707963j, 740 + 1.5707963267948966j, -720 + 1.57079632679j])
    with np.errstate(all="ignore"):
        cosine = np.exp(abs(z.real) - 100) * np.cos(z.imag) * np.exp(100)
    sinh, cosh, exp = rlx.jit(lambda z: (rnp.sinh(z), rnp.cosh(z), rnp.exp(z)), backend=backend)(z)
    np.testing.assert_allclose(sinh.real, np.sign(z.real) * cosine / 2, rtol=1e-13)
    np.testing.assert_allclose(cosh.real, cosine / 2, rtol=1e-13)
    np.testing.assert_allclose(exp.real[:2], cosine[:2], rtol=1e-13)
    narrow = np.array([90 + 1.5707963j], np.complex64)
    found = rlx.jit(rnp.exp, backend=backend)(narrow)
    np.testing.assert_allclose(found.real, np.exp(narrow.astype(complex)).real, rtol=1e-6)


RNG = np.random.default_rng(5)
Z = RNG.standard_normal((4, 6)) + 1j * RNG.standard_normal((4, 6))
W = RNG.standard_normal((4, 6)) + 1j * RNG.standard_normal((4, 6))
X = RNG.standard_normal((4, 6))

USES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "arithmetic": lambda n, z, w, x: (z + w * z - w / z, z * x, x + 1j, z**3),
    "functions": lambda n, z, w, x: (n.exp(z), n.log(z), n.sqrt(z), n.abs(z), n.angle(z)),
    "parts": lambda n, z, w, x: (n.real(z), n.imag(z), n.conj(z), n.square(z), n.reciprocal(z)),
    "products": lambda n, z, w, x: (z @ w.T, n.matmul(z, x.T), n.vdot(z, w), n.outer(z[0], w[0])),
    "folds": lambda n, z, w, x: (n.sum(z, 0), n.mean(z, 1), n.prod(z, 1), n.cumsum(z, 1)),
    "moves": lambda n, z, w, x: (z[::-1, 1:4], n.concatenate([z, w]), n.roll(z, 2, 1), z.T),
    "choices": lambda n, z, w, x: (n.where(x > 0, z, w), z == w, n.isfinite(z), z[:, [3, 0]]),
    "large": lambda n, z, w, x: (n.abs(z * 1e200), n.sqrt(z * 1e-300), z * 1e300 / (w * 1e300)),
}


SLOW = {"functions", "large"}  # to compile


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in USES]
)
def test_complex128_is_numpys(name: str) -> None:
    expected = rlx.tree_leaves(USES[name](np, Z, W, X))
    at_once = rlx.tree_leaves(USES[name](rnp, rnp.asarray(Z), rnp.asarray(W), rnp.asarray(X)))
    run = rlx.jit(lambda z, w, x: USES[name](rnp, z, w, x))
    for found in (at_once, rlx.tree_leaves(run(Z, W, X))):
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


def test_the_gradient_of_a_square_is_twice_the_conjugate() -> None:
    found = rlx.jit(rlx.grad(lambda z: rnp.sum(rnp.real(z * rnp.conj(z)))))(Z)
    np.testing.assert_allclose(found, 2 * np.conj(Z), rtol=1e-15)
    assert found.dtype == np.complex128


def test_real_and_complex_numbers_of_64_bits_convert() -> None:
    assert rlx.jit(lambda z: z.astype("c64"))(Z).dtype == np.complex64
    np.testing.assert_array_equal(rlx.jit(lambda z: z.astype("f32"))(Z), Z.real.astype("f4"))
    np.testing.assert_array_equal(rlx.jit(lambda x: x.astype(complex))(X), X.astype(complex))


def test_magnitudes_of_complex64_do_not_overflow() -> None:
    np.testing.assert_allclose(rnp.abs(np.array([3e20 + 4e20j], np.complex64)), 5e20, rtol=1e-6)
