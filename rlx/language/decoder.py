"""The graph of a decoder: tokens in, logits and the next token out, keys and values as state.

Each layer keeps its keys and values in params `[context, heads * head_dim]`, which a run
replaces in place (donated). A run takes `tokens: i32[rows]` and `history: i32[past]`, the tokens
that came before, whose number says how much of the state there is:

    graph, weights = decoder_graph(file, rows=1, context=2048)

`rows` is 1 for a step, or a `Dim` for a prompt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS
from rlx.ir.shape import Dim, Extent, upper
from rlx.language.config import DecoderConfig
from rlx.language.lora import Adapters
from rlx.language.model_file import ModelFile
from rlx.language.params import Accuracy, CacheDType
from rlx.language.rope import rope_tables
from rlx.language.sampling_graph import Choice, sampled
from rlx.language.weights import Weights

Array = NDArray[Any]

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
        if weights.has("token_types.weight"):  # all tokens of one text are of the first type
            x = x + ops.narrow(weights.matrix("token_types.weight", config.hidden), axis=0,
                               start=0, length=1)  # fmt: skip
        if weights.has("position_embd.weight"):
            table = weights.matrix("position_embd.weight", config.hidden, self.context)
            x = x + ops.narrow(table, axis=0, start=0, length=self.rows)
        return self.if_normed(x, "token_embd_norm")

    def logits(self, hidden: Value) -> Value:
        """Return the logits of rows that the last layer gave."""
        normed = self.norm(hidden, "output_norm", self.config.hidden)
        head = "output" if self.weights.has("output.weight") else "token_embd"
        logits = self.weights.linear(normed, head, self.config.vocabulary)
        if self.config.logit_scale != 1.0:
            logits = logits / self.config.logit_scale
        cap = self.config.logit_cap
        return logits if cap is None else ops.tanh(logits / cap) * cap

    def norm(self, x: Value, name: str, width: int) -> Value:
        """Normalize rows by their mean square, or by mean and variance where there is a bias."""
        weights, eps = self.weights, self.config.eps
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
            after = self.attention(self.if_normed(x, f"{name}.attn_norm"), name)
            h = x + self.residual(after, f"{name}.post_attention_norm")
            h = self.if_normed(h, f"{name}.attn_output_norm")
            before = self.config.traits.ffn_norm
            after = self.feed_forward(self.if_normed(h, f"{name}.{before}"), name)
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
        q, k, v = self._projections(x, name)
        attended = self.attended(self._tempered(self._rotated(q)), self._rotated(k), v, name)
        return self.weights.linear(attended, f"{name}.attn_output", config.hidden)

    def attended(self, q: Value, k: Value, v: Value, name: str) -> Value:
        """Return what queries find among the keys and values up to them."""
        keys = self._remembered(f"{name}.keys", k)
        return self.found(q, keys, self._remembered(f"{name}.values", v))

    def found(self, q: Value, keys: Value, values: Value) -> Value:
        """Return what queries, the last of the rows, find in keys and values."""
        config = self.config
        kind = "causal" if config.window is None else "sliding_window"
        kind = kind if config.causal else "none"
        # A window of w tokens is the token itself and w - 1 before it.
        window = None if config.window is None else config.window - 1
        result: Value = ops.attention(
            q, keys, values, num_heads=config.heads, head_dim=config.head_dim, mask_kind=kind,
            window=window, softcap=config.attention_cap, layout="bshd",
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

    def _rotated(self, q_or_k: Value) -> Value:
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

    def _tempered(self, q: Value) -> Value:
        """Sharpen the attention of tokens beyond the first training's context, if models do."""
        config = self.config
        if config.temperature_scale == 0.0:
            return q
        if "temperature" not in self.tables:
            beyond = np.log1p(np.arange(self.context) // config.original_context)
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

    def room(self, name: str, rows: int) -> Value:
        """Return the param that keeps keys or values of a layer."""
        return self.graph.param(name, (rows, self.config.kv_width), self.kept)

    def rounded(self, rows: Value) -> Value:
        """Return keys or values as they are kept."""
        return rows if self.kept == "f32" else ops.cast(rows, to=DType(self.kept))

    def recalled(self, rows: Value) -> Value:
        """Return keys or values that were kept, as numbers to compute with."""
        return rows if self.kept == "f32" else ops.cast(rows, to=DType.F32)

    # Feed-forward networks

    def feed_forward(self, x: Value, name: str) -> Value:
        if self.weights.has(f"{name}.ffn_gate_inp.weight"):
            return self._experts(x, name) + self._shared(x, name)
        config, weights = self.config, self.weights
        wide = config.feed_forward
        if weights.has(f"{name}.ffn_gate.weight"):
            gate = weights.linear(x, f"{name}.ffn_gate", wide)
            up = weights.linear(x, f"{name}.ffn_up", wide)
        elif weights.rows(f"{name}.ffn_up.weight") == wide:
            inner = self._activated(weights.linear(x, f"{name}.ffn_up", wide))
            return weights.linear(inner, f"{name}.ffn_down", config.hidden)
        else:
            gate, up = _split(weights.linear(x, f"{name}.ffn_up", 2 * wide), (wide, wide))
        return weights.linear(self._activated(gate) * up, f"{name}.ffn_down", config.hidden)

    def _activated(self, gate: Value) -> Value:
        result: Value = OPS[self.config.traits.activation](gate)
        return result

    def _experts(self, x: Value, name: str) -> Value:
        """Sum what the chosen experts give for each row, each weighted by its share."""
        config, weights, hidden = self.config, self.weights, self.config.hidden
        shares, chosen = self._shares(weights.linear(x, f"{name}.ffn_gate_inp", config.experts))
        used, rows = config.experts_used, x.shape[0]
        each = ops.expand(ops.reshape(x, shape=(rows, 1, hidden)), shape=(rows, used, hidden))
        each = ops.reshape(each, shape=(rows * used, hidden))
        order = None if rows == 1 else ops.argsort(chosen)
        if order is not None:  # rows of an expert are consecutive, and share its weights
            each, chosen = (ops.gather(given, order, axis=0) for given in (each, chosen))
        wide = self._expert_width
        gate = weights.experts(each, f"{name}.ffn_gate_exps.weight", chosen, wide)
        up = weights.experts(each, f"{name}.ffn_up_exps.weight", chosen, wide)
        inner = self._activated(gate) * up
        out = weights.experts(inner, f"{name}.ffn_down_exps.weight", chosen, hidden)
        if order is not None:
            out = ops.gather(out, ops.argsort(order), axis=0)
        weighted = ops.reshape(out, shape=(rows, used, hidden)) * shares
        total: Value = ops.reduce_sum(weighted, axes=(1,))
        return total

    def _shared(self, x: Value, name: str) -> Value | float:
        """Return what the expert of all tokens gives, by its gate where it has one."""
        config, weights = self.config, self.weights
        if not weights.has(f"{name}.ffn_up_shexp.weight"):
            return 0.0
        wide = weights.rows(f"{name}.ffn_up_shexp.weight")
        gate = weights.linear(x, f"{name}.ffn_gate_shexp", wide)
        up = weights.linear(x, f"{name}.ffn_up_shexp", wide)
        out = weights.linear(self._activated(gate) * up, f"{name}.ffn_down_shexp", config.hidden)
        if weights.has(f"{name}.ffn_gate_inp_shexp.weight"):
            share = weights.vector(f"{name}.ffn_gate_inp_shexp.weight", config.hidden)
            total = ops.reduce_sum(x * share, axes=(-1,), keepdims=True)
            out = out * ops.sigmoid(total)
        return out

    @property
    def _expert_width(self) -> int:
        key = f"{self.config.architecture}.expert_feed_forward_length"
        return int(self.weights.file.metadata.get(key, self.config.feed_forward))

    def _shares(self, scores: Value) -> tuple[Value, Value]:
        """Return the chosen experts' shares, `[rows, used, 1]`, and numbers, `[rows * used]`."""
        used = self.config.experts_used
        best, chosen = ops.topk(ops.softmax(scores, axis=-1), k=used)
        shares = best
        if self.config.shares_sum_to_1:
            shares = best / ops.reduce_sum(best, axes=(-1,), keepdims=True)
        rows = scores.shape[0]
        numbers = ops.cast(ops.reshape(chosen, shape=(rows * used,)), to=DType.I32)
        return ops.reshape(shares, shape=(rows, used, 1)), numbers


def decoder_graph(
    file: ModelFile,
    *,
    rows: int | Dim,
    context: int,
    adapters: Adapters | None = None,
    accuracy: Accuracy = "exact",
    cache_dtype: CacheDType = "f32",
) -> tuple[Graph, Weights]:
    """Return a graph and its weights. Outputs: the next token, its logits, and the state."""
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
    last: Value = ops.dynamic_slice(decoder.hidden(tokens), at, sizes=(1, config.hidden))
    logits = decoder.logits(last)
    choice = Choice.declared(graph, config.vocabulary, [(history, tokens)])
    token = sampled(graph, logits, choice)
    graph.set_outputs([token, logits, *decoder.state.values()], donated=decoder.state)
    return graph, weights


def hidden_graph(
    file: ModelFile, *, rows: Dim, accuracy: Accuracy = "exact"
) -> tuple[Graph, Weights]:
    """Return the graph of a text's rows `[rows, hidden]`, normalized, and its weights."""
    config, graph, context = DecoderConfig.of(file), Graph("embedding"), upper(rows)
    tokens = graph.input("tokens", (rows,), DType.I32)
    weights = Weights(graph, file, config, None, accuracy)

    def of_rows(table: Array) -> Value:
        found: Value = ops.narrow(graph.constant(table), axis=0, start=0, length=rows)
        return found

    decoder = Decoder(graph, config, weights, rows, 0, context, None, of_rows, state={})
    graph.set_outputs([decoder.if_normed(decoder.hidden(tokens), "output_norm")])
    return graph, weights


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


def _split(x: Value, widths: tuple[int, ...]) -> list[Value]:
    """Cut the columns of `x`."""
    starts = np.cumsum([0, *widths])
    return [
        ops.narrow(x, axis=-1, start=int(start), length=width)
        for start, width in zip(starts, widths, strict=False)
    ]
