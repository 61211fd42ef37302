"""Functions that move elements: other shapes, joins, splits, flips, padding."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rlx.errors import DTypeError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.ir.shape import Dim, broadcast_shapes, divide, normalize_axis, product
from rlx.ir.types import TensorType
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of, count_from, extents_from, lists, shape_from, static_shape
from rlx.numpy.extent_numbers import extent_number
from rlx.runtime.arrays import Array
from rlx.tracing.apply import (
    as_tracer,
    convert,
    emit,
    function,
    graph,
    promoted,
    static_int,
    wrap,
)
from rlx.tracing.trace import TracedArray, element_type, shape_of
from rlx.tracing.widths import canonical, with_wide_types


@function
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """The same elements under another shape; one extent may be -1.

    They are taken and laid in row-major order, or for `order="F"` with the first axis fastest.
    """
    del copy  # not observable: arrays do not change
    a = as_tracer(a)
    wanted = extents_from(shape)
    if order == "F":
        return transpose(reshape(transpose(a), wanted[::-1]))
    return a if wanted == a.shape else emit(ops.reshape, a, weak=a.weak, shape=wanted)


@function
def ravel(a: Any, order: str = "C") -> Array:
    """All elements on one axis, in row-major order, or for `order="F"` the first axis fastest."""
    return reshape(a, -1, order)


@function
def transpose(a: Any, axes: Any = None) -> Array:
    """Permute the axes; reverse them by default."""
    a = as_tracer(a)
    perm = tuple(range(a.ndim))[::-1] if axes is None else tuple(axes)
    return _permuted(a, tuple(normalize_axis(axis, a.ndim) for axis in perm))


permute_dims = transpose


@function
def matrix_transpose(x: Any) -> Array:
    """Swap the last two axes."""
    return swapaxes(x, -1, -2)


@function
def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    a = as_tracer(a)
    perm = list(range(a.ndim))
    first, second = normalize_axis(axis1, a.ndim), normalize_axis(axis2, a.ndim)
    perm[first], perm[second] = second, first
    return _permuted(a, tuple(perm))


@function
def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """Move axes to other positions; the rest keep their order."""
    a = as_tracer(a)
    if source is None or destination is None:
        raise ShapeError(
            f"source is {source} and destination is {destination}",
            remedy="name the axes to move, and where",
        )
    sources, targets = axes_of(source, a.ndim), axes_of(destination, a.ndim)
    if len(sources) != len(targets):
        raise ShapeError(
            f"{source} and {destination} must name as many axes",
            remedy="give one destination for each source",
        )
    rest = [axis for axis in range(a.ndim) if axis not in sources]
    placed = dict(zip(targets, sources, strict=True))
    remaining = iter(rest)
    perm = [placed[n] if n in placed else next(remaining) for n in range(a.ndim)]
    return _permuted(a, tuple(perm))


def _permuted(x: Any, perm: tuple[int, ...]) -> Any:
    if perm == tuple(range(x.ndim)):
        return x
    return emit(ops.transpose, x, weak=x.weak, perm=perm)


@function
def squeeze(a: Any, axis: Any = None) -> Array:
    """Drop axes of extent 1: all, or those named."""
    a = as_tracer(a)
    ones = [n for n, extent in enumerate(a.shape) if extent == 1]
    dropped = ones if axis is None else axes_of(axis, a.ndim)
    for position in dropped:
        if a.shape[position] != 1:
            raise ShapeError(
                f"axis {position} has extent {a.shape[position]}; it must be 1",
                remedy="name axes of extent 1, or leave axis out",
            )
    return reshape(a, tuple(e for n, e in enumerate(a.shape) if n not in dropped))


@function
def expand_dims(a: Any, axis: Any) -> Array:
    """Insert axes of extent 1 at positions of the result."""
    a = as_tracer(a)
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    rank = a.ndim + len(axes)
    places = axes_of(axes, rank)
    own = iter(a.shape)
    return reshape(a, tuple(1 if n in places else next(own) for n in range(rank)))


@function
def atleast_1d(*arys: Any) -> Any:
    """Arrays, numbers as vectors of one element; of several arrays a list."""
    return _each(lambda x: x if x.ndim else reshape(x, (1,)), arys)


@function
def atleast_2d(*arys: Any) -> Any:
    """Arrays, vectors as matrices of one row; of several arrays a list."""
    return _each(lambda x: x if x.ndim > 1 else reshape(x, (1, -1)), arys)


@function
def atleast_3d(*arys: Any) -> Any:
    """Arrays with axes of extent 1 after, and before a vector, so that they have three."""
    return _each(_with_three_axes, arys)


def _with_three_axes(x: Any) -> Any:
    if x.ndim >= 3:
        return x
    return reshape(x, (1, 1, 1) if x.ndim == 0 else (1, -1, 1) if x.ndim == 1 else (*x.shape, 1))


def _each(change: Callable[[Any], Any], arrays: Sequence[Any]) -> Any:
    changed = [change(as_tracer(x)) for x in arrays]
    return changed[0] if len(changed) == 1 else changed


@function
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Array:
    array = as_tracer(array)
    wanted = shape_from(shape)
    return (
        array if wanted == array.shape else emit(ops.expand, array, weak=array.weak, shape=wanted)
    )


@function
def broadcast_arrays(*args: Any) -> Any:
    shape = broadcast_shapes(*(shape_of(x) for x in args))
    return [broadcast_to(x, shape) for x in args]


@function
def concatenate(
    arrays: Sequence[Any], axis: int | None = 0, out: None = None, *, dtype: Any = None
) -> Array:
    """Join arrays along an axis; `None` joins them flattened."""
    if dtype is not None:
        target = canonical(as_array_dtype(dtype))
        return concatenate([convert(part, target) for part in arrays], axis)
    parts = promoted(list(arrays))
    if axis is None:
        parts, axis = [ravel(part) for part in parts], 0
    if len(parts) == 1:
        normalize_axis(axis, parts[0].ndim)
        return parts[0]
    return emit(ops.concat, *parts, weak=parts[0].weak, axis=axis)


concat = concatenate


@function
def block(arrays: Any) -> Array:
    """Join a nested list of arrays: the innermost lists along the last axis, and so outwards."""
    depth = _depth(arrays)

    def joined(item: Any, level: int) -> Any:
        if level:
            return concatenate([joined(part, level - 1) for part in item], -level)
        item = as_tracer(item)
        return reshape(item, (1,) * max(depth - item.ndim, 0) + item.shape)

    return joined(arrays, depth)


def _depth(arrays: Any) -> int:
    """Return how deep a nested list is, which must be the same everywhere."""
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(item) for item in arrays}
    if len(depths) != 1:
        found = f"lists of depths {sorted(depths)}" if depths else "an empty list"
        raise ShapeError(
            f"{found}; all lists must be equally deep, and none empty",
            remedy="nest the lists evenly",
        )
    return 1 + depths.pop()


@function
def stack(arrays: Sequence[Any], axis: int = 0, out: None = None, *, dtype: Any = None) -> Array:
    """Join arrays of one shape along a new axis."""
    shapes = [shape_of(x) for x in arrays]
    if len(set(shapes)) > 1:
        raise ShapeError(
            f"the arrays have shapes {shapes}; they must agree",
            remedy="broadcast or pad them to one shape, or use rlx.numpy.concatenate",
        )
    return concatenate([expand_dims(x, axis) for x in arrays], axis, dtype=dtype)


@function
def vstack(tup: Sequence[Any], *, dtype: Any = None) -> Array:
    return concatenate([atleast_2d(x) for x in tup], dtype=dtype)


@function
def hstack(tup: Sequence[Any], *, dtype: Any = None) -> Array:
    parts = [atleast_1d(x) for x in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@function
def column_stack(tup: Sequence[Any]) -> Array:
    parts = [as_tracer(x) for x in tup]
    return concatenate([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in parts], 1)


@lists("indices_or_sections")
@function
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Split into sections as equal as can be, or at the given indices."""
    ary = as_tracer(ary)
    position = normalize_axis(axis, ary.ndim)
    extent = static_shape(ary)[position]
    bounds = _bounds(indices_or_sections, extent)
    return [
        emit(
            ops.narrow, ary, weak=ary.weak, axis=position, start=start, length=max(stop - start, 0)
        )
        for start, stop in itertools.pairwise(bounds)
    ]


