"""JAX's gradients of complex numbers, and its keywords, compared with JAX and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.jax as ours
import rlx.numpy as rnp
from rlx.ir.reference import evaluate

Z = np.array([1 + 2j, -0.3 + 0.7j])
X = np.array([0.4, -1.2])


def loss(home: Any, z: Any, x: Any) -> Any:
    n = home.numpy
    return n.sum(n.abs(n.sin(z) * x) ** 2) + n.sum(n.real(z) * x)


@pytest.mark.parametrize("home", [ours, rlx])
def test_a_gradient_is_by_parts_of_which_the_imaginary_one_is_negative(home: Any) -> None:
    found = home.grad(lambda z: rnp.sum(rnp.real(z * (3 + 4j))))(Z)
    np.testing.assert_allclose(found, [3 + 4j] * 2)  # df/dx - i df/dy
    assert home.grad(lambda z: rnp.abs(z) ** 2)(1 + 2j) == 2 - 4j
    value, pull = home.vjp(lambda z: z * (3 + 4j), 1 + 2j)
    assert (value, pull(1j)[0]) == (-5 + 10j, 1j * (3 + 4j))
    assert home.linear_transpose(lambda z: z * (3 + 4j), 1j)(2.0 + 0j)[0] == 6 + 8j


def test_gradients_of_graphs_are_by_the_same_convention() -> None:
    graph = rlx.Graph("loss")
    z = graph.input("z", (2,), "c128")
    graph.set_outputs([graph.reduce_sum(graph.complex_norm_sq(z), axes=(0,))])
    feeds: dict[str, Any] = {"z": Z, "d_output": np.float64(1)}
    found = evaluate(rlx.passes.grad(graph, wrt=[z]), feeds)
    np.testing.assert_allclose(found[-1], 2 * np.conj(Z))


def test_a_stated_pullback_is_by_the_same_convention() -> None:
    scaled = rlx.custom_vjp(lambda z: z * 1j)
    scaled.defvjp(lambda z: (z * 1j, None), lambda _, ct: (ct * 1j,))
    for function in (scaled, lambda z: z * 1j):
        found = rlx.grad(lambda z, f=function: rnp.real(f(z) ** 2))(1 + 2j)
        np.testing.assert_allclose(found, -2 * (1 + 2j))


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


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint64"])
def test_the_transpose_of_a_function_of_integers(dtype: str) -> None:
    matrix, x = np.arange(6).reshape(2, 3).astype(dtype), np.ones((3,), dtype)
    back = ours.linear_transpose(lambda x, y: {"a": 3 * x, "b": matrix @ x - y}, x, x[:2])
    ct = {"a": np.arange(3).astype(dtype), "b": np.arange(2).astype(dtype)}
    of_x, of_y = back(ct)
    assert of_x.dtype == of_y.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(of_x, 3 * ct["a"] + matrix.T @ ct["b"])
    np.testing.assert_array_equal(of_y, np.zeros(2, dtype) - ct["b"])


@pytest.mark.parametrize("jacobian", [ours.jacrev, ours.jacfwd])
def test_jacobians_of_holomorphic_functions_are_their_derivatives(jacobian: Any) -> None:
    found = jacobian(rnp.sin, holomorphic=True)(Z)
    np.testing.assert_allclose(found, np.diag(np.cos(Z)), rtol=1e-13)
    with pytest.raises(TypeError, match="pass holomorphic=True"):
        jacobian(rnp.sin)(Z)
    with pytest.raises(TypeError, match="argument has dtype f64"):
        jacobian(rnp.sin, holomorphic=True)(X)


def test_second_derivatives_of_holomorphic_functions() -> None:
    found = ours.hessian(lambda z: rnp.sum(z**3), holomorphic=True)(Z)
    np.testing.assert_allclose(found, np.diag(6 * Z), rtol=1e-13)


def test_a_holomorphic_gradient_is_of_complex_numbers() -> None:
    with pytest.raises(TypeError, match="argument has dtype f64"):
        ours.grad(rnp.sin, holomorphic=True)(1.0)
    with pytest.raises(TypeError, match="result has dtype f64"):
        ours.grad(rnp.abs, holomorphic=True)(1 + 2j)


def test_rows_of_real_results_are_jaxs_gradients() -> None:
    found = ours.jacrev(lambda z: rnp.stack([rnp.real(z[0] * 3j), rnp.abs(z[1])]))(Z)
    np.testing.assert_allclose(found, [[3j, 0], [0, np.conj(Z[1]) / abs(Z[1])]], rtol=1e-13)


def test_rules_of_custom_vjp_take_and_give_jaxs_cotangents() -> None:
    square = ours.custom_vjp(lambda z: z * z)
    square.defvjp(lambda z: (z * z, z), lambda z, g: (2 * z * g,))
    graded = ours.custom_gradient(lambda z: (z * z, lambda g: 2 * z * g))
    cotangent = np.array([1j, 2.0])
    for function in (square, graded):
        np.testing.assert_allclose(ours.vjp(function, Z)[1](cotangent)[0], 2 * Z * cotangent)
        found = ours.grad(lambda z, f=function: rnp.sum(rnp.real(f(z) * cotangent)))(Z)
        np.testing.assert_allclose(found, 2 * Z * cotangent)
