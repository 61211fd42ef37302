"""Index maps: for each element of an op's result, the elements of the operands that it reads.

The map of an op is a list of pieces. A piece is a box of result indices and the position at
which one operand is read there, an affine function of the result's index per operand axis:

    narrow(x, axis=0, start=2, length=3)    [0:3, :] <- x[i + 2, j]
    concat(x, y, axis=0)                    [0:n, :] <- x[i, j];  [n:n+m, :] <- y[i - n, j]
    pad(x, low=(1,), high=(2,), value=v)    [1:n+1] <- x[i - 1];  else v
    reverse(x, axes=(0,))                   [0:n] <- x[n - 1 - i]

Elementwise ops read every operand at the result's index, broadcast. An op that computes each
element from several others (a reduction, a product) has a fold map instead (`fold_maps`), and a
reshape that splits an operand's axis none. Views, fusion, batch axes, updates in place and the
addresses of kernels are derived from these declarations; the checker of memory plans alone keeps
its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rlx.dataclass import dataclass
from rlx.ir.graph import Node
from rlx.ir.op import Attrs, OpDef, Trait
from rlx.ir.ops import shape as ops
from rlx.ir.registry import Registry
from rlx.ir.shape import Extent, Shape, is_at_most, normalize_axis, row_major_strides


@dataclass(frozen=True, slots=True)
class Index:
    """`constant + sum(coefficients[j] * iteration axis j)`."""

    coefficients: tuple[Extent, ...]
    constant: Extent = 0

    def scaled(self, factor: Extent) -> Index:
        return Index(tuple(c * factor for c in self.coefficients), self.constant * factor)

    def plus(self, other: Index) -> Index:
        summed = (a + b for a, b in zip(self.coefficients, other.coefficients, strict=True))
        return Index(tuple(summed), self.constant + other.constant)

    def shifted(self, distance: Extent) -> Index:
        return Index(self.coefficients, self.constant + distance)

    def after(self, position: Position, rank: int) -> Index:
        """Return this index with `position`, over `rank` iteration axes, for its axes."""
        total = zero(rank).shifted(self.constant)
        for coefficient, index in zip(self.coefficients, position, strict=True):
            if coefficient != 0:
                total = total.plus(index.scaled(coefficient))
        return total

    @property
    def axis(self) -> int | None:
        """The iteration axis that this is the index of, or None."""
        axes = [axis for axis, factor in enumerate(self.coefficients) if factor != 0]
        plain = len(axes) == 1 and self.coefficients[axes[0]] == 1 and self.constant == 0
        return axes[0] if plain else None

    def varies(self, axes: Sequence[int]) -> bool:
        """True if the index depends on any of the iteration `axes`."""
        return any(self.coefficients[axis] != 0 for axis in axes)


Position: TypeAlias = tuple[Index, ...]
"""One index per axis of a value."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `start` up to, but without, `stop`."""

    start: Extent
    stop: Extent

    def holds(self, other: Interval) -> bool:
        """True if `other` is contained for all values of symbols."""
        return is_at_most(self.start, other.start) and is_at_most(other.stop, self.stop)

    def misses(self, other: Interval) -> bool:
        """True if `other` surely shares no integer with this; an empty interval shares none."""
        pairs = ((self, other), (other, self), (self, self), (other, other))
        return any(is_at_most(left.stop, right.start) for left, right in pairs)


Box: TypeAlias = tuple[Interval, ...]
"""One interval per axis."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of result indices, and where one operand is read there."""

    operand: int
    box: Box
    position: Position


@dataclass(frozen=True, slots=True)
class IndexMap:
    """The elements that an op reads: disjoint pieces for movement, the whole if elementwise."""

    pieces: tuple[Piece, ...]
    fill: float | None = None
    """The element outside of every piece; None if the pieces cover the result."""


MapRule: TypeAlias = Callable[..., IndexMap | None]
maps: Registry[MapRule] = Registry("index map")
"""Rules `(operand shapes, result shape, **attributes) -> map`, by movement op."""


