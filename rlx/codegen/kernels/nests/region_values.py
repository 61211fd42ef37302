"""The values of a region's elements: locals, and arrays that short loops store.

Each element of a small value is a scalar expression, equal ones are one, and what is known is not
computed. A value of more elements, most of them computed, is an array: loops over some of its axes
store it, and the indices along the others are literals, so that what is known of the other factor
of a product is left out of the loop's body:

    (f @ p)[0, :]    for j: fp[j] = p[j] + 0.01 * p[36 + j]
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import linecache
import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

import numpy as np

from rlx.codegen.kernels.linalg.elimination import eliminate_rows
from rlx.codegen.kernels.nests.elements import (
    FUNCTIONS,
    Array,
    Contraction,
    Elements,
    Index,
    Scalars,
    piece_at,
)
from rlx.codegen.kernels.values import compute_prim, literal, real
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, call, fma
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.math.near import (
    NEAR_FUNCTIONS,
    REDUCED,
    branches_on_angle,
    function_of_reduced,
    reduced_part,
)
from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Buffer,
    Const,
    Expr,
    Load,
    Prim,
    ValueType,
    Var,
)
from rlx.codegen.loops.value_numbers import ValueNumbers, is_absent
from rlx.codegen.loops.visit import operands, rewrite_expression
from rlx.codegen.text import as_identifier
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.fold_maps import fold_map
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import index_map
from rlx.ir.op import Trait
from rlx.ir.shape import static_strides
from rlx.passes.loops.nests import count_reads, count_terms, is_in_pieces

_COST_OF_CODE = 8
"""Operations of a run that one less in the code is worth."""

_LOOP = 3
"""Operations of a loop's step."""

_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)[^=]*$")

_AXES = "ijklmnopq"


class _AbsentEntryError(Exception):
    """Absent entries of a matrix are zeros in memory, which infinities would be multiplied by."""


class ElementLoop(NamedTuple):
    """Loops along some axes of a value, whose body stores all elements along the others."""

    value: Value
    variables: tuple[tuple[Var, int], ...]
    """The variables in the indices and their extents, outermost first."""
    elements: dict[Index, E]
    number: int = 0
    """The first value number after all that they read."""


class Copy(NamedTuple):
    """Elements that are locals and are stored, in order, too."""

    value: Value
    elements: list[E]
    number: int
    """The first value number after those."""


class FusedContraction(Contraction):
    """A sum of products by fused multiply-adds, as the kernels of products have."""

    __slots__ = ()

    def combine(self, total: E, term: E) -> E:
        node = term.node
        if isinstance(node, Binary) and node.op is BinaryOp.MUL and node.type.prim.is_float:
            return fma(E(node.a), E(node.b), total)
        return Contraction.combine(self, total, term)

    def total(self, terms: Sequence[E]) -> E:
        """Fold products with zero first: they add nothing but what is not finite.

        Rows of `eye(n) - k @ h` have zeros but for some columns. Those up to a column are summed
        from the first on and those after it from the last, so that rows share the partial sums.
        """
        zeros: list[E] = []
        runs = itertools.groupby(enumerate(terms), lambda each: _is_zero_product(each[1]))
        for is_zero, run in runs:
            places = list(run)
            if is_zero:
                is_last = places[-1][0] == len(terms) - 1
                products = [term for _, term in (reversed(places) if is_last else places)]
                zeros.append(Contraction.total(self, products))
        first = [functools.reduce(operator.add, zeros)] if zeros else []
        others = [term for term in terms if not _is_zero_product(term)]
        return Contraction.total(self, [*first, *others])


