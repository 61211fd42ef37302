"""Bodies of loops in registers: each value's elements are scalars, spelled out.

Many instances of a batch (lanes) run in one loop inside of that over the steps, which vectorizes:
their carries are in short local arrays, and what all lanes share is computed before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TypeGuard

import numpy as np

from rlx.codegen.kernels.nests.elements import (
    FUNCTIONS,
    Array,
    Contraction,
    Elements,
    Index,
    Scalars,
    name_of,
)
from rlx.codegen.kernels.nests.loop_body import Place
from rlx.codegen.kernels.nests.tables import TableAccess
from rlx.codegen.kernels.parallel import PARALLEL_WORK
from rlx.codegen.kernels.values import compute_prim, literal, real
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, minimum, select
from rlx.codegen.loops.math.near import NEAR, NEAR_FUNCTIONS, branches_on_angle, near_and_far
from rlx.codegen.loops.nodes import Buffer, Const, Expr, LoopKind, Prim, Var
from rlx.codegen.loops.scalar import truth
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import static_strides
from rlx.passes.loops.batch_axis import NO_LANES, Lanes
from rlx.passes.loops.nests import values_to_name
from rlx.passes.loops.tables import NO_TABLES, Tables

BLOCK_BYTES = 256
"""Of one carry's elements, how many bytes of lanes a block takes: some vectors in flight hide
latency, and blocks are what threads share."""


@dataclass(slots=True)
class LaneElements(Elements):
    """Elements of one lane."""

    lanes: Lanes = NO_LANES
    lane: E | int = 0

    def contraction(self, node: Node) -> Contraction:
        """Return what is folded; of a sum over all lanes, the share of one."""
        fold = Contraction(node)
        axis = self.lanes.axes.get(node.operands[0])
        if axis not in fold.axes:
            return fold
        return Contraction(node, fold.axes.index(axis), self.lane)


@dataclass(frozen=True, slots=True)
class Shares(Array):
    """Partial sums over all lanes, one per lane of a block."""

    elements: LaneElements | None = None

    def at(self, index: Index) -> E:
        assert self.elements is not None
        return Array.at(self, index) + self.elements.lane


@dataclass(slots=True)
class RegisterNest:
    """A loop's body in registers under construction, in the loops around it (a `LoopBody`).

    Tables and the lanes of carries stay in memory.
    """

    k: KernelBuilder
    body: Graph
    lanes: Lanes = NO_LANES
    tables: Tables = NO_TABLES
    condition_tables: Tables = NO_TABLES
    names_outputs: bool = True
    """Every output has a name, as it is stored or assigned."""
    pairs_sines: bool = False
    """True where one function computes sine and cosine (`math.paired`)."""
    elements: LaneElements = field(init=False)
    access: TableAccess = field(init=False)
    kept: set[Value] = field(init=False)
    start: E = field(default_factory=lambda: const(0, Prim.I64))
    """The first lane of the block."""
    count: E = field(init=False)
    """The lanes of the block."""
    firsts: list[Array] = field(default_factory=list)
    carries: list[Array | Scalars] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.elements = LaneElements(namer=self.k, lanes=self.lanes)
        self.access = TableAccess(self.k, self.tables, self.elements)
        outputs = self.body.outputs if self.names_outputs else ()
        self.kept = values_to_name(self.body, outputs)
        self.kept |= {n.result for n in self.body.nodes if self.access.reads_whole(n)}
        if self.lanes is NO_LANES:
            self.kept |= {n.result for n in self.body.nodes if n.op.name in NEAR_FUNCTIONS}
        self.count = const(self.width, Prim.I64)

    # Lanes

    @property
    def width(self) -> int:
        """The lanes that run together: all, or what threads and first-level cache need."""
        widest = max((value.dtype.size for value in self.lanes.axes), default=1)
        return min(self.lanes.extent, BLOCK_BYTES // widest)

    @contextmanager
    def blocks(self, steps: int) -> Iterator[None]:
        """Open the loop over blocks of lanes, if there is more than one; threads share it."""
        extent, width = self.lanes.extent, self.width
        if width == extent:
            yield
            return
        # The blocks of a sum add to it in order.
        large = extent * max(steps, 1) >= PARALLEL_WORK and not self.lanes.partial
        kind = LoopKind.PARALLEL if large else LoopKind.SERIAL
        with self.k.loop("block", -(-extent // width), kind=kind) as block:
            self.start = self.k.let("start", block * width)
            if extent % width:
                rest = const(extent, Prim.I64) - self.start
                self.count = self.k.let("lanes", minimum(rest, width))
            yield

    @contextmanager
    def first_block_only(self) -> Iterator[None]:
        """Guard for results that are equal in all blocks: only the first stores them."""
        if isinstance(self.start.node, Const):
            yield
            return
        with self.k.if_(self.start.eq(0)):
            yield

    def indices(self, value: Value) -> Iterator[Index]:
        """Yield the indices of a value's elements, in the present lane."""
        axis = self.lanes.axes.get(value)
        for index in np.ndindex(*self.lanes.local_shape(value)):
            if axis is None:
                yield index
            else:
                yield (*index[:axis], self.elements.lane, *index[axis + 1 :])

    # Arrays

    def argument(self, value: Value, buffer: Buffer, start: E | int = 0) -> Array:
        """Return a value as stored in an argument of the kernel."""
        strides = static_strides(value.type.static_shape)
        axis = self.lanes.axes.get(value)
        if axis is not None and not isinstance(self.start.node, Const):
            start = self.start * strides[axis] + start
        return Array(self.k, value, buffer, strides, start)

    def local(self, value: Value) -> Array:
        """Declare a local array for a block of a value: the lanes innermost."""
        shape, width = self.lanes.local_shape(value), self.width
        buffer = self.k.local(
            name_of(value), compute_prim(value.dtype), max(math.prod(shape), 1) * width
        )
        strides = [stride * width for stride in static_strides(shape)]
        axis = self.lanes.axes.get(value)
        if axis is None:
            return Shares(self.k, value, buffer, tuple(strides), 0, self.elements)
        strides[axis] = 1
        return Array(self.k, value, buffer, tuple(strides))

    def named(self, value: Value, name: str, source: Array | None = None) -> Scalars:
        """Name the elements of a value, as they are loaded or computed."""
        found: dict[Index, E] = {}
        for index in self.indices(value):
            place = tuple(at for at in index if isinstance(at, int))
            called = name_at(name, place)
            if source is not None:
                found[place] = self.k.let(called, source.load(index))
            elif self._branches(value):
                found[place] = self._of_angle(value.node, called, index)
            else:
                found[place] = self.k.let(called, self.elements.at(value, index))
        return Scalars(value, found)

    def _branches(self, value: Value) -> bool:
        """True for a function of an angle whose near arguments are computed apart."""
        name, prim = value.op.name, compute_prim(value.dtype)
        return self.lanes is NO_LANES and branches_on_angle(name, prim, pairs=self.pairs_sines)

    def _of_angle(self, node: Node, name: str, index: Index) -> E:
        """Branch on the size of the angle, as no vector has to wait."""
        x = self.elements.at(node.operands[0], index)
        angle = x if isinstance(x.node, Var | Const) else self.k.let("x", x)
        near, far = near_and_far(node.op.name, angle)
        value = self.k.mutable(name, near)
        with self.k.if_(abs(angle) > NEAR):
            value.set(far)
        return value

    # A loop's values

    def enter(self, firsts: Sequence[Place], lasts: Sequence[Place]) -> None:
        self.firsts = [self.argument(*first) for first in firsts]
        given = list(zip(self.firsts, lasts, strict=False))
        self.carries = [self._carry(first, last.buffer) for first, last in given]
        pairs = list(zip(self.firsts, self.carries, strict=True))
        self.elements.arrays.update((first.value, carry) for first, carry in pairs)
        apart = [(f, c) for f, c in pairs if self._is_apart(c)]
        if apart:
            with self.over_lanes():
                for first, carry in apart:
                    zero = real(literal(0, first.value.dtype))
                    shares = first.value in self.lanes.partial
                    for index in self.indices(first.value):
                        carry.store(index, zero if shares else first.load(index))

    def _is_apart(self, carry: Array | Scalars) -> TypeGuard[Array]:
        return self.lanes.is_apart(carry.value)

    def _carry(self, first: Array, result: Buffer) -> Array | Scalars:
        value = first.value
        if self.tables.holds(value):
            return self._in_memory(first, result)
        if self.lanes.is_apart(value):
            return self.local(value)
        name, places = name_of(value), np.ndindex(*value.type.static_shape)
        declare = self.k.mutable
        return Scalars(value, {at: declare(name_at(name, at), first.load(at)) for at in places})

    def _in_memory(self, first: Array, result: Buffer) -> Array:
        """Copy a carry's first value to its result, where it stays, unless it is there already."""
        k = self.k
        if not (first.buffer.may_alias and result.may_alias):
            size = math.prod(first.value.type.static_shape)
            with k.loop("i", size, kind=LoopKind.SIMD) as i:
                k.store(result, i, k.load(first.buffer, i))
        return replace(first, buffer=result)

    def finish(self, lasts: Sequence[Place]) -> None:
        """Store the final carries; tables are in the results already."""
        given = zip(self.carries, lasts, strict=False)
        pairs = [(c, self.argument(c.value, last.buffer)) for c, last in given]
        apart = [(c, t) for c, t in pairs if c.value in self.lanes.axes]
        if apart:
            with self.over_lanes():
                for carry, target in apart:
                    self.copy(carry, target)
        for first, (carry, target) in zip(self.firsts, pairs, strict=True):
            if self._is_apart(carry) and carry.value in self.lanes.partial:
                self._add_shares(carry, first, target)
        shared = [(c, t) for c, t in pairs if isinstance(c, Scalars)]
        if shared:
            with self.first_block_only():
                for carry, target in shared:
                    self.copy(carry, target)

    def copy(self, source: Array | Scalars, target: Array) -> None:
        for index in self.indices(source.value):
            target.store(index, source.load(index))

    def read(self, place: Place) -> None:
        """Take a const or row: tables and lanes in place, the elements of others by name."""
        source, value = self.argument(*place), place.value
        stored = self.tables.holds(value) or value in self.lanes.axes
        self.elements.arrays[value] = (
            source if stored else self.named(value, name_of(value), source)
        )

    def emit_constants(self) -> None:
        """Nothing: they are literals."""

    def step(self, outputs: Sequence[Place]) -> None:
        apart = self.lanes.is_apart
        self.emit(self.body.nodes)
        rows = [(output.value, self.argument(*output)) for output in outputs]
        pairs = list(zip(self.carries, self.body.outputs, strict=False))
        if self.lanes.axes:
            with self.over_lanes():
                self.emit_lanes()
                for value, target in rows:
                    if apart(value):
                        self.store(value, target)
                self.replace([(carry, output) for carry, output in pairs if apart(carry.value)])
        shared = [(value, target) for value, target in rows if not apart(value)]
        if shared:
            with self.first_block_only():
                for value, target in shared:
                    self.store(value, target)
        self.replace([(carry, output) for carry, output in pairs if not apart(carry.value)])

    def condition(self, graph: Graph) -> RegisterCondition:
        return RegisterCondition(self.k, graph, self.condition_tables, self)

    def emit(self, nodes: Sequence[Node]) -> None:
        """Name the values that are kept and that all lanes share, in order."""
        for node in nodes:
            if node.op is ops.input or self.lanes.is_apart(node.result) or self.access.emit(node):
                continue
            if node.result in self.kept:
                name = FUNCTIONS.get(node.op.name, node.op.name)
                self.elements.arrays[node.result] = self.named(node.result, name)

    @contextmanager
    def over_lanes(self) -> Iterator[None]:
        """Open the loop over the lanes of a block."""
        with self.k.loop("lane", self.count, kind=LoopKind.SIMD) as lane:
            self.elements.lane = lane
            yield

    def emit_lanes(self) -> None:
        """Name the elements of one lane: inputs first, then what is kept."""
        arrays = self.elements.arrays
        for value in (node.result for node in self.body.nodes):
            if not self.lanes.is_apart(value):
                continue
            if value.op is ops.input:
                source = arrays[value]
                assert isinstance(source, Array), "inputs of lanes are in memory"
                arrays[value] = self.named(value, name_of(value), source)
            elif value in self.kept:
                arrays[value] = self.named(value, value.op.name)

    def store(self, value: Value, target: Array) -> None:
        """Store the elements of a result, of all lanes or of the present one."""
        for index in self.indices(value):
            target.store(index, self.elements.at(value, index))

    def _add_shares(self, shares: Array, first: Array, result: Array) -> None:
        """Add the partial sums of a block's lanes, in order, to the total."""
        for index in np.ndindex(*shares.value.type.static_shape):
            before = first.load(index)
            if not isinstance(self.start.node, Const):
                before = select(self.start.eq(0), before, result.load(index))
            total = self.k.mutable("total", before)
            with self.k.loop("lane", self.count) as lane:
                self.elements.lane = lane
                total.set(total + shares.load(index))
            result.store(index, total)

    def replace(self, following: Sequence[tuple[Array | Scalars, Value]]) -> None:
        """Assign the next carries simultaneously."""
        pending: list[tuple[Array | Scalars, Index, E]] = []
        for carry, output in following:
            if self._is_in_place(output, carry):
                continue
            places = zip(self.indices(carry.value), self.indices(output), strict=True)
            pending += [(carry, at, self.elements.at(output, source)) for at, source in places]
        variables = {c.load(at).node for c, at, _ in pending if isinstance(c, Scalars)}
        ready = [
            (carry, at, self.k.let("next", value) if _may_change(value, variables) else value)
            for carry, at, value in pending
            if isinstance(carry, Array) or carry.load(at).node != value.node
        ]
        for carry, at, value in ready:
            if isinstance(carry, Array):
                carry.store(at, value)
            else:
                variable = carry.load(at)
                assert isinstance(variable, Mutable), "carries in registers are variables"
                variable.set(value)

    def _is_in_place(self, output: Value, carry: Array | Scalars) -> bool:
        """True if the next carry is already stored in place: unchanged, or updated in place."""
        array = self.elements.arrays.get(output)
        return output is carry.value or (array is not None and array is carry)


