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

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from rlx.codegen.kernels.affine import Grid, Groups, collapse, divides, sum_of
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.scalars import element, uses_once
from rlx.codegen.kernels.values import (
    Scalar,
    compute_prim,
    literal,
    load,
    named,
    real,
    store,
)
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.math.storage import rounded
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.scalar import cast
from rlx.errors import InternalError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import (
    Index,
    Position,
    address,
    broadcast,
    composed,
    identity,
    index_map,
    maps,
)
from rlx.ir.op import Trait
from rlx.ir.shape import Extent, Shape
from rlx.ir.types import TensorType


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
    stored: set[int] = field(default_factory=set)
    """Positions of the outputs that some reader or writer has taken on."""

    def evaluated_at(self, value: Value, position: Position, rank: int) -> Iterator[Located]:
        """Yield every value that reading `value` touches, itself first, once per position."""
        pending, seen = [(value, position)], set[Located]()
        while pending:
            located = pending.pop()
            if located in seen:
                continue
            seen.add(located)
            yield located
            pending += reversed(self._operands_at(*located, rank))

    def _operands_at(self, value: Value, position: Position, rank: int) -> list[Located]:
        if value in self.inputs or value.node is self.anchor:
            return []
        return [
            (operand, operand_position(value.node, number, position, rank))
            for number, operand in enumerate(value.node.operands)
        ]


Located: TypeAlias = tuple[Value, Position]


def is_pointwise(node: Node) -> bool:
    """True for the nodes that a body may hold around its anchor."""
    return (
        node.op.has(Trait.ELEMENTWISE) or node.op.name in ("constant", "iota") or _only_moves(node)
    )


def _only_moves(node: Node) -> bool:
    """True for what reads one operand elsewhere; a reshape without a map may only come last."""
    if node.op not in maps:
        return False
    found = index_map(node)
    return found is None or (len(found.pieces) == 1 and found.fill is None)


def operand_position(node: Node, operand: int, position: Position, rank: int) -> Position:
    """Return where `node` reads its operand when its result is read at `position`.

    `rank` is the rank of the iteration space.
    """
    if node.op.has(Trait.ELEMENTWISE):
        return broadcast(position, node.operands[operand].shape, rank)
    found = index_map(node)
    if found is None:
        raise InternalError(
            f"{node.op.name} of {node.result.type} is no movement by affine indices"
        )
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
        grid = Grid(self.shape, groups, self.body.extents)
        return GroupedReader(self.body, grid, (), {}, self.value, identity(self.shape))

    def runs(self, axes: tuple[int, ...]) -> Groups:
        """Split `axes` into the fewest groups that every operand reads without division."""
        return collapse(self.shape, axes, self._addresses)

    @property
    def _addresses(self) -> list[Index]:
        here = identity(self.shape)
        rank = len(self.shape)
        found = [address(here, self.shape, rank)]
        for value, position in self.body.evaluated_at(self.value, here, rank):
            if value in self.body.inputs:
                found.append(address(position, value.shape, rank))
        return found


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
        grid = Grid(self.shape, groups, self.body.extents)
        targets = []
        for number, (value, buffer) in enumerate(self.body.outputs):
            if self._stores(value):
                self.body.stored.add(number)
                targets.append(target(value, buffer, self.shape))
        return GroupedWriter(self.body, grid, (), {}, self.value, tuple(targets))

    def _stores(self, output: Value) -> bool:
        """True for the outputs that are stored with this result: all, or its own of several."""
        return len(self.value.node.results) == 1 or output is self.value


@dataclass(frozen=True, slots=True)
class Target:
    """An output to store: the value to compute, and its address over the iteration shape."""

    value: Value
    position: Position
    buffer: Buffer
    at: Index


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
    return Target(value, here, buffer, address(here, shape, len(shape)))


