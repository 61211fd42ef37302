"""A text that grows in a batch: its tokens, and how the next one is chosen."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.language.sampling import Sampling


@dataclass(eq=False)
class Text:
    """The tokens of a prompt and of what follows it."""

    tokens: list[int]
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    mask: NDArray[np.bool_] | None = None
    """Which tokens may follow, bool[vocabulary]; None: all."""
    logits: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.float32))
    """Of the token that follows, before penalties, bias and mask."""


def common_prefix(first: list[int], second: list[int]) -> int:
    """Return how many tokens two lists begin with alike."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
