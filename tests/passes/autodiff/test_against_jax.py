"""Gradients and Hessian products compared with JAX's, on shapes and values that stress the rules.

Left out: the points where rlx deliberately differs (abs, sqrt and rsqrt at 0,
round, the derivative of `a^0` at 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from tests.passes.autodiff.checking import (
    Array,
    Case,
    gradients,
    hessian_product_forward,
    tensors,
)

jax = pytest.importorskip("jax")
jnp = jax.numpy
pytestmark = pytest.mark.slow  # JAX compiles every operation at every shape


@pytest.fixture(autouse=True)
def _double_precision() -> Any:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


@dataclass(frozen=True)
class Pair:
    """The same function twice: on rlx values and on JAX arrays."""

    name: str
    ours: Any
    theirs: Any
    arrays: tuple[Array, ...]


def total(x: Any) -> Any:
    """Weigh the elements differently, so that their cotangents differ."""
    weights = np.cos(np.arange(int(np.prod(x.shape)), dtype=float)).reshape(x.shape)
    if hasattr(x, "graph"):
        return ops.reduce_sum(x * x.graph.constant(weights), axes=tuple(range(x.rank)))
    return jnp.sum(x * weights)


def pair(name: str, ours: Any, theirs: Any, *shapes: tuple[int, ...]) -> Pair:
    return Pair(name, ours, theirs, tensors(len(name), *shapes))


def at(name: str, ours: Any, theirs: Any, *points: Any) -> Pair:
    return Pair(name, ours, theirs, tuple(np.array(point, float) for point in points))


def attend(q: Any, k: Any, v: Any) -> Any:
    scores = q @ jnp.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    seen = np.tril(np.ones(scores.shape[-2:], bool))
    return jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1) @ v


def normalized(x: Any, gamma: Any, beta: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered / jnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


PAIRS = [
    pair("mul broadcasts both ways", lambda a, b: a * b, lambda a, b: a * b, (3, 1), (1, 4)),
    pair("div by a scalar", lambda a, b: a / b, lambda a, b: a / b, (2, 3), ()),
    pair(
        "sub of size one", lambda a, b: (a - b) ** 3.0, lambda a, b: (a - b) ** 3, (1, 1), (2, 1, 3)
    ),
    pair("empty", lambda a, b: ops.sin(a) * b, lambda a, b: jnp.sin(a) * b, (0, 3), (1, 3)),
    pair(
        "matmul", lambda a, b: ops.sin(a @ b), lambda a, b: jnp.sin(a @ b), (2, 1, 3, 2), (4, 2, 3)
    ),
    pair("gelu", ops.gelu, lambda x: jax.nn.gelu(x, approximate=False), (7,)),
    pair("gelu approx", ops.gelu_approx, lambda x: jax.nn.gelu(x, approximate=True), (7,)),
    pair("silu", ops.silu, jax.nn.silu, (7,)),
    pair("mish", ops.mish, jax.nn.mish, (7,)),
    pair(
        "softmax", lambda x: ops.softmax(x, axis=1), lambda x: jax.nn.softmax(x, axis=1), (2, 3, 2)
    ),
    pair(
        "log_softmax",
        lambda x: ops.log_softmax(x, axis=-1),
        lambda x: jax.nn.log_softmax(x, axis=-1),
        (3, 1),
    ),
    pair(
        "logsumexp",
        lambda x: ops.logsumexp(x, axes=(0, 2)),
        lambda x: jax.scipy.special.logsumexp(x, axis=(0, 2)),
        (2, 3, 2),
    ),
    pair(
        "layer_norm",
        lambda *xs: ops.layer_norm(*xs, axis=-1, eps=1e-5),
        normalized,
        (2, 3, 4),
        (4,),
        (4,),
    ),
    pair(
        "attention",
        lambda q, k, v: ops.attention(q, k, v, num_heads=2, head_dim=3, mask_kind="causal"),
        attend,
        *((1, 2, 3, 3),) * 3,
    ),
    pair(
        "cumsum",
        lambda x: ops.cumsum(ops.sin(x), axis=0, exclusive=False, reverse=True),
        lambda x: jnp.flip(jnp.cumsum(jnp.flip(jnp.sin(x), 0), 0), 0),
        (4, 2),
    ),
    pair(
        "prod",
        lambda x: ops.reduce_prod(x, axes=(0, 2)),
        lambda x: jnp.prod(x, axis=(0, 2)),
        (2, 2, 3),
    ),
    pair(
        "strided",
        lambda x: ops.slice(x * x, start=(1,), stop=(6,), step=(2,)),
        lambda x: (x * x)[1:6:2],
        (7,),
    ),
    at("prod with zeros", lambda x: ops.reduce_prod(x, axes=(0,)), jnp.prod, [2, 0, 3, 0]),
    at("tied maximum", ops.maximum, jnp.maximum, [1, 2, 3], [1, 3, 2]),
    at("tied minimum", ops.minimum, jnp.minimum, [1, 2, 3], [1, 3, 2]),
    at("tied max", lambda x: ops.reduce_max(x, axes=(0, 1)), jnp.max, [[3, 3], [3, 2]]),
    at(
        "tied min",
        lambda x: ops.reduce_min(x, axes=(1,)),
        lambda x: jnp.min(x, 1),
        [[1, 1], [0, 1]],
    ),
    at("relu at zero", ops.relu, jax.nn.relu, [-1, 0, 1]),
    at("power of zero", lambda a: a**2.0, lambda a: a**2.0, [0, -2]),
    at("power by zero", ops.pow, jnp.power, [2.0, 3.0], [0.0, 2.0]),
    at("saturated tanh", ops.tanh, jnp.tanh, [-40, 0, 40]),
    at("saturated softplus", ops.softplus, jax.nn.softplus, [-40, 0, 40]),
    at("atan2 on the axes", ops.atan2, jnp.arctan2, [0, 1, -1], [1, 0, 0]),
]


@pytest.mark.parametrize("both", PAIRS, ids=lambda both: both.name)
def test_gradient_equals_that_of_jax(both: Pair) -> None:
    case = Case(both.name, lambda *xs: total(both.ours(*xs)), both.arrays)
    ours = gradients(case.graph(), case.feeds, case.wrt)
    theirs = jax.grad(lambda *xs: total(both.theirs(*xs)), argnums=tuple(range(len(ours))))(
        *both.arrays
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)


# At a tie JAX's second derivative depends on how its maximum happens to be written.
@pytest.mark.parametrize(
    "both", [p for p in PAIRS if "tied" not in p.name], ids=lambda both: both.name
)
def test_hessian_product_equals_that_of_jax(both: Pair) -> None:
    case = Case(both.name, lambda *xs: total(both.ours(*xs)), both.arrays)
    moving = dict(zip(case.wrt, (np.ones_like(a) for a in both.arrays), strict=True))
    ours = hessian_product_forward(case.graph(), case.feeds, moving)
    slope = jax.grad(lambda *xs: total(both.theirs(*xs)), argnums=tuple(range(len(ours))))
    _, theirs = jax.jvp(slope, both.arrays, tuple(moving.values()))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)
