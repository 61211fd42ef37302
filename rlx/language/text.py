"""A text that grows in a batch: its tokens, and how the next one is chosen."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.language.grammar import Matcher
from rlx.language.sampling import Sampling

Pooling: TypeAlias = Literal["mean", "cls", "last"]
"""The mean of all rows, the first row, or the last one."""


@dataclass(eq=False)
class Text:
    """The tokens of a prompt and of what follows it."""

    tokens: list[int]
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    matcher: Matcher | None = None
    """The grammar that what follows the prompt is of."""
    pooling: Pooling | None = None
    """How `embedding` is made of what the last layer gives for each token."""
    dropped: int = 0
    """How many tokens there were that are forgotten."""
    logits: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.float32))
    """Of the token that follows, before penalties, bias and mask."""
    embedding: NDArray[Any] = field(default_factory=lambda: np.zeros(1, np.float32))
    """By `pooling`, once the text is read; not normalized."""

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """Which tokens may follow, bool[vocabulary]; None: all."""
        return None if self.matcher is None else self.matcher.mask

    @property
    def is_complete(self) -> bool:
        """True if the grammar lets nothing follow."""
        return self.matcher is not None and self.matcher.is_complete

    def append(self, token: int) -> None:
        """Let a token follow."""
        if self.matcher is not None:
            self.matcher.accept(token)
        self.tokens.append(token)

    def forget(self, keep: int) -> None:
        """Forget the older half of the tokens but for the first `keep`."""
        self.tokens, count = shifted(self.tokens, keep), len(self.tokens)
        self.dropped += count - len(self.tokens)

    def shares(self, start: int, new: int, end: int) -> NDArray[np.float32]:
        """Return the shares in the embedding of tokens from `start` to `end`, `new` unread ones."""
        shares = np.zeros(end - start, np.float32)
        if self.pooling == "mean":
            shares[new - start :] = 1 / len(self.tokens)
        elif self.pooling == "cls":
            shares[: new == 0] = 1
        elif self.pooling == "last":
            shares[-1] = end == len(self.tokens)
        return shares

    def pool(self, part: NDArray[np.float32]) -> None:
        """Add what a run gave for some tokens, `[1, hidden]`, each by its share."""
        if self.pooling is not None:
            self.embedding = self.embedding + part[0]


def common_prefix(first: list[int], second: list[int]) -> int:
    """Return how many tokens two lists begin with alike."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def shifted(tokens: list[int], keep: int) -> list[int]:
    """Return the first `keep` tokens and the newer half of the others."""
    return tokens[:keep] + tokens[keep + (len(tokens) - keep + 1) // 2 :]


def require_keep(keep: int | None, context: int) -> None:
    """Raise InputError for a number of first tokens that leaves no room for others."""
    if keep is not None and not 0 <= keep <= context // 2:
        raise InputError(
            f"the first {keep} tokens of a context of {context} cannot be kept when it is full",
            remedy=f"keep 0 to {context // 2}",
        )