@dataclass(slots=True)
class RegisterCondition:
    """A condition in registers."""

    k: KernelBuilder
    graph: Graph
    tables: Tables
    around: RegisterNest

    def in_one_expression(self) -> E | None:
        nest = self._nest()
        (output,) = self.graph.outputs
        statements = nest.kept or any(map(self.tables.holds, nest.elements.arrays))
        if statements or math.prod(output.type.static_shape) != 1:
            return None
        nest.elements.namer = None
        return truth(nest.elements.at(output, (0,) * output.rank))

    def truth(self) -> E:
        nest = self._nest()
        nest.emit(self.graph.nodes)
        (output,) = self.graph.outputs
        total = const(True, Prim.BOOL)
        for number, index in enumerate(nest.indices(output)):
            flag = truth(nest.elements.at(output, index))
            total = total & flag if number else flag
        return total

    def _nest(self) -> RegisterNest:
        pairs = self.around.pairs_sines
        nest = RegisterNest(
            self.k, self.graph, tables=self.tables, names_outputs=False, pairs_sines=pairs
        )
        inputs = zip(self.graph.inputs, self.around.body.inputs, strict=True)
        found = self.around.elements.arrays
        nest.elements.arrays.update((own, found[value]) for own, value in inputs)
        return nest


def _may_change(value: E, variables: set[Expr]) -> bool:
    """True if an expression reads what is about to be assigned."""
    return not isinstance(value.node, Const | Var) or value.node in variables


def name_at(name: str, index: tuple[int, ...]) -> str:
    """Return the name of one element: `c01` of row 0, column 1; `c0x11` where digits need it."""
    return name + ("x" if max(index, default=0) > 9 else "").join(map(str, index))
