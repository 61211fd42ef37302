"""How the next token is chosen from logits; `sampling_graph` builds what does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import InputError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. The default, of temperature 0, takes the likeliest.

    Candidates are the `top_k` likeliest tokens (0: all), of these the fewest that together
    reach `top_p`, and of these those at least `min_p` as likely as the likeliest. Before,
    logits of tokens already seen are divided by `repetition_penalty`, or multiplied where they
    are negative.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name, fits in _LIMITS.items():
            value = getattr(self, name)
            kind = Integral if name == "top_k" else Real
            if isinstance(value, bool) or not isinstance(value, kind) or not fits(value):
                raise InputError(
                    f"{name} is {value!r}",
                    remedy="temperature and top_k are 0 or more, top_k an integer, top_p is in "
                    "(0, 1], min_p in [0, 1], repetition_penalty in [1e-6, 1e6]",
                )


_LIMITS: Mapping[str, Callable[[Any], bool]] = {
    "temperature": lambda value: value >= 0,
    "top_k": lambda value: value >= 0,
    "top_p": lambda value: 0 < value <= 1,
    "min_p": lambda value: 0 <= value <= 1,
    "repetition_penalty": lambda value: 1e-6 <= value <= 1e6,
}
