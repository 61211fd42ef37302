"""Winograd's convolution of three by three taps with channels last; a pass makes it."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.graph import Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import Winograd, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.conv_geometry import Geometry, Numbers, Pads, WindowDimension, geometry
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.requirements import require_dtype, require_rank, require_same_dtype
from rlx.ir.ops.shape import concat, narrow, pad, reshape, slice, transpose
from rlx.ir.ops.winograd import STEPS, TAPS, on_both_axes, transforms
from rlx.ir.shape import Extent, Shape, floor_divide, product
from rlx.ir.types import TensorType

__all__ = ["conv_winograd"]

_AXES = 2


def transformed_weights(w: Value, step: int) -> Value:
    """Return `w` `[3, 3, C, K]` as the kernel reads it: `[(step + 2)^2, C, K]`."""
    inner, outputs = w.shape[2:]
    matrix = w.graph.constant(on_both_axes(transforms(step).taps).astype(w.dtype.numpy))
    flat = reshape(w, shape=(TAPS * TAPS, inner * outputs))
    result: Value = reshape(matmul(matrix, flat), shape=(matrix.shape[0], inner, outputs))
    return result


def tiles_along(extent: Extent, axis: WindowDimension, step: int) -> Extent:
    """Return how many tiles cover an axis of the result: `dilation` of them interleave."""
    covered = step * axis.dilation
    return floor_divide(positions_along(extent, axis) + (covered - 1), covered) * axis.dilation


def positions_along(extent: Extent, axis: WindowDimension) -> Extent:
    """Return how many windows an axis has."""
    return extent + (axis.low + axis.high - (TAPS - 1) * axis.dilation)


def sliding_windows(padding: Pads, dilation: Numbers) -> Geometry:
    """Return how the windows of three by three taps move."""
    return geometry(_AXES, padding=padding, dilation=dilation)


def _formula(x: Value, u: Value, *, padding: Pads, step: int, dilation: Numbers) -> Value:
    """Tiles as a matrix, transformed, multiplied at each point, transformed back."""
    tile, made = step + TAPS - 1, transforms(step)
    axes = sliding_windows(padding, dilation)
    images, *extents, inner = x.shape
    outputs = u.shape[-1]
    covered = [tiles_along(n, axis, step) * step for n, axis in zip(extents, axes, strict=True)]
    after = [
        c + (step + 1) * axis.dilation - n - axis.low
        for c, n, axis in zip(covered, extents, axes, strict=True)
    ]
    wide = pad(x, low=(0, axes[0].low, axes[1].low, 0), high=(0, *after, 0))
    elements = [_every(wide, (a, b), covered, axes, step) for a in range(tile) for b in range(tile)]
    into = x.graph.constant(on_both_axes(*made.image).astype(x.dtype.numpy))
    v = matmul(into, concat(*elements, axis=0))
    count = floor_divide(product((images, *covered)), step * step)
    m = matmul(reshape(v, shape=(tile * tile, count, inner)), u)
    back = x.graph.constant(on_both_axes(*made.result).astype(x.dtype.numpy))
    y = matmul(back, reshape(m, shape=(tile * tile, count * outputs)))
    down, across = (
        (floor_divide(c, step * axis.dilation), axis.dilation)
        for c, axis in zip(covered, axes, strict=True)
    )
    y = reshape(y, shape=(step, step, images, *down, *across, outputs))
    y = transpose(y, perm=(2, 3, 0, 4, 5, 1, 6, 7))
    y = reshape(y, shape=(images, *covered, outputs))
    for axis, extent in enumerate(_positions(x.type, axes), start=1):
        y = narrow(y, axis=axis, start=0, length=extent)
    return y


def _every(
    wide: Value, number: tuple[int, int], covered: list[Extent], axes: Geometry, step: int
) -> Value:
    """Return one element of every tile, as a row."""
    images, inner = wide.shape[0], wide.shape[-1]
    first = [n * axis.dilation for n, axis in zip(number, axes, strict=True)]
    stop = [f + c for f, c in zip(first, covered, strict=True)]
    whole = (1, 1, 1, 1)
    at = slice(wide, start=(0, *first, 0), stop=(images, *stop, inner), step=whole)
    apart = [axis.dilation * step for axis in axes]
    pairs = [(floor_divide(c, a), a) for c, a in zip(covered, apart, strict=True)]
    at = reshape(at, shape=(images, *pairs[0], *pairs[1], inner))
    for place, axis in zip((2, 4), axes, strict=True):
        at = narrow(at, axis=place, start=0, length=axis.dilation)
    result: Value = reshape(at, shape=(1, product(at.shape)))
    return result


def _positions(x: TensorType, axes: Geometry) -> Shape:
    return tuple(positions_along(n, axis) for n, axis in zip(x.shape[1:3], axes, strict=True))


@op("conv", Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE, decompose=_formula)
def conv_winograd(
    x: TensorType, u: TensorType, *, padding: Pads, step: int, dilation: Numbers = ()
) -> TensorType:
    """Convolution of `x` `[N, H, W, C]` by three by three taps, transformed to `u`.

    `u` is `[(step + 2)^2, C, K]`. Tiles are `step` by `step` positions, which are as far apart as
    the taps; there are `padding` zeros around the images.
    """
    dtype = require_same_dtype(x, u.plain)
    require_dtype(x, "f32 f64")
    require_rank(x, 4, "x")
    require_rank(u, 3, "u")
    points = (step + TAPS - 1) ** 2
    if step not in STEPS or u.shape[:2] != (points, x.shape[-1]):
        raise ShapeError(
            f"x of type {x} and u of type {u} do not fit tiles of {step} by {step} positions: u is "
            f"[{points}, C, K], and steps are 2 or 4",
            remedy="leave the choice to the passes",
        )
    axes = sliding_windows(padding, dilation)
    return TensorType(dtype, (x.shape[0], *_positions(x, axes), u.shape[-1]))


@lowered_by(conv_winograd, Winograd, layouts=(1,))
def _in_blocks(
    winograd: Winograd,
    x: TensorType,
    u: TensorType,
    *,
    padding: Pads,
    step: int,
    dilation: Numbers,
) -> None:
    """Blocks of tiles whose points are multiplied in register tiles."""
    del padding, dilation
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
