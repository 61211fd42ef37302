"""Loops in registers: a small body written out inside its own loop.

One instance keeps its carries in scalar variables. Many instances (lanes) keep them in local
arrays, one row per element, and the innermost loop runs over the lanes, so that it vectorizes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.cells import Cell, Cells, Level, value_of
from rlx.codegen.kernels.nest_scan import ScanNest, name_of
from rlx.codegen.kernels.nest_while import WhileNest
from rlx.codegen.kernels.parallel import PARALLEL_WORK
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.tables import Operand, Table, whole
from rlx.codegen.kernels.values import compute_prim, load, real, store
from rlx.codegen.kernels.written_out import Array, WrittenOut, cells_of, name_at
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, minimum, select
from rlx.codegen.loops.math.near import NEAR_FUNCTIONS
from rlx.codegen.loops.nodes import Buffer, Const, LoopKind, Prim
from rlx.codegen.loops.passes.pipeline import FUSION, UNROLLED_FUSION
from rlx.codegen.loops.scalar import truth
from rlx.ir.graph import Graph, Value
from rlx.ir.lowering import OneKernel
from rlx.ir.shape import static_strides
from rlx.passes.loops.batch_axis import NO_LANES, Lanes
from rlx.passes.loops.nests import has_short_products
from rlx.passes.loops.scalarize import shape_in_registers, while_tables
from rlx.passes.loops.tables import NO_TABLES, Tables

BLOCK_BYTES = 256
"""Of one carry's elements, how many bytes of lanes a block takes: some vectors in flight hide
latency, and blocks are what threads share."""


@kernel("scan", lowering=OneKernel)
def scan_in_one_kernel(
    scope: Scope,
    *arguments: Reader | Writer,
    lowering: OneKernel,  # noqa: ARG001  (says no more than its kind)
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    residuals: int = 0,  # noqa: ARG001  (says what the rows are for)
    checkpoints: int | None = None,  # noqa: ARG001  (for derivatives)
) -> None:
    given, results = _memory(scope, arguments)
    lanes, tables = shape_in_registers(body, num_carries) or (None, NO_TABLES)
    short = lanes is NO_LANES and not tables.versions and _reads_as_loops(body)
    if lanes is None or short:
        scope.passes.extend(FUSION if short else UNROLLED_FUSION)
        ScanNest(scope.k, body, given, results, length, num_carries, num_consts, reverse).build()
        return
    scan = _Scan(scope.k, body, lanes, given, results, length, num_carries, num_consts, reverse)
    scan.tables = tables
    if lanes.extent == 1:
        scan.one_instance()
    else:
        scan.many_instances()


def _reads_as_loops(body: Graph) -> bool:
    """True if short loops say what a body does: little matrices, no branches on angles."""
    branches = any(node.op.name in NEAR_FUNCTIONS for node in body.nodes)
    return has_short_products(body) and not branches


@kernel("while_loop", lowering=OneKernel)
def while_in_one_kernel(
    scope: Scope,
    *arguments: Reader | Writer,
    lowering: OneKernel,  # noqa: ARG001  (says no more than its kind)
    condition: Graph,
    body: Graph,
    num_consts: int = 0,
    max_trips: int | None = None,
) -> None:
    given, results = _memory(scope, arguments)
    carries = len(given) - num_consts
    tables = while_tables(condition, body, num_consts=num_consts)
    if tables is None:
        scope.passes.extend(UNROLLED_FUSION)
        WhileNest(scope.k, condition, body, given, results, carries, max_trips).build()
        return
    loop = _While(scope.k, condition, body, given, results, carries, max_trips)
    loop.tables = tables
    loop.build()


def _memory(
    scope: Scope, arguments: Sequence[Reader | Writer]
) -> tuple[list[Buffer], list[Buffer]]:
    """Return the arguments of operands and of results: a loop's operands have no prologue."""
    scope.body.stored.update(range(len(scope.body.outputs)))
    operands = [a.value for a in arguments if isinstance(a, Reader)]
    return (
        [scope.body.inputs[value] for value in operands],
        [buffer for _, buffer in scope.body.outputs],
    )


