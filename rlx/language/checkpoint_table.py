"""Folders as the Hugging Face hub has them, in the words of GGUF files: keys, and names of tensors.

A model type of `config.json` is a row of `MODEL_TYPES`; what it does not say is alike for all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import FormatError, UnsupportedError
from rlx.language.architectures import ARCHITECTURES
from rlx.language.checkpoint_keys import (
    deepseek_keys,
    falcon_h1_keys,
    falcon_h1_scales,
    lfm2_keys,
    llama4_keys,
    mamba2_keys,
    no_keys,
    no_scales,
    qwen3_next_keys,
)
from rlx.language.checkpoint_views import (
    DEEPSEEK,
    GPT_OSS,
    LFM2,
    LLAMA4,
    STATE_SPACE,
    View,
    Views,
)

Array: TypeAlias = NDArray[Any]
Config: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelType:
    """How a model type differs from the file of its architecture."""

    architecture: str
    interleaved_rope: bool = False
    """True if rows of q and k pair even and odd elements of a head."""
    norms_add_1: bool = False
    """True if norms multiply by 1 and what is stored."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Tensors that are something else than in other model types."""
    defaults: Config = field(default_factory=dict)
    """Settings that published files leave out."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Settings that are called otherwise in older files."""
    views: Views = field(default_factory=dict)
    """Tensors that GGUF files have in another form."""
    keys: Callable[[Config], Mapping[str, tuple[str, Any]]] = no_keys
    """Gives further keys of GGUF files: the names of settings, and what each says."""
    scales: Callable[[Config], Mapping[str, Array]] = no_scales
    """Gives what matrices of layers are multiplied by in GGUF files: all of their rows, or each."""
    fixed: Config = field(default_factory=dict)
    """Settings that decoders here have one value for."""
    layer_types: frozenset[str] = frozenset({"full_attention", "sliding_attention"})


_AFTER_ATTENTION = {"post_attention_layernorm": "post_attention_norm"}
_NO_WINDOW = {"use_sliding_window": False}
_TANH = {"hidden_activation": "gelu_pytorch_tanh"}
_GEMMA3 = ModelType(
    "gemma3", norms_add_1=True, names=_AFTER_ATTENTION,
    defaults={
        **_TANH, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 256,
        "sliding_window": 4096, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
    },
)  # fmt: skip

_BERT = {
    "attention.self.query": "attn_q", "attention.self.key": "attn_k",
    "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
}  # fmt: skip
_NOMIC_BERT = {
    "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "mlp.fc11": "ffn_up",
    "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down", "norm1": "attn_output_norm",
    "norm2": "layer_output_norm", "post_attention_layernorm": "attn_output_norm",
    "post_mlp_layernorm": "layer_output_norm",
}  # fmt: skip
_GPT_OSS = {
    "post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp",
}  # fmt: skip
_DEEPSEEK = {
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
}  # fmt: skip
_LFM2 = {
    "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm",
    "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down",
    "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
}  # fmt: skip
_MAMBA2 = {
    "norm": "attn_norm", "mixer.in_proj": "ssm_in", "mixer.out_proj": "ssm_out",
    "mixer.norm": "ssm_norm", "mixer.conv1d": "ssm_conv1d",
}  # fmt: skip
_FEED_FORWARD = {
    f"feed_forward.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")
}  # fmt: skip
_LLAMA4 = {
    **_FEED_FORWARD, "feed_forward.router": "ffn_gate_inp",
    "feed_forward.shared_expert.gate_proj": "ffn_gate_shexp",
    "feed_forward.shared_expert.up_proj": "ffn_up_shexp",
    "feed_forward.shared_expert.down_proj": "ffn_down_shexp",
}  # fmt: skip
_FALCON_H1 = {
    **_FEED_FORWARD, "pre_ff_layernorm": "ffn_norm", "mamba.in_proj": "ssm_in",
    "mamba.out_proj": "ssm_out", "mamba.norm": "ssm_norm", "mamba.conv1d": "ssm_conv1d",
}  # fmt: skip
_QWEN3_NEXT = {
    "post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkvz": "ssm_in",
    "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
}  # fmt: skip
_OLD_NOMIC_BERT = {
    "n_embd": "hidden_size", "n_head": "num_attention_heads", "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers", "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps", "rotary_emb_base": "rope_theta",
    "activation_function": "hidden_act",
}  # fmt: skip

