"""The op that changes the layout of elements, and nothing else; passes make it for kernels."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.graph import Value
from rlx.ir.layout import ChannelPanels, Panels, WinogradPanels
from rlx.ir.lowering import RegisterTranspose, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.linalg import swapped, swapped_type
from rlx.ir.ops.requirements import require_dtype
from rlx.ir.types import TensorType

__all__ = ["pack_panels"]


def _plain(
    b: Value, *, layout: Panels | ChannelPanels | WinogradPanels, transposed: bool = False
) -> Value:
    """The same elements, row by row."""
    del layout
    return swapped(b) if transposed else b


@op("linalg", Trait.LAYOUT, decompose=_plain)
def pack_panels(
    b: TensorType, *, layout: Panels | ChannelPanels | WinogradPanels, transposed: bool = False
) -> TensorType:
    """`b`, or the transpose of a matrix, with its columns or channels in panels, each dense.

    The packing of a weight depends on params only and so runs once, in `setup`.
    """
    require_dtype(b, "f32 f64" if isinstance(layout, WinogradPanels) else "float int")
    if b.layout is not None:
        raise ShapeError(
            f"b already has the layout {b.layout}", remedy="pack the tensor as it was before"
        )
    if transposed and not isinstance(layout, Panels):
        raise ShapeError(f"{layout} are not packed transposed", remedy="transpose b first")
    packed = (swapped_type(b) if transposed else b).with_layout(layout)
    packed.stored_shape  # noqa: B018 (raises where the elements do not fit panels)
    return packed


@lowered_by(pack_panels, RegisterTranspose)
def _packed_in_squares(
    squares: RegisterTranspose,
    b: TensorType,
    *,
    layout: Panels | ChannelPanels | WinogradPanels,
    transposed: bool,
) -> None:
    del b
    moves = transposed or isinstance(layout, ChannelPanels)
    if not moves or squares.lanes < 2 or layout.width % squares.lanes:
        raise ShapeError(
            f"{layout}, transposed: {transposed}, are not packed in squares of {squares.lanes} "
            "lanes, which must divide the panels of a transposed matrix, or of channels",
            remedy="leave the choice to the passes",
        )
