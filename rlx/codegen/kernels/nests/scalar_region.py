"""Regions of small arrays as straight-line code: each element is a local, equal ones are one."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.elimination import eliminate_rows
from rlx.codegen.kernels.nests.elements import (
    Array,
    Contraction,
    Elements,
    Index,
    Scalars,
    piece_at,
)
from rlx.codegen.kernels.nests.registers import name_at
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim, literal, real, store
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, call, const, fma
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.math.near import (
    NEAR_FUNCTIONS,
    branches_on_angle,
    near_function,
    near_limit,
)
from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Buffer,
    Const,
    Expr,
    Load,
    Prim,
    Status,
    Var,
)
from rlx.codegen.loops.value_numbers import ValueNumbers, is_absent
from rlx.codegen.loops.visit import operands, rewrite_expression, with_operands
from rlx.codegen.text import as_identifier
from rlx.dataclass import dataclass
from rlx.errors import Source
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import index_map
from rlx.ir.shape import static_strides

LONGEST = 8
"""Operations in one expression; longer ones are named in parts."""

_FUNCTIONS = {"sin": "sine", "cos": "cosine", "tan": "tangent"}
"""Names that hide no function of C."""

_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)[^=]*$")


@kernel("scalar_region")
def scalar_region(scope: Scope, *arguments: Reader | Writer, body: Graph) -> None:
    outputs = [buffer for _, buffer in scope.body.outputs]
    scope.body.stored.update(range(len(outputs)))
    inputs = [scope.body.inputs[a.value] for a in arguments if isinstance(a, Reader)]
    has_single = not scope.target.has_doubles and scope.target.multiplies_and_adds(4)
    pairs = scope.target.is_small
    region = RegionValues(k=scope.k, body=body, avoids_doubles=has_single, pairs_sines=pairs)
    region.read(inputs)
    for node in body.nodes:
        if node.op is not ops.input:
            region.compute(node)
    Emission(scope.k, region, dict(zip(outputs, body.outputs, strict=True))).run()


class FusedContraction(Contraction):
    """A sum of products by fused multiply-adds, as the kernels of products have."""

    __slots__ = ()

    def combine(self, total: E, term: E) -> E:
        node = term.node
        if isinstance(node, Binary) and node.op is BinaryOp.MUL and node.type.prim.is_float:
            return fma(E(node.a), E(node.b), total)
        return Contraction.combine(self, total, term)


class Angle(NamedTuple):
    """A function of an angle: its value for all arguments, and for those that are near."""

    x: Expr
    near: Expr
    names: Mapping[str, None]
    """The functions that are computed of the angle."""


@dataclass(slots=True, kw_only=True)
class RegionValues(Elements):
    """The values of a region's elements: what is known, and what is computed once."""

    k: KernelBuilder
    body: Graph
    numbers: ValueNumbers = field(default_factory=ValueNumbers)
    owners: dict[int, tuple[Value, Index]] = field(default_factory=dict)
    """By identity of a value, the element whose computation has it first."""
    tops: set[int] = field(default_factory=set)
    """The values that are a whole element."""
    checks: list[tuple[E, Value]] = field(default_factory=list)
    """The least pivots of systems, which are positive unless one is singular."""
    avoids_doubles: bool = False
    """True if arguments of sines are reduced in f32."""
    pairs_sines: bool = False
    """True where one function computes sine and cosine (`math.paired`)."""
    angles: dict[int, Angle] = field(default_factory=dict)
    """Functions of angles, by identity of the value."""
    words: dict[int, str] = field(default_factory=dict)
    """Names of values inside of functions that are spelled out, by identity."""
    _count: int = 0

    def read(self, buffers: list[Buffer]) -> None:
        for value, buffer in zip(self.body.inputs, buffers, strict=True):
            strides = static_strides(value.type.static_shape)
            self.arrays[value] = Array(self.k, value, buffer, strides)

    def compute(self, node: Node) -> None:
        """Compute all elements of a node's result."""
        value = node.result
        if node.op is ops.solve:
            found = self._solved(node)
        else:
            indices = np.ndindex(*value.type.static_shape)
            found = {at: self._own(self._element(node, at), value, at) for at in indices}
        self.arrays[value] = Scalars(value, found)

    def _element(self, node: Node, index: Index) -> E:
        prim = compute_prim(node.result.dtype)
        if branches_on_angle(node.op.name, prim, pairs=self.pairs_sines):
            return self._of_angle(node, index)
        if node.op is ops.pad and node.attribute("structural") and self._is_filled(node, index):
            return self.numbers.zero(Prim(node.result.dtype.value))
        if node.op is not ops.constant:
            return self.at(node.result, index)
        number = node.attribute("value").array[index].item()
        if number == 0 and node.attribute("structural") and node.result.dtype.is_float:
            return self.numbers.zero(Prim(node.result.dtype.value))
        return real(literal(number, node.result.dtype))

    def _is_filled(self, node: Node, index: Index) -> bool:
        """True for an element of a float pad that its operand has not."""
        found = index_map(node)
        is_float = node.result.dtype.is_float and node.attribute("value") == 0
        return is_float and found is not None and piece_at(found, index) is None

    def _own(self, element: E, value: Value, index: Index) -> E:
        """Return the value that an element has, and note whose it is."""
        found = self.step(element, value)
        if id(found.node) not in self.tops:
            self._assign(found.node, value, index)
        return found

    def step(self, element: E, value: Value, name: str = "") -> E:
        """Return what an expression on the way to an element is, by a name of its own."""
        found = self.numbers.of(element)
        for node in self.numbers.since(self._count):
            self.owners[id(node)] = value, ()
            if name and node is found.node:
                self.words[id(node)] = name
        self._count = len(self.numbers)
        return found

    def _of_angle(self, node: Node, index: Index) -> E:
        """Return a sine or the like; all functions of one angle share the reduction of it.

        They are values of their own, after what near arguments take; for others, a branch replaces
        them all by what serves every argument.
        """
        operand = node.operands[0]
        x = self._own(self.at(operand, index), operand, index)
        if isinstance(x.node, Const):
            return call(build_function(node.op.name, x.type.prim), x)
        readers = (each for each in self.body.nodes if operand in each.operands)
        names = dict.fromkeys(n.op.name for n in readers if n.op.name in NEAR_FUNCTIONS)
        near = {name: self._near(name, x) for name in names}
        for name in names:
            far = self.far(name, x.node)
            self.angles.setdefault(id(far.node), Angle(x.node, near[name], names))
        return self.far(node.op.name, x.node)

    def far(self, name: str, x: Expr) -> E:
        """Return a function of an angle, as the call that serves every angle."""
        return self.numbers.of(call(build_function(name, x.type.prim), E(x)))

    def _near(self, name: str, x: E) -> Expr:
        """Return a function of a near argument, spelled out."""
        single = self.avoids_doubles and x.type.prim is Prim.F32
        function = near_function(name, x.type.prim, single=single)
        known = {function.params[0].name: x.node}

        def of(expr: Expr) -> Expr:
            def bound(part: Expr) -> Expr:
                return known.get(part.name, part) if isinstance(part, Var) else part

            return self.numbers.of(E(rewrite_expression(expr, bound))).node

        for let in function.lets:
            value = known[let.var.name] = of(let.value)
            self.words.setdefault(id(value), let.var.name)
        return of(function.result)

    def contraction(self, node: Node) -> Contraction:
        is_product = len(node.operands) > 1
        return FusedContraction(node) if is_product else Contraction(node)

    def _solved(self, node: Node) -> dict[Index, E]:
        """Eliminate with pivots; each step is a value, as an element of a node is."""
        a, b = node.operands
        size, is_vector = int(a.type.static_shape[-1]), bool(node.attribute("vector"))
        columns = 1 if is_vector else int(b.type.static_shape[-1])

        def matrix(i: int, j: int) -> E:
            return self.at(a, (j, i) if node.attribute("transposed") else (i, j))

        def right(i: int, j: int) -> E:
            return self.at(b, (i,) if is_vector else (i, j))

        rows = [
            [*(matrix(i, j) for j in range(size)), *(right(i, j) for j in range(columns))]
            for i in range(size)
        ]
        least = eliminate_rows(_Steps(self, node.result), rows)
        self.checks.append((least, node.result))
        found: dict[Index, E] = {}
        for i, j in np.ndindex(size, columns):
            at = (i,) if is_vector else (i, j)
            found[at] = rows[i][size + j]
            self._assign(found[at].node, node.result, at)
        return found

    def _assign(self, node: Expr, value: Value, index: Index) -> None:
        """Note that a value is a whole element."""
        self.owners[id(node)] = value, index
        self.tops.add(id(node))


