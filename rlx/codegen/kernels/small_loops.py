"""Loops in registers over little matrices, as loops over their elements.

What `written_out` spells element by element stays a few short loops of known length here, which
compilers repeat: the code reads as the program does, and runs the same. It is for one instance
and for the ops that it has rules for; others are written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeAlias

from rlx.codegen.kernels.scalars import element
from rlx.codegen.kernels.values import compute_prim, literal, load, real, store
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.math.near import NEAR_FUNCTIONS
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.codegen.loops.scalar import scalar_function
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import normalize_axis

LONGEST_SUM = 4
"""Products that are added up in one expression."""

Index: TypeAlias = tuple[E | int, ...]
Place: TypeAlias = Callable[[Index], E]
Shape: TypeAlias = tuple[int, ...]

_MOVES = frozenset({"transpose", "expand", "reshape"})


def fits_small_loops(body: Graph, num_carries: int) -> bool:
    """True if a scan's body multiplies little matrices and does else what has a rule here."""
    matrices = any(node.op.name == "matmul" for node in body.nodes)
    return matrices and num_carries > 0 and all(_has_rule(node) for node in body.nodes)


def _has_rule(node: Node) -> bool:
    if not all(result.type.is_static for result in node.results) or len(node.results) != 1:
        return False
    dtype, name = node.result.dtype, node.op.name
    if dtype.is_low_precision or dtype.is_complex or 0 in node.result.type.static_shape:
        return False
    if name == "matmul":
        return _is_short_product(node)
    if name == "constant":
        return math.prod(node.result.type.static_shape) == 1
    if name == "reshape":
        return _units_dropped(node.operands[0]) == _units_dropped(node.result)
    known = node.op.has(Trait.ELEMENTWISE) and name not in NEAR_FUNCTIONS
    return known or name in {"input", "transpose", "expand"}


def _is_short_product(node: Node) -> bool:
    matrices = all(operand.rank == 2 for operand in node.operands)
    return matrices and node.operands[0].type.static_shape[1] <= LONGEST_SUM


def _units_dropped(value: Value) -> list[int]:
    return [extent for extent in value.type.static_shape if extent != 1]


@dataclass(frozen=True, slots=True)
class Assignment:
    """An array that takes the elements of a value."""

    value: Value
    target: Buffer
    start: E | int = 0


