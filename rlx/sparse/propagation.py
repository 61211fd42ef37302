"""Propagation of sparsity patterns over a graph: which inputs each element depends on.

    propagate(graph, {tangent: identity(n)})        # one pattern per output: elements x n

A value has one row per element. Rules come from what ops declare: elementwise and movement ops
from their index maps, reductions and products from their fold maps, the others by op
(`sparse.rules`). An op without a rule has a formula or counts as dense: every element of its
results depends on every element of its operands. A value without a pattern depends on nothing.

Values that depend on constants alone are evaluated: their zeros are no entries, and indices made
of them are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import RlxError
from rlx.ir import ops
from rlx.ir.fold_maps import FoldMap, contraction_map, fold_map
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import Index, index_map
from rlx.ir.op import OpDef, Trait
from rlx.ir.reference import fold as evaluate_node
from rlx.passes.effects import is_impure
from rlx.passes.rewrite import ancestors, bodies_of
from rlx.sparse.pattern import Integers, Pattern, empty, require_small, stack, union

Array: TypeAlias = NDArray[Any]
Patterns: TypeAlias = Sequence[Pattern | None]

_LARGEST_KNOWN = 1 << 24
"""Elements: larger constants are not evaluated, and count as unknown."""

_LARGEST_TERMS = 1 << 24
"""Terms of a product whose factors are looked at one by one for constant zeros."""


@dataclass(frozen=True, slots=True)
class Reads:
    """A node, and what is known of its operands."""

    node: Node
    patterns: Patterns
    """Of each operand: what its elements depend on; None for nothing."""
    known: Sequence[Array | None]
    """Of each operand: its value, where that is constant."""
    columns: int

    def shape(self, operand: int) -> tuple[int, ...]:
        return self.node.operands[operand].type.static_shape

    @property
    def active(self) -> list[int]:
        """The operands that depend on something."""
        return [place for place, pattern in enumerate(self.patterns) if pattern is not None]

    def numbers(self, operand: int) -> Array:
        """Return the numbers of an operand's elements, in its shape."""
        shape = self.shape(operand)
        return np.arange(math.prod(shape)).reshape(shape)

    def pattern(self, operand: int) -> Pattern:
        found = self.patterns[operand]
        return empty(math.prod(self.shape(operand)), self.columns) if found is None else found


Rule: TypeAlias = Callable[[Reads], Patterns]
RULES: dict[str, Rule] = {}
"""Rules by op: the patterns of the results."""


def rule(*definitions: OpDef) -> Callable[[Rule], Rule]:
    """Register the sparsity rule of some ops."""

    def register(function: Rule) -> Rule:
        RULES.update((definition.name, function) for definition in definitions)
        return function

    return register


def propagate(
    graph: Graph,
    seeds: Mapping[Value, Pattern],
    columns: int,
    known: Mapping[Value, Array] | None = None,
    after: Callable[[Reads, Pattern], Pattern] = lambda _, pattern: pattern,
) -> list[Pattern]:
    """Return what each output depends on: elements x `columns`.

    `seeds` are the patterns of inputs; other inputs depend on nothing. `known` are values of
    inputs that are constant. `after` changes what is found for each result of a node.
    """
    patterns: dict[Value, Pattern] = {v: p for v, p in seeds.items() if p.nnz}
    values: dict[Value, Array] = dict(known or {})
    needed = ancestors(graph.outputs)
    for node in graph.nodes:
        if node.results[0] in values or needed.isdisjoint(node.results):
            continue
        reads = Reads(
            node,
            tuple(patterns.get(operand) for operand in node.operands),
            tuple(values.get(operand) for operand in node.operands),
            columns,
        )
        try:
            if reads.active:
                found = _patterns(reads)
                pairs = zip(node.results, found, strict=True)
                patterns.update((r, after(reads, p)) for r, p in pairs if p is not None and p.nnz)
            elif (arrays := _evaluated(reads)) is not None:
                values.update(zip(node.results, arrays, strict=True))
        except RlxError as error:
            raise error if error.source else error.located(node.title, node.source) from None
    sizes = [output.type.elements for output in graph.outputs]
    return [
        patterns.get(output) or empty(int(size), columns)
        for output, size in zip(graph.outputs, sizes, strict=True)
    ]


