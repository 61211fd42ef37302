"""Function transformations, alone and composed, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rlx
import rlx.nn as nn
import rlx.numpy as rnp

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = pytest.importorskip("jax.numpy")

RNG = np.random.default_rng(3)
W, X, B = RNG.standard_normal((3, 3)), RNG.standard_normal((5, 3)), RNG.standard_normal(3)


def loss(np_: Any, w: Any, x: Any) -> Any:
    return np_.mean(np_.tanh(x @ w) ** 2 + np_.sin(w[0, :2] * w[1, 1:]).sum())


def assert_close(given_: Any, expected: Any) -> None:
    leaves, others = rlx.tree_leaves(given_), rlx.tree_leaves(expected)
    for one, other in zip(leaves, others, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-9, atol=1e-11)


Composed = Callable[[Any, Any], Any]
"""Takes a library of transformations and its numpy; gives a function of (w, x)."""
COMPOSITIONS: dict[str, Composed] = {
    "grad": lambda t, n: t.grad(lambda w, x: loss(n, w, x)),
    "grad by both": lambda t, n: t.grad(lambda w, x: loss(n, w, x), argnums=(0, 1)),
    "grad by the last": lambda t, n: t.grad(lambda w, x: loss(n, w, x), argnums=-1),
    "value and grad with aux": lambda t, n: t.value_and_grad(
        lambda w, x: (loss(n, w, x), {"sum": n.sum(x)}), has_aux=True
    ),
    "grad of grad": lambda t, n: t.grad(lambda w, x: t.grad(lambda v: loss(n, v, x))(w).sum()),
    "jvp": lambda t, n: lambda w, x: t.jvp(lambda v: n.exp(x @ v), (w,), (w * 2.0,)),
    "jvp of grad": lambda t, n: lambda w, x: t.jvp(t.grad(lambda v: loss(n, v, x)), (w,), (w * w,)),
    "vjp": lambda t, n: lambda w, x: t.vjp(lambda v, y: y @ v, w, x)[1](n.ones((5, 3))),
    "vmap": lambda t, n: t.vmap(lambda w, x: loss(n, w, x), in_axes=(None, 0)),
    "vmap over two": lambda t, n: lambda w, x: t.vmap(lambda a, b: a * b + B)(w, w.T),
    "vmap to the last axis": lambda t, n: lambda w, x: t.vmap(lambda r: n.cumsum(r), 1, -1)(x),
    "vmap of grad": lambda t, n: t.vmap(t.grad(lambda w, x: loss(n, w, x)), in_axes=(None, 0)),
    "grad of vmap": lambda t, n: t.grad(
        lambda w, x: n.sum(t.vmap(lambda r: n.tanh(w @ r))(x) ** 2)
    ),
    "vmap of vmap": lambda t, n: (
        lambda w, x: t.vmap(lambda r: t.vmap(lambda c: n.sum(r * c), in_axes=1)(w))(x)
    ),
    "hessian": lambda t, n: lambda w, x: t.hessian(lambda b: loss(n, w * b, x))(w[0]),
    "jacfwd": lambda t, n: lambda w, x: t.jacfwd(lambda v: n.tanh(w @ v))(x[0]),
    "jacrev": lambda t, n: lambda w, x: t.jacrev(lambda v: n.tanh(w @ v))(x[0]),
    "jacrev of a matrix": lambda t, n: lambda w, x: t.jacrev(lambda v: v @ v)(w),
    "jacfwd of trees": lambda t, n: (
        lambda w, x: t.jacfwd(lambda p: {"y": p["a"] * n.sum(p["b"]), "z": p["b"] ** 2})(
            {"a": w[0], "b": x[0, :2]}
        )
    ),
    "jacrev by several": lambda t, n: t.jacrev(lambda w, x: n.tanh(w @ x[0]), argnums=(0, 1)),
    "jacfwd by several": lambda t, n: t.jacfwd(lambda w, x: n.tanh(w @ x[0]), argnums=(1, 0)),
    "jacfwd with aux": lambda t, n: (
        lambda w, x: t.jacfwd(lambda v: (n.tanh(w @ v), v * 2), has_aux=True)(x[0])
    ),
    "hessian by several": lambda t, n: (
        lambda w, x: t.hessian(lambda a, b: n.sum(n.tanh(a * b)), argnums=(0, 1))(x[0], w[0])
    ),
    "jacrev of trees": lambda t, n: (
        lambda w, x: t.jacrev(lambda p: {"y": p["a"] * n.sum(p["b"]), "z": p["b"] ** 2})(
            {"a": w[0], "b": x[0, :2]}
        )
    ),
    "checkpoint": lambda t, n: t.grad(t.checkpoint(lambda w, x: n.sum(n.sin(n.sin(x @ w)) * w[0]))),
    "grad through a closure": lambda t, n: (
        lambda w, x: t.grad(lambda s: n.sum(t.grad(lambda v: n.sum(v**3 * s * w[0]))(x[0])))(
            w[1, 1]
        )
    ),
    "vmap of checkpoint of grad": lambda t, n: (
        lambda w, x: t.vmap(lambda r: t.checkpoint(t.grad(lambda v: n.sum(n.exp(v) * (w @ r))))(r))(
            x
        )
    ),
    "indexed updates": lambda t, n: t.grad(
        lambda w, x: n.sum(w.at[1].set(x[0] ** 2).at[:, 0].add(w[:, 1]) ** 2)
    ),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions_agree_with_jax(name: str) -> None:
    expected = COMPOSITIONS[name](jax, jnp)(jnp.asarray(W), jnp.asarray(X))
    ours = COMPOSITIONS[name](rlx, rnp)
    assert_close(rlx.jit(ours, backend="reference")(W, X), expected)


@pytest.mark.parametrize("name", ["grad", "vmap of grad", "hessian", "indexed updates"])
def test_native_code_agrees_with_jax(name: str) -> None:
    expected = COMPOSITIONS[name](jax, jnp)(jnp.asarray(W), jnp.asarray(X))
    assert_close(rlx.jit(COMPOSITIONS[name](rlx, rnp), threads=1)(W, X), expected)


@pytest.mark.parametrize("name", ["grad", "grad of grad", "value and grad with aux"])
def test_transformations_run_without_jit(name: str) -> None:
    expected = COMPOSITIONS[name](jax, jnp)(jnp.asarray(W), jnp.asarray(X))
    assert_close(COMPOSITIONS[name](rlx, rnp)(W, X), expected)


# Random programs

STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda n, x: n.sin(x),
    "tanh": lambda n, x: n.tanh(x * 0.5),
    "square": lambda n, x: x * x * 0.3,
    "scale": lambda n, x: x * n.sum(x),
    "shift": lambda n, x: x[::-1] + 1.0,
    "matmul": lambda n, x: W @ x,
    "center": lambda n, x: x - n.mean(x),
    "softmax": lambda n, x: n.exp(x * 0.1) / n.sum(n.exp(x * 0.1)),
    "roll": lambda n, x: n.concatenate([x[1:], x[:1]]) * x,
    "where": lambda n, x: n.where(x > 0, x, 0.1 * x),
}


def program(n: Any, steps: list[str]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for step in steps:
            x = STEPS[step](n, x)
        return x

    return function


def transform(t: Any, n: Any, kinds: list[str], function: Callable[[Any], Any]) -> Any:
    """Apply transformations that keep vectors of 3 what they are."""
    for kind in kinds:
        function = {"grad": _grad, "jvp": _jvp, "vmap": _vmap}[kind](t, n, function)
    return function


def _grad(t: Any, n: Any, function: Any) -> Any:
    return t.grad(lambda x: n.sum(function(x)))


def _jvp(t: Any, n: Any, function: Any) -> Any:
    return lambda x: t.jvp(function, (x,), (n.cos(x),))[1]


def _vmap(t: Any, n: Any, function: Any) -> Any:
    return lambda x: n.sum(t.vmap(function)(n.outer(x, x)), 0)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
    kinds=st.lists(st.sampled_from(["grad", "jvp", "vmap"]), min_size=1, max_size=3),
)
def test_random_compositions_agree_with_jax(steps: list[str], kinds: list[str]) -> None:
    x = np.array([0.3, -0.7, 0.9])
    expected = transform(jax, jnp, kinds, program(jnp, steps))(jnp.asarray(x))
    ours = transform(rlx, rnp, kinds, program(rnp, steps))
    given_ = rlx.jit(ours, backend="reference")(x)
    np.testing.assert_allclose(given_, np.asarray(expected), rtol=1e-8, atol=1e-9)


def test_attention_and_norms_have_the_gradients_of_jax() -> None:
    q = RNG.standard_normal((2, 4, 2, 3))

    def ours(x: Any) -> Any:
        return rnp.sum(nn.dot_product_attention(x, x * 2.0, x + 1.0, is_causal=True) ** 2)

    def theirs(x: Any) -> Any:
        return jnp.sum(jax.nn.dot_product_attention(x, x * 2.0, x + 1.0, is_causal=True) ** 2)

    # JAX computes the scores in f32.
    np.testing.assert_allclose(
        rlx.grad(ours)(q), np.asarray(jax.grad(theirs)(q)), rtol=2e-5, atol=2e-5
    )
