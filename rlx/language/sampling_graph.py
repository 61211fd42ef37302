"""Choosing the next token from logits, within the compiled step.

Random numbers are Threefry-2x32 of the seed and the token's position, so that equal seeds give
equal texts, on any number of threads and however the prompt was cut.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.shape import upper
from rlx.language.sampling import Sampling

_LEAST = 2.0**-126
"""The least temperature that is a normal f32: at any as low the likeliest token is taken."""

_BITS = 24
"""Random bits of a draw: an f32 holds them exactly."""


def sampled(
    logits: Value, history: Value, tokens: Value, seed: Value, start: Value, sampling: Sampling
) -> Value:
    """Return the next token, i32[1], from logits `[1, vocabulary]`."""
    if sampling.repetition_penalty != 1.0:
        logits = _penalized(logits, (history, tokens), sampling.repetition_penalty)
    if sampling.temperature == 0.0:
        return ops.cast(ops.argmax(logits, axis=-1), to=DType.I32)
    vocabulary = upper(logits.shape[-1])
    count = min(int(sampling.top_k), vocabulary) or vocabulary
    values, ids = ops.topk(logits, k=count)
    below = values - ops.narrow(values, axis=-1, start=0, length=1)  # which no division makes inf
    temperature = max(float(sampling.temperature), _LEAST)
    weights = _kept(ops.softmax(below / temperature, axis=-1), sampling)
    sums = ops.cumsum(weights, axis=-1)
    drawn = uniform(seed, start) * ops.narrow(sums, axis=-1, start=count - 1, length=1)
    beyond = ops.cast(sums > drawn, to=DType.I32)
    place = ops.argmax(beyond, axis=-1)
    along = ops.dynamic_slice(
        ops.reshape(ids, shape=(count,)), ops.cast(place, to=DType.I32), sizes=(1,)
    )
    return ops.cast(along, to=DType.I32)


def _penalized(logits: Value, seen: tuple[Value, ...], penalty: float) -> Value:
    """Make tokens that were seen less likely."""
    size = upper(logits.shape[-1])
    counts = [
        ops.scatter_add(ops.cast(tokens * 0 + 1, to=DType.F32), tokens, size=size)
        for tokens in seen
    ]
    was_seen = ops.reshape(counts[0] + counts[1], shape=logits.shape) > 0.0
    smaller = ops.where(logits > 0.0, logits / penalty, logits * penalty)
    return ops.where(was_seen, smaller, logits)


def _kept(probabilities: Value, sampling: Sampling) -> Value:
    """Set candidates' probabilities, which descend, to 0 where top-p or min-p leaves them out."""
    kept = probabilities
    if sampling.top_p < 1.0:
        before = ops.cumsum(probabilities, axis=-1, exclusive=True)
        kept = ops.where(before < sampling.top_p, kept, 0.0)
    if sampling.min_p > 0.0:
        first = ops.narrow(probabilities, axis=-1, start=0, length=1)
        kept = ops.where(probabilities >= first * sampling.min_p, kept, 0.0)
    return kept


def uniform(seed: Value, start: Value) -> Value:
    """Return a number in [0, 1), f32[1, 1], of a seed u32[2] and the token's position."""
    position = ops.cast(ops.narrow(start, axis=0, start=0, length=1), to=DType.U32)
    words = [ops.narrow(seed, axis=0, start=i, length=1) for i in range(2)]
    word = ops.threefry2x32(*words, position * 0, position, word="first")
    fraction = ops.cast(ops.shift_right(word, 32 - _BITS), to=DType.F32) * 2.0**-_BITS
    return ops.reshape(fraction, shape=(1, 1))
