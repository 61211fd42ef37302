"""What mixers and feed-forward networks use of the decoder that they are built for."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from rlx.ir.graph import Value
from rlx.ir.shape import Extent
from rlx.language.config import DecoderConfig
from rlx.language.weights import Weights


class LayerBuilder(Protocol):
    """A decoder under construction, of one text or of a batch."""

    config: DecoderConfig
    weights: Weights

    @property
    def grid(self) -> tuple[Extent, Extent]:
        """Sequences, and the rows of each."""

    def configured(self, config: DecoderConfig) -> AbstractContextManager[None]:
        """Build with another configuration."""

    def norm(self, x: Value, name: str, width: int, eps: float | None = None) -> Value:
        """Normalize rows, by the weights of this name."""

    def rotated(self, q_or_k: Value) -> Value:
        """Turn pairs of each head by the positions of the rows."""

    def attention(self, x: Value, name: str) -> Value:
        """Return what heads of queries find, by a layer's matrices."""

    def attended(self, q: Value, k: Value, v: Value | None, name: str) -> Value:
        """Return what queries find among the keys and values up to them: the keys if none."""

    def carried(self, name: str, shape: tuple[int, ...]) -> Value:
        """Return what the last run left of each sequence, `[sequences, *shape]`: zeros at first."""

    def carry(self, name: str, value: Value) -> None:
        """Leave a state to the next run."""
