"""Batched graphs compared with a Python loop over the examples, in the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.verify import verify
from rlx.passes.vmap import vmap

Array = NDArray[Any]
Feeds = dict[str, Array]
Axes = Mapping[str, int]


def tensors(seed: int, *shapes: tuple[int, ...]) -> tuple[Array, ...]:
    random = np.random.default_rng(seed)
    return tuple(random.standard_normal(shape) for shape in shapes)


def input_names(graph: Graph) -> list[str]:
    return [str(leaf.node.name) for leaf in graph.inputs]


def example(feeds: Feeds, axes: Axes, index: int) -> Feeds:
    """Return what example `index` is fed."""
    return {
        name: np.take(array, index, axis=axes[name]) if name in axes else array
        for name, array in feeds.items()
    }


def looped(graph: Graph, feeds: Feeds, axes: Axes, size: int) -> list[Array]:
    """Evaluate one example after the other and stack each output on axis 0."""
    runs = [evaluate(graph, example(feeds, axes, index)) for index in range(size)]
    return [np.stack(results) for results in zip(*runs, strict=True)]


def batched(graph: Graph, feeds: Feeds, axes: Axes, size: int) -> list[Array]:
    """Evaluate the batched graph, after the verifier has seen it."""
    result = vmap(graph, axes, size=size)
    verify(result)
    return evaluate(result, feeds)


def assert_is_loop(
    graph: Graph, feeds: Feeds, axes: Axes, size: int, *, rtol: float = 1e-12, atol: float = 1e-12
) -> None:
    given = batched(graph, feeds, axes, size)
    for array, expected in zip(given, looped(graph, feeds, axes, size), strict=True):
        assert array.dtype == expected.dtype
        np.testing.assert_allclose(array, expected, rtol=rtol, atol=atol)
