"""Row regions: reductions along rows and all that reads their results, a row after another.

The loops over a row follow each other as the reductions need each other; the row stays in the
cache between them:

    for row:
      for i: largest = max(largest, x[row, i])
      for i: weights[i] = exp(x[row, i] - largest), sum += weights[i]
      for i: y[row, i] = weights[i] / sum

What a later loop reads of an earlier one is computed again if that is cheap, else kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.accumulators import accumulators, assign, declared, loop_kind
from rlx.codegen.kernels.affine import Grid, Groups, sum_of
from rlx.codegen.kernels.along import LOCAL_ROW
from rlx.codegen.kernels.evaluation import Evaluation
from rlx.codegen.kernels.folds import FOLDS, FoldOf, State, joined
from rlx.codegen.kernels.grouped import Body, Grouped, StoreTarget, is_split, target
from rlx.codegen.kernels.guards import Address, Located
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.reduction import ROW_CHUNK, STREAMED, STREAMS, chunks
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import Scalar, compute_prim, load, named, real, store
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import Index, identity
from rlx.ir.op import Trait
from rlx.ir.ops.fused import is_pointwise, last_row_pass, moved, row_passes, row_shape
from rlx.ir.shape import Extent, Shape, product, upper

SMALL_STACK = 256
"""Elements that are kept on the stack of a processor without vectors."""

MOST_RECOMPUTED = 8
"""Cheap operations that a later loop repeats rather than loads."""


@kernel("row_region")
def row_region(scope: Scope, *arguments: Reader | Writer, body: Graph) -> None:
    inputs = [scope.body.inputs[a.value] for a in arguments if isinstance(a, Reader)]
    outputs = [buffer for _, buffer in scope.body.outputs]
    scope.body.stored.update(range(len(outputs)))
    bound = dict(zip(body.inputs, inputs, strict=True))
    results = tuple(zip(body.outputs, outputs, strict=True))
    shape = row_shape(body)
    count = scope.extents(product(shape[:-1]))
    with rows(scope.k, "row", count, product(shape)) as row:
        _Region(scope, body, bound, results, shape).compute(row)


@dataclass(frozen=True, slots=True)
class _Access(Grouped):
    """What one loop over a row reads and stores, or what is computed once for a row."""

    sources: tuple[Located, ...]
    targets: tuple[StoreTarget, ...] = ()

    def roots(self) -> list[Located]:
        return [*self.sources, *(each.source for each in self.targets)]

    def stored(self) -> list[tuple[str, Index]]:
        return [(each.buffer.name, each.at) for each in self.targets]


@dataclass(slots=True)
class _Kept:
    """A value of a row in memory: in a local array, or in a result at the row's place."""

    value: Value
    local: Buffer | None
    result: StoreTarget | None