@dataclass(frozen=True, slots=True)
class Held:
    """A value in memory: its buffer, and how one instance finds its elements there."""

    k: KernelBuilder
    value: Value
    buffer: Buffer
    lanes: Lanes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lanes.local_shape(self.value)

    @property
    def size(self) -> int:
        """Elements of the value, of all instances."""
        return math.prod(self.value.type.static_shape)

    @property
    def in_lanes(self) -> bool:
        return self.value in self.lanes.axes

    def at(self, index: tuple[int, ...], row: E | int, lane: E | int) -> E:
        """Return where element `index` of `lane` lies in row `row` of the buffer."""
        strides = static_strides(self.value.type.static_shape)
        fixed = sum(i * s for i, s in zip(index, strides, strict=True))
        place = const(fixed, Prim.I64)
        if isinstance(row, E):
            place = row * self.size + place
        if self.in_lanes:
            stride = strides[self.lanes.axes[self.value]]
            place = place + (lane * stride if isinstance(lane, E) else const(0, Prim.I64))
        return place

    def load(self, index: tuple[int, ...], row: E | int, lane: E | int) -> E:
        return real(load(self.k, self.buffer, self.value.dtype, self.at(index, row, lane)))

    def store(self, index: tuple[int, ...], row: E | int, lane: E | int, value: E) -> None:
        store(self.k, self.buffer, self.value.dtype, self.at(index, row, lane), value)


