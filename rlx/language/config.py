"""The shape of a decoder, read from a GGUF file's metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import FormatError, UnsupportedError
from rlx.language.architectures import ARCHITECTURES, Architecture
from rlx.language.model_file import ModelFile

_SCALINGS = ("none", "linear", "yarn", "longrope")

ROPE_FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""The tensors whose numbers are in a decoder's graph: its tables of cosines and sines."""

_BY_LAYER = {
    "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv",
    "feed_forward": "feed_forward_length",
    "rope_rotated": "rope.dimension_count",
}
"""Fields that may differ from layer to layer, and their keys."""
_PATTERN = "attention.sliding_window_pattern"

_SOFTMAX, _SIGMOID = 1, 2
"""Functions of scores of experts."""

_TEMPERATURE_SCALE, _TEMPERATURE_LENGTH = 0.1, 8192
"""Of Llama 4, whose files do not say it."""
_EXPERTS_OF_MAVERICK = 128
"""Of the one Llama 4 that does not divide heads by their mean square; files do not say it."""

RECURRENT = ("shortconv.conv.weight", "ssm_conv1d.weight")
"""Tensors of layers whose state is of all tokens together."""

_MOST = 2**31 - 1
"""Above all counts of layers, heads, and the like."""
_LARGEST = 3.4028234e38
"""Of f32."""
_MOST_LAYERS = 1 << 16
"""Of a model whose layers a period divides into two kinds."""


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies extend beyond the context of the first training."""

    kind: str = "none"
    factor: float = 1.0
    """How much longer the context has become: all turns are slower by it (linear), or some."""
    original_context: int = 0
    magnitude: float = 1.0
    """What cosines and sines are multiplied by (YaRN, longrope)."""
    reads_factors: bool = True
    """True if the file's factors of pairs, where it has any, apply."""
    truncates: bool = True
    """True if YaRN rounds the numbers of the pairs between which it interpolates."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The widths of mixers with a state: Mamba 2, and the gated delta net."""

    heads: int
    groups: int
    """Of heads that share what is written and read, or heads of keys."""
    state: int
    inner: int
    """Elements of all heads."""


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """What the metadata says of a decoder, and what its architecture implies."""

    architecture: str
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    """Elements of a head of values."""
    latent: int
    """Elements of the row that keys and values are products of, in latent attention."""
    vocabulary: int
    context: int
    eps: float
    rope_base: float
    rope_rotated: int
    rope_scaling: RopeScaling
    attention_cap: float | None
    """Scores of attention are `cap * tanh(score / cap)`."""
    logit_cap: float | None
    """So are logits."""
    window: int | None
    experts: int
    experts_used: int
    expert_groups: int
    expert_groups_used: int
    """Of how many groups experts are chosen."""
    expert_scale: float
    """What shares are multiplied by."""
    gates_are_sigmoids: bool
    """True if experts are scored by sigmoids, and not by a softmax."""
    embedding_scale: float
    """What embeddings are multiplied by."""
    residual_scale: float
    """What attention and feed-forward networks give is multiplied by before it is added."""
    attention_scale: float
    """What scores are multiplied by."""
    logit_scale: float
    """What logits are divided by."""
    temperature_scale: float
    """Queries at position p are multiplied by 1 + scale * log(1 + p // length)."""
    temperature_length: int
    """By default the context of the first training, where the file says so."""
    unit_heads: bool
    """True if heads of q and k that are rotated are divided by the root of their mean square."""
    local_rope_base: float | None
    """The base of layers with a window, whose rope is not scaled then."""
    recurrence: Recurrence
    recurrent: bool
    """True if layers have a state of all tokens together, of which none can be forgotten."""
    causal: bool
    """False for encoders, whose tokens attend to all tokens of a text."""
    interleaved_rope: bool
    """True if the file's rows of q and k pair even and odd elements of a head."""
    shares_sum_to_1: bool
    """True if the shares of the chosen experts are divided by their sum."""
    window_pattern: tuple[bool, ...] = ()
    """Which layers have the window, where the file says so."""
    by_layer: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Fields that differ from layer to layer, and what each layer has."""

    @property
    def traits(self) -> Architecture:
        return ARCHITECTURES[self.architecture]

    def of_layer(self, number: int) -> DecoderConfig:
        """Return the configuration of a layer: its heads, its window and its rope."""
        traits = self.traits
        own: dict[str, Any] = {name: values[number] for name, values in self.by_layer}
        period = traits.plain_rope_period
        if traits.window_is_chunk and self.window is None:
            period = 0
        if period and (number + 1) % period == 0 and "rope_rotated" not in own:
            own["rope_rotated"] = 0
        if traits.tempers_plain and own.get("rope_rotated", 1):
            own["temperature_scale"] = 0.0
        if self.window is not None and not self._has_window(number):
            own["window"] = None
        elif self.window is not None and self.local_rope_base is not None:
            own["rope_base"] = self.local_rope_base
            own["rope_scaling"] = RopeScaling(reads_factors=False)
        return replace(self, **own) if own else self

    def _has_window(self, number: int) -> bool:
        if self.window_pattern:
            return self.window_pattern[number]
        period = self.traits.window_period
        return period == 1 or (period > 1 and (number + 1) % period != 0)

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @classmethod
    def of(cls, file: ModelFile) -> DecoderConfig:
        """Read the configuration of a file; a FormatError names a key that is missing."""
        metadata = _Metadata(file.path, file.metadata, file.key_names)
        architecture = metadata.text("general.architecture")
        if architecture not in ARCHITECTURES:
            raise UnsupportedError(
                f"{file.path}: its architecture, {architecture!r}, is not supported",
                remedy=f"use a model of one of: {', '.join(ARCHITECTURES)}",
            )
        return _config(metadata, architecture, file)


def _config(metadata: _Metadata, architecture: str, file: ModelFile) -> DecoderConfig:
    def number(key: str, default: int | None = None) -> int:
        return metadata.count(f"{architecture}.{key}", default)

    def real(key: str, default: float) -> float:
        return float(metadata.number(f"{architecture}.{key}", default))

    def flag(key: str, default: bool) -> bool:
        return metadata.flag(f"{architecture}.{key}", default)

    traits, layers = ARCHITECTURES[architecture], number("block_count")
    if layers < 1:
        raise metadata.error(f"{architecture}.block_count", layers, "at least 1")
    by_layer = {
        name: metadata.counts(f"{architecture}.{key}", layers)
        for name, key in _BY_LAYER.items()
        if traits.attends and isinstance(metadata.values.get(f"{architecture}.{key}"), np.ndarray)
    }

    def first(name: str, default: int | None = None) -> int:
        return by_layer[name][0] if name in by_layer else number(_BY_LAYER[name], default)

    heads, hidden = first("heads") if traits.attends else 1, number("embedding_length")
    if heads < 1:
        raise metadata.error(f"{architecture}.attention.head_count", heads, "at least 1")
    head_dim = number("attention.key_length", hidden // heads)
    head_dim = number("attention.key_length_mla", head_dim)
    value_dim = number("attention.value_length", head_dim)
    rotated = max(by_layer.get("rope_rotated", ()), default=-1)
    if rotated < 0:
        rotated = number("rope.dimension_count", head_dim)
    scored = hidden / heads if layers == traits.scale_of_width_at else head_dim
    scaling = _rope_scaling(metadata, architecture, ROPE_FACTORS[1] in file.tensors)
    sharper = 1.0
    if traits.yarn_scales_scores and scaling.kind == "yarn":
        growth = real("rope.scaling.yarn_log_multiplier", 0.0)
        sharper = (1 + growth * math.log(max(scaling.factor, 1.0))) ** 2
    config = DecoderConfig(
        architecture=architecture,
        layers=layers,
        hidden=hidden,
        feed_forward=first("feed_forward") if traits.attends else 1,
        heads=heads,
        kv_heads=first("kv_heads", heads) if traits.attends else 1,
        head_dim=head_dim,
        value_dim=number("attention.value_length_mla", value_dim),
        latent=number("attention.kv_lora_rank", 0),
        vocabulary=_vocabulary(file),
        context=number("context_length"),
        eps=float(metadata.number(f"{architecture}.{_eps_key(metadata, architecture)}")),
        rope_base=float(metadata.number(f"{architecture}.rope.freq_base", 10000.0)),
        rope_rotated=max(
            by_layer.get("rope_rotated") or (number("rope.dimension_count", head_dim),)
        ),
        rope_scaling=scaling,
        attention_cap=_cap(
            metadata, f"{architecture}.attn_logit_softcapping", traits.attention_cap
        ),
        logit_cap=_cap(metadata, f"{architecture}.final_logit_softcapping", traits.logit_cap),
        window=number("attention.sliding_window", traits.window) or None,
        experts=number("expert_count", 0),
        experts_used=number("expert_used_count", 0),
        expert_groups=max(number("expert_group_count", 1), 1),
        expert_groups_used=max(number("expert_group_used_count", 1), 1),
        expert_scale=real("expert_weights_scale", 1.0),
        gates_are_sigmoids=number("expert_gating_func", _SOFTMAX) == _SIGMOID,
        embedding_scale=real("embedding_scale", hidden**0.5 if traits.scales_embeddings else 1.0),
        residual_scale=real("residual_scale", 1.0),
        attention_scale=real("attention.scale", max(scored, 1) ** -0.5 * sharper),
        logit_scale=real("logit_scale", 1.0),
        temperature_scale=real(
            "attention.temperature_scale", _TEMPERATURE_SCALE if traits.tempers_plain else 0.0
        ),
        temperature_length=number(
            "attention.temperature_length",
            _TEMPERATURE_LENGTH
            if traits.tempers_plain
            else number("rope.scaling.original_context_length", 0),
        ),
        unit_heads=flag(
            "attention.unit_heads",
            traits.weighs_inputs and number("expert_count", 0) != _EXPERTS_OF_MAVERICK,
        ),
        local_rope_base=real("rope.freq_base_swa", traits.local_rope_base or 0.0) or None,
        recurrence=_recurrence(metadata, architecture),
        recurrent=any(name.endswith(RECURRENT) for name in file.tensors),
        causal=flag("attention.causal", traits.is_causal),
        interleaved_rope=flag("rope.interleaved", traits.interleaved_rope),
        shares_sum_to_1=flag("expert_weights_norm", traits.shares_sum_to_1),
        window_pattern=metadata.pattern(f"{architecture}.{_PATTERN}", layers),
        by_layer=tuple(by_layer.items()),
    )
    _check(metadata, config)
    _check_heads(metadata, config, file)
    return config


def _recurrence(metadata: _Metadata, architecture: str) -> Recurrence:
    """Read the widths of recurrent mixers: 1 where a model has none."""
    prefix = f"{architecture}.ssm"
    keys = ("time_step_rank", "group_count", "state_size", "inner_size")
    heads, groups, state, inner = (metadata.count(f"{prefix}.{key}", 1) for key in keys)
    if min(groups, state) < 1 or heads < 1 or heads % groups or inner % heads:
        raise metadata.error(
            f"{prefix}.group_count", groups,
            "a divisor of time_step_rank, and that one of inner_size",
        )  # fmt: skip
    return Recurrence(heads, groups, state, inner)


def _eps_key(metadata: _Metadata, architecture: str) -> str:
    """Return the key of what norms add to variances: layer norms have one of their own."""
    key = "attention.layer_norm_epsilon"
    is_there = f"{architecture}.{key}" in metadata.values
    return key if is_there else "attention.layer_norm_rms_epsilon"


def _cap(metadata: _Metadata, key: str, default: float | None) -> float | None:
    """Return what numbers are capped by, which is more than 0 where the file says so."""
    if key not in metadata.values:
        return default
    cap = float(metadata.number(key))
    if not cap > 0:
        raise metadata.error(key, cap, "more than 0")
    return cap


def _rope_scaling(metadata: _Metadata, architecture: str, has_long_factors: bool) -> RopeScaling:
    """Read how rope is scaled.

    Older files name a factor only, for linear scaling, and those with a factor for each pair
    (longrope, as Phi-3 has it) no type.
    """
    prefix = f"{architecture}.rope.scaling"
    factor = float(metadata.number(f"{prefix}.factor", 1.0))
    kind = metadata.text(f"{prefix}.type", "longrope" if has_long_factors else "linear")
    if kind not in _SCALINGS:
        raise UnsupportedError(
            f"{metadata.path}: rope scaling of type {kind!r} is not supported",
            remedy=f"use a model with one of: {', '.join(_SCALINGS)}",
        )
    if not factor > 0:
        raise metadata.error(f"{prefix}.factor", factor, "more than 0")
    if kind == "none" or (factor == 1.0 and kind != "longrope"):
        return RopeScaling()
    if kind == "linear":
        return RopeScaling(kind, factor)
    original = metadata.count(f"{prefix}.original_context_length")
    if original < 1:
        raise metadata.error(f"{prefix}.original_context_length", original, "at least 1")
    magnitude = float(metadata.number(f"{prefix}.attn_factor", 1.0))
    if kind == "longrope":
        return RopeScaling(kind, 1.0, original, magnitude)
    traits = ARCHITECTURES[architecture]
    growth = 0.0 if traits.yarn_scales_scores else 0.1 * math.log(max(factor, 1.0))
    return RopeScaling(
        kind, factor, original, magnitude * (1 + growth), truncates=traits.yarn_truncates
    )


def _check(metadata: _Metadata, config: DecoderConfig) -> None:
    """Demand numbers that a decoder can have."""
    prefix = config.architecture
    if config.layers < 1:
        raise metadata.error("layers", config.layers, "at least 1")
    # Where layers differ the file has a list of them: their number is that of no hostile file.
    for number in range(config.layers if config.by_layer else 1):
        layer = config.of_layer(number)
        attends = not (config.recurrent and config.by_layer and layer.kv_heads == 0)
        for name in ("hidden", "feed_forward", "heads", "kv_heads", "head_dim", "context"):
            value = getattr(layer, name)
            if value < 1 and (attends or name != "kv_heads"):
                raise metadata.error(name, value, "at least 1")
        if attends and layer.heads % layer.kv_heads:
            raise metadata.error(
                f"{prefix}.attention.head_count_kv",
                layer.kv_heads,
                "a divisor of the heads",
            )
    if not (config.logit_scale != 0 and config.attention_scale > 0):
        raise metadata.error(f"{prefix}.logit_scale", config.logit_scale, "a number that is not 0")
    if config.temperature_scale and config.temperature_length < 1:
        has_own = f"{prefix}.attention.temperature_length" in metadata.values
        key = "attention.temperature_length" if has_own else "rope.scaling.original_context_length"
        raise metadata.error(f"{prefix}.{key}", config.temperature_length, "at least 1")
    groups = config.expert_groups
    if config.experts % groups or not config.expert_groups_used <= groups:
        raise metadata.error(
            f"{prefix}.expert_group_count", groups,
            "a divisor of expert_count, and at least expert_group_used_count",
        )  # fmt: skip
    if config.gates_are_sigmoids and config.experts_used > 1 and not config.shares_sum_to_1:
        raise UnsupportedError(
            f"{metadata.path}: sigmoids of experts whose shares do not sum to 1 are not supported",
            remedy="use a model with expert_weights_norm",
        )
    if not 0 <= config.experts_used <= config.experts:
        raise metadata.error(
            f"{prefix}.expert_used_count", config.experts_used, "at most expert_count"
        )


def _check_heads(metadata: _Metadata, config: DecoderConfig, file: ModelFile) -> None:
    """Demand heads as wide as the weights say, before anything of their width is made."""
    prefix, name = f"{config.architecture}.", "blk.0.attn_output.weight"
    width = config.heads * config.value_dim
    if name in file.tensors and file.tensors[name].dims[0] != width:
        raise metadata.error(
            f"{prefix}attention.key_length", config.value_dim,
            f"the {file.tensors[name].dims[0]} columns of {name!r} over {config.heads} heads",
        )  # fmt: skip
    of_layers = dict(config.by_layer).get("rope_rotated", ())
    rotated = config.rope_rotated
    if any(n % 2 for n in (rotated, *of_layers)) or not 0 < rotated <= config.head_dim:
        wanted = f"even and at most {config.head_dim}, the elements of a head"
        raise metadata.error(f"{prefix}rope.dimension_count", rotated, wanted)
    if not config.rope_base > 1:
        raise metadata.error(f"{prefix}rope.freq_base", config.rope_base, "more than 1")


def _vocabulary(file: ModelFile) -> int:
    """Return the rows of the embedding table."""
    info = file.tensors.get("token_embd.weight")
    if info is None or len(info.dims) != 2:
        raise FormatError(
            f"{file.path}: tensor 'token_embd.weight' is missing, or is not a matrix",
            remedy="use the file of a language model",
        )
    return info.shape[0]


@dataclass(frozen=True, slots=True)
class _Metadata:
    path: str
    values: Mapping[str, Any]
    names: Mapping[str, str]

    def error(self, key: str, value: object, wanted: str) -> FormatError:
        key = self.names.get(key, key)
        return FormatError(
            f"{self.path}: key {key!r} is {value!r}; it must be {wanted}",
            remedy="use the file of a language model, as its maker wrote it",
        )

    def number(self, key: str, default: float | None = None) -> Any:
        value = self.values.get(key, default)
        if value is None:
            raise self.error(key, None, "there")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, value, "a number")
        if not abs(value) <= _LARGEST:
            raise self.error(key, value, "finite in f32")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """Return a number of things that there can be."""
        value = self.number(key, default)
        if not (isinstance(value, int) and 0 <= value <= _MOST):
            raise self.error(key, value, f"a whole number up to {_MOST}")
        return value

    def counts(self, key: str, layers: int) -> tuple[int, ...]:
        """Return a number of things for each layer."""
        found = self.values[key].tolist()
        if len(found) < layers or not all(type(n) is int and 0 <= n <= _MOST for n in found):
            raise self.error(key, found, f"a whole number for each of {layers} layers")
        return tuple(found[:layers])

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, value, "a bool")
        return value

    def pattern(self, key: str, layers: int) -> tuple[bool, ...]:
        """Return a bool for each layer, of a list of them or of a period; nothing without a key."""
        found = self.values.get(key)
        if found is None:
            return ()
        if type(found) is int and 0 <= found <= _MOST and layers <= _MOST_LAYERS:
            return tuple(not found or (number + 1) % found != 0 for number in range(layers))
        if not isinstance(found, list) or len(found) < layers:
            raise self.error(key, found, f"a bool for each of {layers} layers")
        if not all(isinstance(value, bool) for value in found):
            raise self.error(key, found, f"a bool for each of {layers} layers")
        return tuple(found[:layers])

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self.error(key, value, "a string")
        return value
