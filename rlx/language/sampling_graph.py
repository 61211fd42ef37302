"""Choosing the next tokens from logits, within the compiled step, by settings that are inputs.

Random numbers are Threefry-2x32 of the seed and the token's position, so that equal seeds give
equal texts, on any number of threads and however the prompt was cut. What no row needs is not
computed: each filter is the branch of a `cond`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx import lax
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.language.sampling import SETTINGS
from rlx.tracing.traced_function import Specification, trace
from rlx.transforms.branches import cond
from rlx.transforms.control import fori_loop

_LEAST = 2.0**-126
"""The least temperature that is a normal f32: at any as low the likeliest token is taken."""

_BITS = 24
"""Random bits of a draw: an f32 holds them exactly."""

_INFINITY_BITS = 0x7F800000


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run is given to choose tokens by."""

    seeds: Value
    """u32[rows, 2]"""
    positions: Value
    """Of the last tokens that were seen: i32[rows, 1]"""
    settings: Value
    """`Sampling.settings` of each row: f32[rows, 8]"""
    bias: Value
    """What is added to logits: f32[rows, vocabulary]"""
    seen: Sequence[Sequence[Value]]
    """For each row, the arrays of tokens that came before: their numbers may be symbolic."""

    @classmethod
    def declared(cls, graph: Graph, vocabulary: int, seen: Sequence[Sequence[Value]]) -> Choice:
        """Declare the inputs that `choice_feeds` gives."""
        rows = len(seen)
        return cls(
            graph.input("seeds", (rows, 2), DType.U32),
            graph.input("last_positions", (rows, 1), DType.I32),
            graph.input("settings", (rows, len(SETTINGS))),
            graph.input("bias", (rows, vocabulary)),
            seen,
        )


def sampled(graph: Graph, logits: Value, choice: Choice) -> Value:
    """Return the next token of each row, i32[rows], from logits `[rows, vocabulary]`."""
    seen = [tokens for row in choice.seen for tokens in row]
    counts = [len(row) for row in choice.seen]
    operands = [logits, _uniform(choice), choice.settings, choice.bias, choice.positions, *seen]

    def choose(arrays: list[Any]) -> Any:
        logits, drawn, settings, bias, positions, *tokens = arrays
        rows = [[tokens.pop(0) for _ in range(count)] for count in counts]
        columns = {name: settings[:, number : number + 1] for number, name in enumerate(SETTINGS)}
        # Not a constant: those of programs for any number of rows are the same then.
        columns["none"] = rnp.right_shift(positions, 31)
        return _chosen(_penalized(logits, rows, columns) + bias, drawn, columns)

    specified = [Specification(f"x{i}", value.type) for i, value in enumerate(operands)]
    (token,) = graph.inline(trace(choose, "sampled", specified).graph, operands)
    return token


def _uniform(choice: Choice) -> Value:
    """Return a number in [0, 1) for each row, f32[rows, 1]."""
    position = ops.cast(choice.positions, to=DType.U32)
    words = [ops.narrow(choice.seeds, axis=1, start=i, length=1) for i in range(2)]
    word = ops.threefry2x32(*words, position * 0, position, word="first")
    drawn: Value = ops.cast(ops.shift_right(word, 32 - _BITS), to=DType.F32) * 2.0**-_BITS
    return drawn


def _where_any(needed: Any, computed: Callable[[], Any], otherwise: Any) -> Any:
    """Return `computed()` if any row needs it."""
    return cond(rnp.any(needed), computed, lambda: otherwise)


def _penalized(logits: Any, seen: Sequence[Sequence[Any]], settings: dict[str, Any]) -> Any:
    """Make tokens that were seen less likely."""
    repetition = settings["repetition_penalty"]
    once, each = settings["presence_penalty"], settings["frequency_penalty"]

    def penalized() -> Any:
        counts = rnp.stack([_counts(row, logits.shape[-1]) for row in seen])
        divided = rnp.where(logits > 0.0, logits / repetition, logits * repetition)
        return rnp.where(counts > 0.0, divided - once - each * counts, logits)

    return _where_any((repetition != 1.0) | (once != 0.0) | (each != 0.0), penalized, logits)