class _Scan:
    """A scan in registers under construction."""

    def __init__(
        self,
        k: KernelBuilder,
        body: Graph,
        lanes: Lanes,
        given: Sequence[Buffer],
        results: Sequence[Buffer],
        length: int,
        num_carries: int,
        num_consts: int,
        reverse: bool,
    ) -> None:
        self.k, self.body, self.lanes = k, body, lanes
        self.length, self.reverse, self.num_carries = length, reverse, num_carries
        self.first_row = num_carries + num_consts
        self.given = [Held(k, v, b, lanes) for v, b in zip(body.inputs, given, strict=True)]
        self.results = [Held(k, v, b, lanes) for v, b in zip(body.outputs, results, strict=True)]
        self.cells = Cells(k)
        self.tables = NO_TABLES
        self.row: E | int = 0
        self.lane: E | int = 0

    @property
    def carries(self) -> list[Held]:
        return self.given[: self.num_carries]

    # One instance

    def one_instance(self) -> None:
        carries = [self._carry(held, result) for held, result in self._carried_pairs()]
        outputs = self._written([self._current(carry) for carry in carries])
        self.cells.need(_all_cells(outputs))
        self.cells.emit(Level.ONCE)
        with self._steps():
            self.cells.emit(Level.STEP)
            self._store_rows(outputs, in_lanes=False)
            assign_carries(self.k, carries, outputs)
        for held, carry in zip(self.results, carries, strict=False):
            if not isinstance(carry, Table):
                _store_all(held, carry)

    def _carried_pairs(self) -> Iterator[tuple[Held, Held]]:
        return zip(self.carries, self.results, strict=False)

    def _carry(self, held: Held, result: Held) -> Array | Table:
        if self.tables.holds(held.value):
            return table_in(self.cells, held, result)
        return self._variables(held)

    def _current(self, carry: Array | Table) -> Array | Table:
        return carry if isinstance(carry, Table) else _known(self.cells, carry)

    def _variables(self, held: Held) -> Array:
        """Declare the elements of a carry as variables that hold the first values."""
        name = name_of(held.value)
        return cells_of(
            held.shape,
            lambda index: self.k.mutable(name_at(name, index), held.load(index, 0, 0)),
        )

    # What both have in common

    def _written(self, carries: Sequence[Operand]) -> list[Operand]:
        """Write the body out; consts and rows are read where they are first needed."""
        inputs = list(carries)
        for position, held in enumerate(self.given[self.num_carries :], start=self.num_carries):
            inputs.append(self._read(held, in_rows=position >= self.first_row))
        return WrittenOut(self.cells, self.lanes, self.tables).outputs(self.body, inputs)

    def _read(self, held: Held, *, in_rows: bool) -> Array | Table:
        if self.tables.holds(held.value):
            return table_of(self.cells, held, lambda: self.row * held.size if in_rows else 0)
        level = Level.STEP if in_rows else Level.ONCE
        level = Level.LANE if held.in_lanes else level
        name = name_of(held.value)

        def read(index: tuple[int, ...]) -> Cell:
            return self.cells.loaded(
                name_at(name, index),
                lambda: held.load(index, self.row if in_rows else 0, self.lane),
                level,
            )

        return cells_of(held.shape, read)

    @contextmanager
    def _steps(self) -> Iterator[None]:
        with self.k.loop("step", self.length) as step:
            self.row = self.k.let("row", self.length - 1 - step) if self.reverse else step
            yield

    def _store_rows(self, outputs: Sequence[Operand], *, in_lanes: bool) -> None:
        pairs = zip(self.results, outputs, strict=True)
        for held, array in list(pairs)[self.num_carries :]:
            if held.in_lanes is in_lanes:
                for index, cell in np.ndenumerate(whole(array)):
                    held.store(index, self.row, self.lane, value_of(cell))

    # Many instances

    def many_instances(self) -> None:
        extent = self.lanes.extent
        width = _block(self.lanes)
        if width == extent:
            self._block(const(0, Prim.I64), const(extent, Prim.I64), width)
            return
        kind = LoopKind.PARALLEL if self._is_large() else LoopKind.SERIAL
        with self.k.loop("block", -(-extent // width), kind=kind) as block:
            start = self.k.let("start", block * width)
            lanes = const(width, Prim.I64)
            if extent % width:
                lanes = self.k.let("lanes", minimum(const(extent, Prim.I64) - start, width))
            self._block(start, lanes, width)

    def _is_large(self) -> bool:
        if self.lanes.partial:
            return False  # blocks add to one sum, in order
        return self.lanes.extent * max(self.length, 1) >= PARALLEL_WORK

    def _block(self, start: E, lanes: E, width: int) -> None:
        """Run the lanes `start .. start + lanes`."""
        arrays: dict[int, Buffer] = {}
        variables: dict[int, Array] = {}
        for position, held in enumerate(self.carries):
            if self.lanes.is_apart(held.value):
                arrays[position] = self._array(held, width)
            else:
                variables[position] = self._variables(held)
        with self._lanes(start, lanes) as lane:
            for position, array in arrays.items():
                held = self.given[position]
                for number, index in enumerate(np.ndindex(held.shape)):
                    value: E | float = 0.0
                    if held.in_lanes:
                        value = held.load(index, 0, self.lane)
                    self.k.store(array, lane + number * width, value)
        self._run(start, lanes, width, arrays, variables)
        with self._lanes(start, lanes) as lane:
            for position, array in arrays.items():
                held = self.results[position]
                for number, index in enumerate(np.ndindex(held.shape)):
                    if held.in_lanes:
                        last = self.k.load(array, lane + number * width)
                        held.store(index, 0, self.lane, last)
        for position, array in arrays.items():
            if not self.results[position].in_lanes:
                self._add_shares(position, array, start, lanes, width)
        with self._first_block_only(start):
            for position, shared in variables.items():
                for index, variable in np.ndenumerate(shared):
                    self.results[position].store(index, 0, 0, variable)

    def _add_shares(self, position: int, array: Buffer, start: E, lanes: E, width: int) -> None:
        """Add up the shares of a block's lanes, in their order, to what came before."""
        first, result = self.given[position], self.results[position]
        for number, index in enumerate(np.ndindex(first.shape)):
            before = first.load(index, 0, 0)
            if not isinstance(start.node, Const):
                before = select(start.eq(0), before, result.load(index, 0, 0))
            total = self.k.mutable("total", before)
            with self.k.loop("lane", lanes) as lane:
                total.set(total + self.k.load(array, lane + number * width))
            result.store(index, 0, 0, total)

    def _run(
        self,
        start: E,
        lanes: E,
        width: int,
        arrays: dict[int, Buffer],
        variables: dict[int, Array],
    ) -> None:
        self.cells = Cells(self.k)
        at: list[E] = []

        def carried(position: int) -> Array:
            if position in variables:
                return _known(self.cells, variables[position])
            held, array = self.given[position], arrays[position]
            numbers = {index: n for n, index in enumerate(np.ndindex(held.shape))}
            return cells_of(
                held.shape,
                lambda index: self.cells.loaded(
                    name_at(name_of(held.value), index),
                    lambda: self.k.load(array, at[0] + numbers[index] * width),
                    Level.LANE,
                ),
            )

        outputs = self._written([carried(position) for position in range(self.num_carries)])
        self.cells.need(_all_cells(outputs))
        self.cells.emit(Level.ONCE)
        with self._steps():
            self.cells.emit(Level.STEP)
            with self._lanes(start, lanes) as lane:
                at[:] = [lane]
                self.cells.emit(Level.LANE)
                self._store_rows(outputs, in_lanes=True)
                for position, array in arrays.items():
                    for number, cell in enumerate(whole(outputs[position]).ravel()):
                        self.k.store(array, lane + number * width, value_of(cell))
            with self._first_block_only(start):
                self._store_rows(outputs, in_lanes=False)
            shared = [position for position in range(self.num_carries) if position in variables]
            assign(self.k, [variables[p] for p in shared], [whole(outputs[p]) for p in shared])

    def _array(self, held: Held, width: int) -> Buffer:
        """Declare a local array for a carry: a row of lanes for each of its elements."""
        elements = math.prod(held.shape)
        return self.k.local(name_of(held.value), compute_prim(held.value.dtype), elements * width)

    @contextmanager
    def _lanes(self, start: E, lanes: E) -> Iterator[E]:
        """Open the loop over the lanes of a block; memory is addressed by `self.lane`."""
        with self.k.loop("lane", lanes, kind=LoopKind.SIMD) as lane:
            self.lane = start + lane
            yield lane

    @contextmanager
    def _first_block_only(self, start: E) -> Iterator[None]:
        """What all blocks compute alike is stored by the first."""
        shared = any(not self.lanes.is_apart(held.value) for held in self.results)
        if not shared or isinstance(start.node, Const):
            yield
            return
        with self.k.if_(start.eq(0)):
            yield


class _While:
    """A conditional loop in registers under construction."""

    def __init__(
        self,
        k: KernelBuilder,
        condition: Graph,
        body: Graph,
        given: Sequence[Buffer],
        results: Sequence[Buffer],
        num_carries: int,
        max_trips: int | None,
    ) -> None:
        self.k, self.condition, self.body = k, condition, body
        self.num_carries, self.max_trips = num_carries, max_trips
        self.given = [Held(k, v, b, NO_LANES) for v, b in zip(body.inputs, given, strict=True)]
        pairs = zip(body.inputs, results, strict=False)
        self.results = [Held(k, value, buffer, NO_LANES) for value, buffer in pairs]
        self.trips = results[-1]
        self.tables: tuple[Tables, ...] = (NO_TABLES, NO_TABLES)
        """Of the condition and of the body."""
        self.cells = Cells(k)
        self.variables: list[Array | Table] = []
        self.consts: list[Array | Table] = []

    def build(self) -> None:
        given, held_in_memory = self.given, self.tables[1].holds
        for held, result in zip(given[: self.num_carries], self.results, strict=False):
            if held_in_memory(held.value):
                self.variables.append(table_in(self.cells, held, result))
            else:
                self.variables.append(self._elements(held, self.k.mutable))
        for held in given[self.num_carries :]:
            if held_in_memory(held.value):
                self.consts.append(table_of(self.cells, held))
            else:
                self.consts.append(self._elements(held, self.k.let))
        trips = self.k.mutable("trips", const(0, Prim.I64))
        short = self._short_condition()
        running = None if short is not None else self.k.mutable("running", self._truth())
        going = short if running is None else running
        assert going is not None, "one of the two forms of the condition"
        limit = self.max_trips
        with self.k.while_(going if limit is None else (trips < limit) & going):
            self._trip()
            trips.set(trips + 1)
            if running is not None:
                running.set(self._truth())
        self._store(trips)

    def _elements(self, held: Held, declare: Callable[[str, E], E]) -> Array:
        name = name_of(held.value)
        return cells_of(
            held.shape,
            lambda index: declare(name_at(name, index), held.load(index, 0, 0)),
        )

    def _inputs(self, cells: Cells) -> list[Operand]:
        return [
            dataclasses.replace(value, cells=cells)
            if isinstance(value, Table)
            else _known(cells, value)
            for value in (*self.variables, *self.consts)
        ]

    def _trip(self) -> None:
        cells = Cells(self.k)
        written = WrittenOut(cells, NO_LANES, self.tables[1])
        outputs = written.outputs(self.body, self._inputs(cells))
        cells.need(_all_cells(outputs))
        for level in Level:
            cells.emit(level)
        assign_carries(self.k, self.variables, outputs)

    def _flags(self, cells: Cells) -> list[Cell]:
        written = WrittenOut(cells, NO_LANES, self.tables[0])
        (output,) = written.outputs(self.condition, self._inputs(cells))
        return list(whole(output).ravel())

    def _short_condition(self) -> E | None:
        """Return the condition as one expression, if it is short enough to stand in `while`."""
        cells = Cells(self.k)
        flags = self._flags(cells)
        if len(flags) != 1 or not cells.is_short(flags[0]):
            return None
        return truth(cells.inlined(flags[0]))

    def _truth(self) -> E:
        """Compute the condition: true if every element is."""
        cells = Cells(self.k)
        flags = self._flags(cells)
        cells.need(flags)
        for level in Level:
            cells.emit(level)
        total = truth(value_of(flags[0])) if flags else const(True, Prim.BOOL)
        for flag in flags[1:]:
            total = total & truth(value_of(flag))
        return total

    def _store(self, trips: E) -> None:
        for held, variable in zip(self.results, self.variables, strict=False):
            if not isinstance(variable, Table):
                _store_all(held, variable)
        self.k.store(self.trips, 0, trips)


def table_of(cells: Cells, held: Held, start: Callable[[], E | int] = lambda: 0) -> Table:
    shape = held.value.type.static_shape
    return Table(cells, name_of(held.value), shape, held.value.dtype, held.buffer, start)


def table_in(cells: Cells, first: Held, result: Held) -> Table:
    """Copy a carry's first value to its result, where it stays, unless it is there already."""
    k = cells.k
    if not (first.buffer.may_alias and result.buffer.may_alias):
        with k.loop("i", first.size, kind=LoopKind.SIMD) as i:
            k.store(result.buffer, i, k.load(first.buffer, i))
    shape = first.value.type.static_shape
    return Table(cells, name_of(first.value), shape, first.value.dtype, result.buffer)


def _store_all(held: Held, variables: Array) -> None:
    for index, variable in np.ndenumerate(variables):
        held.store(index, 0, 0, variable)


def assign_carries(
    k: KernelBuilder, carries: Sequence[Array | Table], outputs: Sequence[Operand]
) -> None:
    """Give all carries their next values; tables that were updated in place have theirs."""
    pairs = list(zip(carries, outputs, strict=False))
    replaced = [
        (t, whole(o)) for t, o in pairs if isinstance(t, Table) and not isinstance(o, Table)
    ]
    ready = [(t, [k.let("next", value_of(c)) for c in o.ravel()]) for t, o in replaced]
    kept = [(v, whole(o)) for v, o in pairs if not isinstance(v, Table)]
    assign(k, [variables for variables, _ in kept], [output for _, output in kept])
    for table, values in ready:
        for at, value in enumerate(values):
            table.store(at, value)


def assign(k: KernelBuilder, variables: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Give all variables their next values at once."""
    pairs = [
        (variable, value_of(cell))
        for array, output in zip(variables, outputs, strict=False)
        for variable, cell in zip(array.ravel(), output.ravel(), strict=True)
    ]
    changed = [(variable, value) for variable, value in pairs if value.node != variable.node]
    assigned = {variable.node for variable, _ in changed}
    ready = [
        (variable, k.let("next", value) if value.node in assigned else value)
        for variable, value in changed
    ]
    for variable, value in ready:
        variable.set(value)


def _known(cells: Cells, array: Array) -> Array:
    return cells_of(array.shape, lambda index: cells.known(array[index], Level.STEP))


def _all_cells(outputs: Sequence[Operand]) -> list[Cell]:
    arrays = (whole(output) for output in outputs if not isinstance(output, Table))
    return [cell for array in arrays for cell in array.ravel()]


def _block(lanes: Lanes) -> int:
    """Return the lanes that run together: all, or what threads and first-level cache want."""
    widest = max(value.dtype.size for value in lanes.axes)
    width = BLOCK_BYTES // widest
    return min(lanes.extent, width)