def index_map(node: Node) -> IndexMap | None:
    """Return the index map of `node`, or None if it is not piecewise affine."""
    shapes = tuple(operand.shape for operand in node.operands)
    return _index_map(node.op, node.attrs, shapes, node.results[0].shape)


def _index_map(
    definition: OpDef, attrs: Attrs, shapes: tuple[Shape, ...], result: Shape
) -> IndexMap | None:
    rule = maps.get(definition)
    if rule is not None:
        return rule(list(shapes), result, **attrs.as_dict())
    if definition.has(Trait.ELEMENTWISE) and shapes:
        return _aligned(list(shapes), result)
    return None


def moves(node: Node) -> bool:
    """True if every element of the result is an operand's element, or a constant."""
    return node.op in maps and index_map(node) is not None


def is_aligned(node: Node) -> bool:
    """True if each result element reads the operands at its own (broadcast) index only."""
    is_elementwise = node.op.has(Trait.ELEMENTWISE)
    if len(node.operands) > 1 and not is_elementwise:
        return False  # each is read for a part of the result; decided without making their map
    if node.op not in maps and not is_elementwise:
        return False
    shapes = tuple(operand.shape for operand in node.operands)
    return _is_aligned(node.op, node.attrs, shapes, node.results[0].shape)


@functools.lru_cache(maxsize=4096)  # fusion asks again and again
def _is_aligned(definition: OpDef, attrs: Attrs, shapes: tuple[Shape, ...], result: Shape) -> bool:
    found = _index_map(definition, attrs, shapes, result)
    if found is None or found.fill is not None or len(found.pieces) != len(shapes):
        return False
    return all(
        piece.box == whole(result) and _is_broadcast(piece.position, shapes[piece.operand], result)
        for piece in found.pieces
    )


def zero(rank: int) -> Index:
    """Return the index that stays at 0 over an iteration space of `rank` axes."""
    return Index((0,) * rank)


def along(axis: int, rank: int) -> Index:
    """Return the index that runs along `axis` of an iteration space of `rank` axes."""
    return Index(tuple(int(axis == j) for j in range(rank)))


def identity(shape: Shape) -> Position:
    """Return the position that reads a value of `shape` at the iteration point itself."""
    rank = len(shape)
    return tuple(zero(rank) if shape[axis] == 1 else along(axis, rank) for axis in range(rank))


def whole(shape: Shape) -> Box:
    """Return the box of all indices into `shape`."""
    return tuple(Interval(0, extent) for extent in shape)


def composed(position: Position, outer: Position, rank: int) -> Position:
    """Return `position`, a function of an index that is itself at `outer`."""
    return tuple(index.after(outer, rank) for index in position)


def address(position: Position, shape: Shape, rank: int) -> Index:
    """Return the element offset in a dense tensor of `shape` read at `position`."""
    total = zero(rank)
    for index, stride in zip(position, row_major_strides(shape), strict=True):
        total = total.plus(index.scaled(stride))
    return total


def broadcast(position: Position, source: Shape, rank: int) -> Position:
    """Return the position of a value that broadcasts to the shape read at `position`."""
    aligned = position[len(position) - len(source) :]
    return tuple(
        zero(rank) if extent == 1 else index for index, extent in zip(aligned, source, strict=True)
    )


def reach(index: Index, box: Box) -> Interval | None:
    """Return the interval of values of `index` over `box`, or None where signs are unknown."""
    low = high = index.constant
    for coefficient, interval in zip(index.coefficients, box, strict=True):
        if coefficient == 0:
            continue
        if not isinstance(coefficient, int):
            return None
        ends = (interval.start * coefficient, (interval.stop - 1) * coefficient)
        low = low + ends[coefficient < 0]
        high = high + ends[coefficient > 0]
    return Interval(low, high + 1)


# The maps of the movement ops


def _aligned(sources: Sequence[Shape], result: Shape) -> IndexMap:
    here, rank = identity(result), len(result)
    return IndexMap(
        tuple(
            Piece(number, whole(result), broadcast(here, source, rank))
            for number, source in enumerate(sources)
        )
    )