def _counts(parts: Sequence[Any], size: int) -> Any:
    """Return how often each token is in some arrays of them.

    These are joined first: a program for a token and one for many have the same constants then.
    """
    return rnp.zeros(size, rnp.float32).at[rnp.concatenate(parts)].add(1.0)


def _chosen(logits: Any, drawn: Any, settings: dict[str, Any]) -> Any:
    likeliest = rnp.argmax(logits, axis=-1).astype(rnp.int32)
    warm = settings["temperature"] > 0.0

    def draw() -> Any:
        sums = rnp.cumsum(_weights(logits, settings).astype(rnp.float64), axis=-1)
        token = rnp.argmax(sums > drawn * sums[:, -1:], axis=-1).astype(rnp.int32)
        return rnp.where(warm[:, 0], token, likeliest)

    return _where_any(warm, draw, likeliest)


def _weights(logits: Any, settings: dict[str, Any]) -> Any:
    """Return to what each token's probability is proportional: 0 for what is no candidate."""
    below = rnp.max(logits, axis=-1, keepdims=True) - logits
    tempered = below / rnp.maximum(settings["temperature"], _LEAST)  # which no division makes inf
    weights = rnp.where(below < rnp.inf, rnp.exp(-tempered), 0.0)
    top_k, typical_p = settings["top_k"], settings["typical_p"]
    top_p, min_p = settings["top_p"], settings["min_p"]
    cut = functools.partial(_first, settings["none"])
    weights = cut(top_k > 0.0, below, weights, rnp.ones_like(weights), top_k)
    weights = _where_any(
        typical_p < 1.0, lambda: _typical(cut, tempered, weights, typical_p), weights
    )
    total = rnp.sum(weights, axis=-1, keepdims=True)
    weights = cut(top_p < 1.0, below, weights, weights, top_p * total)
    return rnp.where(weights >= min_p * rnp.max(weights, axis=-1, keepdims=True), weights, 0.0)


def _typical(cut: Callable[..., Any], tempered: Any, weights: Any, typical_p: Any) -> Any:
    """Keep tokens whose information is nearest to the distribution's entropy."""
    total = rnp.sum(weights, axis=-1, keepdims=True)
    information = tempered + rnp.log(total)
    terms = rnp.where(weights > 0.0, weights * information, 0.0)
    entropy = rnp.sum(terms, axis=-1, keepdims=True) / total
    distances = rnp.where(weights > 0.0, rnp.abs(information - entropy), rnp.inf)
    return cut(typical_p < 1.0, distances, weights, weights, typical_p * total)


def _first(none: Any, needed: Any, distances: Any, weights: Any, shares: Any, goal: Any) -> Any:
    """Where needed, set weights to 0 but those of least distance whose shares reach a goal.

    Distances are 0 or more, so that their order is that of their bits: of these the least bound
    is found by bisection, without sorting.
    """

    def narrowed(_: Any, bounds: Any) -> Any:
        low, high = bounds
        middle = low + (high - low) // 2
        counted = rnp.where(distances <= _of_bits(middle), shares, 0.0)
        reached = rnp.sum(counted, axis=-1, keepdims=True) >= goal
        return rnp.where(reached, low, middle + 1), rnp.where(reached, middle, high)

    def cut() -> Any:
        _, bound = fori_loop(0, 31, narrowed, (none, none + _INFINITY_BITS))
        return rnp.where(needed & (distances > _of_bits(bound)), 0.0, weights)

    return _where_any(needed, cut, weights)


def _of_bits(bits: Any) -> Any:
    return lax.bitcast_convert_type(bits, rnp.float32)
