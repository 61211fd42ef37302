"""Elements of a loop body's values: their addresses, and how they are computed from others.

A value either has an array, in the kernel's local buffers or in its arguments, or its elements
are computed where they are read. Movement ops move indices and cost nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from rlx.codegen.kernels.folds import FOLDS, Fold, across_columns, sum_fold
from rlx.codegen.kernels.scalars import element, uses_once
from rlx.codegen.kernels.values import literal, load, real, store
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.math.near import NEAR_FUNCTIONS
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.scalar import is_library_function, scalar_function
from rlx.codegen.text import as_identifier
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.fold_maps import FoldMap, fold_map
from rlx.ir.graph import Node, Value
from rlx.ir.index_maps import Box, IndexMap, Piece, Position, index_map
from rlx.ir.index_maps import Index as Affine
from rlx.ir.op import Trait
from rlx.ir.shape import normalize_axis, upper

FUNCTIONS = {"sin": "sine", "cos": "cosine", "tan": "tangent"}
"""Names that hide no function of C."""

Index: TypeAlias = tuple[E | int, ...]
"""Of an element, one coordinate per axis: literals where loops are spelled out."""
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A value in memory."""

    k: KernelBuilder
    value: Value
    buffer: Buffer
    strides: tuple[int, ...]
    start: E | int = 0

    def at(self, index: Index) -> E:
        """Return the offset of an element in the buffer."""
        fixed, total = 0, self.start
        for coordinate, stride in zip(index, self.strides, strict=True):
            if isinstance(coordinate, int):
                fixed += coordinate * stride
            else:
                total = total + coordinate * stride
        place = total + fixed
        return place if isinstance(place, E) else const(place, Prim.I64)

    def load(self, index: Index) -> E:
        return real(load(self.k, self.buffer, self.value.dtype, self.at(index)))

    def store(self, index: Index, value: E) -> None:
        store(self.k, self.buffer, self.value.dtype, self.at(index), value)


@dataclass(frozen=True, slots=True)
class Scalars:
    """A value whose elements are expressions, mostly variables."""

    value: Value
    elements: Mapping[Index, E]
    """By the coordinates that are literals: those of a batch are in the present lane."""

    def load(self, index: Index) -> E:
        return self.elements[tuple(at for at in index if isinstance(at, int))]


@dataclass(slots=True)
class Elements:
    """The elements of a body's values at any index."""

    arrays: dict[Value, Array | Scalars] = field(default_factory=dict)
    namer: KernelBuilder | None = None
    """Where an operand is named that an element reads twice; None leaves it to compilers."""

    def at(self, value: Value, index: Index) -> E:
        """Return an element: from its array, or computed."""
        array = self.arrays.get(value)
        if array is not None:
            return array.load(index)
        node = value.node
        rule = _RULES.get(node.op.name)
        if rule is not None:
            return rule(self, node, index)
        found = index_map(node)
        if found is not None and not node.op.has(Trait.MOVEMENT):
            return self._computed(node, found, index)
        piece = None if found is None else piece_at(found, index)
        if piece is not None:
            return self.piece(node, piece, index)
        if found is None or found.fill is None:
            raise InternalError(f"{node.op.name} of a loop nest has no array")
        return real(literal(found.fill, node.result.dtype))

    def calls_functions(self, value: Value) -> bool:
        """True if computing an element calls the math library."""
        if value in self.arrays:
            return False
        name = value.node.op.name
        if is_library_function(name) and name not in NEAR_FUNCTIONS:
            return True
        return any(self.calls_functions(operand) for operand in value.node.operands)

    def piece(self, node: Node, piece: Piece, index: Index) -> E:
        """Return the operand's element that a piece of an index map reads at `index`."""
        return self.at(node.operands[piece.operand], _located(piece.position, index))

    def _computed(self, node: Node, found: IndexMap, index: Index) -> E:
        pieces = found.pieces
        if node.op is ops.add:
            pieces = tuple(p for p in pieces if not self._is_padding(node, p, index))
            if len(pieces) < len(found.pieces):
                zero = real(literal(0, node.result.dtype))
                return self.piece(node, pieces[0], index) if pieces else zero
        parts = [self.piece(node, piece, index) for piece in pieces]
        result = real(element(node, parts))
        if self.namer is None or all(uses_once(result, part) for part in parts):
            return result
        name = self.namer.let
        named = [x if uses_once(result, x) else name("x", x) for x in parts]
        return real(element(node, named))

    def _is_padding(self, node: Node, piece: Piece, index: Index) -> bool:
        """True if an operand is a zero in place of an element that a smaller array lacks."""
        value, at = node.operands[piece.operand], _located(piece.position, index)
        if value in self.arrays or not (value.op.has(Trait.MOVEMENT) or value.op is ops.add):
            return False
        found = index_map(value.node)
        if found is None:
            return False
        if value.op is ops.add:
            return all(self._is_padding(value.node, each, at) for each in found.pieces)
        inner = piece_at(found, at)
        return found.fill == 0 if inner is None else self._is_padding(value.node, inner, at)

    def contraction(self, node: Node) -> Contraction:
        """Return what a reduction or product folds."""
        return Contraction(node)


def _located(position: Position, index: Index) -> Index:
    return tuple(_coordinate(each, index) for each in position)


def piece_at(found: IndexMap, index: Index) -> Piece | None:
    """Return the piece that contains an index; along axes that move, pieces are whole."""
    return next((piece for piece in found.pieces if _holds(piece.box, index)), None)


