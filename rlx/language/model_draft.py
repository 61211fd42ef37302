"""A smaller model that guesses what a larger one writes."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.language.model import LanguageModel
from rlx.language.speculation import Draws
from rlx.language.tokenizer import TextTokenizer


@dataclass(eq=False)
class ModelDraft:
    """Guesses what a smaller model of the same tokens writes."""

    model: LanguageModel
    tokens: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= 63:
            raise InputError(f"a draft of {self.tokens} tokens", remedy="guess 1 to 63 tokens")

    def require_fits(self, tokenizer: TextTokenizer) -> None:
        """Raise InputError unless both have the same tokens."""
        if list(self.model.tokenizer.tokens) != list(tokenizer.tokens):
            raise InputError(
                f"{self.model.file.path} has other tokens than the model it is to guess for",
                remedy="use a smaller model of the same family as a draft",
            )

    def guess(self, seen: Sequence[int], draws: Draws, most: int) -> list[int]:
        """Return what the smaller model writes, by the same settings and draws."""
        draft, guessed = self.model, list[int]()
        if len(seen) + most > draft.context:
            return guessed
        draft.sampling, draft.seed, draft._dropped = draws.sampling, draws.seed, draws.dropped
        fed = draft.keep_common(seen)
        for _ in range(most):
            token = draft.feed(fed)
            guessed.append(token)
            fed = [token]
        return guessed
