"""Rotary position embedding over the rows and columns of an image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlx.errors import ShapeError
from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.requirements import require_dtype
from rlx.ir.ops.shape import reshape, reverse
from rlx.ir.shape import format_shape


@composite("attention", Trait.ALL_ELEMENTS)
@in_single_precision
def axial_rope2d(
    x: Value,
    *,
    end_x: int,
    end_y: int,
    head_dim: int,
    num_heads: int,
    theta: float = 10000.0,
    repeat_factor: int = 1,
) -> Value:
    """Rotate neighboring pairs of each head: the first half by the column, the second by the row.

    `x` is `[B, S, num_heads * head_dim]` with `S = end_x * end_y * repeat_factor` tokens, row by
    row, each repeated in place. The gradient is the rotation by the negative angles.
    """
    require_dtype(x.type, "float", "x")
    repeats = max(repeat_factor, 1)
    tokens = end_x * end_y * repeats
    if head_dim < 4 or head_dim % 4 or x.rank != 3 or x.shape[1:] != (tokens, num_heads * head_dim):
        raise ShapeError(
            f"x has shape {format_shape(x.shape)}; with head_dim {head_dim}, a multiple of 4, it "
            f"must be [B, {tokens}, {num_heads * head_dim}]",
            remedy="reshape it, or give the extents of the grid and the heads that it has",
        )
    angles = _angles(end_x, end_y, repeats, head_dim, theta)[:, None, :, None]
    pairs = reshape(x, shape=(x.shape[0], tokens, num_heads, head_dim // 2, 2))
    kept = pairs * x.graph.constant(np.cos(angles), x.dtype)
    crossed = np.sin(angles) * np.array([-1.0, 1.0])
    turned = kept + reverse(pairs, axes=(4,)) * x.graph.constant(crossed, x.dtype)
    return reshape(turned, shape=x.shape)


def _angles(
    end_x: int, end_y: int, repeats: int, head_dim: int, theta: float
) -> NDArray[np.float64]:
    """Return the angle of each token and pair, `[tokens, head_dim / 2]`."""
    position = np.arange(end_x * end_y * repeats) // repeats
    frequency = theta ** (-4.0 * np.arange(head_dim // 4) / head_dim)
    column, row = position % end_x, position // end_x
    return np.concatenate([np.outer(column, frequency), np.outer(row, frequency)], axis=1)
