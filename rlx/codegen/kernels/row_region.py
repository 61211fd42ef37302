"""Row regions: folds and the nodes that read their results, one slice after the other.

The loops over a slice follow each other as the reductions need each other; it stays in the cache
between them:

    for row:
      for i: largest = max(largest, x[row, i])
      for i: weights[i] = exp(x[row, i] - largest), sum += weights[i]
      for i: y[row, i] = weights[i] / sum

Where the axis runs fastest a slice is a row, its numbers (`largest`, `sum`) are variables, and
vectors run along it. Otherwise slices are columns: a block of neighboring ones is computed
together, numbers are arrays with an element for each, and vectors run across them. What a later
loop reads of an earlier one is computed again if that is cheap, else kept.

A reduction, or several of one pass, is a region of one loop, which may fold several axes.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.accumulators import fill, loaded, local_state
from rlx.codegen.kernels.affine import Grid, Groups
from rlx.codegen.kernels.elementwise import region
from rlx.codegen.kernels.folds import (
    FOLDS,
    Fold,
    State,
    across_columns,
    joined,
    peak_fold,
)
from rlx.codegen.kernels.grouped import Body, StoreTarget, is_split, target
from rlx.codegen.kernels.guards import Address, Located
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.reduction import fold_columns, fold_row, streams_for
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.row_access import Access, Available, Kept, Numbers
from rlx.codegen.kernels.slices import Columns, Slices, column_blocks, slices
from rlx.codegen.kernels.values import Scalar, compute_prim, let, real, store
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import address, identity
from rlx.ir.op import Trait
from rlx.ir.ops.fused import folded_axes, is_pointwise, last_row_pass, moved, row_passes, row_shape
from rlx.ir.shape import Shape, product, upper
from rlx.passes.rewrite import copy_node, finish

LOCAL_ROW = 8192
"""Elements of slices that are kept on the stack: 32 KiB of f32."""

SMALL_STACK = 256
"""Elements that are kept on the stack of a processor without vectors."""

MOST_RECOMPUTED = 8
"""Cheap operations that a later loop repeats rather than loads."""

NUMBERS_OF_LINE = 16
"""Blocks of columns are as narrow for an array of their numbers as for so many lines more."""


@kernel("row_region")
def row_region(scope: Scope, *arguments: Reader | Writer, body: Graph) -> None:
    inputs = [scope.body.inputs[a.value] for a in arguments if isinstance(a, Reader)]
    _compute(scope, body, inputs, frozenset())


@kernel(*FOLDS)
def reduce(scope: Scope, x: Reader, *_: Writer, axes: tuple[int, ...], **__: object) -> None:
    """Fold `axes` away; where each has one element, copy. What is fused is computed on the way."""
    body = scope.body
    if any(x.shape[axis] != 1 for axis in axes):
        _compute(scope, body.graph, list(body.inputs.values()), frozenset())
        return
    graph = _spelled_out(body, _folded_alone)[0]
    inputs = dict(zip(graph.inputs, body.inputs.values(), strict=True))
    outputs = tuple(zip(graph.outputs, (buffer for _, buffer in body.outputs), strict=True))
    alone = replace(body, graph=graph, anchors=(), inputs=inputs, outputs=outputs)
    region(replace(scope, body=alone))


def _folded_alone(node: Node, x: Value) -> Value:
    """Return the fold of each element: the sum of -0.0 is 0.0, with which sums begin."""
    is_rounded = not (x.dtype.is_int or x.dtype is DType.BOOL)
    if node.op.has(Trait.LINEAR) and is_rounded:
        x = x + 0.0
    return ops.reshape(x, shape=node.result.shape)


@kernel("softmax", "log_softmax", "layer_norm", "rms_norm")
def by_formula(scope: Scope, *_: Reader | Writer, **__: object) -> None:
    """Compute an op and what is fused with it as the op's formula spells it out."""
    compute_by_formula(scope)


def compute_by_formula(scope: Scope, before: Callable[[E], object] = lambda _: None) -> None:
    """Compute what an op's formula spells out; `before` opens the code for each slice."""
    body, own = _spelled_out(scope.body, _decomposed)
    _compute(scope, body, list(scope.body.inputs.values()), own, before)


def row_number(scope: Scope, x: Buffer, formula: Graph, row: E) -> E:
    """Return the number of one row of `x` that a formula of one input computes."""
    region = _Region(scope, formula, {formula.inputs[0]: x}, (), frozenset(formula.nodes))
    block = _Rows(region, row)
    region.compute_slices(block)
    found = region.number(formula.outputs[0], block, [])
    assert isinstance(found, E)
    return found


