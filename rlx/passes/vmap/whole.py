"""Bodies of calls, batched with the batch axis on every input and output."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir.graph import Graph
from rlx.ir.shape import Shape
from rlx.passes.vmap.batching import MappedAxis
from rlx.passes.vmap.sweep import batch_body


def batch_whole(body: Graph, axis: MappedAxis) -> Graph:
    """Return `body` with the axis in front of every input and output."""
    known = axis.whole
    if id(body) not in known:
        everything, every_result = (True,) * len(body.inputs), (True,) * len(body.outputs)
        known[id(body)] = body, batch_body(body, everything, axis, due=every_result)[0]
    return known[id(body)][1]


def for_examples(rule: Graph, examples: Shape, example_axes: Sequence[str]) -> Graph:
    """Return the rule of a call for all its examples (`custom_call`), the outermost axis first."""
    for size, name in zip(reversed(examples), reversed(example_axes), strict=True):
        rule = batch_whole(rule, MappedAxis(size, name or None))
    return rule
