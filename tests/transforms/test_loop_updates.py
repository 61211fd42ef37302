"""`x.at[index]` in loops: one store for each step, not a copy of the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import IndexOutOfRangeError, ShapeError
from rlx.tracing.pytree import tree_flatten
from tests.codegen.counting import stores

Step = Callable[[Any, Any], Any]

ELEMENT: dict[str, Step] = {
    "set": lambda x, i: x.at[i].set(x[i] + 1.0),
    "add": lambda x, i: x.at[i].add(0.5),
    "multiply": lambda x, i: x.at[i].multiply(1.5),
    "divide": lambda x, i: x.at[i].divide(1.5),
    "power": lambda x, i: x.at[i].power(2.0),
    "max": lambda x, i: x.at[i].max(0.2),
    "min": lambda x, i: x.at[i].min(0.2),
    "apply": lambda x, i: x.at[i].apply(rnp.sin),
    "from the element before": lambda x, i: x.at[i].set(0.5 * x[i - 1] + 1.0),
    "two after each other": lambda x, i: x.at[i].set(x[i - 1]).at[i - 1].set(x[i]),
    "a slice": lambda x, i: x.at[3:7].set(x[i]),
    "added to a slice": lambda x, i: x.at[3:7].add(x[i]),
    "an index of one element": lambda x, i: x.at[i.reshape(1)].set(x[i] + 1.0),
}
WIDTH = 80
ROW: dict[str, Step] = {
    "an element": lambda x, i: x.at[i, 3].set(x[i, 4] + 1.0),
    "an element by two indices": lambda x, i: x.at[i, i % WIDTH].multiply(1.5),
    "added to an element": lambda x, i: x.at[i, i % WIDTH].add(1.5),
    "a row": lambda x, i: x.at[i].set(2 * x[i - 1]),
    "added to a row": lambda x, i: x.at[i].add(rnp.arange(float(WIDTH))),
    "a row's maximum": lambda x, i: x.at[i].max(x[i - 1]),
    "part of a row": lambda x, i: x.at[i, 2:9].set(x[i - 1, 1:8]),
    "added to part of a row": lambda x, i: x.at[i, 2:9].add(x[i - 1, 1:8]),
}
STEPS = {**ELEMENT, **{f"{name} of a matrix": step for name, step in ROW.items()}}


def first(name: str, size: int) -> Any:
    shape = (size, WIDTH) if name.endswith("of a matrix") else (size,)
    return np.random.default_rng(0).uniform(0.1, 0.9, shape)


def run(name: str) -> Callable[[Any], Any]:
    return lambda x: rlx.fori_loop(0, x.shape[0], lambda i, x: STEPS[name](x, i), x)


def by_while(name: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        def step(carry: Any) -> Any:
            return carry[0] + 1, STEPS[name](carry[1], carry[0])

        return rlx.while_loop(lambda carry: carry[0] < x.shape[0], step, (0, x))[1]

    return function


def tangents(name: str) -> Callable[[Any], Any]:
    return lambda x: rlx.jvp(run(name), (x,), (rnp.ones_like(x),))


def gradient(name: str) -> Callable[[Any], Any]:
    return rlx.grad(lambda x: (run(name)(x) ** 2).sum())


def batched(name: str) -> Callable[[Any], Any]:
    return lambda x: rlx.vmap(run(name))(rnp.stack([x, 2 * x, 3 * x]))


def batched_places(name: str) -> Callable[[Any], Any]:
    """Every example updates at places of its own."""

    def function(x: Any) -> Any:
        def one(x: Any, shift: Any) -> Any:
            step = lambda i, x: STEPS[name](x, (i + shift) % x.shape[0])  # noqa: E731  (a body)
            return rlx.fori_loop(0, x.shape[0], step, x)

        return rlx.vmap(one)(rnp.stack([x, 2 * x, 3 * x]), np.arange(3))

    return function


USES = {"value": run, "while": by_while, "jvp": tangents, "grad": gradient, "vmap": batched}
USES["vmap over places"] = batched_places


CASES = [
    (name, use)
    for name in STEPS
    for use in USES
    if use != "vmap over places" or "slice" not in name  # a slice has the same place in all
]


@pytest.mark.parametrize(("name", "use"), CASES)
def test_stores_grow_with_the_steps_and_not_with_their_square(name: str, use: str) -> None:
    """Over as many elements or rows as steps: from 2n to 4n as many more as twice from n to 2n."""
    n = 15 if name.endswith("of a matrix") else 100
    sizes = (n, 2 * n, 4 * n)
    few, more, most = (stores(USES[use](name), first(name, n), trips=n) for n in sizes)
    assert most - more == 2 * (more - few)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("name", STEPS)
def test_updates_in_loops_are_what_they_are_in_the_reference(name: str, backend: str) -> None:
    def everything(x: Any) -> Any:
        return [USES[use](name)(x) for use in USES]

    x = first(name, 70)
    expected = tree_flatten(rlx.jit(everything, backend="reference")(x))[0]
    found = tree_flatten(rlx.jit(everything, backend=backend)(x))[0]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in STEPS if "slice" not in name])
def test_an_index_out_of_range_is_an_error_in_loops_and_outside(name: str) -> None:
    def beyond(x: Any) -> Any:
        return rlx.fori_loop(0, x.shape[0], lambda i, x: STEPS[name](x, i + 1), x)

    x = first(name, 70)
    for backend in ("reference", "llvm", "c"):
        with pytest.raises(IndexOutOfRangeError):
            rlx.jit(beyond, backend=backend)(x)
        with pytest.raises(IndexOutOfRangeError):
            rlx.jit(STEPS[name], backend=backend)(x, np.int64(70))


def test_several_carries_are_read_and_updated_in_place() -> None:
    def both(x: Any, y: Any) -> Any:
        def step(i: Any, carry: Any) -> Any:
            x, y = carry
            return x.at[i].set(y[i - 1] + 1.0), y.at[i].add(x[i])

        return rlx.fori_loop(0, x.shape[0], step, (x, y))

    def gradients(x: Any, y: Any) -> Any:
        return rlx.grad(lambda x, y: rnp.sin(both(x, y)[1]).sum(), argnums=(0, 1))(x, y)

    for function in (both, gradients):
        few, more, most = (stores(function, *np.ones((2, n))) for n in (100, 200, 400))
        assert most - more == 2 * (more - few)
    x, y = np.random.default_rng(0).uniform(size=(2, 70))
    expected = tree_flatten(rlx.jit(gradients, backend="reference")(x, y))[0]
    for backend in ("llvm", "c"):
        found = tree_flatten(rlx.jit(gradients, backend=backend)(x, y))[0]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10)


def test_a_loop_within_a_loop_continues_in_the_memory_of_the_carry() -> None:
    """Indices that come in arrays are written one after the other, by a loop of their own."""

    def at_pairs(x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            pair = rnp.stack([i, i - 1])
            return x.at[pair].multiply(1.5).at[pair].set(x[i] + rnp.arange(2.0))

        return rlx.fori_loop(0, x.shape[0], step, x)

    few, more, most = (stores(at_pairs, np.ones(n)) for n in (100, 200, 400))
    assert most - more == 2 * (more - few)
    x = np.linspace(0, 1, 70)
    expected = rlx.jit(at_pairs, backend="reference")(x)
    for backend in ("llvm", "c"):
        np.testing.assert_allclose(rlx.jit(at_pairs, backend=backend)(x), expected, rtol=1e-12)


X = np.array([[-2.0, 0.5, 3.0], [1.0, -1.5, 0.25]])

CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "set": (lambda at: at.set(7), lambda x: np.full_like(x, 7)),
    "add": (lambda at: at.add(0.5), lambda x: x + 0.5),
    "multiply": (lambda at: at.multiply(2.0), lambda x: x * 2),
    "divide": (lambda at: at.divide(4.0), lambda x: x / 4),
    "power": (lambda at: at.power(2), lambda x: x**2),
    "min": (lambda at: at.min(-1.75), lambda x: np.minimum(x, -1.75)),
    "max": (lambda at: at.max(-1.75), lambda x: np.maximum(x, -1.75)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_elements_under_a_mask_change(name: str) -> None:
    change, expected = CHANGES[name]
    changed = rlx.jit(lambda x: change(x.at[x < 0]))(X)
    np.testing.assert_array_equal(changed, np.where(X < 0, expected(X), X))


def test_a_mask_of_rows_changes_whole_rows() -> None:
    changed = rlx.jit(lambda x: x.at[x[:, 0] > 0].set(0.0))(X)
    np.testing.assert_array_equal(changed, [X[0], [0, 0, 0]])


def test_the_gradient_passes_where_the_mask_is_false() -> None:
    slope = rlx.jit(rlx.grad(lambda x: (x.at[x < 0].set(3.0) ** 2).sum()))(X)
    np.testing.assert_array_equal(slope, np.where(X < 0, 0.0, 2 * X))


def test_a_mask_of_another_shape_is_an_error() -> None:
    with pytest.raises(ShapeError, match="a mask has shape"):
        rlx.jit(lambda x: x.at[x[0] > 0].set(0.0))(X)


def test_many_values_for_a_mask_are_an_error_that_names_where() -> None:
    with pytest.raises(ShapeError, match="where"):
        rlx.jit(lambda x: x.at[x > 0].set(x))(X)