def _compute(
    scope: Scope,
    graph: Graph,
    inputs: Sequence[Buffer],
    own: frozenset[Node],
    before: Callable[[E], object] = lambda _: None,
) -> None:
    outputs = [buffer for _, buffer in scope.body.outputs]
    scope.body.stored.update(range(len(outputs)))
    bound = dict(zip(graph.inputs, inputs, strict=True))
    results = tuple(zip(graph.outputs, outputs, strict=True))
    _Region(scope, graph, bound, results, own).compute(before)


def _spelled_out(body: Body, formula: Callable[..., Value]) -> tuple[Graph, frozenset[Node]]:
    """Return a body with formulas in the place of its anchors, and the nodes of those."""
    target, value_map, own = Graph(body.graph.name), dict[Value, Value](), set[Node]()
    for node in body.graph.nodes:
        if node not in body.anchors:
            copy_node(target, node, value_map)
            continue
        first = len(target.nodes)
        operands = [value_map[operand] for operand in node.operands]
        value_map[node.result] = formula(node, *operands)
        own.update(target.nodes[first:])
    finish(target, body.graph, value_map)
    return target, frozenset(own)


def _decomposed(node: Node, *operands: Value) -> Value:
    assert node.op.decompose is not None
    found: Value = node.op.decompose(*operands, **node.attrs.as_dict())
    return found


