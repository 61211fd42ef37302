"""What kernels read and write: memory, with the elementwise work around them folded in.

Every thunk has a body: a graph of its anchor (softmax, a reduction, ...) with elementwise and
movement nodes before and after it; an unfused thunk is a body of one node. A kernel reads the
anchor's operands through `Reader`s, which compute the nodes before, and hands the anchor's
result to a `Writer`, which computes the nodes after and stores every output. So a kernel is
written once, with or without fusion:

    x = source.grouped(((0, 1), (2,)))
    y = target.grouped(((0, 1), (2,)))
    with k.loop("row", x.extent(0)) as row:
        x_row, y_row = x.at(row), y.at(row)
        with k.loop("i", x.extent(1)) as i:
            y_row.write(i, value=x_row.read(i) * scale)
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from rlx.codegen.kernels.scalars import element, uses_once
from rlx.codegen.kernels.values import (
    Scalar,
    chosen_where,
    compute_prim,
    filled,
    literal,
    load,
    named,
    real,
    store,
)
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, maximum, minimum
from rlx.codegen.loops.math.storage import rounded
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.scalar import cast
from rlx.errors import InternalError
from rlx.ir.dtype import DType
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
from rlx.ir.op import Trait
from rlx.ir.shape import Extent, Shape, is_at_most, product, upper
from rlx.ir.types import TensorType

MOST_CUTS = 8
"""Places at which a loop is split; where guards change more often they stay in it."""


@dataclass(frozen=True, slots=True)
class Body:
    """What one kernel computes, bound to the kernel's arguments."""

    graph: Graph
    anchor: Node | None
    """The node that is neither elementwise nor movement; None for an elementwise region."""
    k: KernelBuilder
    extents: Extents
    inputs: Mapping[Value, Buffer]
    outputs: tuple[tuple[Value, Buffer], ...]
    is_split: bool
    """True if some element is one operand's or another's, by where it lies."""
    stored: set[int] = field(default_factory=set)
    """Positions of the outputs that some reader or writer has taken on."""

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
        """True for what reads nothing: inputs, constants, and the anchor's results."""
        return value.node is self.anchor or not value.node.operands

    def guards_at(self, roots: Iterable[Located], box: Box) -> Iterator[Guard]:
        """Yield the guards that reading `roots` over `box` leaves open."""
        if not self.is_split:
            return
        for located in self.evaluated_at(roots, box):
            if not self.is_given(located.value) and located.value.node.op in maps:
                for alternative in alternatives_at(located, box):
                    yield from alternative.guards


def operand_position(node: Node, operand: int, position: Position, rank: int) -> Position:
    """Return where `node`, read at `position` over `rank` iteration axes, reads an operand."""
    found = index_map(node)
    if found is None:
        raise InternalError(f"{node.op.name} has no index map")
    return composed(found.pieces[operand].position, position, rank)


@dataclass(frozen=True, slots=True)
class Reader:
    """A value that feeds the kernel, to be read at points of its own shape."""

    body: Body
    value: Value
    name: str

    @property
    def type(self) -> TensorType:
        return self.value.type

    @property
    def shape(self) -> Shape:
        return self.value.shape

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def prim(self) -> Prim:
        """The machine type that `read` gives."""
        return compute_prim(self.dtype)

    @property
    def memory(self) -> Buffer | None:
        """The argument itself where nothing is computed on the way, else None."""
        return self.body.inputs.get(self.value)

    def grouped(self, groups: Groups) -> GroupedReader:
        """Gather the axes into groups; each is then read by one flat index."""
        grid = Grid.over(self.shape, groups, self.body.extents)
        return GroupedReader(self.body, grid, Located(self.value, identity(self.shape)))

    def runs(self, axes: tuple[int, ...]) -> Groups:
        """Split `axes` into the fewest groups that every operand reads without division."""
        here = address(identity(self.shape), self.shape, len(self.shape))
        return self.grouped((axes,)).collapsed(axes, here)


