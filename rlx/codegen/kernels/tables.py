"""Tables of bodies in registers: elements read and replaced where they lie in memory.

See `passes.loops.tables` for what a table is. Reads and stores stand in the order of the body's
nodes, as cells that take statements; an index outside its range ends the kernel before it is used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.kernels.cells import Cell, Cells
from rlx.codegen.kernels.values import load, real, store
from rlx.codegen.loops.expr import E, const, maximum, minimum
from rlx.codegen.loops.nodes import Buffer, Const, Prim, Status, Var
from rlx.errors import InternalError
from rlx.ir.dtype import DType
from rlx.ir.graph import Node
from rlx.ir.shape import normalize_axis

Array: TypeAlias = NDArray[Any]
"""Of cells."""
Position: TypeAlias = tuple[Cell | int, ...]
"""Of an element, one coordinate per axis."""


@dataclass(slots=True, eq=False)
class Table:
    """An array in memory; without a buffer, the one whose elements are their own indices."""

    cells: Cells
    name: str
    shape: tuple[int, ...]
    dtype: DType
    buffer: Buffer | None = None
    start: Callable[[], E | int] = lambda: 0
    """Where the first element lies."""

    def read(self, position: Position, name: str = "") -> Cell:
        """Return a cell that reads one element, here in the order of statements."""
        k, fixed, moving = self.cells.k, _fixed(position), _moving(position)

        def compute(*indices: E) -> E:
            if self.buffer is None:
                return indices[0] if indices else const(fixed[0], Prim.I64)
            at = self._at(fixed, moving, indices)
            return k.let(name or self.name, real(load(k, self.buffer, self.dtype, at)))

        return self.cells.stated(name or self.name, compute, list(moving.values()))

    def write(self, position: Position, value: Cell, *, add: bool = False) -> None:
        """Store `value` to one element, or add it to what is there."""
        k, fixed, moving = self.cells.k, _fixed(position), _moving(position)
        buffer = self.buffer
        if buffer is None:
            raise InternalError("indices cannot be stored")

        def compute(value: E, *indices: E) -> E:
            at = self._at(fixed, moving, indices)
            if add:
                at = _named(self.cells, "at", at)
                value = real(load(k, buffer, self.dtype, at)) + value
            store(k, buffer, self.dtype, at, value)
            return const(0, Prim.I64)

        stored = self.cells.stated("stored", compute, [value, *moving.values()])
        self.cells.effects.append(stored)

    def store(self, at: int, value: E) -> None:
        """Store the element at a flat position, now."""
        if self.buffer is not None:
            place = const(at, Prim.I64) + self.start()
            store(self.cells.k, self.buffer, self.dtype, place, value)

    def whole(self) -> Array:
        """Read all elements."""
        return self.block((0,) * len(self.shape), self.shape)

    def block(self, corner: Position, sizes: Sequence[int]) -> Array:
        """Read the elements of a block."""
        result = np.empty(tuple(sizes), object)
        for index in np.ndindex(*sizes):
            result[index] = self.read(moved(self.cells, corner, index), name_of(self.name, index))
        return result

    def _at(self, fixed: list[int], moving: Iterable[int], indices: Sequence[E]) -> E:
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        total = sum(at * stride for at, stride in zip(fixed, strides, strict=True))
        place = const(total, Prim.I64) + self.start()
        for axis, index in zip(moving, indices, strict=True):
            place = index * strides[axis] + place
        return place


def _fixed(position: Position) -> list[int]:
    """Return the coordinates that are known, 0 for the others."""
    return [at if isinstance(at, int) else 0 for at in position]


def _moving(position: Position) -> dict[int, Cell]:
    """Return the coordinates that are computed, by their axes."""
    return {axis: at for axis, at in enumerate(position) if isinstance(at, Cell)}


@dataclass(slots=True)
class Addition:
    """Terms to be added to elements of a table, in this order."""

    terms: list[tuple[Position, Cell]] = field(default_factory=list)


Operand: TypeAlias = Array | Table | Addition


def whole(operand: Operand) -> Array:
    """Return all elements; those of a table are read here."""
    if isinstance(operand, Addition):
        raise InternalError("an addition to a table is never formed")
    return operand.whole() if isinstance(operand, Table) else operand


def table_of(operand: Operand) -> Table:
    if not isinstance(operand, Table):
        raise InternalError("a table was expected")
    return operand


def read_or_update(cells: Cells, node: Node, operands: Sequence[Operand]) -> Operand:
    """Return what `node` reads of the table in operand 0, or the table or addition it makes."""
    if node.op.name == "add":
        return _added(operands)
    return _RULES[node.op.name](cells, node, *operands)


def _added(operands: Sequence[Operand]) -> Operand:
    first, second = operands
    if isinstance(first, Addition) and isinstance(second, Addition):
        return Addition(first.terms + second.terms)
    table, addition = (first, second) if isinstance(second, Addition) else (second, first)
    if not isinstance(addition, Addition):
        raise InternalError("an addition to a table was expected")
    for position, value in addition.terms:
        table_of(table).write(position, value, add=True)
    return table


def _gather(cells: Cells, node: Node, table: Operand, indices: Array) -> Array:
    source = table_of(table)
    axis = normalize_axis(node.attribute("axis"), len(source.shape))
    result = np.empty(node.result.type.static_shape, object)
    checked = _checked(cells, indices, source.shape[axis])
    for index in np.ndindex(result.shape):
        after = axis + indices.ndim
        position = (*index[:axis], checked[index[axis:after]], *index[after:])
        result[index] = source.read(position, name_of(source.name, index))
    return result


def _scattered(cells: Cells, node: Node, updates: Array, indices: Array) -> Addition:
    axis = int(node.attribute("axis")) if node.op.name == "gather_backward" else 0
    axis = normalize_axis(axis, node.result.rank)
    checked = _checked(cells, indices, int(node.result.type.static_shape[axis]))
    addition = Addition()
    after = axis + indices.ndim
    for chosen in np.ndindex(indices.shape):
        outer, inner = updates.shape[:axis], updates.shape[after:]
        for before, behind in itertools.product(np.ndindex(*outer), np.ndindex(*inner)):
            value = updates.item((*before, *chosen, *behind))
            addition.terms.append(((*before, checked.item(chosen), *behind), value))
    return addition


def _padded(_: Cells, node: Node, x: Array) -> Addition:
    low = node.attribute("low")
    places = (
        tuple(a + b for a, b in zip(low, index, strict=True)) for index in np.ndindex(x.shape)
    )
    return Addition(list(zip(places, x.ravel(), strict=True)))


def _dynamic_slice(cells: Cells, node: Node, table: Operand, starts: Array) -> Array:
    source = table_of(table)
    sizes = [int(size) for size in node.attribute("sizes")]
    return source.block(_corner(cells, starts, source.shape, sizes), sizes)


def _dynamic_update_slice(
    cells: Cells, _: Node, table: Operand, update: Array, starts: Array
) -> Table:
    target = table_of(table)
    corner = _corner(cells, starts, target.shape, update.shape)
    for index in np.ndindex(update.shape):
        target.write(moved(cells, corner, index), update.item(index))
    return target


def _narrow(_: Cells, node: Node, table: Operand) -> Array:
    source = table_of(table)
    corner = [0] * len(source.shape)
    corner[normalize_axis(node.attribute("axis"), len(corner))] = node.attribute("start")
    return source.block(tuple(corner), node.result.type.static_shape)


def _slice(_: Cells, node: Node, table: Operand) -> Array:
    source = table_of(table)
    spans = zip(node.attribute("start"), node.attribute("step"), strict=True)
    first_and_step = list(spans)
    result = np.empty(node.result.type.static_shape, object)
    for index in np.ndindex(result.shape):
        place = tuple(a + i * s for i, (a, s) in zip(index, first_and_step, strict=True))
        result[index] = source.read(place, name_of(source.name, index))
    return result


_RULES: dict[str, Callable[..., Operand]] = {
    "gather": _gather,
    "scatter_add": _scattered,
    "gather_backward": _scattered,
    "pad": _padded,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "narrow": _narrow,
    "slice": _slice,
}


def _checked(cells: Cells, indices: Array, extent: int) -> Array:
    """Return cells of the indices, each of which leaves the kernel if it is out of range."""
    result = np.empty(indices.shape, object)
    for number, at in enumerate(np.ndindex(indices.shape)):
        result[at] = _checked_index(cells, indices.item(at), extent, number)
    return result


def _checked_index(cells: Cells, index: Cell, extent: int, number: int) -> Cell:
    k = cells.k
    if index.below is not None and index.below <= extent:
        return index

    def check(given: E) -> E:
        whole = _named(cells, "index", given.cast(Prim.I64))
        with k.if_((whole < 0) | (whole >= extent)):
            k.fail(Status.INDEX_OUT_OF_RANGE, number, whole, extent)
        return whole

    if (index, extent) not in cells.checked:
        checked = cells.stated("index", check, [index])
        checked.below = extent
        cells.checked[index, extent] = checked
    return cells.checked[index, extent]


def _corner(
    cells: Cells, starts: Array, whole: Sequence[int], block: Sequence[int]
) -> tuple[Cell | int, ...]:
    """Return a block's first coordinates, clamped so that it fits into `whole`."""
    corner: list[Cell | int] = []
    for start, extent, size in zip(starts.ravel(), whole, block, strict=True):
        if extent == size:
            corner.append(0)
        elif (start, extent - size + 1) in cells.checked:
            corner.append(cells.checked[start, extent - size + 1])
        elif start.below is not None and start.below <= extent - size + 1:
            corner.append(start)
        else:
            corner.append(cells.computed("start", _clamp(extent - size), [start]))
    return tuple(corner)


def _clamp(most: int) -> Callable[[E], E]:
    return lambda start: maximum(minimum(start.cast(Prim.I64), const(most, Prim.I64)), 0)


def moved(cells: Cells, corner: Position, index: Sequence[int]) -> Position:
    """Return the position at `index` behind `corner`."""

    def shifted(at: Cell | int, by: int) -> Cell | int:
        if isinstance(at, int) or by == 0:
            return at + by if isinstance(at, int) else at
        return cells.computed("at", lambda start: start + by, [at])

    return tuple(shifted(at, by) for at, by in zip(corner, index, strict=True))


def name_of(name: str, index: tuple[int, ...]) -> str:
    """Return a name for one element that is read: the table's own if it is the only one."""
    return f"{name}_value" if not any(index) else f"{name}_value" + "".join(map(str, index))


def _named(cells: Cells, name: str, value: E) -> E:
    return value if isinstance(value.node, (Var, Const)) else cells.k.let(name, value)
