"""Paddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.torch.registry import rule


def sides_of(x: Any, widths: Sequence[int]) -> list[tuple[int, int]]:
    """Return widths per axis; PyTorch names those of the last axis first."""
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)][::-1]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs


@rule("constant_pad_nd")
def constant_pad(x: Any, widths: Sequence[int], value: Any = 0) -> Any:
    """Pad with a number; negative widths cut off."""
    sides = sides_of(x, widths)
    filling = rnp.asarray(value).astype(x.value.dtype)
    if any(not isinstance(n, int) for pair in sides for n in pair):
        return rnp.pad(x, sides, constant_values=value)
    return lax.pad(x, filling, [(low, high, 0) for low, high in sides])


def _padded(x: Any, widths: Sequence[int], mode: str) -> Any:
    """Pad what is left after negative widths have cut."""
    sides = sides_of(x, widths)
    cut = tuple(
        slice(max(-low, 0), n - max(-high, 0))
        for n, (low, high) in zip(x.shape, sides, strict=True)
    )
    return rnp.pad(x, [(max(low, 0), max(high, 0)) for low, high in sides], mode)[
        tuple(
            slice(part.start if low < 0 else 0, None if high >= 0 else high)
            for part, (low, high) in zip(cut, sides, strict=True)
        )
    ]


def _enter(name: str, mode: str) -> None:
    def forward(x: Any, widths: Sequence[int]) -> Any:
        return _padded(x, widths, mode)

    def backward(g: Any, x: Any, widths: Sequence[int]) -> Any:
        return rlx.vjp(lambda x: forward(x, widths), x)[1](g)[0]

    for axes in (1, 2, 3):
        rule(f"{name}_pad{axes}d")(forward)
        rule(f"{name}_pad{axes}d_backward")(backward)


_enter("reflection", "reflect")
_enter("replication", "edge")
