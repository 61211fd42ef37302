"""The graphs of a batch of sequences, each of its own length.

Keys and values of all sequences are in one param for each layer, `[size * context, width]`: those
of a sequence, in its slot, below each other. A step takes a token of every sequence; weights are
read once for all of them, and each attends to its own tokens, as many as there are. A prompt is
that of one sequence: its slot is given by the call. Numbers come as inputs and not as constants,
so that both programs leave the same in memory.
"""

from __future__ import annotations

import functools

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim, Extent, upper
from rlx.language.config import DecoderConfig
from rlx.language.decoder import Array, Decoder, positions
from rlx.language.lora import Adapters
from rlx.language.model_file import ModelFile
from rlx.language.params import Accuracy, CacheDType
from rlx.language.sampling_graph import Choice, sampled
from rlx.language.weights import Weights


@dataclass(slots=True)
class _Step(Decoder):
    """One token of every sequence."""

    lengths: tuple[Dim, ...] = ()
    """How many tokens of each sequence came before."""
    places: tuple[Value, ...] = ()
    """Where in the state each sequence's new row goes."""

    @property
    def grid(self) -> tuple[Extent, Extent]:
        return self.rows, 1

    def carried(self, name: str, shape: tuple[int, ...]) -> Value:
        return self.graph.param(name, (len(self.lengths), *shape), DType.F32)

    def carry(self, name: str, value: Value) -> None:
        kept, value_shape = self.graph.leaf(name), value.shape
        advances = ops.reshape(
            self.graph.leaf("advances"), shape=(self.rows, *[1] * (kept.rank - 1))
        )
        self.state[kept] = ops.where(ops.expand(advances, shape=value_shape), value, kept)

    def attended(self, q: Value, k: Value, v: Value | None, name: str) -> Value:
        keys = self._all_written(f"{name}.keys", k)
        values = keys if v is None else self._all_written(f"{name}.values", v)
        found = []
        for slot, past in enumerate(self.lengths):
            own_keys, own_values = (
                self.recalled(ops.narrow(state, axis=0, start=slot * self.context, length=past + 1))
                for state in (keys, values)
            )
            row = ops.narrow(q, axis=0, start=slot, length=1)
            found.append(self.found(row, own_keys, own_values, name))
        together: Value = ops.concat(*found, axis=0)
        return together

    def _all_written(self, name: str, rows: Value) -> Value:
        kept = state = self.room(name, len(self.lengths) * self.context)
        rows = self.rounded(rows)
        for slot, place in enumerate(self.places):
            row = ops.narrow(rows, axis=0, start=slot, length=1)
            state = ops.dynamic_update_slice(state, row, place)
        self.state[kept] = state
        return state


@dataclass(slots=True)
class _Prompt(Decoder):
    """Some tokens of one sequence."""

    first: Value | None = None
    """Where the state of its slot begins."""
    place: Value | None = None
    """Where the new rows go."""
    size: int = 1

    def carried(self, name: str, shape: tuple[int, ...]) -> Value:
        kept = self.graph.param(name, (self.size, *shape), DType.F32)
        at = self._slot_of(kept)
        return self.if_begun(ops.dynamic_slice(kept, at, sizes=(1, *shape)))

    def carry(self, name: str, value: Value) -> None:
        kept = self.graph.leaf(name)
        self.state[kept] = ops.dynamic_update_slice(kept, value, self._slot_of(kept))

    def _slot_of(self, kept: Value) -> Value:
        """Return where the state of the slot begins: its number, and zeros."""
        assert self.first is not None
        slot = ops.narrow(self.first, axis=0, start=0, length=1) / self.context
        rest = self.graph.constant(np.zeros(kept.rank - 1, np.int32))
        found: Value = ops.concat(slot, rest, axis=0)
        return found

    def attended(self, q: Value, k: Value, v: Value | None, name: str) -> Value:
        keys = self._mine(f"{name}.keys", k)
        values = keys if v is None else self._mine(f"{name}.values", v)
        return self.found(q, keys, values, name)

    def _mine(self, name: str, rows: Value) -> Value:
        kept = self.room(name, self.size * self.context)
        self.state[kept] = state = ops.dynamic_update_slice(kept, self.rounded(rows), self.place)
        sizes = (self.past + self.rows, self.config.kv_width)
        return self.recalled(ops.dynamic_slice(state, self.first, sizes=sizes))


