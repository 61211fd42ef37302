"""Winograd's convolution of three by three taps with channels last; a pass makes it."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.graph import Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import Winograd, lowered_by
from rlx.ir.op import Trait, op
from rlx.ir.ops.conv_geometry import Pads
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.requirements import require_dtype, require_rank, require_same_dtype
from rlx.ir.ops.shape import concat, narrow, pad, reshape, slice, transpose
from rlx.ir.ops.winograd import STEPS, TAPS, on_both_axes, transforms
from rlx.ir.shape import Extent, Shape, floor_divide, product
from rlx.ir.types import TensorType

__all__ = ["conv_winograd"]


def transformed_weights(w: Value, step: int) -> Value:
    """Return `w` `[3, 3, C, K]` as the kernel meets it: `[(step + 2)^2, C, K]`."""
    inner, outputs = w.shape[2:]
    matrix = w.graph.constant(on_both_axes(transforms(step).taps).astype(w.dtype.numpy))
    flat = reshape(w, shape=(TAPS * TAPS, inner * outputs))
    result: Value = reshape(matmul(matrix, flat), shape=(matrix.shape[0], inner, outputs))
    return result


def tiles_along(extent: Extent, pads: tuple[int, int], step: int) -> Extent:
    """Return how many tiles cover an axis of the result."""
    return floor_divide(positions_along(extent, pads) + (step - 1), step)


def positions_along(extent: Extent, pads: tuple[int, int]) -> Extent:
    """Return how many windows an axis has."""
    return extent + (sum(pads) - (TAPS - 1))


def _formula(x: Value, u: Value, *, padding: Pads, step: int) -> Value:
    """Tiles as a matrix, transformed, multiplied at each point, transformed back."""
    tile, made = step + TAPS - 1, transforms(step)
    images, height, width, inner = x.shape
    rows, columns = (tiles_along(n, p, step) for n, p in zip((height, width), padding, strict=True))
    behind = [
        count * step + (TAPS - 1) - n - low
        for count, n, (low, _) in zip((rows, columns), (height, width), padding, strict=True)
    ]
    low = (0, padding[0][0], padding[1][0], 0)
    wide = pad(x, low=low, high=(0, *behind, 0))
    counts = (images, rows, columns, inner)
    elements = [
        reshape(_every(wide, (a, b), counts, step), shape=(1, product(counts)))
        for a in range(tile)
        for b in range(tile)
    ]
    into = x.graph.constant(on_both_axes(*made.image).astype(x.dtype.numpy))
    v = matmul(into, concat(*elements, axis=0))
    m = matmul(reshape(v, shape=(tile * tile, product(counts[:3]), inner)), u)
    back = x.graph.constant(on_both_axes(*made.result).astype(x.dtype.numpy))
    outputs = u.shape[-1]
    y = matmul(back, reshape(m, shape=(tile * tile, product(counts[:3]) * outputs)))
    y = reshape(y, shape=(step, step, images, rows, columns, outputs))
    y = transpose(y, perm=(2, 3, 0, 4, 1, 5))
    y = reshape(y, shape=(images, rows * step, columns * step, outputs))
    for axis, extent in enumerate(_positions(x.type, padding), start=1):
        y = narrow(y, axis=axis, start=0, length=extent)
    return y


def _every(wide: Value, first: tuple[int, int], counts: tuple[Extent, ...], step: int) -> Value:
    """Return one element of every tile."""
    images, rows, columns, inner = counts
    stops = [
        start + (count - 1) * step + 1 for start, count in zip(first, (rows, columns), strict=True)
    ]
    result: Value = slice(
        wide, start=(0, *first, 0), stop=(images, *stops, inner), step=(1, step, step, 1)
    )
    return result


def _positions(x: TensorType, padding: Pads) -> Shape:
    return tuple(positions_along(n, p) for n, p in zip(x.shape[1:3], padding, strict=True))


@op("conv", Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE, decompose=_formula)
def conv_winograd(x: TensorType, u: TensorType, *, padding: Pads, step: int) -> TensorType:
    """Convolution of `x` `[N, H, W, C]` by three by three taps, transformed to `u`.

    `u` is `[(step + 2)^2, C, K]`. Tiles are `step` by `step` positions; there are `padding` zeros
    around the images.
    """
    dtype = require_same_dtype(x, u.plain)
    require_dtype(x, "f32 f64")
    require_rank(x, 4, "x")
    require_rank(u, 3, "u")
    points = (step + TAPS - 1) ** 2
    if step not in STEPS or u.shape[:2] != (points, x.shape[-1]) or len(padding) != x.rank - 2:
        raise ShapeError(
            f"x of type {x} and u of type {u} do not fit tiles of {step} by {step} positions: u is "
            f"[{points}, C, K], and steps are 2 or 4",
            remedy="leave the choice to the passes",
        )
    return TensorType(dtype, (x.shape[0], *_positions(x, padding), u.shape[-1]))


@lowered_by(conv_winograd, Winograd, layouts=(1,))
def _in_blocks(
    winograd: Winograd, x: TensorType, u: TensorType, *, padding: Pads, step: int
) -> None:
    """Blocks of tiles whose points are multiplied in register tiles."""
    del padding
    whole = (
        winograd.step == step
        and winograd.tiles % winograd.rows == 0
        and winograd.columns % winograd.lanes == 0
    )
    known = all(isinstance(extent, int) for extent in (*x.shape[1:], *u.shape))
    if not (whole and known and u.layout == Panels(winograd.columns)):
        raise ShapeError(
            f"blocks of {winograd.tiles} tiles, {winograd.rows} rows and {winograd.columns} "
            f"columns do not fit x of type {x} and u of type {u}",
            remedy="leave the choice to the passes",
        )