def _everywhere(result: Shape, position: Position) -> IndexMap:
    return IndexMap((Piece(0, whole(result), position),))


@maps(ops.expand)
def expand_map(sources: Sequence[Shape], result: Shape, **_: Any) -> IndexMap:
    return _aligned(sources, result)


@maps(ops.transpose)
def transpose_map(_sources: Sequence[Shape], result: Shape, *, perm: tuple[int, ...]) -> IndexMap:
    here = identity(result)
    found = {normalize_axis(axis, len(perm)): here[at] for at, axis in enumerate(perm)}
    return _everywhere(result, tuple(found[axis] for axis in range(len(perm))))


@maps(ops.narrow)
def narrow_map(
    _sources: Sequence[Shape], result: Shape, *, axis: int, start: Extent, **_: Any
) -> IndexMap:
    return _everywhere(result, _shifted(identity(result), normalize_axis(axis, len(result)), start))


@maps(ops.slice)
def slice_map(
    _sources: Sequence[Shape],
    result: Shape,
    *,
    start: tuple[int, ...],
    step: tuple[int, ...],
    **_: Any,
) -> IndexMap:
    steps = zip(identity(result), start, step, strict=True)
    return _everywhere(result, tuple(i.scaled(stride).shifted(first) for i, first, stride in steps))


@maps(ops.reverse)
def reverse_map(_sources: Sequence[Shape], result: Shape, *, axes: tuple[int, ...]) -> IndexMap:
    flipped = {normalize_axis(axis, len(result)) for axis in axes}
    position = tuple(
        index.scaled(-1).shifted(result[axis] - 1) if axis in flipped else index
        for axis, index in enumerate(identity(result))
    )
    return _everywhere(result, position)


@maps(ops.reshape)
def reshape_map(sources: Sequence[Shape], result: Shape, **_: Any) -> IndexMap | None:
    """Every operand axis must be kept, merged from result axes, or of extent 1."""
    here, rank = identity(result), len(result)
    found: list[Index] = []
    taken = 0
    for extent in sources[0]:
        merged, covered = zero(rank), _ONE
        while covered != extent:
            if taken == rank:
                return None
            merged = merged.scaled(result[taken]).plus(here[taken])
            covered = covered * result[taken]
            taken += 1
        found.append(merged)
    return _everywhere(result, tuple(found))


@maps(ops.concat)
def concat_map(sources: Sequence[Shape], result: Shape, *, axis: int) -> IndexMap:
    position, box = identity(result), whole(result)
    axis = normalize_axis(axis, len(result))
    pieces: list[Piece] = []
    before: Extent = 0
    for number, source in enumerate(sources):
        end = before + source[axis]
        part = (*box[:axis], Interval(before, end), *box[axis + 1 :])
        pieces.append(Piece(number, part, _shifted(position, axis, -1 * before)))
        before = end
    return IndexMap(tuple(pieces))


@maps(ops.pad)
def pad_map(
    sources: Sequence[Shape],
    result: Shape,
    *,
    low: tuple[Extent, ...],
    value: float,
    **_: Any,
) -> IndexMap:
    before = zip(low, sources[0], strict=True)
    box = tuple(Interval(start, start + extent) for start, extent in before)
    shifts = zip(identity(result), low, strict=True)
    position = tuple(index.shifted(-1 * start) for index, start in shifts)
    fill = None if box == whole(result) else value
    return IndexMap((Piece(0, box, position),), fill)


_ONE: Extent = 1


def _shifted(position: Position, axis: int, distance: Extent) -> Position:
    return (*position[:axis], position[axis].shifted(distance), *position[axis + 1 :])


def _is_broadcast(position: Position, source: Shape, result: Shape) -> bool:
    """True if `position` reads all of each axis that is longer than 1, in order, as it is."""
    here = zip(identity(result), result, strict=True)
    read = zip(position, source, strict=True)
    return all(axis in here for axis in read if axis[1] != 1)
