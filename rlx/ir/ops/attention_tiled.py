"""Attention with the tile shape that its one-pass kernel uses; made by `tile-attention`."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.graph import Value
from rlx.ir.op import op
from rlx.ir.ops.attention import attention
from rlx.ir.types import TensorType


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

    Keys stream by once with a running maximum and sum (Milakov and Gimelshein 2018; Dao et al.
    2022), so that the scores of one tile are all that ever exists of the score matrix.
    """
    if panel % lanes or head_dim % lanes or rows < 1:
        raise ShapeError(
            f"tiles of {rows} queries and {panel} keys do not fit head_dim {head_dim} "
            f"in vectors of {lanes}"
        )
    result: TensorType = attention.infer(
        q, k, v, mask, num_heads=num_heads, head_dim=head_dim, mask_kind=mask_kind,
        window=window, score_scale=score_scale, softcap=softcap, layout=layout,
    )  # fmt: skip
    return result
