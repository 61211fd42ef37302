"""Vectors and scores of texts for many callers: one thread computes, a text at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.language.embedding import EmbeddingModel
from rlx.language.engine import EngineFullError

_T = TypeVar("_T")


@dataclass(eq=False)
class EncoderEngine:
    """Pools texts of many callers by one model."""

    model: EmbeddingModel
    most_waiting: int = 64
    _waiting: int = 0
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="rlx-serve")
    )

    async def pooled(self, texts: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Return a vector for the tokens of each text; what cancels this leaves the others out."""
        return await self._each(self.model.pooled, [(tokens,) for tokens in texts])

    async def scores(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
        """Return the score of each pair of texts."""
        return await self._each(self.model.score, pairs)

    async def _each(self, run: Callable[..., _T], texts: Sequence[tuple[Any, ...]]) -> list[_T]:
        for tokens, *_ in texts:
            self.model.require_fits(tokens)
        if self._waiting >= self.most_waiting:
            raise EngineFullError(
                f"{self._waiting} requests are queued; at most {self.most_waiting} may be",
                remedy="try again later",
            )
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return [
                await loop.run_in_executor(self._thread, run, *arguments) for arguments in texts
            ]
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