@dataclass(frozen=True, slots=True)
class Grouped:
    """Access over an iteration shape, with the leading groups bound by `at`."""

    body: Body
    grid: Grid
    bound: tuple[E, ...]
    partial: Mapping[Index, E]
    """Addresses with the bound groups summed up, where that took a division."""

    def extent(self, group: int) -> E:
        """Return the iterations of a group, counted from the first one not bound."""
        return self.body.extents(self.extent_of(group))

    def extent_of(self, group: int) -> Extent:
        return self.grid.extent(len(self.bound) + group)

    def _bind(self, index: E, addresses: Iterator[tuple[str, Index]]) -> dict[Index, E]:
        """Name the parts of addresses that need divisions, once for the loops inside.

        Operands that lie alike share an address, and the name of the first.
        """
        group = len(self.bound)
        partial = dict(self.partial)
        names: dict[Index, str] = {}
        for name, where in addresses:
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

    def _locate(self, where: Index, indices: tuple[E, ...]) -> E:
        """Return the address `where` at the bound indices followed by `indices`."""
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


@dataclass(frozen=True, slots=True)
class GroupedReader(Grouped):
    """Reads one value; `read` takes one index per group that is not bound."""

    value: Value
    position: Position

    def at(self, *indices: E) -> GroupedReader:
        """Bind the leading groups; offsets that need a division are computed here."""
        bound = self
        for index in indices:
            partial = bound._bind(index, self._addresses())
            bound = replace(bound, bound=(*bound.bound, index), partial=partial)
        return bound

    def read(self, *indices: E) -> Scalar:
        """Return the element at the given indices, computing what comes before it."""
        return Evaluation(self, indices).value(self.value, self.position)

    def read_real(self, *indices: E) -> E:
        """`read` for a value that is not complex."""
        return real(self.read(*indices))

    def read_vector(self, *indices: E, lanes: int) -> E:
        """Return `lanes` elements, consecutive along the last group."""
        return real(Evaluation(self, indices, lanes=lanes).value(self.value, self.position))

    def _addresses(self) -> Iterator[tuple[str, Index]]:
        rank = len(self.grid.shape)
        for value, position in self.body.evaluated_at(self.value, self.position, rank):
            if value in self.body.inputs:
                name = self.body.inputs[value].name
                yield name, address(position, value.shape, rank)


@dataclass(frozen=True, slots=True)
class GroupedWriter(Grouped):
    """Writes one result of the anchor through everything the body computes from it."""

    value: Value | None
    targets: tuple[Target, ...]

    def at(self, *indices: E) -> GroupedWriter:
        """Bind the leading groups; offsets that need a division are computed here."""
        bound = self
        for index in indices:
            partial = bound._bind(index, self._addresses())
            bound = replace(bound, bound=(*bound.bound, index), partial=partial)
        return bound

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
        evaluation.count(self.targets)
        if self.value is not None and value is not None:
            evaluation.give(self.value, value)
        evaluation.store_all(self.targets)

    def _addresses(self) -> Iterator[tuple[str, Index]]:
        rank = len(self.grid.shape)
        for each in self.targets:
            yield each.buffer.name, each.at
            for value, position in self.body.evaluated_at(each.value, each.position, rank):
                if value in self.body.inputs:
                    name = self.body.inputs[value].name
                    yield name, address(position, value.shape, rank)


