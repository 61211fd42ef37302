"""Settings of `config.json` that only some model types have, as keys of GGUF files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import FormatError, UnsupportedError

Config: TypeAlias = Mapping[str, Any]
Array: TypeAlias = NDArray[Any]
Keys: TypeAlias = dict[str, tuple[str, Any]]
"""The name of a setting, and what the key holds."""


def no_keys(config: Config) -> Keys:
    """Return no keys: this model type has no settings of its own."""
    del config
    return {}


def no_scales(config: Config) -> Mapping[str, Array]:
    """Return no scales: the matrices of this model type are stored unscaled."""
    del config
    return {}


def deepseek_keys(config: Config) -> Keys:
    """Return the widths of latent attention, and how experts are chosen."""
    plain, turned = config.get("qk_nope_head_dim"), config.get("qk_rope_head_dim")
    is_v3 = config.get("model_type") == "deepseek_v3"
    keys: Keys = {
        "attention.head_count_kv": ("num_key_value_heads", 1),
        "attention.key_length": ("qk_nope_head_dim", _sum(plain, turned)),
        "attention.value_length_mla": ("v_head_dim", config.get("v_head_dim")),
        "attention.kv_lora_rank": ("kv_lora_rank", config.get("kv_lora_rank")),
        "rope.dimension_count": ("qk_rope_head_dim", turned),
        "expert_count": ("n_routed_experts", config.get("n_routed_experts", 0)),
        "expert_weights_scale": (
            "routed_scaling_factor", config.get("routed_scaling_factor", 1.0)
        ),
        "expert_gating_func": ("scoring_func", 2 if is_v3 else 1),
        "expert_weights_norm": ("norm_topk_prob", is_v3 and config.get("norm_topk_prob", True)),
    }  # fmt: skip
    if is_v3 or config.get("topk_method") == "group_limited_greedy":
        keys["expert_group_count"] = ("n_group", config.get("n_group"))
        keys["expert_group_used_count"] = ("topk_group", config.get("topk_group"))
    return keys


def lfm2_keys(config: Config) -> Keys:
    """Return which layers attend, and the width of the feed-forward network."""
    keys: Keys = {}
    types, attending = config.get("layer_types"), config.get("full_attn_idxs")
    layers, heads = config.get("num_hidden_layers"), config.get("num_key_value_heads")
    if types is None and isinstance(attending, list) and type(layers) is int:
        numbers = range(min(layers, 1 << 16))
        types = ["full_attention" if n in attending else "conv" for n in numbers]
    if isinstance(types, list) and type(heads) is int and 0 < heads < 1 << 31:
        own = np.array([heads if kind == "full_attention" else 0 for kind in types], np.int64)
        keys["attention.head_count_kv"] = ("layer_types", own)
    wide, whole = config.get("intermediate_size"), config.get("block_multiple_of", 256)
    factor = config.get("block_ffn_dim_multiplier", 1.0)
    adjusts = config.get("block_auto_adjust_ff_dim", True) and isinstance(factor, (int, float))
    adjusts = adjusts and type(whole) is int and whole > 0 and abs(factor) < 1e3
    if adjusts and type(wide) is int and abs(wide) < 1 << 31:
        adjusted = -(-int(factor * (2 * wide // 3)) // whole) * whole
        keys["feed_forward_length"] = ("intermediate_size", adjusted)
    return keys


def mamba2_keys(config: Config) -> Keys:
    """Return the widths of the state, which attention and feed-forward networks are no part of."""
    heads, width = config.get("num_heads"), config.get("head_dim")
    inner = heads * width if type(heads) is int and type(width) is int else None
    return {
        "ssm.time_step_rank": ("num_heads", heads),
        "ssm.group_count": ("n_groups", config.get("n_groups")),
        "ssm.state_size": ("state_size", config.get("state_size")),
        "ssm.inner_size": ("head_dim", inner),
    }


def qwen3_next_keys(config: Config) -> Keys:
    """Return the widths of the gated delta net."""
    heads, width = config.get("linear_num_value_heads"), config.get("linear_value_head_dim")
    inner = heads * width if type(heads) is int and type(width) is int else None
    return {
        "ssm.time_step_rank": ("linear_num_value_heads", heads),
        "ssm.group_count": ("linear_num_key_heads", config.get("linear_num_key_heads")),
        "ssm.state_size": ("linear_key_head_dim", config.get("linear_key_head_dim")),
        "ssm.inner_size": ("linear_value_head_dim", inner),
    }


def llama4_keys(config: Config) -> Keys:
    """Return which layers have rope and chunks, and how queries of the others are scaled."""
    scale = config.get("attn_scale", 0.1) if config.get("attn_temperature_tuning", True) else 0.0
    keys: Keys = {
        "feed_forward_length": ("intermediate_size_mlp", config.get("intermediate_size_mlp")),
        "expert_feed_forward_length": ("intermediate_size", config.get("intermediate_size")),
        "attention.unit_heads": ("use_qk_norm", config.get("use_qk_norm", True)),
        "attention.temperature_scale": ("attn_scale", scale),
        "attention.temperature_length": ("floor_scale", config.get("floor_scale", 8192)),
    }
    layers, width = config.get("num_hidden_layers"), config.get("head_dim")
    if type(layers) is not int or type(width) is not int or not 0 < width < 1 << 31:
        return keys
    every_fourth = [int((number + 1) % 4 != 0) for number in range(min(layers, 1 << 16))]
    has_rope = config.get("no_rope_layers") or every_fourth
    if not isinstance(has_rope, list):
        return {**keys, "rope.dimension_count": ("no_rope_layers", has_rope)}  # is refused
    rotated = np.array([width * has for has in has_rope], np.int64)
    keys["rope.dimension_count"] = ("no_rope_layers", rotated)
    types = config.get("layer_types") or [
        "chunked_attention" if has else "full_attention" for has in has_rope
    ]
    in_chunks = [kind == "chunked_attention" for kind in types]
    size = config.get("sliding_window", None if any(in_chunks) else 0)
    keys["attention.sliding_window"] = ("attention_chunk_size", size)
    keys["attention.sliding_window_pattern"] = ("layer_types", in_chunks)
    return keys


def falcon_h1_keys(config: Config) -> Keys:
    """Return the widths of the state, and the multipliers of scores and logits."""
    if config.get("mamba_rms_norm") and config.get("mamba_norm_before_gate", True):
        raise UnsupportedError(
            "config.json: norms of the state space before its gate are not supported",
            remedy="use a model without mamba_norm_before_gate",
        )
    inner, hidden, heads = (
        config.get(name) for name in ("mamba_d_ssm", "hidden_size", "num_attention_heads")
    )
    expand = config.get("mamba_expand", 2)
    if inner is None and type(hidden) is int and type(expand) is int:
        inner = expand * hidden
    keys: Keys = {
        "ssm.time_step_rank": ("mamba_n_heads", config.get("mamba_n_heads")),
        "ssm.group_count": ("mamba_n_groups", config.get("mamba_n_groups")),
        "ssm.state_size": ("mamba_d_state", config.get("mamba_d_state")),
        "ssm.inner_size": ("mamba_d_ssm", inner),
        "logit_scale": ("lm_head_multiplier", 1 / _factors(config, "lm_head_multiplier")[0]),
    }
    width = config.get("head_dim")
    if width is None and type(hidden) is int and type(heads) is int and heads > 0:
        width = hidden // heads
    if type(width) is int and 0 < width < 1 << 31:
        given, key = (_factors(config, f"{name}_multiplier")[0] for name in ("attention_in", "key"))
        keys["attention.scale"] = ("key_multiplier", key * given * given / math.sqrt(width))
    return keys


def falcon_h1_scales(config: Config) -> dict[str, Array]:
    """Return factors by which matrices are multiplied in GGUF files: one, or one per row."""
    attended = _factors(config, "attention_in_multiplier")
    attended = attended * _factors(config, "attention_out_multiplier")
    gate, down = _factors(config, "mlp_multipliers", 2)
    given = _factors(config, "ssm_in_multiplier") * _factors(config, "ssm_multipliers", 5)
    widths = falcon_h1_keys(config)
    inner, heads, groups, state = (
        widths[f"ssm.{name}"][1]
        for name in ("inner_size", "time_step_rank", "group_count", "state_size")
    )
    shared = groups * state if type(groups) is int and type(state) is int else None
    counts = (inner, inner, shared, shared, heads)
    if not all(type(count) is int and 0 <= count < 1 << 24 for count in counts):
        return {}  # which reading the keys refuses
    return {
        "attn_output.weight": attended,
        "ffn_gate.weight": np.array([gate]),
        "ffn_down.weight": np.array([down]),
        "ssm_in.weight": np.repeat(given, np.array(counts, np.int64)),
        "ssm_out.weight": _factors(config, "ssm_out_multiplier"),
    }


def _factors(config: Config, name: str, count: int = 1) -> Array:
    """Return the `count` multipliers called `name`; 1 where the config has none."""
    found = config.get(name, [1.0] * count)
    given = found if isinstance(found, list) else [found]
    are_numbers = all(type(each) in (int, float) and 0 < abs(each) < 1e30 for each in given)
    if len(given) != count or not are_numbers:
        raise FormatError(
            f"config.json: key {name!r} is {str(found)[:100]}; it must be {count} finite numbers "
            "other than 0",
            remedy="use the folder of a language model, as its maker wrote it",
        )
    return np.array(given, np.float64)


def _sum(*numbers: Any) -> int | None:
    """Return a sum of integers, or None where one is none."""
    return sum(numbers) if all(type(number) is int for number in numbers) else None