def _is_zero_product(term: E) -> bool:
    """True for a product with a zero that is no structural one."""
    node = term.node
    is_product = isinstance(node, Binary) and node.op is BinaryOp.MUL and node.type.prim.is_float
    return is_product and any(
        isinstance(part, Const) and part.value == 0 and not is_absent(part)
        for part in operands(node)
    )


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
    reduced: dict[int, tuple[Expr, ...]] = field(default_factory=dict)
    """An angle and what is left of it in its quadrant (`REDUCED`), by identity of each of these."""
    words: dict[int, str] = field(default_factory=dict)
    """Names of values inside of functions that are spelled out, by identity."""
    most_locals: int = 64
    """Elements of a value that are locals; more are an array."""
    targets: Mapping[Value, Buffer] = field(default_factory=dict)
    """Where results are stored."""
    loops: dict[Buffer, ElementLoop] = field(default_factory=dict)
    """What stores the elements of arrays."""
    copies: dict[Buffer, Copy] = field(default_factory=dict)
    """Arrays of what is in locals, too: loops read them."""
    _kept: set[Value] = field(default_factory=set)
    """Values of many elements that are stored: they are read repeatedly, or are results."""
    _views: set[Value] = field(default_factory=set)
    """Values of few elements of arrays that loops store."""
    _copied: dict[Value, Array] = field(default_factory=dict)
    _moving: set[int] = field(default_factory=set)
    _seen: int = 0
    _count: int = 0

    def __post_init__(self) -> None:
        reads, outputs = count_reads(self.body), set(self.body.outputs)
        for node in self.body.nodes:
            if self._is_large(node.result) and (reads[node.result] > 1 or node.result in outputs):
                self._kept.add(node.result)

    def _is_large(self, value: Value) -> bool:
        return math.prod(value.type.static_shape) > self.most_locals

    def read(self, buffers: list[Buffer]) -> None:
        for value, buffer in zip(self.body.inputs, buffers, strict=True):
            strides = static_strides(value.type.static_shape)
            self.arrays[value] = Array(self.k, value, buffer, strides)

    def compute(self, node: Node) -> None:
        """Compute all elements of a node's result."""
        value = node.result
        if node.op is ops.solve:
            self.arrays[value] = Scalars(value, self._solved(node))
        elif self._is_large(value):
            self._compute_large(node)
        elif self._is_in_array(node):
            self._views.add(value)  # elements are read where they are
        else:
            self.arrays[value] = self._spelled(node)

    def _is_in_array(self, node: Node) -> bool:
        """True for what moves elements of an array that loops store."""
        if not node.op.has(Trait.MOVEMENT) or is_in_pieces(node) or node.result in self.targets:
            return False
        operand = node.operands[0]
        array = self.arrays.get(operand)
        return operand in self._views or (isinstance(array, Array) and array.buffer in self.loops)

    def _spelled(self, node: Node) -> Scalars:
        value, indices = node.result, np.ndindex(*node.result.type.static_shape)
        found = {at: self._own(self._element(node, at), value, at) for at in indices}
        return Scalars(value, found)

    def _element(self, node: Node, index: Index) -> E:
        if _moves(index):
            return self.at(node.result, index)
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
        reduced = self._reduced(x)
        near = {name: self._near(name, x, reduced) for name in names}
        for name in names:
            far = self.far(name, x.node)
            self.angles.setdefault(id(far.node), Angle(x.node, near[name], names))
        return self.far(node.op.name, x.node)

    def far(self, name: str, x: Expr) -> E:
        """Return a function of an angle, as the call that serves every angle."""
        return self.numbers.of(call(build_function(name, x.type.prim), E(x)))

    def _reduced(self, x: E) -> tuple[Expr, ...]:
        """Return what is left of an angle in its quadrant, as the calls that compute it."""
        prim = x.type.prim
        single = self.avoids_doubles and prim is Prim.F32
        parts = (reduced_part(part, prim, single=single) for part in REDUCED)
        found = tuple(self.numbers.of(call(part, x)).node for part in parts)
        self.reduced.update((id(part), (x.node, *found)) for part in found)
        return found

    def _near(self, name: str, x: E, reduced: tuple[Expr, ...]) -> Expr:
        """Return a function of a near argument, spelled out but for the reduction."""
        function = function_of_reduced(name, x.type.prim)
        names = (param.name for param in function.params)
        known: dict[str, Expr] = dict(zip(names, (x.node, *reduced), strict=True))

        def of(expr: Expr) -> Expr:
            def bound(part: Expr) -> Expr:
                return known.get(part.name, part) if isinstance(part, Var) else part

            return self.numbers.of(E(rewrite_expression(expr, bound))).node

        for let in function.lets:
            value = known[let.var.name] = of(let.value)
            self.words.setdefault(id(value), let.var.name)
        return of(function.result)

    # Values of many elements

    def at(self, value: Value, index: Index) -> E:
        """Return an element; of what is in locals, along loops, from a copy in memory."""
        array = self.arrays.get(value)
        if isinstance(array, Scalars) and _moves(index):
            array = self._copy(array)
            return array.load(index)
        return Elements.at(self, value, index)

    def _copy(self, scalars: Scalars) -> Array:
        value = scalars.value
        if value not in self._copied:
            found = [self.numbers.of(each) for each in scalars.elements.values()]
            if any(is_absent(each.node) for each in found):
                raise _AbsentEntryError
            array = self._copied[value] = self._array(value, None)
            self.copies[array.buffer] = Copy(value, found, len(self.numbers))
        return self._copied[value]

    def copied(self, value: Value) -> Array:
        """Return the array of a copy."""
        return self._copied[value]

    def _array(self, value: Value, buffer: Buffer | None) -> Array:
        shape = value.type.static_shape
        if buffer is None:
            name, prim = self.k.fresh(word_of(value)), compute_prim(value.dtype)
            buffer = Buffer(name, prim, writable=True, extent=math.prod(shape))
        return Array(self.k, value, buffer, static_strides(shape))

    def _compute_large(self, node: Node) -> None:
        """Compute elements as locals if few are unknown, by loops, or where they are read."""
        value = node.result
        is_moved = node.op.has(Trait.MOVEMENT) and not is_in_pieces(node)
        if is_moved and value not in self._kept:
            return
        if is_in_pieces(node) or self._is_mostly_known(node):
            self.arrays[value] = self._spelled(node)
        elif value in self._kept:
            self._store(node)

    def _is_mostly_known(self, node: Node) -> bool:
        """True if all but few elements are constants, or elements of others."""
        unknown, is_result = 0, node.result in self.targets
        for at in np.ndindex(*node.result.type.static_shape):
            element = self.step(self._element(node, at), node.result).node
            is_other = not is_result and (isinstance(element, Load) or id(element) in self.tops)
            unknown += not (is_other or isinstance(element, Const))
            if unknown > self.most_locals:
                return False
        return True

    def _store(self, node: Node) -> None:
        """Store a value by the loops that cost least; without any, its elements are locals.

        Absent entries are in no loop's array: what is computed where it is read is stored first.
        """
        found = min(self._ways(node), key=self._cost, default=None)
        if found is not None:
            array = self._array(node.result, self.targets.get(node.result))
            self.loops[array.buffer] = found._replace(number=len(self.numbers))
            self.arrays[node.result] = array
        elif folds := list(self._deferred(node)):
            for fold in folds:
                self._kept.add(fold.result)
                self._store(fold)
            self._compute_large(node)
        else:
            self.arrays[node.result] = self._spelled(node)

    def _deferred(self, node: Node) -> Iterator[Node]:
        """Yield the sums, of more than one term, that are computed where `node` reads them."""
        for operand in dict.fromkeys(node.operands):
            if operand not in self.arrays:
                is_fold = fold_map(operand.node) is not None and count_terms(operand.node) > 1
                yield from [operand.node] if is_fold else self._deferred(operand.node)

    def _ways(self, node: Node) -> Iterator[ElementLoop]:
        """Yield the loops that compute a value, for each choice of the axes that they run along."""
        shape = node.result.type.static_shape
        long = [axis for axis, extent in enumerate(shape) if extent > 1]
        for count in range(1, len(long) + 1):
            for axes in itertools.combinations(long, count):
                with contextlib.suppress(_AbsentEntryError):
                    yield self._along(node, axes)

    def _along(self, node: Node, axes: tuple[int, ...]) -> ElementLoop:
        shape, variables = node.result.type.static_shape, dict[int, Var]()
        for axis in axes:
            variables[axis] = Var(f"{_AXES[axis]} {len(self.numbers)}", ValueType(Prim.I64))
        ranges: list[list[E | int]] = [
            [E(variables[axis])] if axis in axes else list(range(extent))
            for axis, extent in enumerate(shape)
        ]
        elements = {
            at: self.step(self._element(node, at), node.result) for at in itertools.product(*ranges)
        }
        extents = tuple((variable, shape[axis]) for axis, variable in variables.items())
        return ElementLoop(node.result, extents, elements)

    def _cost(self, loop: ElementLoop) -> int:
        work = _LOOP + len(self.inside(loop)) + len(loop.elements)
        return work * (math.prod(extent for _, extent in loop.variables) + _COST_OF_CODE)

    def inside(self, loop: ElementLoop) -> list[Expr]:
        """Return the values that are computed in each step of a loop, in order."""
        found: dict[int, Expr] = {}
        pending = [element.node for element in loop.elements.values()]
        while pending:
            top = pending.pop()
            if id(top) not in found and self.is_moving(top):
                found[id(top)] = top
                pending += () if isinstance(top, Load) else operands(top)
        return sorted(found.values(), key=self.numbers.number)

    def is_moving(self, node: Expr) -> bool:
        """True for a value that follows from the variable of a loop."""
        for each in self.numbers.since(self._seen):
            if isinstance(each, Var) or any(id(x) in self._moving for x in operands(each)):
                self._moving.add(id(each))
        self._seen = len(self.numbers)
        return id(node) in self._moving

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


def _moves(index: Index) -> bool:
    """True for an index along a loop."""
    return any(isinstance(at, E) for at in index)


def word_of(value: Value) -> str:
    """Return the variable that the line of a value assigns, or the name of its op."""
    source = value.node.source
    if source is not None:
        found = _ASSIGNED.match(linecache.getline(source.file, source.line))
        if found is not None:
            return as_identifier(found[1])
    return FUNCTIONS.get(value.op.name, value.op.name)