def batch_step(
    file: ModelFile,
    *,
    size: int,
    context: int,
    adapters: Adapters | None,
    accuracy: Accuracy,
    cache_dtype: CacheDType,
) -> tuple[Graph, Weights]:
    """Return the graph of a step. Outputs: the next token of each sequence, logits, the state."""
    config, graph = DecoderConfig.of(file), Graph("batch_step")
    lengths = tuple(Dim(f"past_{slot}", max=context - 1) for slot in range(size))
    tokens = graph.input("tokens", (size,), DType.I32)
    histories = [graph.input(f"history_{i}", (past,), DType.I32) for i, past in enumerate(lengths)]
    at = graph.input("positions", (size,), DType.I32)
    pairs = graph.input("places", (size, 2), DType.I32)
    places = [
        ops.reshape(ops.narrow(pairs, axis=0, start=slot, length=1), shape=(2,))
        for slot in range(size)
    ]
    if config.recurrent:  # slots without a text keep their state
        graph.input("advances", (size,), DType.BOOL)
    weights = Weights(graph, file, config, adapters, accuracy)

    def turns(table: Array) -> Value:
        found: Value = ops.gather(graph.constant(table), at, axis=0)
        return found

    decoder = _Step(
        graph, config, weights, size, 0, context, None, turns, {}, cache_dtype,
        lengths=lengths, places=tuple(places),
    )  # fmt: skip
    logits = decoder.logits(decoder.hidden(tokens))
    seen = [
        (history, ops.narrow(tokens, axis=0, start=slot, length=1))
        for slot, history in enumerate(histories)
    ]
    chosen = sampled(graph, logits, Choice.declared(graph, config.vocabulary, seen))
    outputs = [chosen, logits, *decoder.state.values()]
    graph.set_outputs(outputs, donated=decoder.state)
    return graph, weights


def batch_prompt(
    file: ModelFile,
    *,
    rows: Dim,
    size: int,
    context: int,
    adapters: Adapters | None,
    accuracy: Accuracy,
    cache_dtype: CacheDType,
) -> tuple[Graph, Weights]:
    """Return the graph for the prompt of one sequence.

    Outputs: its next token, its logits, the sum of what the last layer gives for its tokens, each
    multiplied by its share, and the state.
    """
    config, graph = DecoderConfig.of(file), Graph("batch_prompt")
    past = Dim("past", max=context - upper(rows))
    tokens = graph.input("tokens", (rows,), DType.I32)
    history = graph.input("history", (past,), DType.I32)
    start = graph.input("start", (2,), DType.I32)
    first, last = (graph.input(name, (2,), DType.I32) for name in ("first", "last"))
    weights = Weights(graph, file, config, adapters, accuracy)
    turns = functools.partial(positions, graph, start, rows)
    decoder = _Prompt(
        graph, config, weights, rows, past, context, start, turns, {}, cache_dtype,
        first=first, place=first + start, size=size,
    )  # fmt: skip
    hidden = decoder.hidden(tokens)
    logits = decoder.logits(ops.dynamic_slice(hidden, last, sizes=(1, config.hidden)))
    shares = ops.reshape(graph.input("shares", (rows,)), shape=(1, rows))
    pooled = ops.matmul(shares, decoder.norm(hidden, config.traits.final_norm, config.hidden))
    choice = Choice.declared(graph, config.vocabulary, [(history, tokens)])
    token = sampled(graph, logits, choice)
    outputs = [token, logits, pooled, *decoder.state.values()]
    graph.set_outputs(outputs, donated=decoder.state)
    return graph, weights