class Evaluation:
    """The nodes of a body at one point of the iteration space, each computed once."""

    def __init__(self, access: Grouped, indices: tuple[E, ...], lanes: int = 1) -> None:
        self._access = access
        self._indices = indices
        self._lanes = lanes
        self._rank = len(access.grid.shape)
        self._known: dict[Located, Scalar] = {}
        self._given: dict[Value, Scalar] = {}
        self._uses: Counter[Located] = Counter()

    def give(self, value: Value, element: Scalar) -> None:
        """Supply the anchor's result, which is rounded before anything is computed from it."""
        if isinstance(element, E):
            element = rounded(element, value.dtype)
        self._given[value] = self._named(value, element) if self._is_shared(value) else element

    def count(self, targets: tuple[Target, ...]) -> None:
        """Count the uses of every value, so that the shared ones get a name."""
        for each in targets:
            self._count(each.value, each.position)

    def value(self, value: Value, position: Position) -> Scalar:
        """Return `value` read at `position`."""
        if value in self._given:
            return self._given[value]
        located = (value, position)
        if located not in self._known:
            if not self._uses:
                self._count(value, position)
            self._known[located] = self._compute(value, position)
        return self._known[located]

    def store_all(self, targets: tuple[Target, ...]) -> None:
        """Store every target; several are computed first, as one may overwrite an operand."""
        k = self._access.body.k
        elements = [self.value(each.value, each.position) for each in targets]
        if len(targets) > 1:
            pairs = zip(targets, elements, strict=True)
            elements = [self._named(each.value, computed) for each, computed in pairs]
        for each, computed in zip(targets, elements, strict=True):
            at = self._access._locate(each.at, self._indices)
            store(k, each.buffer, each.value.dtype, at, computed)

    def _compute(self, value: Value, position: Position) -> Scalar:
        body = self._access.body
        if value in body.inputs:
            result = self._load(body.inputs[value], value, position)
        elif value.op.name == "constant":
            return literal(value.node.attribute("value").array.flat[0].item(), value.dtype)
        elif value.op.name == "iota":
            result = self._iota(value, position)
        else:
            result = self._apply(value.node, position)
        shared = self._uses[value, position] > 1
        return self._named(value, result) if shared else result

    def _apply(self, node: Node, position: Position) -> Scalar:
        operands = []
        for number, operand in enumerate(node.operands):
            where = operand_position(node, number, position, self._rank)
            operands.append(self.value(operand, where))
        if not node.op.has(Trait.ELEMENTWISE):
            return operands[0]
        result = element(node, operands)
        if all(uses_once(result, operand) for operand in operands):
            return result
        pairs = zip(node.operands, operands, strict=True)
        return element(node, [self._named(operand, each) for operand, each in pairs])

    def _load(self, buffer: Buffer, value: Value, position: Position) -> Scalar:
        if value.type.layout is not None:
            raise InternalError(f"{value.label} lies in {value.type.layout}: its kernel reads it")
        where = address(position, value.shape, self._rank)
        at = self._access._locate(where, self._indices)
        k = self._access.body.k
        if self._lanes == 1 or not self._advances(where):
            return load(k, buffer, value.dtype, at)
        return load(k, buffer, value.dtype, at, self._lanes)

    def _advances(self, where: Index) -> bool:
        """True if a vector along the last group reads consecutive elements, False if one."""
        grid = self._access.grid
        runs = grid.runs(len(grid.groups) - 1, where)
        if any(stride != 0 for _, stride in runs) and (len(runs) > 1 or runs[0][1] != 1):
            raise InternalError(f"a vector read is not contiguous: runs {runs}")
        return any(stride != 0 for _, stride in runs)

    def _iota(self, value: Value, position: Position) -> Scalar:
        axis = value.node.attribute("axis")
        at = self._access._locate(position[axis], self._indices)
        if self._lanes > 1 and self._advances(position[axis]):
            at = at.ramp(self._lanes)
        return cast(at, to=value.dtype)

    def _count(self, value: Value, position: Position) -> None:
        self._uses[value, position] += 1
        body = self._access.body
        if self._uses[value, position] > 1 or value in body.inputs or value.node is body.anchor:
            return
        for number, operand in enumerate(value.node.operands):
            self._count(operand, operand_position(value.node, number, position, self._rank))

    def _is_shared(self, value: Value) -> bool:
        return sum(n for (used, _), n in self._uses.items() if used is value) > 1

    def _named(self, value: Value, element: Scalar) -> Scalar:
        buffer = self._access.body.inputs.get(value)
        name = value.op.name if buffer is None else buffer.name
        return named(self._access.body.k, f"{name}_value", element)