@dataclass(slots=True)
class _Region:
    scope: Scope
    graph: Graph
    inputs: Mapping[Value, Buffer]
    outputs: tuple[tuple[Value, Buffer], ...]
    own: frozenset[Node]
    """The nodes of a softmax's formula: weights, which are 0 below the normal numbers, and a
    maximum whose NaN the result has anyway."""
    levels: dict[Value, int] = field(default_factory=dict)
    """How many loops over a slice come before the one that computes a value."""
    kept: dict[Value, Kept] = field(default_factory=dict)
    available: dict[Value, Available] = field(default_factory=dict)
    """What later loops do not compute again: numbers of slices, and values that are kept."""
    users: dict[Value, list[Node]] = field(default_factory=dict)
    shape: Shape = field(init=False)
    """That of which each slice is computed."""
    split: Slices = field(init=False)
    last: int = field(init=False)
    """The last loop over a slice."""

    def __post_init__(self) -> None:
        self.levels, self.users = row_passes(self.graph), self.graph.users()
        self.shape, self.last = row_shape(self.graph), last_row_pass(self.graph)
        self.split = slices(self.shape, *folded_axes(self.graph))

    def compute(self, before: Callable[[E], object]) -> None:
        """Compute all results."""
        scope, work = self.scope, product(self.shape)
        split = self.split
        if split.are_rows:
            with rows(scope.k, "row", scope.extents(split.outer), work) as row:
                before(row)
                self.compute_slices(_Rows(self, row))
        else:
            arrays = NUMBERS_OF_LINE * sum(
                r.shape != self.shape for r in self.levels if self.levels[r]
            )
            kept = max(upper(split.length), arrays) if self.last else 1
            with column_blocks(scope, split.outer, split.inner, work, kept=kept) as columns:
                self.compute_slices(_Block(self, columns.outer, columns))

    def compute_slices(self, block: _Slices) -> None:
        self._choose_kept(1 if block.columns is None else block.columns.most)
        self._once(0, block)
        for level in range(self.last + 1):
            self._loop(level, block)
            if level < self.last:
                self._once(level + 1, block)
        self._store_last(block)

    # What is computed where

    def _choose_kept(self, width: int) -> None:
        """Keep what a later loop reads of an earlier one, where that is costly or stored anyway."""
        stored = {value: buffer for value, buffer in self.outputs if value.shape == self.shape}
        room = LOCAL_ROW if self.scope.target.has_vectors else SMALL_STACK
        taken = set[Value]()
        for value in self._crossing():
            held = next((v for v in stored if v not in taken and self._holds(v, value)), None)
            size = upper(self.split.length) * width
            if value in stored and not value.dtype.is_low_precision:
                self.kept[value] = Kept(value, None, target(value, stored[value], self.shape))
            elif not self.is_costly(value):
                continue
            elif held is not None:
                taken.add(held)
                place = target(held, stored[held], self.shape)
                self.kept[value] = Kept(value, None, place)
            elif size <= room:
                room -= size
                prim = compute_prim(value.dtype)
                local = self.scope.k.local(f"{value.op.name}_values", prim, size)
                self.kept[value] = Kept(value, local, None)

    def _crossing(self) -> Iterator[Value]:
        """Yield the values, in order, that a later loop than their own reads in place."""
        last: dict[Value, int] = {}
        read_elsewhere = moved(self.graph)
        for node in self.graph.nodes:
            for operand in node.operands:
                last[operand] = max(last.get(operand, 0), self._reading_level(node))
        for node in self.graph.nodes:
            value = node.results[0]
            if node in read_elsewhere:
                continue
            is_computed = node.operands and value.shape == self.shape
            if is_computed and last.get(value, 0) > self.levels[value] and is_pointwise(node):
                yield value

    def _reading_level(self, node: Node) -> int:
        """Return the loop in which a node reads its operands."""
        return self.levels[node.results[0]] - node.op.has(Trait.REDUCTION)

    def _holds(self, result: Value, value: Value) -> bool:
        """True if the memory of a result may keep another value until the result is stored.

        Where that is an operand's, no later loop may read the operand, nor the same loop store
        anything, which may be computed after the value is kept.
        """
        buffer = next(buffer for output, buffer in self.outputs if output is result)
        same = result.dtype is value.dtype and not value.dtype.is_low_precision
        if not same or result in self.kept or self.levels[result] < self._last_reads()[value]:
            return False
        if not buffer.may_alias:
            return True
        level, last = self.levels[value], self._last_reads({*self.kept, value})
        alike = (x for x in self.inputs if x.type == result.type)
        return not self._results(level) and all(last.get(x, 0) <= level for x in alike)

    def _last_reads(self, kept: Collection[Value] = ()) -> dict[Value, int]:
        """Return the last loop that reads each value, or computes anew what is made of it.

        Values in `kept` are not computed anew.
        """
        last: dict[Value, int] = {}
        for node in reversed(self.graph.nodes):
            at, computed = self._reading_level(node), node.results[0]
            if not node.op.has(Trait.REDUCTION) and computed not in kept:
                at = max(at, last.get(computed, 0))
            last |= {operand: max(at, last.get(operand, 0)) for operand in node.operands}
        return last

    def is_costly(self, value: Value) -> bool:
        """True if a value is better loaded than computed in its loop."""
        pending, seen = [value], set[Value]()
        while pending:
            each = pending.pop()
            if each in seen or not each.node.operands or each.shape != self.shape:
                continue
            if each is not value and each in self.kept:
                continue
            seen.add(each)
            if each.node.op.has(Trait.REDUCTION):
                continue
            if each.node.op.has(Trait.ELEMENTWISE) and not each.node.op.has(Trait.CHEAP):
                return True
            pending += each.node.operands
        return len(seen) > MOST_RECOMPUTED

    def _results(self, level: int) -> list[tuple[Value, Buffer]]:
        """Return the results with an element for each of a slice that a loop stores."""
        full = ((v, b) for v, b in self.outputs if v.shape == self.shape)
        return [(value, buffer) for value, buffer in full if self.levels[value] == level]

    def _numbers(self, level: int) -> list[Value]:
        """Return the numbers of slices that follow from the folds before `level`.

        Before all folds these are results alone: the rest of that level are rows and columns, too.
        """
        outputs = {output for output, _ in self.outputs}
        values = (r for r, at in self.levels.items() if at == level and r.shape != self.shape)
        return [v for v in values if v in outputs or (level and self._is_computed_once(v))]

    def _is_computed_once(self, value: Value) -> bool:
        """True for a number that elements or later numbers are computed from, or several are."""
        if _is_view(value) or value in self.available:
            return False
        readers = list(self._readers(value))
        beyond = (x.shape == self.shape or self.levels[x] > self.levels[value] for x in readers)
        return len(readers) > 1 or any(beyond)

    def _readers(self, value: Value) -> Iterator[Value]:
        """Yield what is computed from a value, or from views of it."""
        for node in self.users[value]:
            for result in node.results:
                if result.shape != self.shape and _is_view(result):
                    yield from self._readers(result)
                else:
                    yield result

    # Loops

    def fold_of(self, node: Node) -> Fold:
        dtype = node.operands[0].dtype
        if node in self.own and node.op is ops.reduce_max:
            return peak_fold(dtype)
        return FOLDS[node.op.name](dtype)

    def access(
        self,
        shape: Shape,
        groups: Groups,
        sources: Sequence[Value],
        kept: Sequence[Kept],
        targets: Sequence[StoreTarget],
        columns: Columns | None,
    ) -> Access:
        """Return access to values over a shape; available ones are read no further."""
        nodes = tuple(value.node for value in self.available)
        body = Body(
            self.graph, nodes, self.scope.k, self.scope.extents, self.inputs, self.outputs,
            is_split(self.graph), weights=self.own,
        )  # fmt: skip
        grid = Grid.over(shape, groups, self.scope.extents)
        values = (*sources, *(each.value for each in kept))
        located = tuple(Located(value, identity(shape)) for value in values)
        return Access(
            body,
            grid,
            self.available,
            self.is_costly,
            located,
            tuple(kept),
            tuple(targets),
            columns,
        )

    def _groups(self, sources: Sequence[Value]) -> Groups:
        """Return the groups of axes of a loop over each slice, whose last run is contiguous."""
        outer, folded, inner = self.split.groups
        runs: Groups = (folded,)
        if len(folded) > 1:
            here = address(identity(self.shape), self.shape, len(self.shape))
            access = self.access(self.shape, runs, sources, [], [], None)
            runs = access.collapsed(folded, here)
        return (outer, *runs) if self.split.are_rows else (outer, *runs, inner)

    def _loop(self, level: int, block: _Slices) -> None:
        """Pass over each slice: fold it, keep and store what is computed on the way."""
        folded = [
            node
            for node in self.graph.nodes
            if node.op.has(Trait.REDUCTION) and self.levels[node.result] == level + 1
        ]
        in_result = {v for v, k in self.kept.items() if k.result and k.result.value is v}
        kept = [
            each
            for value, each in self.kept.items()
            if self.levels[value] == level and value not in in_result
        ]
        targets = [target(v, buffer, self.shape) for v, buffer in self._results(level)]
        if folded or targets or kept:
            sources = [node.operands[0] for node in folded]
            access = self.access(
                self.shape, self._groups(sources), sources, kept, targets, block.columns
            )
            if folded:
                ahead = access.at(block.outer + 1) if self._is_streamed(level) else None
                access = replace(access.at(block.outer), ahead=ahead)
                found = block.fold(access, folded, is_last=level == self.last)
                self.available |= {
                    n.result: number for n, number in zip(folded, found, strict=True)
                }
            else:
                block.visit(access.at(block.outer))
        self.available |= {v: k for v, k in self.kept.items() if self.levels[v] == level}

    def _is_streamed(self, level: int) -> bool:
        """True for a later fold of rows that come from memory beyond the cache of a core."""
        large = (x.type for x in self.inputs if x.shape == self.shape and x.type.is_static)
        size = sum(type.bytes for type in large)
        return level > 0 and self.split.are_rows and size > self.scope.target.l2

    def _once(self, level: int, block: _Slices) -> None:
        """Compute the numbers of slices that follow from the folds so far, and store results."""
        for value in self._numbers(level):
            stores = [target(v, buffer, value.shape) for v, buffer in self.outputs if v is value]
            found = self.number(value, block, stores)
            if level:  # what follows from no fold may be read of other slices, too
                self.available[value] = found

    def _store_last(self, block: _Slices) -> None:
        """Store the results that follow from all folds: numbers of slices."""
        results = [(v, b) for v, b in self.outputs if v.shape != self.shape]
        targets = [target(v, b, v.shape) for v, b in results if self.levels[v] > self.last]
        for shape in dict.fromkeys(each.value.shape for each in targets):
            stores = [each for each in targets if each.value.shape == shape]
            groups = self._number_groups(shape)
            block.visit(self.access(shape, groups, [], [], stores, block.columns).at(block.outer))

    def number(
        self, value: Value, block: _Slices, stores: Sequence[StoreTarget]
    ) -> Scalar | Numbers:
        """Compute and store a number of each slice."""
        groups = self._number_groups(value.shape)
        access = self.access(value.shape, groups, [value], [], [], block.columns)
        return block.compute(access.at(block.outer), value, stores)

    def _number_groups(self, shape: Shape) -> Groups:
        """Return the axes of numbers of slices by those of the outer and inner slices."""
        axes = tuple(range(len(shape)))
        if self.split.are_rows:
            return (axes,)
        first = next(at for at in axes if product(shape[:at]) == self.split.outer)
        return axes[:first], axes[first:]


