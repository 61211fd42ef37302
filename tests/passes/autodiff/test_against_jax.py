"""Gradients and Hessian products compared with JAX's, at ties, zeros and where functions saturate.

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


def at(name: str, ours: Any, theirs: Any, *points: Any) -> Pair:
    return Pair(name, ours, theirs, tuple(np.array(point, float) for point in points))


PAIRS = [
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
