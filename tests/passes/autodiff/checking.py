"""Checks of derivatives through the reference interpreter, in f64.

`check_first_order` compares tangents with central differences and pairs them with cotangents
(`<g, J t> = <J^T g, t>`); `check_second_order` does the same for gradients, by forward and by
reverse mode over reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss, hvp, jvp

Array = NDArray[Any]
Feeds = dict[str, Array]
Build = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A function of arrays, `build` on values, and where to differentiate it."""

    name: str
    build: Build
    arrays: tuple[Array, ...]
    smooth: bool = True
    """Whether central differences are near the derivative, twice."""
    tolerance: float = 1e-6
    fixed: tuple[int, ...] = ()
    """Operands that are not moved: indices in a floating dtype."""

    def graph(self) -> Graph:
        """Return the function as a graph with inputs x0, x1, .."""
        graph = Graph("case")
        values = [
            graph.input(f"x{i}", a.shape, as_dtype(a.dtype)) for i, a in enumerate(self.arrays)
        ]
        built = self.build(*values)
        results = [built] if isinstance(built, Value) else list(built)
        graph.set_outputs([result for result in results if result.dtype.is_differentiable])
        return graph

    @property
    def feeds(self) -> Feeds:
        return {f"x{i}": array for i, array in enumerate(self.arrays)}

    @property
    def wrt(self) -> list[str]:
        moving = [i for i, a in enumerate(self.arrays) if a.dtype.kind in "fc"]
        return [f"x{i}" for i in moving if i not in self.fixed]


def tensors(seed: int, *shapes: tuple[int, ...]) -> tuple[Array, ...]:
    random = np.random.default_rng(seed)
    return tuple(random.standard_normal(shape) for shape in shapes)


def directions(feeds: Mapping[str, Array], names: Sequence[str], seed: int) -> Feeds:
    random = np.random.default_rng(seed)
    return {name: _noise(random, feeds[name]) for name in names}


def _noise(random: np.random.Generator, like: Array) -> Array:
    noise = random.standard_normal(like.shape)
    if like.dtype.kind == "c":
        return np.asarray(noise + 1j * random.standard_normal(like.shape), dtype=like.dtype)
    return np.asarray(noise, dtype=like.dtype)


def gradients(
    graph: Graph, feeds: Feeds, wrt: Sequence[str], seed: Array | None = None
) -> list[Array]:
    """Return the gradients of the first output, by default of the sum of its elements."""
    graph_of_gradient = grad_with_loss(graph, wrt, missing="zero")
    loss = graph.outputs[0]
    given = np.ones(shape_of(loss), loss.dtype.numpy) if seed is None else seed
    outputs = evaluate(graph_of_gradient, {**feeds, "d_output": given})
    return outputs[len(graph.outputs) :]


def tangents(graph: Graph, feeds: Feeds, moving: Feeds) -> list[Array]:
    """Return the tangents of all outputs."""
    pushed = jvp(graph, list(moving))
    given = {f"tangent_{name}": tangent for name, tangent in moving.items()}
    return evaluate(pushed, {**feeds, **given})[len(graph.outputs) :]


def pairing(left: Sequence[Array], right: Sequence[Array]) -> float:
    """Return `sum Re(g*t)` over all arrays."""
    return sum(float(np.sum((g * t).real)) for g, t in zip(left, right, strict=True))


def weighted_sum(case: Case, seed: int) -> Graph:
    """Return the case's results folded into one scalar with random weights."""
    graph = case.graph()
    random = np.random.default_rng(seed)
    total: Value | None = None
    for output in graph.outputs:
        weights = graph.constant(_noise(random, np.zeros(shape_of(output), output.dtype.numpy)))
        term = ops.reduce_sum(output * weights, axes=tuple(range(output.rank)))
        total = term if total is None else total + term
    assert total is not None
    graph.set_outputs([total])
    return graph


def check_first_order(case: Case, step: float = 1e-5) -> None:
    graph, feeds, wrt = case.graph(), case.feeds, case.wrt
    moving = directions(feeds, wrt, seed=1)
    pushed = tangents(graph, feeds, moving)
    if case.smooth:
        after_step = evaluate(graph, _moved(feeds, moving, step))
        before_step = evaluate(graph, _moved(feeds, moving, -step))
        for tangent, after, before in zip(pushed, after_step, before_step, strict=True):
            slope = (after - before) / (2 * step)
            np.testing.assert_allclose(tangent, slope, rtol=case.tolerance, atol=case.tolerance)
    check_pairing(case, moving, pushed)


def check_pairing(case: Case, moving: Feeds, pushed: Sequence[Array]) -> None:
    """Demand `<g, J t> = <J^T g, t>` for each output."""
    feeds, wrt = case.feeds, case.wrt
    for position, tangent in enumerate(pushed):
        graph = case.graph()
        graph.set_outputs([graph.outputs[position]])
        seed = _noise(np.random.default_rng(2), tangent)
        pulled = gradients(graph, feeds, wrt, seed)
        left = pairing([seed], [tangent])
        right = pairing(pulled, [moving[name] for name in wrt])
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def check_second_order(case: Case, step: float = 1e-5) -> None:
    graph, feeds, wrt = weighted_sum(case, seed=3), case.feeds, case.wrt
    moving = directions(feeds, wrt, seed=4)
    forward = hessian_product_forward(graph, feeds, moving)
    backward = hessian_product_reverse(graph, feeds, moving)
    after_step = gradients(graph, _moved(feeds, moving, step), wrt)
    before_step = gradients(graph, _moved(feeds, moving, -step), wrt)
    for by_jvp, by_vjp, after, before in zip(
        forward, backward, after_step, before_step, strict=True
    ):
        np.testing.assert_allclose(by_jvp, by_vjp, rtol=1e-9, atol=1e-9)
        if case.smooth:
            slope = (after - before) / (2 * step)
            np.testing.assert_allclose(by_jvp, slope, rtol=case.tolerance, atol=case.tolerance)


def hessian_product_forward(graph: Graph, feeds: Feeds, moving: Feeds) -> list[Array]:
    """Hessian times direction by forward over reverse mode."""
    product = hvp(graph, list(moving), missing="zero")
    given = {f"tangent_{name}": tangent for name, tangent in moving.items()}
    ones = np.ones(shape_of(graph.outputs[0]), graph.outputs[0].dtype.numpy)
    return evaluate(product, {**feeds, **given, "d_output": ones})[-len(moving) :]


def hessian_product_reverse(graph: Graph, feeds: Feeds, moving: Feeds) -> list[Array]:
    """Hessian times direction by reverse mode over the gradient's product with it."""
    once = grad_with_loss(graph, list(moving), missing="zero")
    slopes = once.outputs[len(graph.outputs) :]
    total: Value | None = None
    for gradient, direction in zip(slopes, moving.values(), strict=True):
        term = ops.reduce_sum(gradient * once.constant(direction), axes=tuple(range(gradient.rank)))
        total = term if total is None else total + term
    assert total is not None
    once.set_outputs([total])
    ones = np.ones(shape_of(graph.outputs[0]), graph.outputs[0].dtype.numpy)
    twice = grad_with_loss(once, list(moving), missing="zero")
    return evaluate(twice, {**feeds, "d_output": ones, "d_output_1": np.ones(())})[1:]


def _moved(feeds: Feeds, moving: Feeds, step: float) -> Feeds:
    return {
        name: array + step * moving[name] if name in moving else array
        for name, array in feeds.items()
    }


def shape_of(value: Value) -> tuple[int, ...]:
    return tuple(extent for extent in value.shape if isinstance(extent, int))