@lists("indices_or_sections")
@function
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Split into equal sections, or at the given indices."""
    ary = as_tracer(ary)
    position = normalize_axis(axis, ary.ndim)
    extent = ary.shape[position]
    sections = _section_count(indices_or_sections)
    if sections is not None and isinstance(extent, Dim):
        each = divide(extent, sections)
        starts = (i * each for i in range(sections))
        return [emit(ops.narrow, ary, weak=ary.weak, axis=position, start=start, length=each)
                for start in starts]  # fmt: skip
    if sections is not None and extent % sections:
        raise ShapeError(
            f"extent {extent} of axis {axis} is not divisible by {indices_or_sections}",
            remedy="use array_split for sections of unequal size",
        )
    return array_split(ary, indices_or_sections, axis)


def _section_count(indices_or_sections: Any) -> int | None:
    """Return into how many sections to split; None where indices are given."""
    if np.ndim(indices_or_sections):
        return None
    return count_from(indices_or_sections, "the number of sections", least=1)


def _bounds(indices_or_sections: Any, extent: int) -> list[int]:
    sections = _section_count(indices_or_sections)
    if sections is not None:
        each, more = divmod(extent, sections)
        sizes = [each + 1] * more + [each] * (sections - more)
        return [0, *np.cumsum(sizes).tolist()]
    places = [static_int(index, "a place to split at") for index in indices_or_sections]
    inner = [slice(0, place).indices(extent)[1] for place in places]
    return [0, *inner, extent]


@function
def flip(m: Any, axis: Any = None) -> Array:
    """Reverse the order along axes: all by default."""
    m = as_tracer(m)
    axes = axes_of(axis, m.ndim)
    return emit(ops.reverse, m, weak=m.weak, axes=axes) if axes else m


@function
def flipud(m: Any) -> Array:
    return flip(m, 0)


@function
def fliplr(m: Any) -> Array:
    return flip(m, 1)


@function
def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    """Move elements along axes; those pushed out at one end enter at the other.

    Shifts may be traced integers.
    """
    a = as_tracer(a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    for position, distance in _paired(axes_of(axis, a.ndim), _shifts(shift)):
        a = _rolled(a, distance, position)
    return a


def _shifts(shift: Any) -> Sequence[Any]:
    """Return the shifts one by one; traced ones are arrays without axes."""
    given = shift if isinstance(shift, (tuple, list)) else (shift,)
    found: list[Any] = []
    for each in given:
        if not isinstance(each, TracedArray):
            found.extend(extents_from(each, "shift"))
            continue
        _require_whole(each)
        one: Any = as_tracer(each)
        found.extend([one] if not one.ndim else [one[i] for i in range(static_shape(one)[0])])
    return found


def _require_whole(shift: Any) -> None:
    if not element_type(shift).dtype.is_int:
        raise DTypeError(
            f"shift has dtype {element_type(shift).dtype}; it must be an integer",
            remedy="convert it with .astype('i64')",
        )


def _paired(axes: Sequence[int], shifts: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Pair axes and shifts, as many of either as there are, or one for all of the other."""
    if len(axes) != len(shifts) and 1 not in (len(axes), len(shifts)):
        raise ShapeError(
            f"{len(shifts)} shifts for {len(axes)} axes",
            remedy="give one shift for all axes, or one for each",
        )
    count = len(shifts) if len(axes) == 1 else len(axes)
    return itertools.islice(zip(itertools.cycle(axes), itertools.cycle(shifts)), count)