def _patterns(reads: Reads) -> Patterns:
    definition = reads.node.op
    if definition.name in RULES:
        return RULES[definition.name](reads)
    if definition.has(Trait.ELEMENTWISE):
        return [_elementwise(reads, result) for result in reads.node.results]
    if definition.has(Trait.MOVEMENT):
        moved = _moved(reads)
        return dense(reads) if moved is None else [moved]
    folds = _fold_map(reads.node)
    if folds is not None:
        return [_folded(reads, folds)]
    if definition.decompose is not None:
        return _of_formula(reads)
    return dense(reads)


def dense(reads: Reads) -> Patterns:
    """Return, for every result, all that any operand depends on in each of its elements."""
    parts = [reads.pattern(place) for place in reads.active]
    together = stack(parts)
    return blocks(together.fold(np.zeros(together.shape[0], np.int64), 1), reads.node)


def blocks(row: Pattern, node: Node) -> Patterns:
    """Return the one row of a pattern for every element of every result."""
    sizes = [result.type.elements for result in node.results]
    return [row.take(np.zeros(int(size), np.int64)) for size in sizes]


def _evaluated(reads: Reads) -> tuple[Array, ...] | None:
    """Return the results of a node of constants; None where it has none, or too large ones."""
    node = reads.node
    if node.op is ops.constant:
        return (node.attribute("value").array,)
    if any(array is None for array in reads.known) or bodies_of(node.attrs):
        return None
    unsuited = (Trait.LEAF, Trait.FOREIGN, Trait.EFFECT, Trait.LAYOUT)
    if is_impure(node) or any(map(node.op.has, unsuited)):
        return None
    if not all(r.type.is_static and r.type.elements <= _LARGEST_KNOWN for r in node.results):
        return None
    try:
        with np.errstate(all="ignore"):
            return evaluate_node(node, [array for array in reads.known if array is not None])
    except RlxError:  # a fault at run time: its value is unknown here
        return None


def _elementwise(reads: Reads, result: Value) -> Pattern:
    shape = result.type.static_shape
    parts = []
    for place in reads.active:
        rows = np.broadcast_to(reads.numbers(place), shape).ravel()
        read = _is_read(reads, place, shape)
        if read is not None:
            rows = np.where(read, rows, -1)
        whole = read is None and reads.shape(place) == shape
        parts.append(reads.pattern(place) if whole else reads.pattern(place).take(rows))
    return union(parts)


