"""Taylor series of functions along curves, against those of polynomials and of JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import Polynomial

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, RlxError, ShapeError
from rlx.transforms.taylor import jet

RNG = np.random.default_rng(11)
X = RNG.standard_normal(3)
W = RNG.standard_normal((3, 3))
SERIES = [RNG.standard_normal(3) for _ in range(5)]
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sine": lambda n, x: n.sin(x) * x,
    "layer": lambda n, x: n.tanh(W @ x),
    "logarithm": lambda n, x: n.log(n.sum(n.exp(x)) + n.sqrt(x * x + 1)),
    "quotients": lambda n, x: {"a": x**3 / (1 + x**2), "b": (n.exp(-x), x)},
}


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_series_are_jaxs(name: str, scaled: bool) -> None:
    theirs = pytest.importorskip("jax.experimental.jet")
    import jax.numpy as jnp

    expected = theirs.jet(
        lambda x: FUNCTIONS[name](jnp, x), (np.float32(X),), ([np.float32(s) for s in SERIES],),
        factorial_scaled=scaled,
    )  # fmt: skip
    found = jet(lambda x: FUNCTIONS[name](rnp, x), (X,), (SERIES,), scaled)
    assert rlx.tree_util.tree_structure(found) == rlx.tree_util.tree_structure(expected)
    pairs = zip(rlx.tree_leaves(found), rlx.tree_leaves(expected), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("order", [1, 2, 6])
def test_the_series_of_a_polynomial_of_a_curve_is_their_composition(order: int) -> None:
    outer, curve = Polynomial([1, -2, 0.5, 3]), Polynomial([0.7, *RNG.standard_normal(order)])
    expected = np.zeros(order + 1)
    coefficients = outer(curve).coef[: order + 1]
    expected[: len(coefficients)] = coefficients

    def f(x: Any) -> Any:
        return 1 - 2 * x + 0.5 * x**2 + 3 * x**3

    value, terms = jet(f, (0.7,), (curve.coef[1:].tolist(),), factorial_scaled=False)
    np.testing.assert_allclose([value, *terms], expected, rtol=1e-12)
    value, terms = jet(
        f, (0.7,), ([c * math.factorial(k) for k, c in enumerate(curve.coef.tolist())][1:],)
    )
    scales = [math.factorial(k) for k in range(order + 1)]
    np.testing.assert_allclose([value, *terms], expected * scales, rtol=1e-12)


def test_several_arguments_move_together() -> None:
    value, terms = jet(lambda x, y: x * y, (2.0, 3.0), ([1.0, 0.5], [4.0, -1.0]))
    np.testing.assert_allclose([value, *terms], [6, 3 + 8, 3 * 0.5 + 2 * 4.0 + 2 * -1.0])


def test_series_compose_with_jit_vmap_and_derivatives() -> None:
    def second(x: Any) -> Any:
        return jet(lambda y: rnp.sum(rnp.sin(y) * y), (x,), ([rnp.ones(3), rnp.zeros(3)],))[1][1]

    def exact(x: Any) -> Any:
        return rnp.sum(2 * rnp.cos(x) - x * rnp.sin(x))

    np.testing.assert_allclose(rlx.jit(second)(X), exact(X), rtol=1e-12)
    rows = np.stack([X, 2 * X])
    np.testing.assert_allclose(rlx.vmap(second)(rows), [exact(x) for x in rows], rtol=1e-12)
    np.testing.assert_allclose(rlx.grad(second)(X), rlx.grad(exact)(X), rtol=1e-12)


def test_equal_parts_of_an_order_are_merged() -> None:
    """Without it, each order doubles the program: 40 more nodes at the least become 1,000."""
    sizes = [
        len(rlx.make_graph(lambda x, s: jet(rnp.tanh, (x,), (s,)))(X, SERIES[:1] * order).nodes)
        for order in (4, 8)
    ]
    assert sizes[1] < 6 * sizes[0]


def test_what_does_not_fit_is_reported() -> None:
    with pytest.raises(ShapeError, match="1 primals, and series of 1, 2 terms"):
        jet(rnp.sin, (X,), ([X], [X, X]))
    with pytest.raises(ShapeError, match=r"shape \(3,\), and a term of its series \(3, 3\)"):
        jet(rnp.sin, (X,), ([W],))
    with pytest.raises(RlxError, match="dtype i64"):
        jet(rnp.sin, (np.arange(3),), ([np.arange(3)],))
    with pytest.raises(InputError, match="no terms"):
        jet(rnp.sin, (X,), ([],))