_LLAMA4_TYPE = ModelType(
    "llama4", interleaved_rope=True, names=_LLAMA4, views=LLAMA4, keys=llama4_keys,
    aliases={"attention_chunk_size": "sliding_window"}, fixed={"no_rope_layer_interval": 4},
    layer_types=frozenset({"chunked_attention", "full_attention"}),
)  # fmt: skip
MODEL_TYPES = {
    "llama": ModelType("llama"),
    "mistral": ModelType("llama"),
    "mixtral": ModelType("llama"),
    "ministral3": ModelType("mistral3"),
    "granite": ModelType("granite"),
    "smollm3": ModelType("smollm3", defaults=_NO_WINDOW),
    "glm4": ModelType("glm4", interleaved_rope=True),
    "qwen2": ModelType("qwen2", defaults=_NO_WINDOW),
    "qwen2_moe": ModelType("qwen2moe", defaults=_NO_WINDOW),
    "qwen3": ModelType("qwen3", defaults=_NO_WINDOW),
    "qwen3_moe": ModelType("qwen3moe", defaults=_NO_WINDOW),
    "olmo2": ModelType("olmo2", names=_AFTER_ATTENTION),
    "olmo3": ModelType("olmo2", names=_AFTER_ATTENTION),
    "olmoe": ModelType("olmoe"),
    "phi3": ModelType("phi3"),
    "gemma": ModelType("gemma", norms_add_1=True, defaults=_TANH),
    "gemma2": ModelType("gemma2", norms_add_1=True, names=_AFTER_ATTENTION, defaults=_TANH),
    "gpt_oss": ModelType(
        "gpt-oss", names=_GPT_OSS, views=GPT_OSS,
        fixed={"swiglu_limit": 7.0, "swiglu_alpha": 1.702},
    ),
    "deepseek_v2": ModelType(
        "deepseek2", interleaved_rope=True, names=_DEEPSEEK, views=DEEPSEEK, keys=deepseek_keys
    ),
    "deepseek_v3": ModelType(
        "deepseek2", interleaved_rope=True, names=_DEEPSEEK, views=DEEPSEEK, keys=deepseek_keys
    ),
    "mamba2": ModelType(
        "mamba2", names=_MAMBA2, views=STATE_SPACE, keys=mamba2_keys,
        defaults={
            "rope_theta": 1e4, "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-5,
        },
        aliases={"layer_norm_epsilon": "rms_norm_eps"},
        fixed={"time_step_limit": [0.0, math.inf]},
        layer_types=frozenset({"linear_attention"}),
    ),
    "falcon_h1": ModelType(
        "falcon-h1", names=_FALCON_H1, views=STATE_SPACE, keys=falcon_h1_keys,
        scales=falcon_h1_scales,
        fixed={
            "time_step_limit": [0.0, math.inf], "mamba_proj_bias": False, "attention_bias": False,
            "mlp_bias": False, "projectors_bias": False,
        },
        layer_types=frozenset({"hybrid"}),
    ),
    "qwen3_next": ModelType(
        "qwen3next", norms_add_1=True, names=_QWEN3_NEXT, views=STATE_SPACE, keys=qwen3_next_keys,
        layer_types=frozenset({"full_attention", "linear_attention"}),
    ),
    "lfm2": ModelType(
        "lfm2", names=_LFM2, views=LFM2, keys=lfm2_keys,
        layer_types=frozenset({"full_attention", "conv"}),
        aliases={"norm_eps": "rms_norm_eps", "block_ff_dim": "intermediate_size"},
        fixed={"conv_bias": False},
    ),
    "bert": ModelType("bert", names=_BERT, defaults={"rope_theta": 1e4}),
    "nomic_bert": ModelType(
        "nomic-bert", names=_NOMIC_BERT, defaults={"rope_theta": 1e3}, aliases=_OLD_NOMIC_BERT
    ),
    "llama4_text": _LLAMA4_TYPE,
    "llama4": _LLAMA4_TYPE,
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
}  # fmt: skip

_KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "context_length": "max_position_embeddings",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_weights_norm": "norm_topk_prob",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "attention.scale": "attention_multiplier",
    "logit_scale": "logits_scaling",
}
"""Keys of GGUF files, and the same in `config.json`."""

_REFUSED = (
    "clip_qkv", "quantization_config", "use_bidirectional_attention", "rotary_scaling_factor"
)  # fmt: skip
"""Settings that change results, and that decoders here have not."""

_ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "swiglu": "silu", "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_approx",
}  # fmt: skip


def of_text(config: Config) -> Config:
    """Return what a config says of the decoder of text, where it has other parts too."""
    inner = config.get("text_config")
    if not isinstance(inner, dict):
        return config
    outer = {key: config[key] for key in ("model_type", "tie_word_embeddings") if key in config}
    return {**outer, **inner}


def model_type(config: Config, path: str) -> ModelType:
    """Return the row of a config's model type."""
    name = config.get("model_type")
    if not isinstance(name, str) or name not in MODEL_TYPES:
        raise UnsupportedError(
            f"{path}: model_type {name!r} is not supported",
            remedy=f"use a model of one of: {', '.join(MODEL_TYPES)}",
        )
    return MODEL_TYPES[name]


@dataclass(frozen=True, slots=True)
class Translation:
    """A config in the words of a GGUF file."""

    metadata: dict[str, Any]
    names: dict[str, str]
    """What keys of `metadata` are called in the config."""
    factors: dict[str, Array]
    """Tensors of a GGUF file that the config has as numbers."""
    scales: Mapping[str, Array]
    """What matrices of layers are multiplied by: all of their rows, or each."""


def translated(config: Config, path: str) -> Translation:
    """Return the metadata that a GGUF file of this model has."""
    kind = model_type(config, path)
    given = {key: value for key, value in config.items() if value is not None}
    found = {**kind.defaults, **{kind.aliases.get(key, key): v for key, v in given.items()}}
    reader = _Reader(found, path, kind)
    reader.check()
    keys = {key: (name, found[name]) for key, name in _KEYS.items() if name in found}
    for name in ("num_local_experts", "num_experts"):
        if found.get(name):
            keys["expert_count"] = (name, found[name])
    if "query_pre_attn_scalar" in found:
        scale = reader.number(found, "query_pre_attn_scalar") ** -0.5
        keys["attention.scale"] = ("query_pre_attn_scalar", scale)
    keys |= reader.windows() | reader.rope() | dict(kind.keys(found))
    prefix = kind.architecture
    metadata = {f"{prefix}.{key}": value for key, (_, value) in keys.items()}
    metadata["general.architecture"] = prefix
    interleaved = found.get("rope_interleave", kind.interleaved_rope)
    metadata[f"{prefix}.rope.interleaved"] = interleaved
    called = {**_KEYS, **{key: name for key, (name, _) in keys.items()}}
    spelled = {f"{prefix}.{key}": name for key, name in called.items()}
    return Translation(metadata, spelled, reader.factors(), kind.scales(found))


