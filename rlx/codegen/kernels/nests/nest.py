"""Loop nests: a loop whose body's values are in local buffers, as one kernel.

Every op of the body becomes loops of its own here, over buffers whose layout suits vectors: short
axes outermost, the vector axis innermost. The passes over the loop language make one nest of
them: short loops unrolled, loops over equal ranges fused, buffers replaced by scalars.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import field, replace

import numpy as np

from rlx.codegen.kernels.nests.elements import (
    Array,
    Contraction,
    Elements,
    Index,
    Shape,
)
from rlx.codegen.kernels.values import compute_prim, literal, real
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind
from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import index_map
from rlx.ir.op import Trait
from rlx.ir.shape import static_strides, upper
from rlx.passes.loops.batch_axis import NO_LANES, Lanes
from rlx.passes.loops.nests import is_in_pieces, is_long_fold, values_to_keep
from rlx.passes.loops.vector_axes import SHORT, is_long, vector_axes

_AXES = "ijklmnopq"
_MOST_COPIES = 16
"""Elements that are copied without a loop where there are no vectors."""
_MOST_TERMS = 8
"""Terms of a sum that are spelled out where there are no vectors: they take less code than the
registers of a loop are worth."""

_IN_LANES = (BinaryOp.ADD, BinaryOp.MUL)
"""Folds that vectors may take apart."""


@dataclass(slots=True)
class Nest:
    """The loop nest of a body under construction."""

    k: KernelBuilder
    body: Graph
    has_vectors: bool = True
    """False where there are none: sums stay in a register, and no axis is moved for vectors."""
    elements: Elements = field(default_factory=Elements)
    axes: dict[Value, int] = field(default_factory=dict)
    kept: set[Value] = field(default_factory=set)
    """Values that are computed once, into arrays."""
    lanes: Lanes = NO_LANES
    block: int = 1
    """Instances that are computed at a time, of those in `lanes`."""
    first: E | int = 0
    """The first instance of the present block."""

    def __post_init__(self) -> None:
        self.axes = {**vector_axes(self.body), **self.lanes.axes} if self.has_vectors else {}
        self.kept = values_to_keep(self.body)

    def shape(self, value: Value) -> Shape:
        """Return the extents of what is computed at a time of `value`."""
        shape = list(value.type.static_shape)
        if value in self.lanes.axes:
            shape[self.lanes.axes[value]] = self.block
        return tuple(shape)

    @contextmanager
    def blocks(self) -> Iterator[None]:
        """Open the loop over blocks of lanes, if there are several."""
        count = self.lanes.extent // self.block
        with self.k.loop("block", count) if count > 1 else nullcontext(0) as block:
            self.first = block * self.block
            yield

    # Arrays

    def local(self, value: Value, name: str) -> Array:
        """Declare a local buffer for a value: short axes outermost, the vector axis innermost."""
        shape = self.shape(value)
        buffer = self.k.local(name, compute_prim(value.dtype), max(math.prod(shape), 1))
        strides, stride = [0] * len(shape), 1
        for axis in reversed(self._layout(value)):
            strides[axis], stride = stride, stride * shape[axis]
        return Array(self.k, value, buffer, tuple(strides))

    def _layout(self, value: Value) -> list[int]:
        shape, vector = self.shape(value), self.axes.get(value)
        short = [axis for axis, extent in enumerate(shape) if not is_long(extent)]
        long = [axis for axis in range(len(shape)) if axis not in short and axis != vector]
        return [*short, *long, *([] if vector is None else [vector])]

    def argument(self, value: Value, buffer: Buffer, start: E | int = 0) -> Array:
        """Return a value as stored in an argument of the kernel."""
        strides = static_strides(value.type.static_shape)
        if value in self.lanes.axes:
            start = start + self.first * strides[self.lanes.axes[value]]
        return Array(self.k, value, buffer, strides, start)

    def suits_vectors(self, array: Array) -> bool:
        """True if an argument may be read in place."""
        axis = self.axes.get(array.value)
        return axis is None or array.strides[axis] == 1

    # Loops

    @contextmanager
    def over(
        self, shape: Shape, vector: int | None, folded: Shape = (), *, kind: LoopKind | None = None
    ) -> Iterator[tuple[Index, Index]]:
        """Open the loops over a result's elements, and inside them those over the folded axes."""
        at: list[E | int] = [0] * len(shape)
        inner: list[E | int] = [0] * len(folded)
        with ExitStack() as nest:

            def enter(name: str, extent: int, kind: LoopKind) -> E | int:
                return nest.enter_context(self.k.loop(name, extent, kind=kind))

            long = [a for a, extent in enumerate(shape) if is_long(extent) and a != vector]
            for axis in long:
                at[axis] = enter(_AXES[axis], shape[axis], LoopKind.SERIAL)
            for number, extent in enumerate(folded):
                if is_long(extent):
                    inner[number] = enter("r", extent, LoopKind.SERIAL)
            if vector is not None:
                at[vector] = enter(_AXES[vector], shape[vector], kind or LoopKind.SIMD)
            for axis, extent in enumerate(shape):
                if not is_long(extent) and axis != vector:
                    at[axis] = enter(_AXES[axis], extent, LoopKind.UNROLL)
            for number, extent in enumerate(folded):
                if not is_long(extent):
                    inner[number] = enter("r", extent, LoopKind.UNROLL)
            yield tuple(_literals(at)), tuple(_literals(inner))

    # Values

    def emit(self, nodes: Sequence[Node]) -> None:
        """Emit the values that are stored in buffers, in order."""
        for node in nodes:
            if node.results and node.results[0] in self.kept:
                array = self.local(node.result, node.op.name)
                self.compute(node.result, array)
                self.elements.arrays[node.result] = array

    def compute(self, value: Value, target: Array) -> None:
        """Store all elements of `value`."""
        node = value.node
        array = self.elements.arrays.get(value)
        if isinstance(array, Array):
            self.copy(array, target)
        elif is_in_pieces(node):
            self._pieces(node, target)
        elif node.op.name == "constant" and math.prod(value.type.static_shape) > 1:
            for index in np.ndindex(value.type.static_shape):
                target.store(index, self.elements.at(value, index))
        elif is_long_fold(node):
            self._contract(Contraction(node), target)
        else:
            with self.over(self.shape(value), self._elementwise_axis(value)) as (at, _):
                target.store(at, self.elements.at(value, at))

    def _elementwise_axis(self, value: Value) -> int | None:
        """Return the vector axis: a short one will do for functions of the math library."""
        axis, shape = self.axes.get(value), self.shape(value)
        if axis is None and self.has_vectors and shape and shape[-1] == SHORT:
            return value.rank - 1 if self.elements.calls_functions(value) else None
        return axis

    def copy(self, source: Array, target: Array) -> None:
        value, shape = source.value, self.shape(source.value)
        if value not in self.axes and source.strides == target.strides:
            flat, count = (1,), math.prod(shape)  # both are dense: one loop, not one per axis
            short = self.has_vectors or count <= _MOST_COPIES
            kind = LoopKind.UNROLL if short else LoopKind.SERIAL
            with self.k.loop("i", count, kind=kind) as i:
                at = tuple(_literals([i]))
                replace(target, strides=flat).store(at, replace(source, strides=flat).load(at))
            return
        with self.over(shape, self.axes.get(value)) as (at, _):
            target.store(at, source.load(at))

    def _pieces(self, node: Node, target: Array) -> None:
        """Store what each piece of an index map reads, over what is outside of all."""
        found = index_map(node)
        assert found is not None, "`is_in_pieces` says so"
        if found.fill is not None:
            value = real(literal(found.fill, node.result.dtype))
            with self.over(self.shape(node.result), self.axes.get(node.result)) as (at, _):
                target.store(at, value)
        for piece in found.pieces:
            first = [upper(interval.start) for interval in piece.box]
            extents = [upper(interval.stop) - upper(interval.start) for interval in piece.box]
            shape = tuple(map(min, extents, self.shape(node.result)))
            with self.over(shape, self._vector_axis(node.result, shape)) as (at, _):
                moved = tuple(i + start for i, start in zip(at, first, strict=True))
                target.store(moved, self.elements.piece(node, piece, moved))

    def _vector_axis(self, value: Value, shape: Shape) -> int | None:
        """Return the vector axis of a part of `value`."""
        axis = self.axes.get(value)
        if axis is not None and is_long(shape[axis]):
            return axis
        return next((a for a in reversed(range(len(shape))) if is_long(shape[a])), None)

    def _contract(self, fold: Contraction, target: Array) -> None:
        value = fold.node.result
        vector, shape = self.axes.get(value), value.type.static_shape
        (op,) = fold.fold.free_order or (None,)
        if op in _IN_LANES and (vector is None or self._is_along_fold(fold)):
            self._contract_lanes(fold, target, op)
            return
        with self.over(shape, vector) as (at, _):
            target.store(at, fold.fold.start[0])
        with self.over(shape, vector, fold.extents) as (at, inner):
            term = fold.term(self.elements, at, inner)
            target.store(at, fold.combine(target.load(at), term))
        if fold.node.op.name == "reduce_mean":
            with self.over(shape, vector) as (at, _):
                target.store(at, fold.finish(target.load(at)))

    def _is_along_fold(self, fold: Contraction) -> bool:
        """True if what a reduction folds was computed along a folded axis, for another reader."""
        operand = fold.node.operands[0]
        lies_along = operand in self.kept and self.axes.get(operand) in fold.axes
        return fold.node.op.has(Trait.REDUCTION) and lies_along

    def _contract_lanes(self, fold: Contraction, target: Array, op: BinaryOp) -> None:
        """Fold along vectors, as no axis of the result is long, or its operand has that layout."""
        with self.over(target.value.type.static_shape, None) as (at, _):
            total = self.k.mutable("total", fold.fold.start[0])
            with self._folded(fold, total, op) as inner:
                total.set(fold.combine(total, fold.term(self.elements, at, inner)))
            target.store(at, fold.finish(total))

    @contextmanager
    def _folded(self, fold: Contraction, total: Mutable, op: BinaryOp) -> Iterator[Index]:
        extents = fold.extents
        demanded = self.axes.get(fold.node.operands[0])
        long = [n for n, extent in enumerate(extents) if is_long(extent)]
        lanes = next((n for n in long if fold.axes[n] == demanded), long[-1] if long else -1)
        inner: list[E | int] = [0] * len(extents)
        with ExitStack() as nest:
            for number in (n for n in long if n != lanes):
                inner[number] = nest.enter_context(self.k.loop("r", extents[number]))
            if long:
                inner[lanes] = nest.enter_context(self._along(extents[lanes], total, op))
            for number, extent in enumerate(extents):
                if number not in long:
                    loop = self.k.loop("r", extent, kind=LoopKind.UNROLL)
                    inner[number] = nest.enter_context(loop)
            yield tuple(_literals(inner))

    def _along(self, extent: int, total: Mutable, op: BinaryOp) -> AbstractContextManager[E]:
        """Open the innermost loop of a fold: over vectors, or spelled out where there are none."""
        if not self.has_vectors and extent <= _MOST_TERMS:
            return self.k.loop("r", extent, kind=LoopKind.UNROLL)
        return self.k.loop("r", extent, kind=LoopKind.SIMD, accumulators=[(total, op)])


def _literals(index: Sequence[E | int]) -> Iterator[E | int]:
    """Yield coordinates, those that are literals as numbers."""
    for at in index:
        value = getattr(at.node, "value", None) if isinstance(at, E) else at
        yield value if isinstance(value, int) else at