def _rolled(x: Any, shift: Any, axis: int) -> Any:
    extent = x.shape[axis]
    if isinstance(extent, Dim) or isinstance(shift, (Dim, TracedArray)):
        return _rolled_by_index(x, shift, axis)
    cut = -shift % extent if extent else 0
    if cut == 0:
        return x
    front = emit(ops.narrow, x, axis=axis, start=0, length=cut)
    back = emit(ops.narrow, x, axis=axis, start=cut, length=extent - cut)
    return emit(ops.concat, back, front, weak=x.weak, axis=axis)


@with_wide_types
def _rolled_by_index(x: Any, shift: Any, axis: int) -> Any:
    """Read each element at its place less the shift, modulo an extent that a call decides."""
    extent = x.shape[axis]
    if extent == 0:
        return x
    places = wrap(graph().iota(type=TensorType(DType.I64, (extent,))))
    if isinstance(shift, TracedArray):  # modulo the extent first: a difference might overflow
        wide = shift if element_type(shift).dtype is DType.U64 else convert(shift, DType.I64)
        number = convert(elementwise.remainder(wide, extent_number(extent)), DType.I64)
    else:
        number = extent_number(shift)
    moved = elementwise.subtract(places, number)
    wrapped = elementwise.remainder(moved, extent_number(extent))
    return emit(ops.gather, x, wrapped, weak=x.weak, axis=axis)


@function
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate by `k` quarter turns in the plane of two axes."""
    turns = k % 4
    if turns == 0:
        return as_tracer(m)
    if turns == 2:
        return flip(m, axes)
    turned = flip(m, axes[1]) if turns == 1 else m
    turned = swapaxes(turned, *axes)
    return turned if turns == 1 else flip(turned, axes[1])


@function
def size(a: Any, axis: int | None = None) -> Any:
    """The number of elements, in all or along an axis."""
    found = shape(a)
    return product(found) if axis is None else found[axis]


@function
def ndim(a: Any) -> Any:
    return len(shape(a))


@function
def shape(a: Any) -> Any:
    """The extents of an array, or of nested lists of numbers and arrays."""
    if not isinstance(a, (list, tuple)):
        return shape_of(a)
    shapes = [shape(each) for each in a]
    if any(other != shapes[0] for other in shapes):
        raise ShapeError(
            f"the elements of a list have shapes {shapes}",
            remedy="pass a list whose elements have equal shapes",
        )
    return len(a), *(shapes[0] if shapes else ())
