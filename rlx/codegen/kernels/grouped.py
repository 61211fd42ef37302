"""Bodies of kernels bound to memory, and their addresses over an iteration shape.

A shape is iterated over in groups of axes; `Grouped.at` binds the leading ones, and gives
addresses, guards and clamps what they need once. What is computed there is `evaluation`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from operator import and_
from typing import Self

from rlx.codegen.kernels.affine import Grid, Groups, collapse, divides, sum_of
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.guards import (
    Address,
    Clamp,
    Guard,
    Located,
    address_of,
    alternatives_at,
    axes_of,
    cut_points,
    operands_at,
)
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, maximum, minimum
from rlx.codegen.loops.nodes import Buffer
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import (
    Box,
    Index,
    Interval,
    Position,
    address,
    composed,
    identity,
    index_map,
    maps,
    reach,
)
from rlx.ir.shape import Extent, Shape, is_at_most, product, upper

_MOST_CUTS = 8
"""Loops that a row is split into where they are short: more would be more code than they save."""

_MOST_LONG_CUTS = 64
_LONG = 16
"""Elements in a piece of a row that are worth a loop of their own: a vector or more."""


@dataclass(frozen=True, slots=True)
class Body:
    """What one kernel computes, bound to the kernel's arguments."""

    graph: Graph
    anchors: tuple[Node, ...]
    """What is neither elementwise nor movement: none in an elementwise region, several only for
    reductions that share a pass over what they read."""
    k: KernelBuilder
    extents: Extents
    inputs: Mapping[Value, Buffer]
    outputs: tuple[tuple[Value, Buffer], ...]
    is_split: bool
    """True if an element is one operand's or another's, by its index."""
    stored: set[int] = field(default_factory=set)
    """Positions of the outputs that some reader or writer has taken on."""
    weights: Container[Node] = ()
    """Nodes whose exponentials are weights of a softmax: 0 below the normal numbers."""

    @property
    def anchor(self) -> Node | None:
        """The node that the kernel is built for, if there is one."""
        return self.anchors[0] if self.anchors else None

    def evaluated_at(self, roots: Iterable[Located], box: Box) -> Iterator[Located]:
        """Yield every value that reading `roots` touches, once per position."""
        pending, seen = list(roots), set[Located]()
        while pending:
            located = pending.pop()
            if located in seen:
                continue
            seen.add(located)
            yield located
            if not self.is_given(located.value):
                pending += reversed(operands_at(located, box))

    def is_given(self, value: Value) -> bool:
        """True for what reads nothing: inputs, constants, and the anchors' results."""
        return value.node in self.anchors or not value.node.operands

    def guards_at(self, roots: Iterable[Located], box: Box) -> Iterator[Guard]:
        """Yield the guards of reading `roots` that are undecided over `box`."""
        if not self.is_split:
            return
        for located in self.evaluated_at(roots, box):
            if not self.is_given(located.value) and located.value.node.op in maps:
                for alternative in alternatives_at(located, box):
                    yield from alternative.guards


def is_split(graph: Graph) -> bool:
    """True if an index map is piecewise."""
    found = (index_map(node) for node in graph.nodes if node.op in maps)
    return any(m is not None and (len(m.pieces) > 1 or m.fill is not None) for m in found)


def operand_position(node: Node, operand: int, position: Position, rank: int) -> Position:
    """Return where `node`, read at `position` over `rank` iteration axes, reads an operand."""
    found = index_map(node)
    if found is None:
        raise InternalError(f"{node.op.name} has no index map")
    return composed(found.pieces[operand].position, position, rank)


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """An output to store: the value to compute, and its address over the iteration shape."""

    source: Located
    buffer: Buffer
    at: Index

    @property
    def value(self) -> Value:
        return self.source.value


def target(value: Value, buffer: Buffer, shape: Shape) -> StoreTarget:
    """Return where `value` is stored when iterating over `shape`.

    Trailing reshapes cost nothing, because outputs are dense.
    """
    while value.op.name == "reshape" and value.shape != shape:
        value = value.node.operands[0]
    if value.type.stored_shape != shape:
        raise InternalError(
            f"fused output {value.label} has shape {value.type.describe_shape()}; "
            f"the kernel iterates over {shape}"
        )
    here = identity(shape)
    return StoreTarget(Located(value, here), buffer, address(here, shape, len(shape)))


