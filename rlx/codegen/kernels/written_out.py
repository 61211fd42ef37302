"""Bodies written out element by element: what each op does to arrays of cells.

Movement ops move cells and cost nothing; NumPy does it. Arrays have the shape of one instance
(see `passes.loops.batch_axis`), so that axes keep their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.kernels.cells import Cell, Cells, Level
from rlx.codegen.kernels.scalars import element
from rlx.codegen.kernels.tables import Operand, Table, read_or_update, whole
from rlx.codegen.kernels.values import literal, real
from rlx.codegen.kernels.vectors import vector_of
from rlx.codegen.loops.math.near import NEAR, NEAR_FUNCTIONS, near_and_far
from rlx.codegen.loops.scalar import is_library_function, scalar_function
from rlx.errors import InternalError
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import normalize_axis
from rlx.passes.loops.batch_axis import Lanes
from rlx.passes.loops.tables import NO_TABLES, Tables

Array: TypeAlias = NDArray[Any]
"""Of cells."""
Rule: TypeAlias = Callable[..., Array]

LEAST_VECTOR = 8
"""Elements that are worth a loop of their own, if each takes a call of the math library."""


class WrittenOut:
    """Writes a body out as cells."""

    def __init__(self, cells: Cells, lanes: Lanes, tables: Tables = NO_TABLES) -> None:
        self.cells = cells
        self.lanes = lanes
        self.tables = tables

    def outputs(self, body: Graph, inputs: Sequence[Operand]) -> list[Operand]:
        """Return the outputs: tables where a carry stays in its memory, else arrays."""
        values = dict(zip(body.inputs, inputs, strict=True))
        for node in body.nodes:
            if node.op.name != "input":
                values[node.result] = self._result(node, [values[o] for o in node.operands])
        places = {output: self.tables.versions.get(output) for output in body.outputs}
        return [
            values[output] if places[output] == position else whole(values[output])
            for position, output in enumerate(body.outputs)
        ]

    def _result(self, node: Node, operands: list[Operand]) -> Operand:
        if node.result in self.tables.counts:
            shape = node.result.type.static_shape
            return Table(self.cells, "index", shape, node.result.dtype)
        reads = node.op.has(Trait.PART) and isinstance(operands[0], Table)
        if reads or self.tables.holds(node.result):
            if node.op.name != "add":
                table = [] if node.result in self.tables.additions else operands[:1]
                operands = [*table, *map(whole, operands[len(table) :])]
            return read_or_update(self.cells, node, operands)
        return self._node(node, [whole(x) for x in operands])

    def _node(self, node: Node, operands: list[Array]) -> Array:
        if node.op.has(Trait.ELEMENTWISE):
            return self._elementwise(node, operands)
        rule = RULES.get(node.op.name)
        if rule is None:
            raise InternalError(f"{node.op.name} cannot be written out in registers")
        return rule(self, node, *operands)

    def _elementwise(self, node: Node, operands: list[Array]) -> Array:
        shape = self.shape(node.result)
        spread = [np.broadcast_to(array, shape) for array in operands]
        if self._is_vector(node, spread):
            return vector_of(self.cells, node, spread)
        result = np.empty(shape, object)
        for index in np.ndindex(shape):
            parts: list[Any] = [array[index] for array in spread]
            result[index] = self._element(node, index, parts)
        return result

    def _is_vector(self, node: Node, operands: Sequence[Array]) -> bool:
        """True if one vector loop computes the elements faster than one after the other."""
        name = node.op.name
        if self.lanes.extent > 1 or not is_library_function(name) or name in NEAR_FUNCTIONS:
            return False
        moving = {cell for array in operands for cell in array.flat if cell.level > Level.ONCE}
        return len(moving) >= LEAST_VECTOR

    def _element(self, node: Node, index: tuple[int, ...], parts: list[Cell]) -> Cell:
        name = name_at(node.op.name, index)
        if node.op.name == "add":
            return self.combined("add", *parts, called=name)
        if node.op.name in NEAR_FUNCTIONS and self.lanes.extent == 1:
            return self._of_angle(node.op.name, index, *parts)
        return self.cells.computed(name, lambda *e: real(element(node, e)), parts)

    def _of_angle(self, function: str, index: tuple[int, ...], angle: Cell) -> Cell:
        """Return a cell that branches on the size of the angle, as no vector has to wait."""
        names = {"sin": "sine", "cos": "cosine", "tan": "tangent"}
        return self.cells.mostly(
            name_at(names[function], index),
            lambda x: near_and_far(function, x)[0],
            lambda x: (abs(x) > NEAR, near_and_far(function, x)[1]),
            angle,
        )

    def shape(self, value: Value) -> tuple[int, ...]:
        return self.lanes.local_shape(value)

    def literal(self, number: Any, value: Value) -> Cell:
        plain = number.item() if isinstance(number, np.generic) else number
        return self.cells.known(real(literal(plain, value.dtype)), Level.ONCE)

    def combined(self, name: str, a: Cell, b: Cell, *, called: str = "") -> Cell:
        """Return a cell of a binary elementwise op; what a pad put there adds nothing."""
        if name == "add" and (a.is_padding or b.is_padding):
            return b if a.is_padding else a
        return self.cells.computed(called or name, lambda x, y: scalar_function(name)(x, y), [a, b])

    def folded(self, name: str, cells: Sequence[Cell], *, called: str = "") -> Cell:
        """Return all of `cells` combined from the left."""
        total = cells[0]
        for cell in cells[1:]:
            total = self.combined(name, total, cell, called=called)
        return total


def name_at(name: str, index: tuple[int, ...]) -> str:
    """Return the name of one element: `c01` of row 0, column 1; `c0x11` where digits need it."""
    return name + ("x" if max(index, default=0) > 9 else "").join(map(str, index))


RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update((name, rule) for name in names)
        return rule

    return register


@_rule("constant")
def _constant(writer: WrittenOut, node: Node) -> Array:
    array = node.attribute("value").array
    cells = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        cells[index] = writer.literal(array[index], node.result)
    return cells


@_rule("iota")
def _iota(writer: WrittenOut, node: Node) -> Array:
    shape = writer.shape(node.result)
    axis = normalize_axis(node.attribute("axis"), len(shape))
    cells = np.empty(shape, object)
    for index in np.ndindex(shape):
        cells[index] = writer.literal(index[axis], node.result)
    return cells


@_rule("reshape", "barrier")
def _reshape(writer: WrittenOut, node: Node, x: Array, *dependencies: Array) -> Array:
    return x.reshape(writer.shape(node.result))


@_rule("expand")
def _expand(writer: WrittenOut, node: Node, x: Array) -> Array:
    return np.broadcast_to(x, writer.shape(node.result))


@_rule("transpose")
def _transpose(writer: WrittenOut, node: Node, x: Array) -> Array:
    return np.transpose(x, node.attribute("perm"))


@_rule("narrow")
def _narrow(writer: WrittenOut, node: Node, x: Array) -> Array:
    start, length = node.attribute("start"), node.attribute("length")
    return np.take(x, range(start, start + length), axis=node.attribute("axis"))


@_rule("slice")
def _slice(writer: WrittenOut, node: Node, x: Array) -> Array:
    names = ("start", "stop", "step")
    spans = zip(*(node.attribute(name) for name in names), strict=True)
    whole = [x.shape[i] != e for i, e in enumerate(node.operands[0].shape)]
    return x[tuple(slice(None) if w else slice(*s) for w, s in zip(whole, spans, strict=True))]


@_rule("reverse")
def _reverse(writer: WrittenOut, node: Node, x: Array) -> Array:
    return np.flip(x, node.attribute("axes"))


@_rule("concat")
def _concat(writer: WrittenOut, node: Node, *parts: Array) -> Array:
    return np.concatenate(parts, axis=node.attribute("axis"))


@_rule("pad")
def _pad(writer: WrittenOut, node: Node, x: Array) -> Array:
    low = node.attribute("low")
    number = node.attribute("value")
    padding = writer.literal(number, node.result)
    padding.is_padding = number == 0
    cells = np.empty(writer.shape(node.result), object)
    cells[...] = padding
    cells[tuple(slice(at, at + e) for at, e in zip(low, x.shape, strict=True))] = x
    return cells


_FOLDED = {
    "reduce_sum": "add",
    "reduce_mean": "add",
    "reduce_prod": "mul",
    "reduce_max": "maximum",
    "reduce_min": "minimum",
}


@_rule(*_FOLDED)
def _reduce(writer: WrittenOut, node: Node, x: Array) -> Array:
    axes = sorted({normalize_axis(axis, x.ndim) for axis in node.attribute("axes")})
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = np.transpose(x, (*kept, *axes)).reshape(
        [x.shape[axis] for axis in kept] + [int(np.prod([x.shape[a] for a in axes], dtype=int))]
    )
    result = np.empty(rows.shape[:-1], object)
    for index in np.ndindex(result.shape):
        result[index] = _folded_row(writer, node, list(rows[index]))
    return result.reshape(writer.shape(node.result))


def _folded_row(writer: WrittenOut, node: Node, row: list[Cell]) -> Cell:
    name = _FOLDED[node.op.name]
    if not row:
        return writer.literal(1 if name == "mul" else 0, node.result)
    total = writer.folded(name, row)
    if node.op.name != "reduce_mean":
        return total
    return writer.combined("div", total, writer.literal(float(len(row)), node.result))


@_rule("matmul")
def _matmul(writer: WrittenOut, node: Node, a: Array, b: Array) -> Array:
    shape = writer.shape(node.result)
    left = np.broadcast_to(a, (*shape[:-2], *a.shape[-2:]))
    right = np.broadcast_to(b, (*shape[:-2], *b.shape[-2:]))
    result = np.empty(shape, object)
    for index in np.ndindex(shape):
        *batch, row, column = index
        pairs = zip(left[(*batch, row)], right[(*batch, slice(None), column)], strict=True)
        products = [writer.combined("mul", x, y) for x, y in pairs]
        zero = writer.literal(0, node.result)
        called = name_at("product", index)
        result[index] = writer.folded("add", products, called=called) if products else zero
    return result


def cells_of(shape: tuple[int, ...], make: Callable[[tuple[int, ...]], object]) -> Array:
    """Return an array of `shape` of what `make` gives for each index."""
    cells = np.empty(shape, object)
    for index in np.ndindex(shape):
        cells[index] = make(index)
    return cells
