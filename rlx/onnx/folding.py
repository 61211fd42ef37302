"""Constant folding while importing: what known arrays alone decide is evaluated at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.ir.reference import evaluate
from rlx.tracing.pytree import tree_flatten, tree_unflatten
from rlx.tracing.trace import TracedArray, as_value, opened

_LARGEST_FOLDED = 1 << 16
"""Elements of what is computed while importing; more are left to the setup of the program."""

_LARGEST_BETWEEN = 1 << 22
"""Elements of what is computed on the way to it, which the graph's text does not bound."""


def fold(translate: Callable[[], Any]) -> Any:
    """Return what `translate` makes of known arrays, evaluated; left traced if it is large."""
    with opened("known") as trace:
        leaves, tree = tree_flatten(translate())
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, TracedArray)]
        trace.graph.set_outputs([as_value(leaves[place]) for place in places])
    if not places:
        return tree_unflatten(tree, leaves)
    results = (result for node in trace.graph.nodes for result in node.results)
    is_large = sum(_elements(output) for output in trace.graph.outputs) > _LARGEST_FOLDED
    if is_large or any(_elements(result) > _LARGEST_BETWEEN for result in results):
        return translate()
    for place, array in zip(places, evaluate(trace.graph, {}), strict=True):
        leaves[place] = np.asarray(array)
    return tree_unflatten(tree, leaves)


def _elements(output: Any) -> int:
    return int(output.type.elements) if output.type.is_static else 0
