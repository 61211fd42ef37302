"""Ops that change the layout of elements, and nothing else; passes make them for kernels."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.graph import Value
from rlx.ir.layout import ChannelPanels, Panels
from rlx.ir.lowering import Turned, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.linalg import swapped, swapped_type
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.types import TensorType

__all__ = ["pack_channels", "pack_panels"]


def _plain(b: Value, *, width: int, transposed: bool = False) -> Value:
    """The same elements, row by row."""
    del width
    return swapped(b) if transposed else b


@op("linalg", Trait.LAYOUT, decompose=_plain)
def pack_panels(b: TensorType, *, width: int, transposed: bool = False) -> TensorType:
    """`b`, or its transpose, with its columns in panels of `width`, each of them dense.

    The packing of a weight depends on params only and so runs once, in `setup`.
    """
    require_dtype(b, "float int")
    require_rank(b, 2, "b")
    if b.layout is not None:
        raise ShapeError(
            f"b already has the layout {b.layout}", remedy="pack the matrix as it was before"
        )
    packed = (swapped_type(b) if transposed else b).with_layout(Panels(width))
    packed.stored_shape  # noqa: B018 (raises where the columns do not fit panels)
    return packed


@lowered_by(pack_panels, Turned)
def _packed_in_squares(turned: Turned, b: TensorType, *, width: int, transposed: bool) -> None:
    del b
    if not transposed or turned.lanes < 2 or width % turned.lanes:
        raise ShapeError(
            f"panels of {width} columns, transposed: {transposed}, are not packed in squares of "
            f"{turned.lanes} lanes, which must divide the panels of a transposed matrix",
            remedy="leave the choice to the passes",
        )


def _unpacked(w: Value, *, width: int, groups: int = 1) -> Value:
    """The same elements, row by row."""
    del width, groups
    return w


@op("conv", Trait.LAYOUT, decompose=_unpacked)
def pack_channels(w: TensorType, *, width: int, groups: int = 1) -> TensorType:
    """`w`, weights of a convolution, in panels of `width` output channels of one group."""
    require_dtype(w, "float int")
    if w.layout is not None:
        raise ShapeError(
            f"w already has the layout {w.layout}", remedy="pack the weights as they were before"
        )
    packed = w.with_layout(ChannelPanels(width, groups))
    packed.stored_shape  # noqa: B018 (raises where the channels do not fit panels)
    return packed


@lowered_by(pack_channels, Turned)
def _channels_in_squares(turned: Turned, w: TensorType, *, width: int, groups: int = 1) -> None:
    del w, groups
    if turned.lanes < 2 or width % turned.lanes:
        raise ShapeError(
            f"panels of {width} channels are not packed in squares of {turned.lanes} lanes, "
            "which must divide them",
            remedy="leave the choice to the passes",
        )
