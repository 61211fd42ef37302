"""The graph of a decoder: tokens in, logits and the next token out, keys and values as state.

Each layer keeps its keys and values in params `[context, heads * head_dim]`, which a run
replaces in place (donated). A run takes `tokens: i32[rows]` and `history: i32[past]`, the tokens
that came before, whose number says how much of the state there is:

    graph, weights = decoder_graph(file, rows=1, context=2048)

`rows` is 1 for a step, or a `Dim` for a prompt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim, Extent, upper
from rlx.ir.types import TensorType
from rlx.language.attention_sinks import with_sinks
from rlx.language.config import DecoderConfig
from rlx.language.feed_forward import feed_forward
from rlx.language.lora import Adapters
from rlx.language.mixers import mixed
from rlx.language.model_file import ModelFile
from rlx.language.params import Accuracy, CacheDType
from rlx.language.rope import rope_tables
from rlx.language.sampling_graph import Choice, sampled
from rlx.language.weights import Weights

Array = NDArray[Any]

_AFTER = "post_attention_norm"
_LAST = np.iinfo(np.int32).max
"""Beyond any row: starts are clamped to the last."""


@dataclass(slots=True)
class Decoder:
    """A graph under construction."""

    graph: Graph
    config: DecoderConfig
    weights: Weights
    rows: Extent
    past: Extent
    context: int
    start: Value | None
    """Positions of the tokens; None where no context precedes them."""
    at_positions: Callable[[Array], Value]
    """Returns the rows of a table at the positions of the tokens."""
    state: dict[Value, Value]
    """The params that are replaced, and by what."""
    kept: CacheDType = "f32"
    """What keys and values are rounded to when they are kept."""
    tables: dict[object, tuple[Value, ...]] = field(default_factory=dict)
    """Cosines and sines at the positions of the tokens, for each kind of rope."""
    types: Value | None = None
    """Which of two texts each token is of; None: all are of the first."""

    def hidden(self, tokens: Value) -> Value:
        """Return what the last layer gives for every token."""
        config = self.config
        x = self.embedded(tokens)
        for number in range(config.layers):
            self.config = config.of_layer(number)
            x = self.layer(x, number)
        self.config = config
        return x

    def embedded(self, tokens: Value) -> Value:
        """Return what the first layer takes: embeddings of tokens, and of types and positions."""
        config, weights = self.config, self.weights
        x = weights.embedded(tokens)
        if config.embedding_scale != 1.0:
            x = x * config.embedding_scale
        for name, used in (("token_types", 1), ("position_embd", self.rows)):
            if weights.has(f"{name}.weight"):
                least = 1 if used == 1 else self.context
                rows = max(weights.rows(f"{name}.weight"), least)
                table = weights.array(f"{name}.weight", (rows, config.hidden))
                if used == 1 and rows > 1 and self.types is not None:
                    x = x + ops.gather(table, self.types, axis=0)
                else:
                    x = x + ops.narrow(table, axis=0, start=0, length=used)
        is_last = config.traits.final_norm == "token_embd_norm"
        return x if is_last else self.if_normed(x, "token_embd_norm")

    def logits(self, hidden: Value) -> Value:
        """Return the logits of rows that the last layer gave."""
        normed = self.norm(hidden, self.config.traits.final_norm, self.config.hidden)
        head = "output" if self.weights.has("output.weight") else "token_embd"
        logits = self.weights.linear(normed, head, self.config.vocabulary)
        if self.config.logit_scale != 1.0:
            logits = logits / self.config.logit_scale
        cap = self.config.logit_cap
        return logits if cap is None else ops.tanh(logits / cap) * cap

    def norm(self, x: Value, name: str, width: int, eps: float | None = None) -> Value:
        """Normalize rows by their mean square, or by mean and variance where there is a bias."""
        weights, eps = self.weights, self.config.eps if eps is None else eps
        gamma = weights.vector(f"{name}.weight", width)
        if weights.has(f"{name}.bias"):
            beta = weights.vector(f"{name}.bias", width)
            centered: Value = ops.layer_norm(x, gamma, beta, axis=-1, eps=eps)
            return centered
        result: Value = ops.rms_norm(x, gamma, axis=-1, eps=eps)
        return result

    def layer(self, x: Value, number: int) -> Value:
        name = f"blk.{number}"
        with self.graph.scope(name):
            before = self.config.traits.ffn_norm
            after = mixed(self, self.if_normed(x, f"{name}.attn_norm"), name)
            h = x + self.residual(after, "" if before == _AFTER else f"{name}.{_AFTER}")
            if not self.config.traits.attends:
                return h
            h = self.if_normed(h, f"{name}.attn_output_norm")
            after = feed_forward(self, self.if_normed(h, f"{name}.{before}"), name)
            h = h + self.residual(after, f"{name}.post_ffw_norm")
            return self.if_normed(h, f"{name}.layer_output_norm")

    def if_normed(self, x: Value, name: str) -> Value:
        """Normalize, where the model does."""
        has_norm = self.weights.has(f"{name}.weight")
        return self.norm(x, name, self.config.hidden) if has_norm else x

    def residual(self, x: Value, norm: str) -> Value:
        """Return what is added to the stream."""
        normed, scale = self.if_normed(x, norm), self.config.residual_scale
        return normed if scale == 1.0 else normed * scale

    # Attention

    def attention(self, x: Value, name: str) -> Value:
        config = self.config
        gate: Value | None = None
        if self.weights.rows(f"{name}.attn_q.weight") == 2 * config.heads * config.head_dim:
            q, gate, k, v = self._gated_projections(x, name)
        else:
            q, k, v = self._projections(x, name)
        q, k = (self._unit(self.rotated(part)) for part in (q, k))
        attended = self.attended(self._tempered(q), k, v, name)
        if gate is not None:
            attended = attended * ops.sigmoid(gate)
        return self.weights.linear(attended, f"{name}.attn_output", config.hidden)

    def attended(self, q: Value, k: Value, v: Value | None, name: str) -> Value:
        """Return what queries find among the keys and values up to them: the keys if none."""
        keys = self._remembered(f"{name}.keys", k)
        values = keys if v is None else self._remembered(f"{name}.values", v)
        return self.found(q, keys, values, name)

    def found(self, q: Value, keys: Value, values: Value, name: str) -> Value:
        """Return what queries, the last of the rows, find in keys and values."""
        config = self.config
        sinks = f"{name}.attn_sinks.weight"
        kind = "causal" if config.window is None else "sliding_window"
        kind = kind if config.causal else "none"
        mask: Value | None = None
        if config.traits.window_is_chunk and config.window is not None:
            reaches_further = self.context > config.window
            kind = "custom" if reaches_further else "causal"
            mask = _of_own_chunk(q, keys, config.window) if reaches_further else None
        # A window of w tokens is the token itself and w - 1 before it.
        window = None if config.window is None else config.window - 1
        if self.weights.has(sinks):
            own = self.weights.vector(sinks, config.heads)
            return with_sinks(
                q, keys, values, own, heads=config.heads, window=window,
                scale=config.attention_scale,
            )  # fmt: skip
        result: Value = ops.attention(
            q, keys, values, mask, num_heads=config.heads, head_dim=config.head_dim,
            mask_kind=kind, window=window if kind == "sliding_window" else None,
            softcap=config.attention_cap, layout="bshd",
            score_scale=config.attention_scale,
        )  # fmt: skip
        return result

    def _projections(self, x: Value, name: str) -> tuple[Value, Value, Value]:
        config, weights = self.config, self.weights
        widths = (config.heads * config.head_dim, config.kv_width, config.kv_width)
        if weights.has(f"{name}.attn_qkv.weight"):
            together = weights.linear(x, f"{name}.attn_qkv", sum(widths))
            q, k, v = _split(together, widths)
        else:
            q = weights.linear(x, f"{name}.attn_q", widths[0])
            k = weights.linear(x, f"{name}.attn_k", widths[1])
            v = weights.linear(x, f"{name}.attn_v", widths[2])
        return self._normed(q, f"{name}.attn_q_norm"), self._normed(k, f"{name}.attn_k_norm"), v

    def _gated_projections(self, x: Value, name: str) -> tuple[Value, Value, Value, Value]:
        """Return q, what gates the result, k and v: each head's q comes before its gate."""
        config, weights = self.config, self.weights
        heads, width = config.heads, config.head_dim
        both = weights.linear(x, f"{name}.attn_q", 2 * heads * width)
        both = ops.reshape(both, shape=(x.shape[0], heads, 2 * width))
        q, gate = (
            ops.reshape(part, shape=(x.shape[0], heads * width))
            for part in _split(both, (width, width))
        )
        k, v = (weights.linear(x, f"{name}.attn_{part}", config.kv_width) for part in "kv")
        normed = self._normed(q, f"{name}.attn_q_norm")
        return normed, gate, self._normed(k, f"{name}.attn_k_norm"), v

    def _normed(self, x: Value, name: str) -> Value:
        """Normalize every head, or all of them together, where the model does."""
        if not self.weights.has(f"{name}.weight"):
            return x
        width = self.config.head_dim
        if self.weights.file.tensors[f"{name}.weight"].dims != (width,):
            return self.norm(x, name, int(x.shape[1]))
        heads = ops.reshape(x, shape=(x.shape[0], x.shape[1] // width, width))
        result: Value = ops.reshape(self.norm(heads, name, width), shape=x.shape)
        return result

    def rotated(self, q_or_k: Value) -> Value:
        """Turn pairs of each head by the positions of the rows."""
        config = self.config
        if config.rope_rotated == 0:
            return q_or_k
        kind = (config.rope_base, config.rope_scaling, config.rope_rotated)
        if kind not in self.tables:
            tables = rope_tables(config, self.context, self.weights.file)
            self.tables[kind] = tuple(map(self.at_positions, tables))
        result: Value = ops.rope(
            q_or_k, *self.tables[kind], head_dim=config.head_dim, n_rot=config.rope_rotated
        )
        return result

    def _unit(self, q_or_k: Value) -> Value:
        """Divide rotated heads by the root of their mean square, if models do."""
        config = self.config
        if not config.unit_heads or config.rope_rotated == 0:
            return q_or_k
        width = config.head_dim
        heads = ops.reshape(q_or_k, shape=(q_or_k.shape[0], q_or_k.shape[1] // width, width))
        ones = self.graph.constant(np.ones(width, np.float32))
        normed = ops.rms_norm(heads, ones, axis=-1, eps=config.eps)
        result: Value = ops.reshape(normed, shape=q_or_k.shape)
        return result

    def _tempered(self, q: Value) -> Value:
        """Sharpen the attention of tokens far from the first one, if models do."""
        config = self.config
        if config.temperature_scale == 0.0:
            return q
        if "temperature" not in self.tables:
            first = 1 if config.traits.tempers_plain else 0  # Llama 4 counts from 1
            positions = np.arange(first, self.context + first)
            beyond = np.log1p(positions // config.temperature_length)
            table = (1 + config.temperature_scale * beyond).astype(np.float32)[:, None]
            self.tables["temperature"] = (self.at_positions(table),)
        return q * self.tables["temperature"][0]

    def _remembered(self, name: str, rows: Value) -> Value:
        """Write the new rows into the state, and return all rows up to them."""
        if self.start is None:
            return rows
        replaced = self.written(name, rows)
        length = self.past + self.rows
        return self.recalled(ops.narrow(replaced, axis=0, start=0, length=length))

    def written(self, name: str, rows: Value) -> Value:
        """Write the new rows into the state, and return it all."""
        assert self.start is not None
        kept = self.room(name, self.context)
        whole: Value = ops.dynamic_update_slice(kept, self.rounded(rows), self.start)
        self.state[kept] = whole
        return whole

    # State of mixers that is of all tokens together

    @property
    def grid(self) -> tuple[Extent, Extent]:
        """Sequences, and the rows of each."""
        return 1, self.rows

    def carried(self, name: str, shape: tuple[int, ...]) -> Value:
        """Return what the last run left of each sequence, `[sequences, *shape]`: zeros at first."""
        if self.start is None:
            return ops.expand(self.graph.constant(np.zeros(1, np.float32)), shape=(1, *shape))
        return self.if_begun(self.graph.param(name, (1, *shape), DType.F32))

    def if_begun(self, left: Value) -> Value:
        """Return what is left of a sequence, or zeros where it begins."""
        assert self.start is not None
        position = ops.narrow(self.start, axis=0, start=0, length=1)
        has_begun = ops.expand(ops.reshape(position > 0, shape=(1,) * left.rank), shape=left.shape)
        result: Value = ops.where(has_begun, left, 0.0)
        return result

    def carry(self, name: str, value: Value) -> None:
        """Leave a state to the next run."""
        if self.start is not None:
            self.state[self.graph.leaf(name)] = value

    @contextmanager
    def configured(self, config: DecoderConfig) -> Iterator[None]:
        """Build with another configuration."""
        kept, self.config = self.config, config
        yield
        self.config = kept

    def room(self, name: str, rows: int) -> Value:
        """Return the param that keeps keys or values of a layer."""
        return self.graph.param(name, (rows, self.config.kv_width), self.kept)

    def rounded(self, rows: Value) -> Value:
        """Return keys or values as they are kept."""
        return rows if self.kept == "f32" else ops.cast(rows, to=DType(self.kept))

    def recalled(self, rows: Value) -> Value:
        """Return keys or values that were kept, as numbers to compute with."""
        return rows if self.kept == "f32" else ops.cast(rows, to=DType.F32)


def decoder_graph(
    file: ModelFile,
    *,
    rows: int | Dim,
    context: int,
    adapters: Adapters | None = None,
    accuracy: Accuracy = "exact",
    cache_dtype: CacheDType = "f32",
    all_followed: bool = False,
) -> tuple[Graph, Weights]:
    """Return a graph and its weights. Outputs: the next token, its logits, and the state.

    If `all_followed`, each of a fixed number of rows has a token that follows it, with its logits.
    """
    config = DecoderConfig.of(file)
    graph = Graph("step" if rows == 1 else "prompt")
    past = Dim("past", max=context - upper(rows))
    tokens = graph.input("tokens", (rows,), DType.I32)
    history = graph.input("history", (past,), DType.I32)
    start = graph.input("start", (2,), DType.I32)
    weights = Weights(graph, file, config, adapters, accuracy)
    turns = functools.partial(positions, graph, start, rows)
    decoder = Decoder(graph, config, weights, rows, past, context, start, turns, {}, cache_dtype)
    at = graph.constant(np.array([_LAST, 0], np.int32))
    followed = rows if all_followed else 1
    # All rows are sliced, too: constants of programs over one arena are the same.
    last: Value = ops.dynamic_slice(decoder.hidden(tokens), at, sizes=(followed, config.hidden))
    logits = decoder.logits(last)
    seen = [(history, tokens)]
    if all_followed:
        counts = range(1, upper(rows) + 1)
        seen = [(history, ops.narrow(tokens, axis=0, start=0, length=n)) for n in counts]
    choice = Choice.declared(graph, config.vocabulary, seen)
    token = sampled(graph, logits, choice)
    graph.set_outputs([token, logits, *decoder.state.values()], donated=decoder.state)
    return graph, weights


def hidden_graph(
    file: ModelFile, *, rows: Dim, accuracy: Accuracy = "exact", ranks: bool = False
) -> tuple[Graph, Weights]:
    """Return the graph of a text's rows `[rows, hidden]`, normalized, and its weights.

    If it `ranks`, it takes two texts in one, the `types` of their tokens, and returns their score,
    too: what the file's classifier makes of the first row.
    """
    config, graph, context = DecoderConfig.of(file), Graph("embedding"), upper(rows)
    tokens = graph.input("tokens", (rows,), DType.I32)
    types = graph.input("types", (rows,), DType.I32) if ranks else None
    weights = Weights(graph, file, config, None, accuracy)

    def of_rows(table: Array) -> Value:
        found: Value = ops.narrow(graph.constant(table), axis=0, start=0, length=rows)
        return found

    decoder = Decoder(graph, config, weights, rows, 0, context, None, of_rows, {}, types=types)
    normed = decoder.if_normed(decoder.hidden(tokens), config.traits.final_norm)
    graph.set_outputs([normed, _score(decoder, normed)] if ranks else [normed])
    return graph, weights


def _score(decoder: Decoder, rows: Value) -> Value:
    """Return what the classifier makes of the first row, `[1, 1]`."""
    weights, width = decoder.weights, decoder.config.hidden
    first = ops.narrow(rows, axis=0, start=0, length=1)
    if weights.has("cls.weight"):
        first = ops.tanh(weights.linear(first, "cls", width))
    factors = ops.reshape(weights.whole("cls.output.weight", width), shape=(width, 1))
    score = ops.matmul(first, factors)
    has_bias = weights.has("cls.output.bias")
    return score + weights.vector("cls.output.bias", 1) if has_bias else score


def sequence_logits(
    graph: Graph, file: ModelFile, tokens: Value, adapters: Adapters | None
) -> tuple[Value, Weights]:
    """Append the logits `[rows, vocabulary]` of a sequence with nothing before it."""
    config, rows = DecoderConfig.of(file), upper(tokens.shape[0])
    weights = Weights(graph, file, config, adapters)
    decoder = Decoder(graph, config, weights, rows, 0, rows, None, graph.constant, state={})
    return decoder.logits(decoder.hidden(tokens)), weights


def positions(graph: Graph, start: Value, rows: Extent, table: Array) -> Value:
    """Return the rows of a table at the positions of the tokens."""
    whole = graph.constant(table)
    result: Value = ops.dynamic_slice(whole, start, sizes=(rows, table.shape[1]))
    return result


def _of_own_chunk(q: Value, keys: Value, size: int) -> Value:
    """Return which keys a query sees, `[1, queries, keys]`: those up to its own, of its chunk."""
    at = q.graph.iota(type=TensorType(DType.I64, (1, 1, keys.shape[0])), axis=2)
    last = ops.narrow(ops.reverse(at, axes=(2,)), axis=2, start=0, length=q.shape[0])
    own = ops.reshape(ops.reverse(last, axes=(2,)), shape=(1, q.shape[0], 1))
    visible: Value = ops.logical_and(at <= own, at >= own / size * size)
    return visible


def _split(x: Value, widths: tuple[int, ...]) -> list[Value]:
    """Cut the columns of `x`."""
    starts = np.cumsum([0, *widths])
    return [
        ops.narrow(x, axis=-1, start=int(start), length=width)
        for start, width in zip(starts, widths, strict=False)
    ]
