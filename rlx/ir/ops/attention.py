"""Scaled dot-product attention, its gradient, and rotary position embedding.

Layouts: `bshd` is `[S, H*D]`, `[B, S, H*D]` or `[B, S, H, D]`; `bhsd` is `[B, H, S, D]`.
With `layout="auto"` a rank-4 query is `bhsd` if its axis 1 equals `num_heads`, else `bshd`.
Keys and values may have fewer heads, if their number divides `num_heads`: query head `h`
then uses head `h // (num_heads // kv_heads)`.

A query `i` has position `i + max(0, Sk - Sq)` among the keys, so that a cached decode
step needs no offset. Mask kinds: `none`; `causal` hides later keys; `sliding_window` hides
them and all but `window` earlier ones; `custom` hides keys where the mask is below 0.5 (NaN
is visible); `bias` adds the mask to the scores. A hidden score is replaced by -1e9, so that a
query that sees no key gets the mean of all values. Masks broadcast to `[B, H, Sq, Sk]`; of
rank 2 they are `[B, Sk]`, of rank 3 `[B, Sq, Sk]`.
"""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.lowering import Schedule, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.attention_formula import (
    attention_backward_formula,
    attention_formula,
    rope_formula,
)
from rlx.ir.ops.attention_layout import attention_layout, mask_view
from rlx.ir.ops.requirements import (
    require_dtype,
    require_rank,
    require_same_dtype,
    require_shape,
)
from rlx.ir.shape import upper
from rlx.ir.types import TensorType

_FAMILY = "attention"
_MASK_KINDS = ("none", "causal", "sliding_window", "custom", "bias")


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.READS_SLICES, decompose=attention_formula)
def attention(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    mask: TensorType | None = None,
    *,
    num_heads: int,
    head_dim: int,
    mask_kind: str = "none",
    window: int | None = None,
    score_scale: float | None = None,
    softcap: float | None = None,
    layout: str = "auto",
) -> TensorType:
    """`softmax(mask(softcap(scale * q @ k^T))) @ v` for every batch and head.

    The scale is `head_dim ** -0.5` unless given; a softcap `c` > 0 maps scores to
    `c * tanh(score / c)` before the mask. The result has the shape of `q`.
    """
    dtype = require_same_dtype(q, k, v)
    require_dtype(q, "float", "q")
    axes = attention_layout(
        q.shape, k.shape, v.shape, num_heads=num_heads, head_dim=head_dim, layout=layout
    )
    _require_mask_kind(mask, mask_kind, window)
    if mask is not None:
        mask_view(mask.shape, axes)
        require_dtype(mask, dtype.value if mask_kind == "bias" else "float int bool", "mask")
    return q


@lowered_by(attention, Schedule)
def _attention_in_tiles(
    tile: Schedule,
    q: TensorType,
    k: TensorType,
    v: TensorType,
    mask: TensorType | None = None,
    *,
    num_heads: int,
    head_dim: int,
    layout: str,
    **_: object,
) -> None:
    """`tile.rows` keys by `tile.columns` queries at a time, which fill the lanes of vectors.

    Up to three queries (`is_direct`) leave these to the head's elements: then the rows of a tile
    are the queries of one head, or of several that share keys, and its columns are keys.
    Keys stream by once with a running maximum and sum (Milakov and Gimelshein 2018; Dao et al.
    2022), so that the scores of one tile are all that ever exists of the score matrix.
    """
    del mask
    tile.require_tile()
    require_dtype(q, "f32 f64", "q")
    axes = attention_layout(
        q.shape, k.shape, v.shape, num_heads=num_heads, head_dim=head_dim, layout=layout
    )
    lanes = tile.lanes
    in_lanes = head_dim % lanes == 0 and head_dim % tile.rows == 0
    together, apart = divmod(tile.rows, max(1, upper(axes.queries)))
    shares = apart == 0 and together > 0 and axes.group % together == 0
    along_heads = head_dim % lanes == 0 and shares
    if not (along_heads if axes.is_direct else in_lanes):
        raise ShapeError(
            f"tiles of {tile.rows} by {tile.columns} keys and queries do not fit head_dim "
            f"{head_dim} in vectors of {lanes}",
            remedy="choose tiles that do, or leave the choice to the passes",
        )


