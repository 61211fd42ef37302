"""Attention with the tile shape that its one-pass kernel uses; made by `tile-attention`."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.graph import Value
from rlx.ir.op import op
from rlx.ir.ops.attention import attention
from rlx.ir.ops.attention_layout import AttentionLayout
from rlx.ir.shape import upper
from rlx.ir.types import TensorType

_DIRECT_QUERIES = 3
"""Up to this many queries leave most lanes empty."""


def is_direct(axes: AttentionLayout) -> bool:
    """True if vectors run along the heads and not across queries."""
    return upper(axes.queries) <= _DIRECT_QUERIES


def untiled_formula(
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    *,
    rows: int,
    panel: int,
    lanes: int,
    num_heads: int,
    head_dim: int,
    mask_kind: str,
    window: int | None,
    score_scale: float | None,
    softcap: float | None,
    layout: str,
) -> Value:
    """Plain attention."""
    operands = (q, k, v) if mask is None else (q, k, v, mask)
    result: Value = attention(
        *operands, num_heads=num_heads, head_dim=head_dim, mask_kind=mask_kind, window=window,
        score_scale=score_scale, softcap=softcap, layout=layout,
    )  # fmt: skip
    return result


@op("attention", decompose=untiled_formula)
def attention_tiled(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    mask: TensorType | None = None,
    *,
    rows: int,
    panel: int,
    lanes: int,
    num_heads: int,
    head_dim: int,
    mask_kind: str = "none",
    window: int | None = None,
    score_scale: float | None = None,
    softcap: float | None = None,
    layout: str = "auto",
) -> TensorType:
    """`attention`, computed for `rows` queries and `panel` keys at a time in `lanes`-wide vectors.

    Queries fill the lanes of vectors; up to three (`is_direct`) leave them to the head's elements.

    Keys stream by once with a running maximum and sum (Milakov and Gimelshein 2018; Dao et al.
    2022), so that the scores of one tile are all that ever exists of the score matrix.
    """
    in_lanes = rows % lanes == 0 and head_dim % panel == 0
    along_heads = panel % lanes == 0 and head_dim % lanes == 0
    if rows < 1 or not (in_lanes or along_heads):
        raise ShapeError(
            f"tiles of {rows} queries and {panel} keys do not fit head_dim {head_dim} "
            f"in vectors of {lanes}"
        )
    result: TensorType = attention.infer(
        q, k, v, mask, num_heads=num_heads, head_dim=head_dim, mask_kind=mask_kind,
        window=window, score_scale=score_scale, softcap=softcap, layout=layout,
    )  # fmt: skip
    return result
