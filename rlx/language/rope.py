"""Tables of the rotary position embedding, with the scalings of long contexts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.errors import FormatError
from rlx.language.config import ROPE_FACTORS, DecoderConfig, RopeScaling
from rlx.language.model_file import ModelFile

Array = NDArray[Any]

_FAST, _SLOW = 32.0, 1.0
"""YaRN: turns in the original context from which a pair keeps its frequency, and up to which
it is slowed down by the whole factor."""

_LEAST_RAMP = 0.001


def rope_tables(config: DecoderConfig, context: int, file: ModelFile) -> tuple[Array, Array]:
    """Return cosines and sines `[context, head_dim / 2]`; columns past the rotated ones are 0."""
    pairs = config.rope_rotated // 2
    frequencies = rope_frequencies(config)
    divisors = _divisors(config, context, file)
    if divisors is not None:
        frequencies = frequencies / divisors
    angles = np.zeros((context, config.head_dim // 2))
    angles[:, :pairs] = np.arange(context)[:, None] * frequencies
    magnitude = np.ones(config.head_dim // 2)
    magnitude[:pairs] = config.rope_scaling.magnitude
    return (
        (np.cos(angles) * magnitude).astype(np.float32),
        (np.sin(angles) * magnitude).astype(np.float32),
    )


def _divisors(config: DecoderConfig, context: int, file: ModelFile) -> Array | None:
    """Return what frequencies are divided by, where the file has a factor for each pair.

    Llama 3 has one table of them; longrope two, of which the context chooses, as in llama.cpp, so
    that keys keep their turns while a text grows.
    """
    if not config.rope_scaling.reads_factors:
        return None
    plain, long, short = ROPE_FACTORS
    if config.rope_scaling.kind == "longrope":
        is_long = context > config.rope_scaling.original_context
        return _factors(config, file, long if is_long else short)
    return _factors(config, file, plain) if plain in file.tensors else None


def _factors(config: DecoderConfig, file: ModelFile, name: str) -> Array:
    pairs, found = config.rope_rotated // 2, file.dequant_f32(name)
    if found.shape != (pairs,) or not (found > 0).all():
        raise FormatError(
            f"{file.path}: tensor {name!r} has shape {list(found.shape)}; it must be {pairs} "
            "factors above 0, one for each pair that is rotated",
            remedy="use the file of a language model, as its maker wrote it",
        )
    return found


def rope_frequencies(config: DecoderConfig) -> Array:
    """Return by how much a position turns each pair."""
    pairs, scaling = config.rope_rotated // 2, config.rope_scaling
    plain = config.rope_base ** (-np.arange(pairs) / pairs)
    if scaling.kind == "yarn":
        slowed = _slowed_pairs(config, scaling)
        scaled: Array = plain / scaling.factor * slowed + plain * (1 - slowed)
        return scaled
    return plain / scaling.factor


def _slowed_pairs(config: DecoderConfig, scaling: RopeScaling) -> Array:
    """YaRN (Peng et al., 2023): 0 for pairs that turn often in the original context, 1 for slow."""
    rotated = config.rope_rotated

    def pair_of(turns: float) -> float:
        """Return which pair turns so often in the original context."""
        ratio = scaling.original_context / (turns * 2 * math.pi)
        return rotated * math.log(ratio) / (2 * math.log(config.rope_base))

    low, high = pair_of(_FAST), pair_of(_SLOW)
    if scaling.truncates:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotated - 1)
    ramp = (np.arange(rotated // 2) - low) / max(high - low, _LEAST_RAMP)
    slowed: Array = np.clip(ramp, 0, 1)
    return slowed
