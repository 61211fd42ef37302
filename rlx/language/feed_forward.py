"""Feed-forward networks of a layer: gated or not, or a mixture of experts with shared ones.

What a layer has is read off its tensors, by the names of GGUF files.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import OPS
from rlx.language.layer_builder import LayerBuilder

_SWIGLU_SLOPE, _SWIGLU_LIMIT = 1.702, 7.0
"""Of gpt-oss: what gates are multiplied by in the sigmoid, and what gates and ups are cut at."""


def feed_forward(decoder: LayerBuilder, x: Value, name: str) -> Value:
    """Return what a layer's network gives for each row."""
    if decoder.weights.has(f"{name}.ffn_gate_inp.weight"):
        return _experts(decoder, x, name) + _shared(decoder, x, name)
    config, weights = decoder.config, decoder.weights
    wide = config.feed_forward
    if weights.has(f"{name}.ffn_gate.weight"):
        gate = weights.linear(x, f"{name}.ffn_gate", wide)
        up = weights.linear(x, f"{name}.ffn_up", wide)
    elif weights.rows(f"{name}.ffn_up.weight") == wide:
        inner = _activated(decoder, weights.linear(x, f"{name}.ffn_up", wide))
        return weights.linear(inner, f"{name}.ffn_down", config.hidden)
    else:
        both = weights.linear(x, f"{name}.ffn_up", 2 * wide)
        gate, up = (ops.narrow(both, axis=-1, start=s, length=wide) for s in (0, wide))
    return weights.linear(_gated(decoder, gate, up), f"{name}.ffn_down", config.hidden)


def _activated(decoder: LayerBuilder, gate: Value) -> Value:
    result: Value = OPS[decoder.config.traits.activation](gate)
    return result


def _gated(decoder: LayerBuilder, gate: Value, up: Value) -> Value:
    if not decoder.config.traits.clamps_gates:
        return _activated(decoder, gate) * up
    gate = ops.minimum(gate, _SWIGLU_LIMIT)
    up = ops.maximum(ops.minimum(up, _SWIGLU_LIMIT), -_SWIGLU_LIMIT)
    return gate * ops.sigmoid(gate * _SWIGLU_SLOPE) * (up + 1.0)


def _experts(decoder: LayerBuilder, x: Value, name: str) -> Value:
    """Sum what the chosen experts give for each row, each weighted by its share."""
    config, weights, hidden = decoder.config, decoder.weights, decoder.config.hidden
    scores = weights.linear(x, f"{name}.ffn_gate_inp", config.experts)
    shares, chosen = _shares(decoder, scores, name)
    used, rows = config.experts_used, x.shape[0]
    each = ops.expand(ops.reshape(x, shape=(rows, 1, hidden)), shape=(rows, used, hidden))
    if config.traits.weighs_inputs:
        each = each * shares
    each = ops.reshape(each, shape=(rows * used, hidden))
    order = None if rows == 1 else ops.argsort(chosen)
    if order is not None:  # rows of an expert are consecutive, and share its weights
        each, chosen = (ops.gather(given, order, axis=0) for given in (each, chosen))
    wide = _expert_width(decoder)
    gate = weights.experts(each, f"{name}.ffn_gate_exps", chosen, wide)
    up = weights.experts(each, f"{name}.ffn_up_exps", chosen, wide)
    out = weights.experts(_gated(decoder, gate, up), f"{name}.ffn_down_exps", chosen, hidden)
    if order is not None:
        out = ops.gather(out, ops.argsort(order), axis=0)
    out = ops.reshape(out, shape=(rows, used, hidden))
    weighted = out if config.traits.weighs_inputs else out * shares
    total: Value = ops.reduce_sum(weighted, axes=(1,))
    return total


def _shared(decoder: LayerBuilder, x: Value, name: str) -> Value | float:
    """Return what the expert of all tokens gives, by its gate where it has one."""
    config, weights = decoder.config, decoder.weights
    if not weights.has(f"{name}.ffn_up_shexp.weight"):
        return 0.0
    wide = weights.rows(f"{name}.ffn_up_shexp.weight")
    gate = weights.linear(x, f"{name}.ffn_gate_shexp", wide)
    up = weights.linear(x, f"{name}.ffn_up_shexp", wide)
    out = weights.linear(_gated(decoder, gate, up), f"{name}.ffn_down_shexp", config.hidden)
    if weights.has(f"{name}.ffn_gate_inp_shexp.weight"):
        share = weights.vector(f"{name}.ffn_gate_inp_shexp.weight", config.hidden)
        total = ops.reduce_sum(x * share, axes=(-1,), keepdims=True)
        out = out * ops.sigmoid(total)
    return out


def _expert_width(decoder: LayerBuilder) -> int:
    config = decoder.config
    key = f"{config.architecture}.expert_feed_forward_length"
    return int(decoder.weights.file.metadata.get(key, config.feed_forward))


def _shares(decoder: LayerBuilder, scores: Value, name: str) -> tuple[Value, Value]:
    """Return the chosen experts' shares, `[rows, used, 1]`, and numbers, `[rows * used]`."""
    config, rows = decoder.config, scores.shape[0]
    used = config.experts_used
    if config.traits.weighs_inputs:
        best, chosen = ops.topk(scores, k=used)
        shares = ops.sigmoid(best)
    elif config.gates_are_sigmoids:
        each = ops.sigmoid(scores)
        bias = f"{name}.exp_probs_b.bias"
        has_bias = decoder.weights.has(bias)
        routing = each + decoder.weights.vector(bias, config.experts) if has_bias else each
        chosen, shares = ops.group_limited_gate(
            each, routing, n_group=config.expert_groups, topk_group=config.expert_groups_used,
            top_k=used, routed_scaling=config.expert_scale,
        )  # fmt: skip
    else:
        shares, chosen = ops.topk(_of_best_groups(decoder, ops.softmax(scores, axis=-1)), k=used)
        if config.shares_sum_to_1:
            shares = shares / ops.reduce_sum(shares, axes=(-1,), keepdims=True)
        if config.expert_scale != 1.0:
            shares = shares * config.expert_scale
    numbers = ops.cast(ops.reshape(chosen, shape=(rows * used,)), to=DType.I32)
    return ops.reshape(shares, shape=(rows, used, 1)), numbers


def _of_best_groups(decoder: LayerBuilder, scores: Value) -> Value:
    """Replace scores by 0 in groups of experts whose best is not among the best (DeepSeek-V2)."""
    config, rows = decoder.config, scores.shape[0]
    if config.expert_groups == config.expert_groups_used:
        return scores
    groups = ops.reshape(
        scores, shape=(rows, config.expert_groups, config.experts // config.expert_groups)
    )
    best = ops.reduce_max(groups, axes=(-1,))
    kept, _ = ops.topk(best, k=config.expert_groups_used)
    least = ops.narrow(kept, axis=1, start=config.expert_groups_used - 1, length=1)
    allowed = ops.reshape(ops.ge(best, least), shape=(rows, config.expert_groups, 1))
    result: Value = ops.reshape(ops.where(allowed, groups, 0.0), shape=scores.shape)
    return result
