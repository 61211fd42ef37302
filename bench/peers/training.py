"""A training step as one graph: loss, gradients, and new params that replace the old ones."""

from __future__ import annotations

import numpy as np

from bench.workload import Array, Training
from rlx.ir.graph import Graph, Value
from rlx.passes import grad_with_loss
from rlx.runtime.signature import concrete

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def training_graph(loss: Graph, training: Training) -> tuple[Graph, dict[str, Array]]:
    """Return the step, whose first output is the loss, and the optimizer's first state."""
    params = [str(leaf.node.name) for leaf in loss.params]
    graph = grad_with_loss(loss, wrt=params)
    value, *gradients = graph.outputs
    pairs = [(graph.leaf(name), g) for name, g in zip(params, gradients, strict=True)]
    if training.optimizer == "adam":
        replaced, state = _adam(graph, pairs, training.rate)
    else:
        replaced, state = {p: p - training.rate * g for p, g in pairs}, {}
    graph.set_outputs([value, *replaced.values()], donated=replaced)
    return graph, state


def _adam(
    graph: Graph, pairs: list[tuple[Value, Value]], rate: float
) -> tuple[dict[Value, Value], dict[str, Array]]:
    step = graph.param("step", ())
    count = step + 1.0
    replaced, state = {step: count}, {"step": np.zeros((), np.float32)}
    mean_scale = 1.0 / (1.0 - graph.pow(BETA1, count))
    square_scale = 1.0 / (1.0 - graph.pow(BETA2, count))
    for param, gradient in pairs:
        mean = _state(graph, f"{param.node.name}.mean", param, state)
        square = _state(graph, f"{param.node.name}.square", param, state)
        replaced[mean] = BETA1 * mean + (1 - BETA1) * gradient
        replaced[square] = BETA2 * square + (1 - BETA2) * gradient * gradient
        scale = graph.sqrt(replaced[square] * square_scale) + EPSILON
        replaced[param] = param - rate * (replaced[mean] * mean_scale) / scale
    return replaced, state


def _state(graph: Graph, name: str, like: Value, state: dict[str, Array]) -> Value:
    leaf = graph.param(name, like.shape, like.dtype)
    state[name] = np.zeros(concrete(like.shape, {}), like.dtype.numpy)
    return leaf