def _holds(box: Box, index: Index) -> bool:
    pairs = zip(box, index, strict=True)
    return all(
        not isinstance(at, int) or upper(each.start) <= at < upper(each.stop) for each, at in pairs
    )


def _coordinate(affine: Affine, index: Index) -> E | int:
    total: E | int = 0
    for coefficient, at in zip(affine.coefficients, index, strict=True):
        if coefficient == 1 and not isinstance(total, E) and total == 0:
            total = at
        elif coefficient != 0:
            total = total + at * upper(coefficient)
    return total + upper(affine.constant)


Rule: TypeAlias = Callable[[Elements, Node, Index], E]
_RULES: dict[str, Rule] = {}
"""Op name -> how an element follows from others, where no index map says it."""


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update((name, rule) for name in names)
        return rule

    return register


@_rule("constant")
def _constant(_: Elements, node: Node, index: Index) -> E:
    array = node.attribute("value").array
    fixed = tuple(i for i in index if isinstance(i, int))
    if array.size != 1 and len(fixed) != array.ndim:
        raise InternalError("a constant of a loop nest is read at a moving index")
    number = array.reshape(-1)[0] if array.size == 1 else array[fixed]
    return real(literal(number.item(), node.result.dtype))


@_rule("iota")
def _iota(_: Elements, node: Node, index: Index) -> E:
    at = index[normalize_axis(node.attribute("axis"), len(index))]
    if isinstance(at, int):
        return real(literal(at, node.result.dtype))
    return at.cast(real(literal(0, node.result.dtype)).type.prim)


@_rule("barrier")
def _same(elements: Elements, node: Node, index: Index) -> E:
    return elements.at(node.operands[0], index)


@_rule("reshape")
def _reshape(elements: Elements, node: Node, index: Index) -> E:
    """Take any reshape, also those that split an operand's axis and have no map."""
    source = node.operands[0]
    return elements.at(source, reshaped(index, node.result.type.static_shape, source))


@_rule("matmul", "reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min")
def _fold(elements: Elements, node: Node, index: Index) -> E:
    """Fold a few terms in one expression."""
    fold = elements.contraction(node)
    if not math.prod(fold.extents):
        return fold.fold.start[0]
    terms = [fold.term(elements, index, at) for at in itertools.product(*map(range, fold.extents))]
    return fold.finish(fold.total(terms))


@dataclass(frozen=True, slots=True)
class Contraction:
    """A reduction or product: what is folded into an element, and how."""

    node: Node
    batch: int | None = None
    """The place, among the axes, of the one along the instances of a batch; they stay apart."""
    instance: E | int = 0

    @property
    def map(self) -> FoldMap:
        """What is read where."""
        found = fold_map(self.node)
        assert found is not None, "only folds come here"
        return found

    @property
    def extents(self) -> Shape:
        """The extents that are folded."""
        every = enumerate(self.map.folded)
        return tuple(1 if number == self.batch else upper(extent) for number, extent in every)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of operand 0 that are folded, in order."""
        return self.map.folded_axes(0)

    @property
    def fold(self) -> Fold:
        """How terms are folded: those of a product are summed."""
        fold_of = FOLDS.get(self.node.op.name, sum_fold)
        return across_columns(fold_of(self.node.result.dtype))

    def combine(self, total: E, term: E) -> E:
        return self.fold.take((total,), term)[0]

    def total(self, terms: Sequence[E]) -> E:
        """Fold some terms."""
        return functools.reduce(self.combine, terms)

    def term(self, elements: Elements, index: Index, at: Index) -> E:
        """Return what is folded at `at` into the element at `index`."""
        if self.batch is not None:
            at = (*at[: self.batch], self.instance, *at[self.batch + 1 :])
        read = zip(self.node.operands, self.map.positions, strict=True)
        factors = [elements.at(x, _located(position, (*index, *at))) for x, position in read]
        return functools.reduce(scalar_function("mul"), factors)

    def finish(self, total: E) -> E:
        return real(self.fold.finish((total,), const(math.prod(self.extents), Prim.I64)))


def reshaped(index: Index, shape: Shape, source: Value) -> Index:
    """Return the index in `source` of the element at `index` of its reshape to `shape`.

    Axes are matched in groups of equal size, so that most keep their index.
    """
    result: list[E | int] = []
    position, target = 0, source.type.static_shape
    at = 0
    while at < len(target):
        stop, size = at + 1, target[at]
        first, other = position, 1
        while other != size:
            if other < size:
                other *= shape[position]
                position += 1
            else:
                size *= target[stop]
                stop += 1
        while size > 1 and position < len(shape) and shape[position] == 1:
            position += 1
        flat = _joined(index[first:position], shape[first:position])
        result += _split(flat, target[at:stop])
        at = stop
    return tuple(result)


def _joined(index: Index, shape: Shape) -> E | int:
    flat: E | int = 0
    for coordinate, extent in zip(index, shape, strict=True):
        if extent != 1:
            flat = coordinate if isinstance(flat, int) and flat == 0 else flat * extent + coordinate
    return flat


def _split(flat: E | int, shape: Shape) -> list[E | int]:
    """Return the coordinates of a flat index."""
    result: list[E | int] = []
    for extent in reversed(shape[1:]):
        result.append(0 if extent == 1 else flat % extent)
        flat = flat // extent if extent != 1 else flat
    if math.prod(shape) == 1:
        return [0] * len(shape)
    return [0 if shape[0] == 1 else flat, *reversed(result)]


def name_of(value: Value) -> str:
    """Return the name of an input, spelled so that it may name a buffer."""
    return as_identifier(str(value.node.name))
