"""Settings of `config.json` that only some model types have, as keys of GGUF files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

Config: TypeAlias = Mapping[str, Any]
Keys: TypeAlias = dict[str, tuple[str, Any]]
"""The name of a setting, and what the key holds."""


def no_keys(config: Config) -> Keys:
    """Return nothing: settings of this model type are those of all."""
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
    if adjusts and type(wide) is int and type(whole) is int and whole > 0 and abs(factor) < 1e3:
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


def _sum(*numbers: Any) -> int | None:
    """Return a sum of integers, or None where one is none."""
    return sum(numbers) if all(type(number) is int for number in numbers) else None