@dataclass(slots=True)
class SmallLoops:
    """A scan's loop under construction: its body over the buffers of its operands and results."""

    k: KernelBuilder
    body: Graph
    given: Sequence[Buffer]
    results: Sequence[Buffer]
    length: int
    num_carries: int
    num_consts: int
    reverse: bool
    places: dict[Value, Place] = field(default_factory=dict)
    carries: list[Buffer] = field(default_factory=list)
    readers: dict[Value, int] = field(default_factory=dict)

    def build(self) -> None:
        self._count_reads()
        inputs = self.body.inputs
        self.carries = [self._local(value, _name(value)) for value in inputs[: self.num_carries]]
        held = list(zip(self.carries, inputs, strict=False))
        self._copy([(c, b, v) for (c, v), b in zip(held, self.given, strict=False)])
        for carry, value in held:
            self.places[value] = self._in(carry, value, 0)
        with self.k.loop("step", self.length) as step:
            row = self.k.let("row", self.length - 1 - step) if self.reverse else step
            self._step(row)
        self._copy([(r, c, v) for (c, v), r in zip(held, self.results, strict=False)])

    def _step(self, row: E | int) -> None:
        inputs, outputs = self.body.inputs, self.body.outputs
        first_row = self.num_carries + self.num_consts
        for position, value in enumerate(inputs[self.num_carries :], start=self.num_carries):
            start = row * _size(value) if position >= first_row else 0
            self.places[value] = self._in(self.given[position], value, start)
        self._name_shared()
        assignments = [
            Assignment(value, buffer, row * _size(value))
            for value, buffer in list(zip(outputs, self.results, strict=True))[self.num_carries :]
        ]
        copies = []
        for carry, value, output in zip(self.carries, inputs, outputs, strict=False):
            if output is value:
                continue
            if self._grows_in_place(value, output):
                assignments.append(Assignment(output, carry))
                continue
            following = self._local(value, f"next_{_name(value)}")
            assignments.append(Assignment(output, following))
            copies.append((carry, following, value))
        self._assign(assignments)
        self._copy(copies)

    # Values

    def _count_reads(self) -> None:
        reads = [operand for node in self.body.nodes for operand in node.operands]
        for value in (*reads, *self.body.outputs):
            self.readers[value] = self.readers.get(value, 0) + 1
        for node in self.body.nodes:
            if node.op.name in {"matmul", "expand"}:
                for operand in node.operands:
                    self.readers[_source(operand)] = 2  # each element is read more than once

    def _name_shared(self) -> None:
        """Give what is read more than once a place of its own."""
        for node in self.body.nodes:
            if node.op.name in _MOVES | {"input", "constant"} or self.readers[node.result] < 2:
                continue
            buffer = self._local(node.result, node.op.name)
            self._assign([Assignment(node.result, buffer)])
            self.places[node.result] = self._in(buffer, node.result, 0)

    def _grows_in_place(self, carry: Value, output: Value) -> bool:
        """True if each element of a carry is read for its own next value alone."""
        reads = self.readers.get(carry, 0)
        own = output.node.operands.count(carry)
        return output.op.has(Trait.ELEMENTWISE) and reads == own == 1 and output not in self.places

    def _local(self, value: Value, name: str) -> Buffer:
        return self.k.local(name, compute_prim(value.dtype), _size(value))

    def _in(self, buffer: Buffer, value: Value, start: E | int) -> Place:
        shape = value.type.static_shape
        return lambda at: real(load(self.k, buffer, value.dtype, _offset(shape, at, start)))

    # Elements

    def element(self, value: Value, at: Index) -> E:
        """Return the element of `value` at an index."""
        place = self.places.get(value)
        if place is not None:
            return place(at)
        node = value.node
        match node.op.name:
            case "constant":
                array = node.attribute("value").array
                return real(literal(array.reshape(-1)[0].item(), value.dtype))
            case "matmul":
                return self._product(node, at)
            case "transpose":
                perm = [normalize_axis(axis, len(at)) for axis in node.attribute("perm")]
                return self.element(
                    node.operands[0], tuple(at[perm.index(i)] for i in range(len(at)))
                )
            case "reshape":
                return self.element(node.operands[0], _with_units(value, node.operands[0], at))
            case "expand":
                return self.element(node.operands[0], _aligned(node.operands[0], at))
            case _:
                parts = [self.element(o, _aligned(o, at)) for o in node.operands]
                return real(element(node, parts))

    def _product(self, node: Node, at: Index) -> E:
        a, b = node.operands
        terms = [
            scalar_function("mul")(self.element(a, (at[0], i)), self.element(b, (i, at[1])))
            for i in range(a.type.static_shape[1])
        ]
        total = terms[0]
        for term in terms[1:]:
            total = scalar_function("add")(total, term)
        return total

    # Loops

    def _assign(self, assignments: Sequence[Assignment]) -> None:
        """Compute values, those of one shape in the same loops."""
        shapes = dict.fromkeys(each.value.type.static_shape for each in assignments)
        for shape in shapes:
            with ExitStack() as nest:
                at = tuple(
                    nest.enter_context(self.k.loop(name, extent, kind=LoopKind.UNROLL))
                    for name, extent in zip("ijklmn", shape, strict=False)
                )
                for each in assignments:
                    if each.value.type.static_shape == shape:
                        value = self.element(each.value, at)
                        place = _offset(shape, at, each.start)
                        store(self.k, each.target, each.value.dtype, place, value)

    def _copy(self, copies: Sequence[tuple[Buffer, Buffer, Value]]) -> None:
        """Copy whole arrays, those of one size in the same loop."""
        for size in dict.fromkeys(_size(value) for _, _, value in copies):
            with self.k.loop("i", size, kind=LoopKind.UNROLL) as i:
                for target, source, value in copies:
                    if _size(value) == size:
                        self.k.store(target, i, self.k.load(source, i))


def _size(value: Value) -> int:
    return math.prod(value.type.static_shape)


def _name(value: Value) -> str:
    return "".join(c if c.isalnum() else "_" for c in str(value.node.name))


def _source(value: Value) -> Value:
    while value.op.name in _MOVES:
        value = value.node.operands[0]
    return value


def _offset(shape: Shape, at: Index, start: E | int) -> E:
    """Return where the element at an index lies in an array that begins at `start`."""
    fixed, total = 0, start
    for position, index in enumerate(at):
        stride = math.prod(shape[position + 1 :])
        if isinstance(index, int):
            fixed += index * stride
        else:
            total = total + index * stride
    place = total + fixed
    return place if isinstance(place, E) else const(place, Prim.I64)


def _aligned(operand: Value, at: Index) -> Index:
    """Return the index of an operand that broadcasts to a result's index."""
    shape = operand.type.static_shape
    last = at[len(at) - len(shape) :]
    return tuple(0 if extent == 1 else i for extent, i in zip(shape, last, strict=True))


def _with_units(result: Value, operand: Value, at: Index) -> Index:
    """Return the index before a reshape that adds or drops axes of one element."""
    pairs = zip(result.type.static_shape, at, strict=True)
    kept = iter([i for extent, i in pairs if extent != 1])
    return tuple(0 if extent == 1 else next(kept) for extent in operand.type.static_shape)