@dataclass(frozen=True, slots=True)
class _Reader:
    config: Config
    path: str
    kind: ModelType

    def error(self, name: str, wanted: str) -> FormatError:
        return FormatError(
            f"{self.path}: key {name!r} is {str(self.config.get(name))[:200]}; it must be {wanted}",
            remedy="use the folder of a language model, as its maker wrote it",
        )

    def number(self, values: Config, name: str, default: float | None = None) -> float:
        value = values.get(name, default)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 1e-30 < value < 1e30:
            raise FormatError(
                f"{self.path}: key {name!r} is {str(value)[:100]}; it must be a number above 0",
                remedy="use the folder of a language model, as its maker wrote it",
            )
        return float(value)

    def check(self) -> None:
        """Refuse what would change results without notice."""
        for name in _REFUSED:
            if self.config.get(name):
                raise UnsupportedError(
                    f"{self.path}: {name} {str(self.config[name])[:200]} is not supported",
                    remedy="use a model without it",
                )
        for name, usual in self.kind.fixed.items():
            if _plain(self.config.get(name, usual)) != usual:
                raise UnsupportedError(
                    f"{self.path}: {name} {str(self.config[name])[:200]} is not supported",
                    remedy=f"use a model with {usual}",
                )
        wanted = ARCHITECTURES[self.kind.architecture].activation
        name = self.config.get("hidden_activation", self.config.get("hidden_act", "silu"))
        if not isinstance(name, str) or _ACTIVATIONS.get(name) != wanted:
            raise UnsupportedError(
                f"{self.path}: the activation {name!r} is not supported for this model type",
                remedy=f"use a model with {wanted}",
            )

    def layer_types(self) -> list[str] | None:
        found = self.config.get("layer_types")
        if found is None:
            return None
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise self.error("layer_types", "a name for each layer")
        unknown = set(found) - self.kind.layer_types
        if unknown:
            raise UnsupportedError(
                f"{self.path}: layers of type {', '.join(sorted(unknown))} are not supported",
                remedy=f"use a model with {' and '.join(sorted(self.kind.layer_types))} alone",
            )
        return found

    def windows(self) -> dict[str, tuple[str, Any]]:
        """Return the window of attention, and which layers have it."""
        window, types = self.config.get("sliding_window"), self.layer_types()
        key = "attention.sliding_window"
        if not window or self.config.get("use_sliding_window") is False:
            return {key: ("sliding_window", 0)}
        keys = {key: ("sliding_window", window)}
        if types is None and "use_sliding_window" in self.config:
            layers = int(self.number(self.config, "num_hidden_layers"))
            first = int(self.number(self.config, "max_window_layers"))
            if max(layers, first) < 1 << 20:
                types = ["sliding_attention" if n >= first else "" for n in range(layers)]
        if types is not None:
            windowed = [name == "sliding_attention" for name in types]
            keys["attention.sliding_window_pattern"] = ("layer_types", windowed)
        return keys

    def ropes(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the parameters of rope, and those of layers with a window if they differ.

        Files before transformers 5 have them as `rope_theta` and `rope_scaling`.
        """
        found = self.config.get("rope_parameters", self.config.get("rope_scaling")) or {}
        if not isinstance(found, dict):
            raise self.error("rope_parameters", "an object")
        of_all = {"rope_theta", "partial_rotary_factor", "original_max_position_embeddings"}
        plain = {key: self.config[key] for key in of_all if key in self.config}
        local: dict[str, Any] | None = None
        if "rope_local_base_freq" in self.config:
            local = {"rope_theta": self.config["rope_local_base_freq"]}
        if self.config.get("model_type") == "olmo3":
            local = dict(plain)
        if "full_attention" in found:
            local = {**plain, **_object(found.get("sliding_attention"))}
            found = _object(found["full_attention"])
        return {**plain, **found}, local

    def rope(self) -> dict[str, tuple[str, Any]]:
        rope, local = self.ropes()
        keys: dict[str, tuple[str, Any]] = {
            "rope.freq_base": ("rope_theta", self.number(rope, "rope_theta")),
        }
        if local is not None:
            if local.get("rope_type", "default") != "default":
                raise UnsupportedError(
                    f"{self.path}: scaled rope in layers with a window is not supported",
                    remedy="use a model that scales the rope of its other layers alone",
                )
            keys["rope.freq_base_swa"] = ("rope_theta", self.number(local, "rope_theta"))
        if "partial_rotary_factor" in rope or isinstance(self.config.get("no_rope_layers"), list):
            keys["rope.dimension_count"] = ("partial_rotary_factor", self._rotated(rope))
        return keys | self._scaling(rope)

    def _rotated(self, rope: Config) -> int | Array:
        """Return how much of a head is rotated: in each layer where they differ."""
        heads = self.number(self.config, "num_attention_heads")
        width = self.number(self.config, "hidden_size") / heads
        part = self.number(rope, "partial_rotary_factor", 1.0)
        rotated = int(self.number(self.config, "head_dim", width) * part)
        if rotated > 1 << 31:
            raise self.error("head_dim", "a number of elements of a head")
        layers = self.config.get("no_rope_layers")
        if not isinstance(layers, list):
            return rotated
        if not all(has in (0, 1) for has in layers):
            raise self.error("no_rope_layers", "0 or 1 for each layer")
        return np.array([rotated * has for has in layers], np.int64)

    def _scaling(self, rope: Config) -> dict[str, tuple[str, Any]]:
        """Return how the rope is scaled, as `RopeScaling` reads it."""
        kind = self._kind(rope)
        if kind in ("default", "llama3"):
            return {}
        keys: dict[str, tuple[str, Any]] = {"rope.scaling.type": ("rope_type", kind)}
        if kind == "linear":
            factor = self.number(rope, "factor")
            return {**keys, "rope.scaling.factor": ("factor", factor)}
        context = self.number(self.config, "max_position_embeddings")
        original = self.number(rope, "original_max_position_embeddings", context)
        factor = self.number(rope, "factor", context / original)
        if kind == "longrope":
            # The ratio of contexts, which published files have besides or instead of a factor.
            factor = context / original if "factor" not in rope else factor
            if not original > 1:
                raise self.error("rope_parameters", "with original_max_position_embeddings above 1")
            by_default = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
            magnitude = self.number(rope, "attention_factor", by_default)
        else:
            traits = ARCHITECTURES[self.kind.architecture]
            settings = {"beta_fast": 32, "beta_slow": 1, "truncate": traits.yarn_truncates}
            for name, usual in settings.items():
                if rope.get(name, usual) != usual:
                    raise UnsupportedError(
                        f"{self.path}: YaRN with {name} {str(rope[name])[:50]} is not supported",
                        remedy=f"use a model with {usual}",
                    )
            magnitude = self._yarn_magnitude(rope, factor)
            if not traits.yarn_scales_scores:
                magnitude /= _grown(factor, 1.0)
            elif rope.get("mscale_all_dim"):
                growth = 0.1 * self.number(rope, "mscale_all_dim")
                keys["rope.scaling.yarn_log_multiplier"] = ("mscale_all_dim", growth)
        keys["rope.scaling.factor"] = ("factor", factor)
        keys["rope.scaling.attn_factor"] = ("attention_factor", magnitude)
        keys["rope.scaling.original_context_length"] = (
            "original_max_position_embeddings", int(original),
        )  # fmt: skip
        if "llama_4_scaling_beta" in rope:
            beta = self.number(rope, "llama_4_scaling_beta")
            keys["attention.temperature_scale"] = ("llama_4_scaling_beta", beta)
        return keys

    def _kind(self, rope: Config) -> str:
        kind = rope.get("rope_type", rope.get("type", "default"))
        kind = "longrope" if kind == "su" else kind
        if kind not in ("default", "linear", "llama3", "yarn", "longrope"):
            raise UnsupportedError(
                f"{self.path}: rope of type {str(kind)[:50]!r} is not supported",
                remedy="use a model with one of: default, linear, llama3, yarn, longrope",
            )
        return str(kind)

    def _yarn_magnitude(self, rope: Config, factor: float) -> float:
        scales = rope.get("mscale"), rope.get("mscale_all_dim")
        if all(scales):
            own, of_all = (self.number(rope, name) for name in ("mscale", "mscale_all_dim"))
            by_default = _grown(factor, own) / _grown(factor, of_all)
        else:
            by_default = _grown(factor, 1.0)
        return self.number(rope, "attention_factor", by_default)

    def factors(self) -> dict[str, Array]:
        """Return what frequencies of pairs are divided by, where each has a factor of its own."""
        rope, _ = self.ropes()
        kind = self._kind(rope)
        if kind == "longrope":
            return {
                f"rope_factors_{name}.weight": self._list(rope, f"{name}_factor")
                for name in ("long", "short")
            }
        return {"rope_freqs.weight": self._llama3(rope)} if kind == "llama3" else {}

    def _list(self, rope: Config, name: str) -> Array:
        try:
            with np.errstate(over="ignore"):
                return np.array(rope[name], np.float32)
        except (LookupError, TypeError, ValueError, OverflowError):
            raise self.error("rope_parameters", f"with numbers called {name}") from None

    def _llama3(self, rope: Config) -> Array:
        """Divide frequencies of long waves by the factor, of short ones by 1, between smoothly."""
        names = ("rope_theta", "factor", "low_freq_factor", "high_freq_factor",
                 "original_max_position_embeddings")  # fmt: skip
        base, factor, low, high, original = (self.number(rope, name) for name in names)
        if not high > low:
            raise self.error("rope_parameters", "with high_freq_factor above low_freq_factor")
        rotated = np.max(self._rotated(rope))
        if not 0 < rotated <= 1 << 16:
            raise self.error("head_dim", "a number of elements of a head")
        turns = original * base ** -(np.arange(0, rotated, 2) / rotated) / (2 * math.pi)
        share = np.clip((turns - low) / (high - low), 0, 1)
        divisors: Array = 1 / ((1 - share) / factor + share)
        return divisors.astype(np.float32)


def _grown(factor: float, scale: float) -> float:
    """Return the magnitude of YaRN for a context that has grown by a factor."""
    return 1 + 0.1 * scale * math.log(max(factor, 1.0))


def _plain(value: Any) -> Any:
    """Return a setting, with numbers that JSON has not as newer versions of transformers write."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return math.inf if value == {"__float__": "Infinity"} else value


def _object(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


# Names of tensors

_OUTSIDE = {
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
    "embeddings.word_embeddings": "token_embd", "embeddings.LayerNorm": "token_embd_norm",
    "embeddings.position_embeddings": "position_embd", "emb_ln": "token_embd_norm",
    "embeddings.token_type_embeddings": "token_types", "embedding_norm": "token_embd_norm",
    "embeddings": "token_embd", "norm_f": "output_norm", "final_layernorm": "output_norm",
    "pooler.dense": "cls", "classifier": "cls.output",
}  # fmt: skip
_ENDINGS = {"gamma": "weight", "beta": "bias"}
"""Of norms in older files."""
_INSIDE = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_up_proj": "ffn_up", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm", "post_mlp_layernorm": "post_ffw_norm",
    "post_self_attn_layernorm": "post_attention_norm",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "block_sparse_moe.gate": "ffn_gate_inp",
}  # fmt: skip
_EXPERTS = {
    "gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up",
    "w2": "down",
}  # fmt: skip
_PREFIX = re.compile(
    r"(?:(?:language_model\.model|model\.language_model|language_model|model|backbone)\."
    r"|(?:(?:nomic_)?bert\.)?(?:encoder\.)?)"
)
_LAYER = re.compile(r"layers?\.(0|[1-9]\d{0,5})\.(.+)")
_EXPERT = re.compile(r"(?:mlp|block_sparse_moe)\.experts\.(0|[1-9]\d{0,5})\.(\w+)")
_IGNORED = re.compile(
    r"(?:model\.)?(?:vision|visual|multi_modal_projector|audio)|.*rotary_emb\.inv_freq$"
    r"|(?:(?:nomic_)?bert\.)?(?:cls|embeddings\.position_ids)\b|mtp\."
)


def gguf_views(name: str, kind: ModelType) -> list[tuple[str, View]] | None:
    """Return the tensors of a GGUF file that come of one here, where forms differ; else None."""
    layer = _LAYER.fullmatch(_PREFIX.sub("", name, count=1))
    views = kind.views.get(layer[2]) if layer else None
    if layer is None or views is None:
        return None
    return [(f"blk.{layer[1]}.{own}", view) for own, view in views]


def gguf_name(name: str, kind: ModelType) -> tuple[str, int | None] | None:
    """Return what a GGUF file calls a tensor, and the number of its expert; None for no decoder's.

    LookupError for a name that no decoder here has.
    """
    if _IGNORED.match(name):
        return None
    stem, _, ending = _PREFIX.sub("", name, count=1).rpartition(".")
    ending = _ENDINGS.get(ending, ending)
    layer = _LAYER.fullmatch(stem)
    if layer is None:
        return f"{_OUTSIDE[stem]}.{ending}", None
    prefix, inner = f"blk.{layer[1]}", layer[2]
    expert = _EXPERT.fullmatch(inner)
    if expert is not None:
        return f"{prefix}.ffn_{_EXPERTS[expert[2]]}_exps.{ending}", int(expert[1])
    own = kind.names.get(inner) or _INSIDE[inner]
    return f"{prefix}.{own}.{ending}", None
