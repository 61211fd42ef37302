"""Checks of what callers give: tokens and seeds."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from rlx.errors import InputError

_SEEDS = 1 << 64


def checked_tokens(tokens: Iterable[int], vocabulary: int) -> list[int]:
    """Return tokens as Python's integers; InputError for what is none of the vocabulary."""
    found: list[int] = []
    for token in tokens:
        try:
            number = operator.index(token)
        except TypeError:
            raise InputError(
                f"a token is an integer, not {token!r}",
                remedy="encode text with the model's own tokenizer",
            ) from None
        if not 0 <= number < vocabulary:
            raise InputError(
                f"token {number} is outside the vocabulary of {vocabulary}",
                remedy="encode text with the model's own tokenizer",
            )
        found.append(number)
    return found


def seed_words(seed: int) -> tuple[int, int]:
    """Return the upper and the lower 32 bits of a seed; InputError for one that has no 64 bits."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < _SEEDS:
        raise InputError(f"the seed is {seed!r}", remedy="give an integer from 0 to 2**64 - 1")
    return number >> 32, number & 0xFFFFFFFF