@op(_FAMILY, Trait.ALL_ELEMENTS, decompose=attention_backward_formula)
def attention_backward(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    dy: TensorType,
    mask: TensorType | None = None,
    *,
    num_heads: int,
    head_dim: int,
    mask_kind: str = "none",
    window: int | None = None,
    score_scale: float | None = None,
    softcap: float | None = None,
    layout: str = "auto",
) -> tuple[TensorType, ...]:
    """Gradients of `attention` by q, k and v, and with `mask_kind="bias"` also by the bias.

    The weights are recomputed; no gradient passes through a replaced score.
    """
    attention.infer(
        q, k, v, mask, num_heads=num_heads, head_dim=head_dim, mask_kind=mask_kind,
        window=window, score_scale=score_scale, softcap=softcap, layout=layout,
    )  # fmt: skip
    require_same_dtype(q, dy)
    require_shape(dy, q.shape, "dy")
    return (q, k, v, mask) if mask is not None and mask_kind == "bias" else (q, k, v)


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.READS_SLICES, decompose=rope_formula)
def rope(
    x: TensorType,
    cos: TensorType,
    sin: TensorType,
    *,
    head_dim: int,
    n_rot: int | None = None,
) -> TensorType:
    """Rotate pairs (i, i + n_rot/2) of each head by its position's angle; copy the rest.

    `x` is `[S, H*D]`, `[B, S, H*D]` or `[B, H, S, D]`, the tables `[R, D/2]`; position `s`
    uses row `s mod R` and the first n_rot/2 columns. Elements beyond the last whole head are
    copied. `n_rot` is `head_dim` unless given. The gradient is `rope` with `-sin`.
    """
    require_dtype(x, "float", "x")
    require_same_dtype(x, cos, sin)
    rotated = head_dim if n_rot is None else n_rot
    if head_dim < 2 or head_dim % 2 or rotated % 2 or not 0 <= rotated <= head_dim:
        raise ShapeError(
            f"head_dim {head_dim} and n_rot {rotated} must be even, with 0 <= n_rot <= head_dim",
            remedy="rotate an even part of each head",
        )
    require_rank(x, 2, "x")
    if x.rank > 4 or (x.rank == 4 and x.shape[3] != head_dim):
        raise ShapeError(
            f"x has shape {x.describe_shape()}; it must be [S, H*D], [B, S, H*D] or "
            f"[B, H, S, {head_dim}]",
            remedy="reshape x",
        )
    if cos.rank != 2 or cos.shape != sin.shape or cos.shape[1] != head_dim // 2:
        raise ShapeError(
            f"cos has shape {cos.describe_shape()} and sin {sin.describe_shape()}; both must be "
            f"[rows, {head_dim // 2}]",
            remedy="compute them with rope_tables, or slice their columns",
        )
    if upper(cos.shape[0]) == 0:
        raise ShapeError(
            "cos and sin have no row; they need at least one",
            remedy="give the rows of the positions that x holds",
        )
    return x


def _require_mask_kind(mask: TensorType | None, mask_kind: str, window: int | None) -> None:
    if mask_kind not in _MASK_KINDS:
        raise ShapeError(
            f"mask_kind is {mask_kind!r}; it must be one of {', '.join(_MASK_KINDS)}",
            remedy="name one of these kinds",
        )
    takes_mask = mask_kind in ("custom", "bias")
    if takes_mask != (mask is not None):
        verb = "needs" if takes_mask else "takes no"
        raise ShapeError(
            f"mask_kind {mask_kind!r} {verb} mask operand",
            remedy="leave the mask out, or name the kind that takes it",
        )
    if (mask_kind == "sliding_window") != (window is not None):
        raise ShapeError(
            f"window is {window} with mask_kind {mask_kind!r}; exactly 'sliding_window' takes one",
            remedy="leave window out, or name sliding_window",
        )
    if window is not None and window < 0:
        raise ShapeError(
            f"window is {window}; it must not be negative",
            remedy="count positions before the query: 0 or more",
        )
