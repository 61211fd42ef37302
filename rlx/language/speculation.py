"""Speculative decoding: several tokens are guessed, and one run says which of them are right.

    model = rlx.language.load("model.gguf", draft=PromptLookup())
    model = rlx.language.load("model.gguf", draft=ModelDraft(rlx.language.load("small.gguf")))

A run takes the last token and the guessed ones and chooses what follows each of them, as a step
would: by the model's logits, and by the draw of that position. Guesses that are what was chosen
are accepted, up to the first that is not. So the text is the one that steps write, at any
temperature, but for roundings of logits (Leviathan et al., 2023, accept with the same probability
where a guess is one token, not a distribution).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.language.sampling import Sampling
from rlx.language.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True)
class Draws:
    """How a model chooses tokens: a guess by the same draws is right more often."""

    sampling: Sampling
    seed: int
    dropped: int
    """Positions before those that were seen."""


class Draft(Protocol):
    """Guesses what a model will write."""

    tokens: int
    """How many tokens are guessed at most: the run that checks them has one row more."""

    def require_fits(self, tokenizer: TextTokenizer) -> None:
        """Raise InputError for a model whose tokens are others."""

    def guess(self, seen: Sequence[int], draws: Draws, most: int) -> list[int]:
        """Return up to `most` tokens that may follow those seen."""


@dataclass(eq=False)
class PromptLookup:
    """Guesses what followed the last tokens where they were seen before."""

    tokens: int = 3
    longest: int = 4
    """So many of the last tokens are looked for first, then fewer, down to `shortest`."""
    shortest: int = 2

    def __post_init__(self) -> None:
        if not (1 <= self.tokens <= 63 and 1 <= self.shortest <= self.longest):
            raise InputError(
                f"tokens is {self.tokens}, shortest {self.shortest} and longest {self.longest}",
                remedy="give 1 to 63 tokens to guess, and 1 <= shortest <= longest",
            )

    def require_fits(self, tokenizer: TextTokenizer) -> None:
        """Any model's text may repeat itself."""

    def guess(self, seen: Sequence[int], draws: Draws, most: int) -> list[int]:  # noqa: ARG002
        """Return what followed the most recent occurrence of the longest end of `seen`."""
        for size in range(min(self.longest, len(seen) - 1), self.shortest - 1, -1):
            end = seen[-size:]
            for at in range(len(seen) - size - 1, -1, -1):
                if seen[at] == end[0] and seen[at : at + size] == end:
                    return list(seen[at + size : at + size + most])
        return []
