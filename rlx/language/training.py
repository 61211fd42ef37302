"""Training adapters of packed weights: loss, gradients and update in one compiled step.

    training = FineTuning(file, Adapters.first(file), rows=64, optimizer=rlx.optim.adam(1e-3))
    loss = training.step(*training.padded(tokens, learn_from=12))
    training.adapters.save("adapters.safetensors")

Gradients flow through the packed weights, which stay as they are; what the optimizer keeps is
state of the compiled step, replaced in place.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.language.decoder import sequence_logits
from rlx.language.lora import Adapters
from rlx.language.model_file import ModelFile
from rlx.optim import Optimizer, apply_updates
from rlx.passes.autodiff import vjp_in_graph
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.executable import Executable
from rlx.tracing.pytree import tree_flatten, tree_unflatten
from rlx.tracing.traced_function import specification, trace

Array = NDArray[Any]


@dataclass(eq=False)
class FineTuning:
    """A compiled training step for the adapters of a model."""

    file: ModelFile
    first: Adapters
    rows: int
    """Tokens of a sequence; shorter ones are padded."""
    optimizer: Optimizer
    backend: str = "auto"
    threads: int | None = None

    def padded(self, tokens: Sequence[int], *, learn_from: int = 1) -> tuple[Array, Array, Array]:
        """Return inputs, labels and shares of the loss: tokens from `learn_from` on are learned."""
        count = len(tokens) - 1
        if not 1 <= learn_from <= count <= self.rows:
            raise InputError(
                f"{len(tokens)} tokens, learned from number {learn_from} on, do not fit "
                f"{self.rows} rows",
                remedy="cut the text, or train with more rows; leave one token to learn from",
            )
        inputs, labels = np.zeros(self.rows, np.int32), np.zeros(self.rows, np.int32)
        shares = np.zeros(self.rows, np.float32)
        inputs[:count], labels[:count] = tokens[:-1], tokens[1:]
        shares[learn_from - 1 : count] = 1 / (count - learn_from + 1)
        return inputs, labels, shares

    def step(self, tokens: Array, labels: Array, shares: Array) -> float:
        """Learn from one sequence; return the loss before that."""
        (loss,) = self.compiled.advance({"tokens": tokens, "labels": labels, "shares": shares})
        return float(loss)

    @property
    def adapters(self) -> Adapters:
        """The adapters as they are now."""
        now = {name: self.compiled.state(name).copy() for name in self.first.values}
        return Adapters(self.first.lora, now)

    @functools.cached_property
    def compiled(self) -> Executable:
        graph, params = training_graph(self.file, self.first, self.rows, self.optimizer)
        program = compile_graph(graph, backend=self.backend, threads=self.threads, params=params)
        assert isinstance(program, Executable)
        return program


def training_graph(
    file: ModelFile, adapters: Adapters, rows: int, optimizer: Optimizer
) -> tuple[Graph, dict[str, Array]]:
    """Return the graph of a training step, and its params with those of the optimizer.

    Outputs: the loss, then adapters and the optimizer's state, which replace their params.
    """
    graph = Graph("fine_tune")
    tokens, labels = (graph.input(name, (rows,), DType.I32) for name in ("tokens", "labels"))
    shares = graph.input("shares", (rows,))
    logits, weights = sequence_logits(graph, file, tokens, adapters)
    losses: Value = ops.softmax_cross_entropy_with_logits(logits, labels)
    loss: Value = ops.reduce_sum(losses * shares, axes=(0,))
    names = [name for name in weights.values if name in adapters.values]
    learned = [graph.leaf(name) for name in names]
    gradients = vjp_in_graph(graph, [loss], learned, [graph.constant(1.0, DType.F32)])
    values = {name: adapters.values[name] for name in names}
    found = [g for g in gradients if g is not None]
    state, replaced = _update(graph, optimizer, values, learned, found)
    graph.set_outputs([loss, *replaced.values()], donated=replaced)
    return graph, {**weights.values, **state}


def _update(
    graph: Graph,
    optimizer: Optimizer,
    values: dict[str, Array],
    learned: list[Value],
    gradients: list[Value],
) -> tuple[dict[str, Array], dict[Value, Value]]:
    """Append the optimizer's update; return its state, and what replaces which param."""
    leaves, tree = tree_flatten(optimizer.init(values))
    state = {f"optimizer.{number}": np.asarray(leaf) for number, leaf in enumerate(leaves)}
    kept = [graph.param(name, leaf.shape, leaf.dtype.name) for name, leaf in state.items()]
    count, names = len(values), list(values)

    def update(arrays: list[Any]) -> Any:
        parts = (arrays[:count], arrays[2 * count :], arrays[count : 2 * count])
        by_name, old, before = parts
        params = dict(zip(names, before, strict=True))
        updates, new = optimizer.update(
            dict(zip(names, by_name, strict=True)), tree_unflatten(tree, old), params
        )
        return apply_updates(params, updates), new

    given = [*values.values(), *values.values(), *state.values()]
    specified = [specification(f"x{number}", array) for number, array in enumerate(given)]
    program = trace(update, "update", specified)
    results = graph.inline(program.graph, [*gradients, *learned, *kept])
    moved, after = tree_unflatten(program.tree, results)
    pairs = zip(names, learned, strict=True)
    replaced = {leaf: moved[name] for name, leaf in pairs}
    return state, replaced | dict(zip(kept, tree_flatten(after)[0], strict=True))
