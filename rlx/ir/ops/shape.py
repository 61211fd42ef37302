"""Movement ops (reshape, transpose, pad, ...), which compute nothing; `iota` and `extent`."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import (
    at_most,
    normalize_axes,
    require_dtype,
    require_extents,
    require_same_dtype,
)
from rlx.ir.shape import Extent, Shape, divide, floor_divide, format_shape, normalize_axis, product
from rlx.ir.types import TensorType

_FAMILY = "shape"


@op(_FAMILY, Trait.MOVEMENT, Trait.REINDEXES, Trait.VIEW, Trait.LINEAR)
def reshape(x: TensorType, *, shape: Shape) -> TensorType:
    """Read the same elements, in row-major order, under another shape.

    One extent may be -1: what remains of the element count. 0 is a literal extent.
    """
    if shape.count(-1) > 1:
        raise ShapeError(
            f"shape {format_shape(shape)} has more than one -1",
            remedy="leave one extent at most to be computed",
        )
    resolved = shape
    if -1 in shape:
        rest = divide(x.elements, product(extent for extent in shape if extent != -1))
        resolved = tuple(rest if extent == -1 else extent for extent in shape)
    require_extents(resolved)
    if product(resolved) != x.elements:
        raise ShapeError(
            f"shape {x.describe_shape()} has {x.elements} elements and "
            f"{format_shape(resolved)} has {product(resolved)}; the counts must agree",
            remedy=f"give extents whose product is {x.elements}, or -1 for one of them",
        )
    return x.with_shape(resolved)


@op(_FAMILY, Trait.MOVEMENT, Trait.REINDEXES, Trait.LINEAR)
def transpose(x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
    """Permute the axes: result axis `d` is operand axis `perm[d]`."""
    if sorted(perm) != list(range(x.rank)):
        raise ShapeError(
            f"perm {perm} is not a permutation of the {x.rank} axes",
            remedy=f"name each axis from 0 to {x.rank - 1} once",
        )
    return x.with_shape(tuple(x.shape[axis] for axis in perm))


@op(_FAMILY, Trait.MOVEMENT, Trait.REINDEXES, Trait.LINEAR)
def expand(x: TensorType, *, shape: Shape) -> TensorType:
    """Broadcast to `shape`: new leading axes and extents of 1 repeat; -1 keeps an extent."""
    missing = len(shape) - x.rank
    padded = (1,) * missing + x.shape
    if missing < 0:
        raise ShapeError(
            f"shape {x.describe_shape()} has a higher rank than the target {format_shape(shape)}",
            remedy="drop axes first, or give a target of as many axes",
        )
    if -1 in shape[:missing]:
        raise ShapeError(
            f"shape {format_shape(shape)} has -1 where {x.describe_shape()} has no axis; "
            "-1 keeps the extent of an axis",
            remedy="give a number there",
        )
    resolved = tuple(own if e == -1 else e for own, e in zip(padded, shape, strict=True))
    require_extents(resolved)
    if any(own not in (1, e) for own, e in zip(padded, resolved, strict=True)):
        raise ShapeError(
            f"shape {x.describe_shape()} does not broadcast to {format_shape(shape)}; "
            "each extent must be 1 or the target's",
            remedy="insert axes of extent 1 with reshape where the extents differ",
        )
    return x.with_shape(resolved)


@op(_FAMILY, Trait.MOVEMENT, Trait.REINDEXES, Trait.LINEAR, Trait.SUBSET)
def narrow(x: TensorType, *, axis: int, start: Extent, length: Extent) -> TensorType:
    """Take `length` consecutive elements of `axis` from `start` on."""
    position = normalize_axis(axis, x.rank)
    extent = x.shape[position]
    in_range = at_most(0, start) and at_most(0, length) and at_most(start + length, extent)
    if not in_range:
        raise ShapeError(
            f"start {start} and length {length} reach outside axis {axis} of extent {extent}",
            remedy="give a range inside the axis",
        )
    return x.with_shape(_with_extent(x.shape, position, length))


@op(_FAMILY, Trait.MOVEMENT, Trait.LINEAR)
def concat(*tensors: TensorType, axis: int) -> TensorType:
    """Join tensors along `axis`; they agree in dtype and in every other extent."""
    require_same_dtype(*tensors)
    first = tensors[0]
    position = normalize_axis(axis, first.rank)
    total: Extent = 0
    for index, tensor in enumerate(tensors):
        if tensor.rank != first.rank or (
            _with_extent(tensor.shape, position, 0) != _with_extent(first.shape, position, 0)
        ):
            raise ShapeError(
                f"operand {index} has shape {tensor.describe_shape()}; outside axis {axis} "
                f"it must agree with operand 0, {first.describe_shape()}",
                remedy="slice, pad or transpose the operands so that other axes agree",
            )
        total = total + tensor.shape[position]
    return first.with_shape(_with_extent(first.shape, position, total))


@op(_FAMILY, Trait.MOVEMENT, Trait.REINDEXES, Trait.LINEAR)
def reverse(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    """Reverse the order of the elements along each of `axes`."""
    normalize_axes(axes, x.rank)
    return x


@op(_FAMILY, Trait.MOVEMENT)
def pad(
    x: TensorType,
    *,
    low: tuple[Extent, ...],
    high: tuple[Extent, ...],
    value: float = 0,
    structural: bool = False,
) -> TensorType:
    """Add `low[d]` elements before and `high[d]` after axis `d`, all equal to `value`.

    Zeros of a `structural` pad are absent entries, as those of a structural constant.
    """
    del structural
    if len(low) != x.rank or len(high) != x.rank:
        raise ShapeError(
            f"low {low} and high {high} must name each of the {x.rank} axes",
            remedy="give one width for each axis",
        )
    if not all(at_most(0, count) for count in (*low, *high)):
        raise ShapeError(
            f"low {low} and high {high} must not be negative",
            remedy="give widths of 0 or more; slice to remove elements",
        )
    sides = zip(low, x.shape, high, strict=True)
    return x.with_shape(tuple(before + extent + after for before, extent, after in sides))


@op(_FAMILY, Trait.MOVEMENT, Trait.REINDEXES, Trait.LINEAR, Trait.SUBSET)
def slice(
    x: TensorType, *, start: tuple[int, ...], stop: tuple[Extent, ...], step: tuple[int, ...]
) -> TensorType:
    """Take elements `start[d], start[d] + step[d], ...` below `stop[d]` of each axis `d`.

    0 <= start <= stop <= extent and step >= 1: negative indices are resolved and negative
    steps are a `reverse` by then.
    """
    if not len(start) == len(stop) == len(step) == x.rank:
        raise ShapeError(
            f"start, stop and step must each name the {x.rank} axes",
            remedy="give one entry for each axis",
        )
    return x.with_shape(tuple(map(_sliced_extent, x.shape, start, stop, step)))


@op(_FAMILY, Trait.GENERATED)
def iota(*, type: TensorType, axis: int = 0) -> TensorType:
    """Fill a tensor of `type` with each element's index along `axis`."""
    require_dtype(type, "float int", "type")
    require_extents(type.shape)
    normalize_axis(axis, type.rank)
    return type


@op(_FAMILY, Trait.GENERATED)
def extent(*, value: Extent) -> TensorType:
    """Make an i64 scalar of the value of an extent, which may be symbolic."""
    del value
    return TensorType(DType.I64, ())


def _with_extent(shape: Shape, axis: int, extent: Extent) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _sliced_extent(extent: Extent, start: int, stop: Extent, step: int) -> Extent:
    in_range = start >= 0 and at_most(start, stop) and at_most(stop, extent)
    if not in_range or step < 1:
        raise ShapeError(
            f"slice {start}:{stop}:{step} of an axis of extent {extent}; "
            "0 <= start <= stop <= extent and step >= 1 must hold",
            remedy="give bounds inside the axis",
        )
    return floor_divide(stop - start + (step - 1), step)