@dataclass(frozen=True, slots=True)
class Writer:
    """A result of the anchor, and everything the body computes from it.

    A result that lies otherwise than row by row is written as it is stored.
    """

    body: Body
    value: Value
    name: str

    @property
    def type(self) -> TensorType:
        return self.value.type

    @property
    def shape(self) -> Shape:
        return self.value.type.stored_shape

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def memory(self) -> Buffer | None:
        """The argument itself where the result is stored as it is and nowhere else, else None."""
        mine = [output for output in self.body.outputs if self._stores(output[0])]
        value, buffer = mine[0]
        return buffer if len(mine) == 1 and value is self.value else None

    def grouped(self, groups: Groups) -> GroupedWriter:
        """Gather the axes into groups; each is then written by one flat index."""
        grid = Grid.over(self.shape, groups, self.body.extents)
        targets = []
        for number, (value, buffer) in enumerate(self.body.outputs):
            if self._stores(value):
                self.body.stored.add(number)
                targets.append(target(value, buffer, self.shape))
        return GroupedWriter(self.body, grid, self.value, tuple(targets))

    def _stores(self, output: Value) -> bool:
        """True for the outputs that are stored with this result: all, or its own of several."""
        return len(self.value.node.results) == 1 or output is self.value


@dataclass(frozen=True, slots=True)
class Target:
    """An output to store: the value to compute, and its address over the iteration shape."""

    source: Located
    buffer: Buffer
    at: Index

    @property
    def value(self) -> Value:
        return self.source.value


def target(value: Value, buffer: Buffer, shape: Shape) -> Target:
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
    return Target(Located(value, here), buffer, address(here, shape, len(shape)))