def _is_read(reads: Reads, place: int, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Return where the result depends on operand `place`, if constants say so."""
    if reads.node.op is ops.mul:
        factor = reads.known[1 - place]
        return None if factor is None else np.broadcast_to(factor != 0, shape).ravel()
    condition = reads.known[0]
    if reads.node.op is not ops.where or place == 0 or condition is None:
        return None
    return np.broadcast_to((condition != 0) == (place == 1), shape).ravel()


def _moved(reads: Reads) -> Pattern | None:
    if reads.node.op is ops.reshape:
        return reads.pattern(0)
    found = index_map(reads.node)
    if found is None:
        return None
    shape = reads.node.result.type.static_shape
    sizes = [0, *(reads.pattern(place).shape[0] for place in reads.active)]
    starts = dict(zip(reads.active, np.cumsum(sizes), strict=False))
    rows = np.full(math.prod(shape), -1)
    for piece in found.pieces:
        if piece.operand in starts:
            box = [np.arange(int(i.start), int(i.stop)) for i in piece.box]
            here = np.ravel_multi_index(np.ix_(*box), shape) if box else np.zeros((), np.int64)
            read = [affine(index, box) for index in piece.position]
            source = reads.shape(piece.operand)
            number = np.ravel_multi_index(read, source) if source else np.zeros((), np.int64)
            rows[here] = np.broadcast_to(number, here.shape) + starts[piece.operand]
    return stack([reads.pattern(place) for place in reads.active]).take(rows)


def affine(index: Index, box: Sequence[Integers]) -> Integers:
    """Return an index over a box of axis positions, with an axis for each of them."""
    rank = len(box)
    total = np.full((1,) * rank, int(index.constant))
    for axis, coefficient in enumerate(index.coefficients):
        if coefficient != 0:
            along = box[axis].reshape([-1 if at == axis else 1 for at in range(rank)])
            total = total + int(coefficient) * along
    return total


def _fold_map(node: Node) -> FoldMap | None:
    return contraction_map(node) if node.op.has(Trait.CONTRACTION) else fold_map(node)


def _folded(reads: Reads, folds: FoldMap) -> Pattern:
    return union([_folded_operand(reads, folds, place) for place in reads.active])


def _folded_operand(reads: Reads, folds: FoldMap, place: int) -> Pattern:
    """Return what a fold depends on through one operand.

    Terms run over the axes along which the operand is read, and those of a constant other factor,
    whose zeros make no terms; the result is the same along the other axes.
    """
    extents = [int(extent) for extent in (*folds.outer, *folds.folded)]
    factor = reads.known[1 - place] if len(folds.positions) == 2 else None
    used = _axes(folds, [place])
    if factor is not None:
        both = _axes(folds, [0, 1])
        if math.prod(extents[axis] for axis in both) <= _LARGEST_TERMS:
            used = both
        else:
            factor = None
    box = [
        np.arange(n) if axis in used else np.zeros(1, np.int64) for axis, n in enumerate(extents)
    ]
    require_small(math.prod(map(len, box)))
    source, valid = _elements(reads, folds, place, box)
    if factor is not None:
        other, inside = _elements(reads, folds, 1 - place, box)
        valid = valid & inside & (factor.ravel()[np.where(inside, other, 0)] != 0)
    outer = tuple(map(len, box[: folds.kept]))
    kept = np.arange(math.prod(outer)).reshape((*outer, *(1,) * len(folds.folded)))
    chosen = np.broadcast_to(valid, tuple(map(len, box))).ravel()
    groups, terms = (
        np.broadcast_to(x, tuple(map(len, box))).ravel()[chosen] for x in (kept, source)
    )
    found = reads.pattern(place).take(terms).fold(groups, math.prod(outer))
    full = tuple(extents[: folds.kept])
    if full == outer:
        return found
    return found.take(np.broadcast_to(np.arange(math.prod(outer)).reshape(outer), full).ravel())


def _axes(folds: FoldMap, operands: Sequence[int]) -> set[int]:
    """Return the axes along which the positions of some operands differ."""
    indices = [index for place in operands for index in folds.positions[place]]
    return {axis for index in indices for axis, c in enumerate(index.coefficients) if c != 0}


def _elements(
    reads: Reads, folds: FoldMap, place: int, box: Sequence[Integers]
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the elements of an operand that a fold reads over a box, and where there is one."""
    shape = reads.shape(place)
    number = np.zeros((1,) * len(box), np.int64)
    valid = np.ones((1,) * len(box), np.bool_)
    spacing = folds.spacing if place == 0 and folds.spacing else (1,) * len(shape)
    for index, extent, step in zip(folds.positions[place], shape, spacing, strict=True):
        position, between = np.divmod(affine(index, box), step)
        valid = valid & (between == 0) & (position >= 0) & (position < extent)
        number = number * extent + np.clip(position, 0, max(extent - 1, 0))
    return number, valid


def _of_formula(reads: Reads) -> Patterns:
    """Propagate through the formula of a composite op."""
    node, formula = reads.node, Graph(reads.node.op.name)
    assert node.op.decompose is not None
    inputs = [formula.input_of(f"x{i}", x.type) for i, x in enumerate(node.operands)]
    built = node.op.decompose(*inputs, **node.attrs.as_dict())
    formula.set_outputs((built,) if isinstance(built, Value) else built)
    return through_body(formula, reads, range(len(inputs)))


def through_body(body: Graph, reads: Reads, operands: Sequence[int]) -> list[Pattern]:
    """Return what the outputs of a body depend on, its inputs bound to `operands` in order."""
    bound = list(zip(body.inputs, operands, strict=True))
    seeds = {value: reads.pattern(place) for value, place in bound}
    arrays = ((value, reads.known[place]) for value, place in bound)
    known = {value: array for value, array in arrays if array is not None}
    return propagate(body, seeds, reads.columns, known)