class _Slices(ABC):
    """A row, or a block of columns."""

    columns: Columns | None

    def __init__(self, region: _Region, outer: E, columns: Columns | None = None) -> None:
        self.region, self.outer, self.columns = region, outer, columns
        self.scope, self.k = region.scope, region.scope.k

    @abstractmethod
    def fold(
        self, access: Access, folded: Sequence[Node], *, is_last: bool
    ) -> list[Scalar] | list[Numbers]:
        """Fold all elements; return a number for each node, of each slice."""

    def visit(self, access: Access) -> None:
        """Keep and store all elements, or numbers that are results alone."""
        k, left = self.k, len(access.grid.groups) - len(access.fixed)
        with ExitStack() as loops:
            if left > 1:
                access = access.at(loops.enter_context(k.loop("r", access.extent(0))))
            if not left:
                access.read()
            elif self.columns is None:
                i = k.loop("i", access.extent(0), kind=LoopKind.SIMD)
                access.read(loops.enter_context(i))
            else:
                j = k.loop("j", self.columns.width, kind=LoopKind.SIMD)
                access.read(loops.enter_context(j))

    @abstractmethod
    def compute(
        self, access: Access, value: Value, stores: Sequence[StoreTarget]
    ) -> Scalar | Numbers:
        """Compute and store a number of each slice, which later loops read."""

    def _store(self, access: Access, stores: Sequence[StoreTarget], number: E, *at: E) -> None:
        for each in stores:
            place = access.locate(Address(each.at), at)
            store(self.k, each.buffer, each.value.dtype, place, number)


