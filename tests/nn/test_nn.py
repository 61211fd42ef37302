"""`rlx.nn` against JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.nn as nn
from rlx.errors import ShapeError

X = np.random.default_rng(0).standard_normal((4, 5))
ACTIVATIONS = (
    "relu", "relu6", "gelu", "silu", "sigmoid", "log_sigmoid", "tanh", "softplus", "elu", "selu",
    "leaky_relu", "mish", "hard_sigmoid", "hard_swish", "soft_sign", "softmax", "log_softmax",
    "logsumexp",
)  # fmt: skip


@pytest.fixture(scope="module")
def jax() -> Any:
    module = pytest.importorskip("jax")
    module.config.update("jax_enable_x64", True)
    return module


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_gradients_are_those_of_jax(name: str, jax: Any) -> None:
    ours, theirs = getattr(nn, name), getattr(jax.nn, name)
    np.testing.assert_allclose(ours(X), np.asarray(theirs(X)), rtol=1e-12, atol=1e-14)
    gradient = jax.grad(lambda x: (theirs(x) ** 2).sum())(X)
    given = rlx.grad(lambda x: (ours(x) ** 2).sum())(X)
    np.testing.assert_allclose(given, np.asarray(gradient), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_rows_without_elements_have_results_without_elements(name: str, backend: str) -> None:
    """As in JAX and PyTorch."""
    function = getattr(nn, name)
    for axis in (0, 1, -1, (0, 1)):
        x = np.zeros((3, 0) if axis != 0 else (0, 3), np.float32)
        found = rlx.jit(lambda x, axis=axis: function(x, axis), backend=backend)(x)
        assert (found.shape, found.dtype) == (x.shape, np.float32)
        slope = rlx.jit(rlx.grad(lambda x, axis=axis: function(x, axis).sum()), backend=backend)(x)
        assert slope.shape == x.shape
    with pytest.raises(ShapeError, match=f"{name}: axis 2 is out of range"):
        function(np.zeros((3, 0), np.float32), 2)


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
@pytest.mark.parametrize("name", ["leaky_relu", "elu"])
def test_a_slope_below_zero_may_be_learned(name: str, backend: str) -> None:
    function = getattr(nn, name)
    x = np.array([-200.0, -1.5, -0.0, 0.0, 2.0, 800.0])
    both = rlx.jit(rlx.grad(lambda x, s: function(x, s).sum(), argnums=(0, 1)), backend=backend)
    slopes, of_slope = both(x, np.array(0.25))
    np.testing.assert_allclose(slopes, rlx.grad(lambda x: function(x, 0.25).sum())(x), rtol=1e-14)
    below = np.where(x > 0, 0, x if name == "leaky_relu" else np.expm1(np.minimum(x, 0)))
    np.testing.assert_allclose(of_slope, below.sum(), rtol=1e-14)
    assert function(x, np.array([[1.0], [2.0]])).shape == (2, 6)


@pytest.mark.parametrize("axis", [2, -3, (0, 2)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_an_axis_that_is_not_there_is_an_error(name: str, axis: Any) -> None:
    with pytest.raises(ShapeError, match="is out of range for rank 2"):
        getattr(nn, name)(np.ones((2, 3), np.float32), axis)


def test_one_hot_is_that_of_jax(jax: Any) -> None:
    labels = np.array([2, 0, 7])
    np.testing.assert_array_equal(nn.one_hot(labels, 5), np.asarray(jax.nn.one_hot(labels, 5)))


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_attention_is_that_of_jax(options: dict[str, Any], jax: Any) -> None:
    q, k, v = (np.random.default_rng(i).standard_normal((2, 4, 2, 3)) for i in range(3))
    expected = jax.nn.dot_product_attention(q, k, v, **options)
    # JAX computes the scores in f32.
    given = nn.dot_product_attention(q, k, v, **options)
    np.testing.assert_allclose(given, np.asarray(expected), rtol=1e-5, atol=1e-6)


def test_attention_with_bias_and_mask_is_that_of_jax(jax: Any) -> None:
    generator = np.random.default_rng(5)
    q, k, v = (generator.standard_normal((2, 4, 2, 3)) for _ in range(3))
    bias, mask = generator.standard_normal((2, 2, 4, 4)), generator.random((2, 1, 4, 4)) < 0.8
    mask[..., 0] = True
    for given in ({"bias": bias}, {"mask": mask}, {"bias": bias, "mask": mask}):
        expected = jax.nn.dot_product_attention(q, k, v, **given)
        result = nn.dot_product_attention(q, k, v, **given)
        np.testing.assert_allclose(result, np.asarray(expected), rtol=1e-5, atol=1e-6)


def test_cross_entropy_takes_labels_and_probabilities() -> None:
    labels = np.array([0, 4, 2, 1])
    shifted = X - X.max(1, keepdims=True)
    expected = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(4), labels]
    np.testing.assert_allclose(nn.softmax_cross_entropy(X, labels), expected, rtol=1e-12)
    one_hot = np.eye(5)[labels]
    np.testing.assert_allclose(nn.softmax_cross_entropy(X, one_hot), expected, rtol=1e-12)


def test_the_cross_entropy_of_masked_classes_has_derivatives_of_both_modes() -> None:
    logits, along = np.array([1.0, 2.0, -np.inf]), np.array([1.0, 0.5, 0.0])

    def loss(x: Any) -> Any:
        return nn.softmax_cross_entropy(x, np.array(0))

    p = np.exp(logits) / np.exp(logits).sum()
    for backend in ("llvm", "c", "reference"):
        call = rlx.jit(lambda x: rlx.jvp(rlx.value_and_grad(loss), (x,), (along,)), backend=backend)
        (value, slope), (change, bend) = call(logits)
        np.testing.assert_allclose(value, -np.log(p[0]))
        np.testing.assert_allclose(slope, p - [1, 0, 0], atol=1e-15)
        np.testing.assert_allclose(change, (p - [1, 0, 0]) @ along)
        np.testing.assert_allclose(bend, p * (along - p @ along), atol=1e-15)


def test_norms_center_and_scale() -> None:
    ones, zeros = np.ones(5), np.zeros(5)
    expected = (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.layer_norm(X, ones, zeros), expected, rtol=1e-12)
    root = np.sqrt((X * X).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(nn.rms_norm(X, ones), X / root, rtol=1e-12)


def test_losses_have_their_formulas() -> None:
    y = np.zeros_like(X)
    np.testing.assert_allclose(nn.mean_squared_error(X, y), (X * X).mean())
    huber = np.where(np.abs(X) < 1, X * X / 2, np.abs(X) - 0.5)
    np.testing.assert_allclose(nn.huber(X, y), huber)
    probability = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(nn.sigmoid_cross_entropy(X, y), -np.log(1 - probability))


def test_the_slope_of_huber_is_bounded_by_delta() -> None:
    errors = np.array([np.inf, -np.inf, 0.5, 1.0, 2.0, np.nan], np.float32)
    slopes = rlx.vmap(rlx.grad(lambda x: nn.huber(x, 0.0)))(errors)
    np.testing.assert_array_equal(slopes, np.clip(errors, -1, 1))


def test_embedding_takes_rows_and_dropout_scales() -> None:
    np.testing.assert_array_equal(nn.embedding(X, np.array([[1, 0]])), X[[[1, 0]]])
    mask = X > 0
    np.testing.assert_allclose(nn.dropout(X, mask, 0.5), np.where(mask, X * 2, 0))


def test_initializers_have_the_variance_they_promise() -> None:
    shape, fan_in, fan_out = (300, 200), 300, 200
    wanted = {
        "he_normal": 2 / fan_in,
        "he_uniform": 2 / fan_in,
        "glorot_normal": 2 / (fan_in + fan_out),
        "glorot_uniform": 2 / (fan_in + fan_out),
    }
    for name, variance in wanted.items():
        drawn = getattr(nn.initializers, name)(1, shape)
        assert drawn.dtype == np.float32
        assert abs(drawn.var() / variance - 1) < 0.02
        np.testing.assert_array_equal(drawn, getattr(nn.initializers, name)(1, shape))


@pytest.mark.slow
def test_activations_of_complex_numbers_are_their_formulas() -> None:
    z = np.array([[1 + 2j, -0.5j, 3 + 4j], [-2 + 9j, 800 - 1j, -800 + 1j]])
    with np.errstate(all="ignore"):
        near = np.where(abs(z.real) < 700, z, 0)
        sigmoid = np.where(z.real > 700, 1, np.where(z.real < -700, 0, 1 / (1 + np.exp(-near))))
        softplus = np.where(z.real > 700, z, np.log(1 + np.exp(near)) * (z.real > -700))
    sums = np.log(np.exp(z - z.real.max(-1, keepdims=True)).sum(-1)) + z.real.max(-1)
    expected = {
        "sigmoid": sigmoid, "silu": z * sigmoid, "softplus": softplus,
        "mish": z * np.tanh(softplus), "log_softmax": z - sums[:, None],
        "softmax": np.exp(z - sums[:, None]),
    }  # fmt: skip
    for name, values in expected.items():
        for function in (getattr(nn, name), rlx.jit(getattr(nn, name))):
            np.testing.assert_allclose(function(z), values, rtol=1e-12, atol=1e-15, err_msg=name)
    np.testing.assert_allclose(nn.logsumexp(z, -1), sums, rtol=1e-13)
    np.testing.assert_allclose(nn.logsumexp(z), np.log(np.exp(z - 800).sum()) + 800, rtol=1e-13)
    with pytest.raises(TypeError, match="relu"):
        nn.relu(z)


def test_relu_of_booleans_counts_them() -> None:
    found = np.asarray(nn.relu(np.array([True, False])))
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [1, 0])
