"""The shape of a decoder, read from a GGUF file's metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import FormatError, UnsupportedError
from rlx.gguf import GgufFile

ARCHITECTURES = ("llama", "qwen2", "qwen3", "qwen3moe", "gemma", "phi3")


_SCALINGS = ("none", "linear", "yarn", "longrope")

ROPE_FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""The tensors whose numbers are in a decoder's graph: its tables of cosines and sines."""

_MOST = 2**31 - 1
"""Above all counts of layers, heads, and the like."""
_LARGEST = 3.4028234e38
"""Of f32."""


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies extend beyond the context of the first training."""

    kind: str = "none"
    factor: float = 1.0
    """How much longer the context has become: all turns are slower by it (linear), or some."""
    original_context: int = 0
    magnitude: float = 1.0
    """What cosines and sines are multiplied by (YaRN, longrope)."""


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

    @property
    def interleaved_rope(self) -> bool:
        """True if the file's rows of q and k pair even and odd elements of a head."""
        return self.architecture == "llama"

    @property
    def embedding_scale(self) -> float:
        """What embeddings are multiplied by."""
        return float(self.hidden) ** 0.5 if self.architecture == "gemma" else 1.0

    @property
    def activation(self) -> str:
        """What the gate of the feed-forward network goes through."""
        return "gelu_approx" if self.architecture == "gemma" else "silu"

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @classmethod
    def of(cls, file: GgufFile) -> DecoderConfig:
        """Read the configuration of a file; a FormatError names a key that is missing."""
        metadata = _Metadata(file.path, file.metadata)
        architecture = metadata.text("general.architecture")
        if architecture not in ARCHITECTURES:
            raise UnsupportedError(
                f"{file.path}: its architecture, {architecture!r}, is not supported",
                remedy=f"use a model of one of: {', '.join(ARCHITECTURES)}",
            )
        return _config(metadata, architecture, file)


def _config(metadata: _Metadata, architecture: str, file: GgufFile) -> DecoderConfig:
    def number(key: str, default: int | None = None) -> int:
        return metadata.count(f"{architecture}.{key}", default)

    heads, hidden = number("attention.head_count"), number("embedding_length")
    if heads < 1:
        raise metadata.error(f"{architecture}.attention.head_count", heads, "at least 1")
    head_dim = number("attention.key_length", hidden // heads)
    config = DecoderConfig(
        architecture=architecture,
        layers=number("block_count"),
        hidden=hidden,
        feed_forward=number("feed_forward_length"),
        heads=heads,
        kv_heads=number("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocabulary=_vocabulary(file),
        context=number("context_length"),
        eps=float(metadata.number(f"{architecture}.attention.layer_norm_rms_epsilon")),
        rope_base=float(metadata.number(f"{architecture}.rope.freq_base", 10000.0)),
        rope_rotated=number("rope.dimension_count", head_dim),
        rope_scaling=_rope_scaling(metadata, architecture, ROPE_FACTORS[1] in file.tensors),
        attention_cap=_cap(metadata, f"{architecture}.attn_logit_softcapping"),
        logit_cap=_cap(metadata, f"{architecture}.final_logit_softcapping"),
        window=number("attention.sliding_window", 0) or None,
        experts=number("expert_count", 0),
        experts_used=number("expert_used_count", 0),
    )
    _check(metadata, config)
    _check_heads(metadata, config, file)
    return config


def _cap(metadata: _Metadata, key: str) -> float | None:
    """Return what numbers are capped by, which is more than 0 where the file says so."""
    if key not in metadata.values:
        return None
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
    return RopeScaling(kind, factor, original, magnitude * (1 + 0.1 * math.log(max(factor, 1.0))))


def _check(metadata: _Metadata, config: DecoderConfig) -> None:
    """Demand numbers that a decoder can have."""
    for name in ("layers", "hidden", "feed_forward", "kv_heads", "head_dim", "context"):
        value = getattr(config, name)
        if value < 1:
            raise metadata.error(name, value, "at least 1")
    if config.heads % config.kv_heads:
        raise metadata.error("attention.head_count_kv", config.kv_heads, "a divisor of the heads")
    if not 0 <= config.experts_used <= config.experts:
        raise metadata.error("expert_used_count", config.experts_used, "at most expert_count")


def _check_heads(metadata: _Metadata, config: DecoderConfig, file: GgufFile) -> None:
    """Demand heads as wide as the weights say, before anything of their width is made."""
    prefix, name = f"{config.architecture}.", "blk.0.attn_output.weight"
    width = config.heads * config.head_dim
    if name in file.tensors and file.tensors[name].dims[0] != width:
        raise metadata.error(
            f"{prefix}attention.key_length", config.head_dim,
            f"the {file.tensors[name].dims[0]} columns of {name!r} over {config.heads} heads",
        )  # fmt: skip
    rotated = config.rope_rotated
    if rotated % 2 or not 0 < rotated <= config.head_dim:
        wanted = f"even and at most {config.head_dim}, the elements of a head"
        raise metadata.error(f"{prefix}rope.dimension_count", rotated, wanted)
    if not config.rope_base > 1:
        raise metadata.error(f"{prefix}rope.freq_base", config.rope_base, "more than 1")


def _vocabulary(file: GgufFile) -> int:
    """Return the rows of the embedding table."""
    info = file.tensors.get("token_embd.weight")
    if info is None or len(info.dims) != 2:
        raise FormatError(
            f"{file.path}: tensor 'token_embd.weight' is missing, or is no matrix",
            remedy="use the file of a language model",
        )
    return info.shape[0]


@dataclass(frozen=True, slots=True)
class _Metadata:
    path: str
    values: Mapping[str, Any]

    def error(self, key: str, value: object, wanted: str) -> FormatError:
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

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self.error(key, value, "a string")
        return value
