"""Every primitive against JAX: values, both derivatives, batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

from tests.jaxpr.primitives import Use, all_uses  # noqa: E402  after JAX is known to be there

USES = {use.name: use for use in all_uses()}


def flat(tree: Any) -> list[Any]:
    return [np.asarray(x) for x in jax.tree_util.tree_leaves(tree)]


def assert_same(found: Any, expected: Any, tolerance: float) -> None:
    """Compare dtypes, shapes and values; NaN and infinities must be in the same places."""
    pairs = list(zip(flat(found), flat(expected), strict=True))
    assert pairs
    for mine, theirs in pairs:
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        wide = "complex128" if mine.dtype.kind == "c" else "float64"
        a, b = mine.astype(wide), theirs.astype(wide)
        narrow = 4e-2 if mine.dtype.itemsize == 2 and mine.dtype.kind in "fV" else 0
        np.testing.assert_allclose(a, b, max(tolerance, narrow), max(tolerance, narrow))


def moving(use: Use) -> list[int]:
    """Return which operands have derivatives."""
    return [i for i, x in enumerate(use.operands) if np.asarray(x).dtype.kind == "f"]


def of_moving(use: Use) -> Any:
    """Return the function of the operands that have derivatives."""
    places = moving(use)

    def function(*xs: Any) -> Any:
        given = list(use.operands)
        for place, x in zip(places, xs, strict=True):
            given[place] = x
        return use.function(*given)

    return function


@pytest.mark.parametrize("name", USES)
def test_values_are_jaxs(name: str) -> None:
    use = USES[name]
    found = rlx.make_graph(rlx.from_jax(use.function))  # traced as a whole before it is run
    found(*use.operands)
    evaluated = rlx.vmap(rlx.from_jax(use.function), in_axes=None, axis_size=1)(*use.operands)
    expected = jax.jit(use.function)(*use.operands)
    assert_same([x[0] for x in flat(evaluated)], expected, use.tolerance)


@pytest.mark.parametrize("name", [name for name, use in USES.items() if use.differentiable])
def test_derivatives_are_jaxs(name: str) -> None:
    use = USES[name]
    function, xs = of_moving(use), [use.operands[i] for i in moving(use)]
    numbers = np.random.default_rng(3)
    tangents = [numbers.standard_normal(np.shape(x)).astype(x.dtype) for x in xs]
    mine = rlx.jvp(rlx.from_jax(function), tuple(xs), tuple(tangents))
    theirs = jax.jvp(function, tuple(xs), tuple(tangents))
    assert_same(mine[1], theirs[1], 10 * use.tolerance)
    cotangents = jax.tree_util.tree_map(
        lambda y: numbers.standard_normal(y.shape).astype(y.dtype), theirs[0]
    )
    pulled = rlx.vjp(rlx.from_jax(function), *xs)[1](cotangents)
    arrays = map(jax.numpy.asarray, xs)  # JAX 0.8 fails at igammac of NumPy's arrays
    assert_same(pulled, jax.vjp(function, *arrays)[1](cotangents), 10 * use.tolerance)


@pytest.mark.parametrize("name", [name for name in USES if "edges" not in name])
def test_batches_are_jaxs(name: str) -> None:
    use = USES[name]
    batches = [np.stack([np.asarray(x)] * 2) for x in use.operands]
    mine = rlx.vmap(rlx.from_jax(use.function))(*batches)
    assert_same(mine, jax.vmap(use.function)(*batches), use.tolerance)