class _Rows(_Slices):
    """A row: numbers are variables, vectors run along it."""

    def fold(self, access: Access, folded: Sequence[Node], *, is_last: bool) -> list[Scalar]:
        fold = joined([self.region.fold_of(node) for node in folded])
        state = fold_row(self.scope, access, fold, streams=streams_for(access, fold))
        numbers = fold.finish(state, self.scope.extents(self.region.split.length))
        if is_last:  # results name what they read twice
            return list(numbers)
        pairs = zip(folded, numbers, strict=True)
        return [let(self.k, _number_name(node), number) for node, number in pairs]

    def compute(self, access: Access, value: Value, stores: Sequence[StoreTarget]) -> Scalar:
        number = self.k.let(_number_name(value.node), real(access.read()[0]))
        self._store(access, stores, number)
        return number


class _Block(_Slices):
    """A block of columns: numbers are arrays with an element for each, vectors run across them."""

    columns: Columns

    def fold(self, access: Access, folded: Sequence[Node], *, is_last: bool) -> list[Numbers]:
        k, width = self.k, self.columns.width
        folds = [across_columns(self.region.fold_of(node)) for node in folded]
        fold = joined(folds)
        state = local_state(k, fold, self.columns.most)
        fill(k, fold, state, width)
        columns = replace(self.columns, start=self.scope.extents(0))  # the access adds it
        fold_columns(self.scope, access, fold, state, columns)
        count, parts = self.scope.extents(self.region.split.length), iter(state)
        found = [
            Numbers(tuple(itertools.islice(parts, len(each.names))), _finishing(each, count))
            for each in folds
        ]
        if is_last or all(node.op is not ops.reduce_mean for node in folded):
            return found
        with k.loop("j", width, kind=LoopKind.SIMD) as j:
            numbers = fold.finish(loaded(k, state, j), count)
            for buffer, number in zip(state, numbers, strict=True):
                k.store(buffer, j, real(number))
        return [Numbers(each.parts) for each in found]

    def compute(self, access: Access, value: Value, stores: Sequence[StoreTarget]) -> Numbers:
        name, known = _number_name(value.node), self.region.available.get(value)
        if not isinstance(known, Numbers):
            kept = self.k.local(name, compute_prim(value.dtype), self.columns.most)
        with self.k.loop("j", self.columns.width, kind=LoopKind.SIMD) as j:
            number = self.k.let(name, real(access.read(j)[0]))
            if known is None:
                self.k.store(kept, j, number)
            self._store(access, stores, number, self.columns.start + j)
        return known if isinstance(known, Numbers) else Numbers((kept,))


def _finishing(fold: Fold, count: E) -> Callable[[State], Scalar]:
    return lambda state: fold.finish(state, count)


def _number_name(node: Node) -> str:
    """Return the variable of a number of the row: `row_sum`, `row_div`."""
    return f"row_{node.op.name.removeprefix('reduce_')}"


def _is_view(value: Value) -> bool:
    """True for a value that moves elements of another without computing."""
    return not value.op.has(Trait.ELEMENTWISE) and is_pointwise(value.node)