@dataclass(slots=True)
class _Region:
    scope: Scope
    graph: Graph
    inputs: Mapping[Value, Buffer]
    outputs: tuple[tuple[Value, Buffer], ...]
    shape: Shape
    """That of which each row is computed."""
    levels: dict[Value, int] = field(default_factory=dict)
    """How many loops over a row come before the one that computes a value."""
    kept: dict[Value, _Kept] = field(default_factory=dict)
    available: dict[Value, E | _Kept] = field(default_factory=dict)
    """What later loops do not compute again: numbers of the row, and values that are kept."""

    def __post_init__(self) -> None:
        self.levels = row_passes(self.graph)
        self._choose_kept()

    # What is computed where

    def _choose_kept(self) -> None:
        """Keep what a later loop reads of an earlier one, where that is costly or stored anyway."""
        stored = {value: buffer for value, buffer in self.outputs if value.shape == self.shape}
        room = LOCAL_ROW if self.scope.target.has_vectors else SMALL_STACK
        for value in self._crossing():
            if value in stored and not value.dtype.is_low_precision:
                self.kept[value] = _Kept(value, None, target(value, stored[value], self.shape))
            elif self._is_costly(value) and upper(self.shape[-1]) <= room:
                room -= upper(self.shape[-1])
                prim = compute_prim(value.dtype)
                local = self.scope.k.local(f"{value.op.name}_values", prim, upper(self.shape[-1]))
                self.kept[value] = _Kept(value, local, None)

    def _crossing(self) -> Iterator[Value]:
        """Yield the values of a row, in order, that a later loop than their own reads in place."""
        last: dict[Value, int] = {}
        read_elsewhere = moved(self.graph)
        for node in self.graph.nodes:
            level = self.levels[node.result] - node.op.has(Trait.REDUCTION)
            for operand in node.operands:
                last[operand] = max(last.get(operand, 0), level)
        for node in self.graph.nodes:
            value = node.result
            if node in read_elsewhere:
                continue
            is_computed = node.operands and value.shape == self.shape
            if is_computed and last.get(value, 0) > self.levels[value] and is_pointwise(node):
                yield value

    def _is_costly(self, value: Value) -> bool:
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
        """Return the results with an element for each of a row that a loop stores."""
        full = ((v, b) for v, b in self.outputs if v.shape == self.shape)
        return [(value, buffer) for value, buffer in full if self.levels[value] == level]

    # Loops

    def compute(self, row: E) -> None:
        """Compute all results of one row."""
        self._once(0, row)
        for level in range(last_row_pass(self.graph) + 1):
            self._loop(level, row)
            self._once(level + 1, row)

    def _access(
        self, shape: Shape, groups: Groups, sources: Sequence[Value], targets: Sequence[StoreTarget]
    ) -> _Access:
        """Return access to values over a shape; available ones are read no further."""
        nodes = tuple(value.node for value in self.available)
        body = Body(
            self.graph, nodes, self.scope.k, self.scope.extents, self.inputs, self.outputs,
            is_split(self.graph),
        )  # fmt: skip
        grid = Grid.over(shape, groups, self.scope.extents)
        located = tuple(Located(value, identity(shape)) for value in sources)
        return _Access(body, grid, located, tuple(targets))

    def _loop(self, level: int, row: E) -> None:
        """Pass over a row: fold it, keep and store what is computed on the way."""
        folded = [
            node
            for node in self.graph.nodes
            if node.op.has(Trait.REDUCTION) and self.levels[node.result] == level + 1
        ]
        targets = [target(v, buffer, self.shape) for v, buffer in self._results(level)]
        kept = [k for k in self.kept.values() if k.local and self.levels[k.value] == level]
        if not folded and not targets and not kept:
            return
        sources = [*(node.operands[0] for node in folded), *(each.value for each in kept)]
        axes = tuple(range(len(self.shape)))
        access = self._access(self.shape, (axes[:-1], axes[-1:]), sources, targets).at(row)
        if folded:
            loop = _Loop(self, access, kept, folded)
            found = loop.fold()
            for node, number in zip(folded, found, strict=True):
                self.available[node.result] = self.scope.k.let(_number_name(node), real(number))
        else:
            with self.scope.k.loop("i", access.extent(0), kind=LoopKind.SIMD) as i:
                self.step(access, kept, i)
        for each in self.kept.values():
            if self.levels[each.value] == level:
                self.available[each.value] = each

    def step(self, access: _Access, kept: Sequence[_Kept], i: E) -> list[Scalar]:
        """Compute element `i`: keep and store what is asked for, and return all sources."""
        k = self.scope.k
        evaluation = Evaluation(access, (i,))
        evaluation.count(access.roots())
        self._set_available(evaluation, access, i)
        values = [evaluation.value(source) for source in access.sources]
        if access.targets:  # which may overwrite what the values are computed from
            pairs = zip(access.sources, values, strict=True)
            values = [named(k, f"{x.value.op.name}_value", value) for x, value in pairs]
        for each, value in zip(kept, values[len(values) - len(kept) :], strict=True):
            assert each.local is not None
            k.store(each.local, i, real(value))
        evaluation.store_all(access.targets)
        return values

    def _set_available(self, evaluation: Evaluation, access: _Access, *indices: E) -> None:
        read = {x.value for x in access.body.evaluated_at(access.roots(), access.grid.box)}
        for value, found in self.available.items():
            if value in read:
                number = found if isinstance(found, E) else self._loaded(found, access, indices)
                evaluation.give(value, number)

    def _loaded(self, kept: _Kept, access: _Access, indices: tuple[E, ...]) -> E:
        k = self.scope.k
        if kept.local is not None:
            return k.load(kept.local, indices[-1])
        assert kept.result is not None
        at = access.locate(Address(kept.result.at), indices)
        return real(load(k, kept.result.buffer, kept.value.dtype, at))

    def _once(self, level: int, row: E) -> None:
        """Compute the numbers of a row that follow from its folds so far, and store results.

        Before all folds these are results alone: the rest of that level are rows and columns, too.
        """
        for node in self.graph.nodes:
            value = node.result
            if self.levels[value] != level or value.shape == self.shape:
                continue
            buffers = [buffer for output, buffer in self.outputs if output is value]
            is_free = not node.op.has(Trait.ELEMENTWISE) and is_pointwise(node)
            if (level == 0 or is_free or value in self.available) and not buffers:
                continue
            groups = (tuple(range(len(value.shape))),)
            targets = [target(value, buffer, value.shape) for buffer in buffers]
            access = self._access(value.shape, groups, [value], targets).at(row)
            evaluation = Evaluation(access, ())
            evaluation.count(access.roots())
            self._set_available(evaluation, access)
            number = real(evaluation.value(access.sources[0]))
            if value not in self.available:
                number = self.scope.k.let(_number_name(node), number)
                if level > 0:  # what follows from no fold may be read of other rows, too
                    self.available[value] = number
            for each in targets:
                at = access.locate(Address(each.at), ())
                store(self.scope.k, each.buffer, value.dtype, at, number)


