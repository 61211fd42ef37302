"""The extents of an attention node, read off its operands' shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.dataclass import dataclass
from rlx.errors import ShapeError
from rlx.ir.shape import Extent, Shape, divide, format_shape, upper

if TYPE_CHECKING:
    from rlx.ir.graph import Node

MASKED_SCORE = -1e9
"""Replaces the score of a masked key. Finite: a row without a visible key becomes uniform."""

VISIBLE_FROM = 0.5
"""A custom mask hides a key where it is below this."""

_DIRECT_QUERIES = 3
"""Up to this many queries leave most lanes empty."""


@dataclass(frozen=True, slots=True)
class AttentionLayout:
    """Extents common to q, k and v, and the order of their axes."""

    batch: Extent
    heads: int
    kv_heads: int
    queries: Extent
    keys: Extent
    head_dim: int
    head_major: bool
    """True for `[B, H, S, D]`; False where the heads of a position are contiguous."""

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.heads // self.kv_heads

    @property
    def scores(self) -> Shape:
        return (self.batch, self.heads, self.queries, self.keys)

    @property
    def is_direct(self) -> bool:
        """True if a tiled kernel runs vectors along the heads and not across queries."""
        return upper(self.queries) <= _DIRECT_QUERIES


def attention_layout(
    q: Shape, k: Shape, v: Shape, *, num_heads: int, head_dim: int, layout: str
) -> AttentionLayout:
    """Return the extents, or raise ShapeError where the shapes are inconsistent."""
    if num_heads < 1 or head_dim < 1:
        raise ShapeError(
            f"num_heads {num_heads} and head_dim {head_dim} must be positive",
            remedy="give 1 or more of both",
        )
    head_major = _is_head_major(q, num_heads, layout)
    if k != v:
        raise ShapeError(
            f"k has shape {format_shape(k)} and v {format_shape(v)}; they must be equal",
            remedy="give every key a value of head_dim elements",
        )
    batch, queries, heads = _extents(q, "q", head_dim, len(q), head_major)
    kv_batch, keys, kv_heads = _extents(k, "k and v", head_dim, len(q), head_major)
    if heads != num_heads:
        raise ShapeError(
            f"q of shape {format_shape(q)} has {heads} heads of {head_dim}, "
            f"and num_heads is {num_heads}; they must agree",
            remedy="reshape q, or name its layout in layout=",
        )
    if kv_batch != batch:
        raise ShapeError(
            f"q has batch {batch} and k and v have {kv_batch}; they must agree",
            remedy="broadcast one of them, or map over the batch with vmap",
        )
    if not isinstance(kv_heads, int) or kv_heads < 1 or num_heads % kv_heads:
        raise ShapeError(
            f"k and v have {kv_heads} heads; that must divide num_heads {num_heads}",
            remedy="give as many heads of keys as of queries, or a divisor of their number",
        )
    if keys == 0:
        raise ShapeError(
            "k and v hold no key; there must be at least one", remedy="pass a key and its value"
        )
    return AttentionLayout(batch, num_heads, kv_heads, queries, keys, head_dim, head_major)


def layout_of(node: Node) -> AttentionLayout:
    """Return the extents of an attention node."""
    q, k, v = (operand.shape for operand in node.operands[:3])
    attributes = node.attrs.as_dict()
    named = {key: attributes[key] for key in ("num_heads", "head_dim", "layout")}
    return attention_layout(q, k, v, **named)


def mask_view(mask: Shape, layout: AttentionLayout) -> Shape:
    """Return the rank-4 shape under which a mask or bias broadcasts to the scores."""
    if len(mask) not in (2, 3, 4):
        raise ShapeError(
            f"mask has shape {format_shape(mask)}; its rank must be 2, 3 or 4",
            remedy="add axes with reshape",
        )
    view = mask
    while len(view) < 4:  # [B, Sk] and [B, Sq, Sk] hold for every head and query
        view = (view[0], 1, *view[1:])
    if any(own not in (1, full) for own, full in zip(view, layout.scores, strict=True)):
        raise ShapeError(
            f"mask has shape {format_shape(mask)}; it must broadcast as [B, Sk], [B, Sq, Sk] "
            f"or [B, H, Sq, Sk] to {format_shape(layout.scores)}",
            remedy="give each axis the extent of the scores, or 1",
        )
    return view


def _is_head_major(q: Shape, num_heads: int, layout: str) -> bool:
    if layout not in ("auto", "bshd", "bhsd"):
        raise ShapeError(
            f"layout is {layout!r}; it must be 'auto', 'bshd' or 'bhsd'",
            remedy="name the order of batch, sequence, heads and head_dim",
        )
    if len(q) not in (2, 3, 4):
        raise ShapeError(
            f"q has shape {format_shape(q)}; its rank must be 2, 3 or 4",
            remedy="reshape it to [B, S, H, D], [B, H, S, D], [B, S, H*D] or [S, H*D]",
        )
    if len(q) < 4:
        if layout == "bhsd":
            raise ShapeError(
                f"q has shape {format_shape(q)}; its rank must be 4 in layout 'bhsd'",
                remedy="reshape it to [B, H, S, D]",
            )
        return False
    return layout == "bhsd" or (layout == "auto" and q[1] == num_heads)


def _extents(
    shape: Shape, name: str, head_dim: int, rank: int, head_major: bool
) -> tuple[Extent, Extent, Extent]:
    """Return batch, sequence length and heads."""
    if len(shape) != rank:
        raise ShapeError(
            f"{name} has shape {format_shape(shape)}; its rank must be q's, {rank}",
            remedy="reshape q, k and v to one rank",
        )
    if rank < 4:
        return (shape[0] if rank == 3 else 1), shape[-2], divide(shape[-1], head_dim)
    if shape[3] != head_dim:
        raise ShapeError(
            f"{name} has shape {format_shape(shape)}; axis 3 must have extent {head_dim}",
            remedy="reshape it, or give its extent as head_dim",
        )
    batch, first, second, _ = shape
    return (batch, second, first) if head_major else (batch, first, second)
