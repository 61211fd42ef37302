"""Settings of sampling: how the next token is chosen; `sampling_graph` builds the computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.language.checks import seed_words

Array = NDArray[Any]

SETTINGS = (
    "temperature", "top_k", "typical_p", "top_p", "min_p", "repetition_penalty",
    "presence_penalty", "frequency_penalty",
)  # fmt: skip
"""The numbers of a `Sampling`, in the order in which a compiled step reads them."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. The default, of temperature 0, takes the likeliest.

    Candidates are the `top_k` likeliest tokens (0: all), of these the most typical that together
    reach `typical_p` (Meister et al., 2022), of these the fewest that together reach `top_p`, and
    of these those at least `min_p` as likely as the likeliest; tokens as likely as the last
    candidate are candidates too. Before, logits of tokens already seen, in the prompt or since,
    are divided by `repetition_penalty`, or multiplied where they are negative; `presence_penalty`
    is subtracted from them once and `frequency_penalty` for each time, and the numbers of
    `logit_bias` are added to their tokens' logits. All of it is an input of the compiled step.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    typical_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, fits in _LIMITS.items():
            value = getattr(self, name)
            kind = Integral if name == "top_k" else Real
            if isinstance(value, bool) or not isinstance(value, kind) or not fits(value):
                raise InputError(
                    f"{name} is {value!r}, outside its range",
                    remedy="temperature and top_k are 0 or more, top_k an integer, top_p and "
                    "typical_p are in (0, 1], min_p in [0, 1], repetition_penalty in [1e-6, 1e6], "
                    "presence_penalty and frequency_penalty in [-1e6, 1e6]",
                )
        for token, value in self.logit_bias.items():
            is_token = isinstance(token, Integral) and not isinstance(token, bool)
            if not is_token or not isinstance(value, Real) or not value < np.inf:
                raise InputError(
                    f"logit_bias of token {token!r} is {value!r}",
                    remedy="map token ids to numbers that are finite or -inf",
                )

    def settings(self) -> Array:
        """Return the numbers of `SETTINGS`, f32."""
        with np.errstate(over="ignore"):
            return np.array([float(getattr(self, name)) for name in SETTINGS], np.float32)

    def bias(self, vocabulary: int) -> Array | None:
        """Return what is added to logits, f32[vocabulary]; None for nothing."""
        if not self.logit_bias:
            return None
        added = np.zeros(vocabulary, np.float32)
        for token, value in self.logit_bias.items():
            if not 0 <= token < vocabulary:
                raise InputError(
                    f"logit_bias names token {token}, outside the vocabulary of {vocabulary}",
                    remedy="give numbers of tokens of this model",
                )
            added[token] = value
        return added


def choice_feeds(
    samplings: Sequence[Sampling],
    seeds: Sequence[int],
    last_positions: Sequence[int],
    vocabulary: int,
    masks: Sequence[Array | None] = (),
) -> dict[str, Array]:
    """Return the inputs by which a run chooses the next token of each row.

    A mask, bool[vocabulary], says which tokens a row may choose.
    """
    bias = np.zeros((len(samplings), vocabulary), np.float32)
    for row, sampling in enumerate(samplings):
        added = sampling.bias(vocabulary)
        if added is not None:
            bias[row] = added
    for row, mask in enumerate(masks):
        if mask is not None:
            bias[row, ~mask] = -np.inf
    return {
        "seeds": np.array([seed_words(seed) for seed in seeds], np.uint32),
        "last_positions": np.array(last_positions, np.int32)[:, None],
        "settings": np.stack([sampling.settings() for sampling in samplings]),
        "bias": bias,
    }


_LIMITS: Mapping[str, Callable[[Any], bool]] = {
    "temperature": lambda value: value >= 0,
    "top_k": lambda value: value >= 0,
    "top_p": lambda value: 0 < value <= 1,
    "min_p": lambda value: 0 <= value <= 1,
    "repetition_penalty": lambda value: 1e-6 <= value <= 1e6,
    "typical_p": lambda value: 0 < value <= 1,
    "presence_penalty": lambda value: -1e6 <= value <= 1e6,
    "frequency_penalty": lambda value: -1e6 <= value <= 1e6,
}