def _number_name(node: Node) -> str:
    """Return the variable of a number of the row: `row_sum`, `row_div`."""
    return f"row_{node.op.name.removeprefix('reduce_')}"


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that folds the elements of a row."""

    region: _Region
    access: _Access
    kept: Sequence[_Kept]
    folded: Sequence[Node]

    def fold(self) -> tuple[Scalar, ...]:
        k, extents = self.region.scope.k, self.region.scope.extents
        folds = [FOLDS[node.op.name](node.operands[0].dtype) for node in self.folded]
        fold = joined(folds)
        length = self.region.shape[-1]
        if upper(length) > ROW_CHUNK and fold.is_rounded_sum:
            total = accumulators(k, fold)
            with chunks(self.region.scope, length, ROW_CHUNK) as bounds:
                part = self._part(fold, bounds, 1)
                assign(k, fold, total, fold.join(tuple(total), part))
            state: State = tuple(total)
        else:
            bounds = extents(0), self.access.extent(0)
            state = self._part(fold, bounds, self._streams(fold, length))
        found = fold.finish(state, extents(length))
        assert isinstance(found, tuple)
        return found

    def _streams(self, fold: FoldOf[tuple[Scalar, ...]], length: Extent) -> int:
        """Several sets of accumulators hide how long an addition takes."""
        known = isinstance(length, int) and length >= STREAMED and length % STREAMS == 0
        plain = not self.kept and not self.access.targets and len(self.folded) == 1
        return STREAMS if known and plain and fold.free_order is not None else 1

    def _part(self, fold: FoldOf[tuple[Scalar, ...]], bounds: tuple[E, E], streams: int) -> State:
        k, (start, stop) = self.region.scope.k, bounds
        states = [accumulators(k, fold) for _ in range(streams)]
        width = (stop - start) / streams
        loop = k.loop("i", width, kind=loop_kind(fold), accumulators=declared(fold, states))
        with loop as i:
            for number, state in enumerate(states):
                at = sum_of(start, i, width * number)
                found = self.region.step(self.access, self.kept, at)[: len(self.folded)]
                element = fold.settle(k, tuple(found))
                assign(k, fold, state, fold.take(tuple(state), element))
        folded: list[State] = [tuple(state) for state in states]
        while len(folded) > 1:
            folded = [fold.join(a, b) for a, b in zip(folded[::2], folded[1::2], strict=True)]
        return folded[0]