@dataclass(frozen=True, slots=True)
class Grouped(ABC):
    """Access over an iteration shape, with the leading groups fixed by `at`."""

    body: Body
    grid: Grid

    fixed: tuple[E, ...] = field(default=(), kw_only=True)
    partial: Mapping[Index, E] = field(default_factory=dict, kw_only=True)
    """Addresses with the fixed groups summed up, where that took a division."""
    decided: Mapping[Guard | Clamp, E] = field(default_factory=dict, kw_only=True)
    """Guards and clamped indices that do not change in the groups not fixed, by name."""

    @abstractmethod
    def roots(self) -> list[Located]:
        """Return the values that readers and store targets evaluate."""

    def stored(self) -> list[tuple[str, Index]]:
        """Return what is written where, by name."""
        return []

    def at(self, *indices: E) -> Self:
        """Bind the leading groups; offsets that need a division are computed here."""
        access = self
        for index in indices:
            partial = access._bind(index)
            access = replace(access, fixed=(*access.fixed, index), partial=partial)
            access = replace(access, decided=access._decide())
        return access

    def extent(self, group: int) -> E:
        """Return the iterations of a group, counted from the first one not fixed."""
        return self.body.extents(self.extent_of(group))

    def extent_of(self, group: int) -> Extent:
        return self.grid.extent(len(self.fixed) + group)

    def collapsed(self, axes: Sequence[int], *others: Index) -> Groups:
        """Gather `axes` into the fewest groups that need no division; guarded ones come first."""
        shape, box = self.grid.shape, self.grid.box
        indices = [*others, *(index for _, index in self.stored())]
        for located in self.body.evaluated_at(self.roots(), box):
            if located.value in self.body.inputs:
                indices.append(address(located.position, located.value.shape, len(shape)))
        guards = self.body.guards_at(self.roots(), box)
        return collapse(shape, axes, indices, axes_of(list(guards), shape))

    @property
    def is_split(self) -> bool:
        """True if guards are open in what is read."""
        return any(True for _ in self.body.guards_at(self.roots(), self.grid.box))

    def segments(self) -> list[tuple[E, E, Self]]:
        """Split the last group where guards change; yield (start, stop, what is left to read).

        A segment between symbolic ends may be empty; inside it the ends are in order.
        """
        axes = [axis for axis in self.grid.groups[-1] if self.grid.shape[axis] != 1]
        cuts = self._cuts(axes[0]) if axes else []
        if not cuts:
            return [(self.body.extents(0), self.extent(0), self)]
        scale = product(self.grid.shape[axis] for axis in axes[1:])
        ends = [0, *cuts, self.grid.shape[axes[0]]]
        starts = self._ordered(ends, scale)
        boxes = [self.grid.within(axes[0], Interval(*pair)) for pair in pairwise(ends)]
        split = [replace(self, grid=grid) for grid in boxes]
        return list(zip(starts, starts[1:], split, strict=False))

    def _cuts(self, axis: int) -> list[Extent]:
        """Return where along `axis` the guards change, in order; none where that is too often.

        A body of one node copies: the more pieces, the more operands an element would choose among.
        """
        extent = self.grid.shape[axis]
        guards = self.body.guards_at(self.roots(), self.grid.box)
        found = {cut for guard in guards for cut in cut_points(guard, axis)}
        inner = [cut for cut in found if not (is_at_most(cut, 0) or is_at_most(extent, cut))]
        scale = product(self.grid.shape[other] for other in self.grid.groups[-1] if other > axis)
        long = _LONG * (len(inner) + 1) <= upper(extent * scale)
        most = _MOST_LONG_CUTS if long else _MOST_CUTS
        copies = len(self.body.graph.nodes) <= len(self.body.inputs) + 1
        return sorted(inner, key=upper) if copies or len(inner) <= most else []

    def _ordered(self, ends: Sequence[Extent], scale: Extent) -> list[E]:
        """Return `ends` as expressions, each at least the one before and at most the last."""
        extents, last = self.body.extents, ends[-1]
        found: list[E] = []
        for number, end in enumerate(ends):
            at = extents(end * scale)
            if not all(is_at_most(before, end) for before in ends[:number]):
                at = maximum(found[-1], at)
            if not is_at_most(end, last):
                at = minimum(at, extents(last * scale))
            found.append(self.body.k.let("cut", at))
        return found

    def _bind(self, index: E) -> dict[Index, E]:
        """Name the parts of addresses that need divisions, once for the loops inside.

        Operands with one layout share an address, and the name of the first.
        """
        group = len(self.fixed)
        partial = dict(self.partial)
        names: dict[Index, str] = {}
        for name, where in self._addresses():
            names.setdefault(where, name)
        for where, name in names.items():
            offset = self.grid.offset(group, where, index)
            if not divides(offset.node) and where not in partial:
                continue
            known = partial.get(where)
            before = self._sum(where, self.fixed, 0) if known is None else known
            total = sum_of(before, offset)
            partial[where] = total
            if divides(offset.node):
                partial[where] = self.body.k.let(f"{name}_offset", total)
        return partial

    def _decide(self) -> Mapping[Guard | Clamp, E]:
        """Name the guards and clamped indices that the fixed groups decide."""
        if not self.body.is_split:
            return self.decided
        free = [axis for group in self.grid.groups[len(self.fixed) :] for axis in group]
        found = dict(self.decided)
        for guard in self.body.guards_at(self.roots(), self.grid.box):
            if guard not in found and not guard.index.varies(free):
                found[guard] = self.body.k.let("inside", self._condition(guard, ()))
        for name, where in self._reads():
            for clamp in where.clamps:
                if clamp not in found and not clamp.index.varies(free):
                    found[clamp] = self.body.k.let(f"{name}_line", self._clamped(clamp, ()))
        return found

    def condition(self, guard: Guard, indices: tuple[E, ...]) -> E:
        known = self.decided.get(guard)
        return self._condition(guard, indices) if known is None else known

    def _condition(self, guard: Guard, indices: tuple[E, ...]) -> E:
        at, wanted = self._locate(guard.index, indices), guard.interval
        found = reach(guard.index, self.grid.box)
        tests = []
        if found is None or not is_at_most(wanted.start, found.start):
            tests.append(at >= self.body.extents(wanted.start))
        if found is None or not is_at_most(found.stop, wanted.stop):
            tests.append(at < self.body.extents(wanted.stop))
        return functools.reduce(and_, tests)

    def locate(self, where: Address, indices: tuple[E, ...]) -> E:
        """Return the element offset of `where` at the fixed indices followed by `indices`."""
        terms = [self._known_clamp(clamp, indices) for clamp in where.clamps]
        return sum_of(*terms, self._locate(where.index, indices))

    def _known_clamp(self, clamp: Clamp, indices: tuple[E, ...]) -> E:
        known = self.decided.get(clamp)
        return self._clamped(clamp, indices) if known is None else known

    def _clamped(self, clamp: Clamp, indices: tuple[E, ...]) -> E:
        at = self._locate(clamp.index, indices)
        found = reach(clamp.index, self.grid.box)
        if found is None or not is_at_most(found.stop - 1, clamp.last):
            at = minimum(at, self.body.extents(clamp.last))
        # An axis without elements at this call has memory for those of the largest one.
        if found is None or not (is_at_most(0, found.start) and is_at_most(0, clamp.last)):
            at = maximum(at, 0)
        return at * self.body.extents(clamp.stride)

    def _locate(self, where: Index, indices: tuple[E, ...]) -> E:
        first = len(self.fixed)
        if where in self.partial:
            return sum_of(self.partial[where], *self._terms(where, indices, first))
        return self._sum(where, (*self.fixed, *indices), 0)

    def _sum(self, where: Index, indices: tuple[E, ...], first: int) -> E:
        constant = self.body.extents(where.constant)
        return sum_of(*self._terms(where, indices, first), constant)

    def _terms(self, where: Index, indices: tuple[E, ...], first: int) -> list[E]:
        numbered = enumerate(indices, start=first)
        return [self.grid.offset(group, where, index) for group, index in numbered]

    def _reads(self) -> Iterator[tuple[str, Address]]:
        """Yield where which input is read."""
        for located in self.body.evaluated_at(self.roots(), self.grid.box):
            if located.value in self.body.inputs:
                name = self.body.inputs[located.value].name
                yield name, address_of(located, self.grid.box)

    def _addresses(self) -> Iterator[tuple[str, Index]]:
        """Yield every affine index that locates something, by name."""
        yield from self.stored()
        for name, where in self._reads():
            yield name, where.index
            yield from ((name, clamp.index) for clamp in where.clamps)
        for guard in self.body.guards_at(self.roots(), self.grid.box):
            yield "guarded", guard.index
