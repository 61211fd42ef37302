"""JAX's convention for gradients of complex numbers, and its keywords, beside JAX and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.jax as ours
import rlx.numpy as rnp

Z = np.array([1 + 2j, -0.3 + 0.7j])
X = np.array([0.4, -1.2])


def loss(home: Any, z: Any, x: Any) -> Any:
    n = home.numpy
    return n.sum(n.abs(n.sin(z) * x) ** 2) + n.sum(n.real(z) * x)


def test_a_gradient_is_twice_the_conjugate_of_rlxs() -> None:
    found = ours.grad(lambda z: rnp.sum(rnp.real(z * (3 + 4j))))(Z)
    np.testing.assert_allclose(found, [3 + 4j] * 2)  # df/dx - i df/dy
    own = rlx.grad(lambda z: rnp.sum(rnp.real(z * (3 + 4j))))(Z)
    np.testing.assert_allclose(found, 2 * np.conj(own))


def test_the_derivative_of_a_holomorphic_function() -> None:
    found = ours.grad(rnp.sin, holomorphic=True)(1 + 2j)
    np.testing.assert_allclose(found, np.cos(1 + 2j), rtol=1e-13)
    value, (slope, by_w) = ours.value_and_grad(
        lambda z, w: (z * z * w, w + 1), argnums=(0, 1), has_aux=True, holomorphic=True
    )(1 + 2j, 3 - 1j)
    assert value[1] == 4 - 1j
    expected = [(1 + 2j) ** 2 * (3 - 1j), 2 * (1 + 2j) * (3 - 1j), (1 + 2j) ** 2]
    np.testing.assert_allclose([value[0], slope, by_w], expected)


def test_keywords_of_linearize_and_vmap() -> None:
    value, tangent, aux = ours.linearize(lambda x: (x**2, x + 1), 3.0, has_aux=True)
    assert (value, tangent(1.0), aux) == (9, 6, 4)
    np.testing.assert_array_equal(ours.vmap(lambda x: 2 * x, spmd_axis_name="data")(X), 2 * X)
    with pytest.raises(rlx.RlxError, match="argnums"):
        ours.grad(lambda n: n * 1.0, allow_int=True)


def test_gradients_and_pullbacks_are_jaxs() -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        theirs = jax.grad(lambda z, x: loss(jax, z, x), (0, 1))(Z, X)
        found = ours.grad(lambda z, x: loss(ours, z, x), (0, 1))(Z, X)
        for own, other in zip(found, theirs, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-12)
        cotangent = np.array([0.3 - 1j, 2 + 0.1j])
        for function in (lambda n, z, x: n.exp(z) * x, lambda n, z, x: n.conj(z) + 1j * x):
            pulled = [
                home.vjp(lambda z, x, f=function, n=home.numpy: f(n, z, x), Z, X)[1](cotangent)
                for home in (ours, jax)
            ]
            for own, other in zip(*pulled, strict=True):
                np.testing.assert_allclose(own, other, rtol=1e-12)


def test_the_transpose_of_a_complex_matrix_has_no_conjugates() -> None:
    a = np.array([[1 + 2j, 3 - 1j], [0.5j, 2]])
    back = ours.linear_transpose(lambda z: a @ z, np.ones(2, complex))
    (found,) = back(np.array([1 - 1j, 2 + 0.5j]))
    np.testing.assert_allclose(found, a.T @ np.array([1 - 1j, 2 + 0.5j]))
