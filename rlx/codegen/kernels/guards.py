"""Guarded reads: operands of ops with piecewise index maps, such as pad and concat.

An element of a `concat` or `pad` is one operand's where the index is in that operand's box, and
another's, or a constant, elsewhere. Over a box of iterations most such guards are decided by
arithmetic on bounds: loops that are split where guards change have none left inside. What is
left becomes a select, and a load that only one side of a select reads is kept inside its
tensor by clamping its indices: nothing is ever read outside of an operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.graph import Value
from rlx.ir.index_maps import (
    Box,
    Index,
    Interval,
    Position,
    address,
    broadcast,
    composed,
    index_map,
    reach,
    zero,
)
from rlx.ir.op import Trait
from rlx.ir.shape import Extent, Shape, row_major_strides


@dataclass(frozen=True, slots=True)
class Located:
    """A value, read at a position over the iteration space."""

    value: Value
    position: Position
    is_guarded: bool = False
    """True if a select may discard it: the position may then be out of range."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition that `index` is in `interval`."""

    index: Index
    interval: Interval


@dataclass(frozen=True, slots=True)
class Alternative:
    """What an element is where all `guards` hold; the first that does wins."""

    guards: tuple[Guard, ...]
    source: Located


@dataclass(frozen=True, slots=True)
class Clamp:
    """An index that is kept from 0 to `last` before it is scaled by `stride`."""

    index: Index
    last: Extent
    stride: Extent


@dataclass(frozen=True, slots=True)
class Address:
    """An element offset: an affine index, and what has to be clamped."""

    index: Index
    clamps: tuple[Clamp, ...] = ()


def operands_at(located: Located, box: Box) -> list[Located]:
    """Return what a pointwise node reads of each operand that may be selected, and where."""
    value, position, rank = located.value, located.position, len(box)
    node = value.node
    if node.op.has(Trait.ELEMENTWISE):
        shapes = (operand.shape for operand in node.operands)
        places = (broadcast(position, shape, rank) for shape in shapes)
        pairs = zip(node.operands, places, strict=True)
        return [Located(operand, place, located.is_guarded) for operand, place in pairs]
    return [alternative.source for alternative in alternatives_at(located, box)]


def alternatives_at(located: Located, box: Box) -> list[Alternative]:
    """Return the possible sources of an element of a movement op's result over `box`.

    If none has no guards, it may be the map's fill, too.
    """
    node, rank = located.value.node, len(box)
    found = index_map(node)
    if found is None:
        type = located.value.type
        raise InternalError(f"{node.op.name} to {type} is not a movement by affine indices")
    kept: list[Alternative] = []
    for piece in found.pieces:
        guards = _guards(piece.box, located, box)
        if guards is None:
            continue
        place = composed(piece.position, located.position, rank)
        source = Located(node.operands[piece.operand], place, located.is_guarded or bool(guards))
        kept.append(Alternative(guards, source))
        if not guards:
            return kept[-1:]
    return kept


def _guards(wanted: Box, located: Located, box: Box) -> tuple[Guard, ...] | None:
    """Return what of `position in wanted` is undecided over `box`; None if it never holds."""
    guards = []
    for index, interval, extent in zip(located.position, wanted, located.value.shape, strict=True):
        if interval == Interval(0, extent):
            continue
        found = reach(index, box)
        if found is not None and interval.misses(found):
            return None
        if found is None or not interval.holds(found):
            guards.append(Guard(index, interval))
    return tuple(guards)


def address_of(located: Located, box: Box) -> Address:
    """Return where an operand in memory is read, clamped along axes that may leave it."""
    position, shape, rank = located.position, located.value.shape, len(box)
    if not located.is_guarded:
        return Address(address(position, shape, rank))
    total, clamps = zero(rank), []
    for index, extent, stride in zip(position, shape, row_major_strides(shape), strict=True):
        found = reach(index, box)
        if found is not None and Interval(0, extent).holds(found):
            total = total.plus(index.scaled(stride))
        else:
            clamps.append(Clamp(index, extent - 1, stride))
    return Address(total, tuple(clamps))


def cut_points(guard: Guard, axis: int) -> list[Extent]:
    """Return where, along iteration `axis`, a guard on that axis alone changes."""
    step = guard.index.coefficients[axis]
    alone = all(c == 0 for at, c in enumerate(guard.index.coefficients) if at != axis)
    if not alone or not isinstance(step, int) or step == 0:
        return []
    start, stop = guard.interval.start, guard.interval.stop
    first = guard.index.constant
    if step < 0:
        # first + step * i < stop  <=>  i > (first - stop) / -step
        ends = (first - stop + 1, first - start + 1)
        return [end for end in (_ceiling(e, -step) for e in ends) if end is not None]
    ends = (start - first, stop - first)
    return [end for end in (_ceiling(e, step) for e in ends) if end is not None]


def _ceiling(dividend: Extent, divisor: int) -> Extent | None:
    if divisor == 1:
        return dividend
    return -(-dividend // divisor) if isinstance(dividend, int) else None


def axes_of(guards: Sequence[Guard], shape: Shape) -> set[int]:
    """Return the iteration axes that any of `guards` depends on."""
    return {axis for guard in guards for axis in range(len(shape)) if guard.index.varies((axis,))}
