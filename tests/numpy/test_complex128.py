"""complex128 compared with NumPy: arithmetic, functions, products, folds, derivatives, C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

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