@dataclass(frozen=True, slots=True)
class Grouped(ABC):
    """Access over an iteration shape, with the leading groups bound by `at`."""

    body: Body
    grid: Grid

    bound: tuple[E, ...] = field(default=(), kw_only=True)
    partial: Mapping[Index, E] = field(default_factory=dict, kw_only=True)
    """Addresses with the bound groups summed up, where that took a division."""
    decided: Mapping[Guard | Clamp, E] = field(default_factory=dict, kw_only=True)
    """Guards and clamped indices that do not change in the groups not bound, by name."""

    @abstractmethod
    def roots(self) -> list[Located]:
        """Return what is read, from which everything else follows."""

    def stored(self) -> list[tuple[str, Index]]:
        """Return what is written where, by name."""
        return []

    def at(self, *indices: E) -> Self:
        """Bind the leading groups; offsets that need a division are computed here."""
        bound = self
        for index in indices:
            partial = bound._bind(index)
            bound = replace(bound, bound=(*bound.bound, index), partial=partial)
            bound = replace(bound, decided=bound._decide())
        return bound

    def extent(self, group: int) -> E:
        """Return the iterations of a group, counted from the first one not bound."""
        return self.body.extents(self.extent_of(group))

    def extent_of(self, group: int) -> Extent:
        return self.grid.extent(len(self.bound) + group)

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
        """Return where along `axis` the guards change, in order; none where that is too often."""
        extent = self.grid.shape[axis]
        guards = self.body.guards_at(self.roots(), self.grid.box)
        found = {cut for guard in guards for cut in cut_points(guard, axis)}
        inner = [cut for cut in found if not (is_at_most(cut, 0) or is_at_most(extent, cut))]
        return sorted(inner, key=upper) if len(inner) <= MOST_CUTS else []

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

        Operands that lie alike share an address, and the name of the first.
        """
        group = len(self.bound)
        partial = dict(self.partial)
        names: dict[Index, str] = {}
        for name, where in self._addresses():
            names.setdefault(where, name)
        for where, name in names.items():
            offset = self.grid.offset(group, where, index)
            if not divides(offset.node) and where not in partial:
                continue
            known = partial.get(where)
            before = self._sum(where, self.bound, 0) if known is None else known
            total = sum_of(before, offset)
            partial[where] = total
            if divides(offset.node):
                partial[where] = self.body.k.let(f"{name}_offset", total)
        return partial

    def _decide(self) -> Mapping[Guard | Clamp, E]:
        """Name the guards and clamped indices that the bound groups decide."""
        if not self.body.is_split:
            return self.decided
        free = [axis for group in self.grid.groups[len(self.bound) :] for axis in group]
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
        """Return the element offset of `where` at the bound indices followed by `indices`."""
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
        first = len(self.bound)
        if where in self.partial:
            return sum_of(self.partial[where], *self._terms(where, indices, first))
        return self._sum(where, (*self.bound, *indices), 0)

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


@dataclass(frozen=True, slots=True)
class GroupedReader(Grouped):
    """Reads one value; `read` takes one index per group that is not bound."""

    source: Located

    @property
    def value(self) -> Value:
        return self.source.value

    def roots(self) -> list[Located]:
        return [self.source]

    def read(self, *indices: E) -> Scalar:
        """Return the element at the given indices, computing what comes before it."""
        return Evaluation(self, indices).value(self.source)

    def read_real(self, *indices: E) -> E:
        """`read` for a value that is not complex."""
        return real(self.read(*indices))

    def read_vector(self, *indices: E, lanes: int) -> E:
        """Return `lanes` elements, consecutive along the last group."""
        return real(Evaluation(self, indices, lanes=lanes).value(self.source))


@dataclass(frozen=True, slots=True)
class GroupedWriter(Grouped):
    """Writes one result of the anchor through everything the body computes from it."""

    value: Value | None
    targets: tuple[Target, ...]

    def roots(self) -> list[Located]:
        return [each.source for each in self.targets]

    def stored(self) -> list[tuple[str, Index]]:
        return [(each.buffer.name, each.at) for each in self.targets]

    def write(self, *indices: E, value: Scalar) -> None:
        """Store the element at the given indices, in the anchor's compute type."""
        self._store(Evaluation(self, indices), value)

    def write_vector(self, *indices: E, value: E) -> None:
        """Store `value`, a vector, as consecutive elements along the last group."""
        self._store(Evaluation(self, indices, lanes=value.type.lanes), value)

    def written(self, *indices: E) -> E:
        """Return what `write` stored in a result that is stored as it is (`Writer.memory`)."""
        (plain,) = self.targets
        k = self.body.k
        return real(load(k, plain.buffer, plain.value.dtype, self._locate(plain.at, indices)))

    def write_region(self, *indices: E) -> None:
        """Compute and store every output of a body without an anchor."""
        self._store(Evaluation(self, indices), None)

    def _store(self, evaluation: Evaluation, value: Scalar | None) -> None:
        evaluation.count(self.roots())
        if self.value is not None and value is not None:
            evaluation.give(self.value, value)
        evaluation.store_all(self.targets)