@dataclass(frozen=True, slots=True)
class _Steps:
    """Names steps of an elimination as values of a region, in place of statements."""

    region: RegionValues
    value: Value

    def let(self, name: str, value: E) -> E:
        return self.region.step(value, self.value, name)

    def comment(self, text: str) -> None:
        """Nothing: the order of statements is that of values."""


@dataclass(slots=True)
class Emission:
    """Statements for the values that the outputs of a region need."""

    k: KernelBuilder
    region: RegionValues
    outputs: Mapping[Buffer, Value]
    uses: Counter[int] = field(default_factory=Counter)
    sizes: dict[int, int] = field(default_factory=dict)
    named: dict[int, Expr] = field(default_factory=dict)
    nodes: dict[int, Expr] = field(default_factory=dict)
    place: Source | None = None
    shapes: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)
    """Of the arrays in memory, by their buffers."""

    def run(self) -> None:
        number = self.region.numbers.number
        arrays = [array for array in self.region.arrays.values() if isinstance(array, Array)]
        self.shapes.update((array.buffer, array.value.type.static_shape) for array in arrays)
        stores = list(self._stores())
        for element, *_ in stores:
            self._count(element.node)
        for least, _ in self.region.checks:
            self._count(least.node)
        for node in self.region.numbers.since(0):
            if id(node) in self.nodes:
                self._size(node)  # parts come first, so that it recurses through no chain
        steps: list[tuple[int, int, Any]] = [
            (number(node), 0, node) for node in self.nodes.values() if self._takes_name(node)
        ]
        steps += [(number(each[0].node), 2, each) for each in stores]
        steps += [(number(least.node), 1, least) for least, _ in self.region.checks]
        for _, _, step in sorted(steps, key=lambda step: step[:2]):
            match step:
                case tuple():
                    element, value, buffer, at = step
                    plain = self._built(element.node)
                    store(self.k, buffer, value.dtype, const(at, Prim.I64), plain)
                case E():
                    with self.k.if_(self._built(step.node) <= 0.0):
                        self.k.fail(Status.SINGULAR_MATRIX, 0)
                case _:
                    self._name(step)

    def _stores(self) -> Iterator[tuple[E, Value, Buffer, int]]:
        for buffer, value in self.outputs.items():
            array = self.region.arrays[value]
            for at, index in enumerate(np.ndindex(*value.type.static_shape)):
                element = self.region.numbers.of(array.load(index))
                yield element, value, buffer, at

    def _count(self, node: Expr) -> None:
        """Count the uses of each value that `node` needs, and the operations of its expression."""
        pending = [node]
        self.uses[id(node)] += 1
        while pending:
            top = pending.pop()
            if id(top) in self.nodes:
                continue
            self.nodes[id(top)] = top
            for part in self._parts(top):
                self.uses[id(part)] += 1
                pending.append(part)

    def _parts(self, node: Expr) -> tuple[Expr, ...]:
        """Return the values that a value is computed from."""
        angle = self.region.angles.get(id(node))
        if angle is not None:
            return angle.x, angle.near
        return () if isinstance(node, Load) else operands(node)

    def _takes_name(self, node: Expr) -> bool:
        if isinstance(node, Const | Var):
            return False
        if id(node) in self.region.angles:
            return True
        return self.uses[id(node)] > 1 or self._size(node) > LONGEST

    def _size(self, node: Expr) -> int:
        """Return the operations of a value's expression, up to values that have names."""
        found = self.sizes.get(id(node))
        if found is None:
            found = 0
            if not isinstance(node, Const | Var | Load):
                found = 1 + sum(
                    0 if self._takes_name(part) else self._size(part) for part in self._parts(node)
                )
            self.sizes[id(node)] = found
        return found

    def _name(self, node: Expr) -> None:
        if id(node) in self.named:
            return
        angle = self.region.angles.get(id(node))
        if angle is None:
            name = self._called(node)
            self.named[id(node)] = self.k.let(name, self._built_here(node)).node
        else:
            self._branch(angle)

    def _branch(self, angle: Angle) -> None:
        """Declare the functions of an angle, and branch on its size."""
        k, found = self.k, []
        for name in angle.names:
            far = self.region.far(name, angle.x)
            if id(far.node) in self.nodes:
                near = self.region.angles[id(far.node)].near
                value = k.mutable(_FUNCTIONS[name], self._built(near))
                self.named[id(far.node)] = value.node
                found.append((name, value))
        x = self._built(angle.x)
        single = self.region.avoids_doubles and x.type.prim is Prim.F32
        with k.if_(abs(x) > near_limit(single=single)):
            for name, value in found:
                value.set(call(build_function(name, x.type.prim), x))

    def _called(self, node: Expr) -> str:
        if isinstance(node, Load) and isinstance(node.index, Const):
            shape = self.shapes[node.buffer]
            at = np.unravel_index(int(node.index.value), shape or (1,))
            return name_at(node.buffer.name, tuple(map(int, at)) if shape else ())
        value, index = self.region.owners[id(node)]
        self._comment(value.node.source)
        if id(node) not in self.region.tops:
            return self.region.words.get(id(node)) or f"{_word(value)}_part"
        return name_at(_word(value), tuple(at for at in index if isinstance(at, int)))

    def _comment(self, source: Source | None) -> None:
        if source is not None and source != self.place:
            self.place = source
            self.k.comment(f"{source.function}, {PurePath(source.file).name}:{source.line}")

    def _built(self, node: Expr) -> E:
        named = self.named.get(id(node))
        return self._built_here(node) if named is None else E(named)

    def _built_here(self, node: Expr) -> E:
        if is_absent(node):
            return E(Const(0.0, node.type))
        parts = operands(node)
        if not parts or isinstance(node, Load):
            return E(node)
        return E(with_operands(node, tuple(self._built(part).node for part in parts)))


def _word(value: Value) -> str:
    """Return the variable that the line of a value assigns, or the name of its op."""
    source = value.node.source
    if source is not None:
        found = _ASSIGNED.match(linecache.getline(source.file, source.line))
        if found is not None:
            return as_identifier(found[1])
    return _FUNCTIONS.get(value.op.name, value.op.name)
