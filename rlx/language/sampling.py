"""How the next token is chosen from logits; `sampling_graph` builds what does it."""

from __future__ import annotations

from dataclasses import dataclass

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
        limits = {
            "temperature": self.temperature >= 0,
            "top_k": self.top_k >= 0,
            "top_p": 0 < self.top_p <= 1,
            "min_p": 0 <= self.min_p <= 1,
            "repetition_penalty": self.repetition_penalty > 0,
        }
        wrong = [name for name, fits in limits.items() if not fits]
        if wrong:
            raise InputError(
                f"{wrong[0]} is {getattr(self, wrong[0])}",
                remedy="temperature and top_k are 0 or more, top_p is in (0, 1], min_p in "
                "[0, 1], repetition_penalty more than 0",
            )