class Evaluation:
    """The nodes of a body at one point of the iteration space, each computed once."""

    def __init__(self, access: Grouped, indices: tuple[E, ...], lanes: int = 1) -> None:
        self._access = access
        self._body = access.body
        self._indices = indices
        self._lanes = lanes
        self._box = access.grid.box
        self._known: dict[Located, Scalar] = {}
        self._given: dict[Value, Scalar] = {}
        self._uses: Counter[Located] = Counter()

    def give(self, value: Value, element: Scalar) -> None:
        """Supply the anchor's result, which is rounded before anything is computed from it."""
        if isinstance(element, E):
            element = rounded(element, value.dtype)
        self._given[value] = self._named(value, element) if self._is_shared(value) else element

    def count(self, roots: Iterable[Located]) -> None:
        """Count the uses of every value, so that the shared ones get a name."""
        for located in roots:
            self._uses[located] += 1
        for located in self._body.evaluated_at(roots, self._box):
            if not self._body.is_given(located.value):
                self._uses.update(operands_at(located, self._box))

    def value(self, located: Located) -> Scalar:
        """Return the element of a value at a position."""
        if located.value in self._given:
            return self._given[located.value]
        if located not in self._known:
            if not self._uses:
                self.count([located])
            self._known[located] = self._compute(located)
        return self._known[located]

    def store_all(self, targets: tuple[Target, ...]) -> None:
        """Store every target; several are computed first, as one may overwrite an operand."""
        k = self._body.k
        elements = [self.value(each.source) for each in targets]
        if len(targets) > 1:
            pairs = zip(targets, elements, strict=True)
            elements = [self._named(each.value, computed) for each, computed in pairs]
        for each, computed in zip(targets, elements, strict=True):
            at = self._access.locate(Address(each.at), self._indices)
            store(k, each.buffer, each.value.dtype, at, computed)

    def _compute(self, located: Located) -> Scalar:
        value = located.value
        if value in self._body.inputs:
            result = self._load(self._body.inputs[value], located)
        elif value.op.name == "constant":
            return literal(value.node.attribute("value").array.flat[0].item(), value.dtype)
        elif value.op.name == "iota":
            result = self._iota(located)
        elif value.op.has(Trait.ELEMENTWISE):
            result = self._apply(located)
        else:
            result = self._select(located)
        shared = self._uses[located] > 1
        return self._named(value, result) if shared else result

    def _apply(self, located: Located) -> Scalar:
        node, sources = located.value.node, operands_at(located, self._box)
        operands = [self.value(source) for source in sources]
        result = element(node, operands)
        if all(uses_once(result, operand) for operand in operands):
            return result
        pairs = zip(node.operands, operands, strict=True)
        return element(node, [self._named(operand, each) for operand, each in pairs])

    def _select(self, located: Located) -> Scalar:
        """Return the element of the first alternative whose guards hold, or the fill."""
        alternatives = alternatives_at(located, self._box)
        result = filled(located.value)
        for each in reversed(alternatives):
            chosen = self.value(each.source)
            if each.guards and result is not None:
                # C must not branch around what is computed for one side: vectors compute both.
                chosen = self._named(each.source.value, chosen)
                result = self._named(located.value, result)
                guards = (self._access.condition(g, self._indices) for g in each.guards)
                chosen = chosen_where(functools.reduce(and_, guards), chosen, result)
            result = chosen
        return literal(0, located.value.dtype) if result is None else result

    def _load(self, buffer: Buffer, located: Located) -> Scalar:
        if located.value.type.layout is not None:
            value = located.value
            raise InternalError(f"{value.label} lies in {value.type.layout}: its kernel reads it")
        where = address_of(located, self._box)
        at = self._access.locate(where, self._indices)
        k, dtype = self._body.k, located.value.dtype
        if self._lanes == 1 or not self._advances(where.index):
            return load(k, buffer, dtype, at)
        return load(k, buffer, dtype, at, self._lanes)

    def _advances(self, where: Index) -> bool:
        """True if a vector along the last group reads consecutive elements, False if one."""
        grid = self._access.grid
        runs = grid.runs(len(grid.groups) - 1, where)
        if any(stride != 0 for _, stride in runs) and (len(runs) > 1 or runs[0][1] != 1):
            raise InternalError(f"a vector read is not contiguous: runs {runs}")
        return any(stride != 0 for _, stride in runs)

    def _iota(self, located: Located) -> Scalar:
        where = located.position[located.value.node.attribute("axis")]
        at = self._access.locate(Address(where), self._indices)
        if self._lanes > 1 and self._advances(where):
            at = at.ramp(self._lanes)
        return cast(at, to=located.value.dtype)

    def _is_shared(self, value: Value) -> bool:
        return sum(n for used, n in self._uses.items() if used.value is value) > 1

    def _named(self, value: Value, element: Scalar) -> Scalar:
        buffer = self._body.inputs.get(value)
        name = value.op.name if buffer is None else buffer.name
        return named(self._body.k, f"{name}_value", element)
