"""Run-time indexing: batched indices become indices into all examples at once.

Index `i` of example `b` is row `b * extent + i` of the examples' rows put end to end. An
index outside its own example would hit a neighbor's row there; it becomes -1 and stays an
error.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OpDef
from rlx.ir.shape import Extent, Shape, is_at_most, normalize_axis, product, upper
from rlx.ir.types import TensorType
from rlx.passes.loops.loop_steps import LoopStep
from rlx.passes.vmap.batching import (
    Batching,
    MaybeBatched,
    batch_to,
    batch_to_front,
    extent_value,
    reshape_to,
)
from rlx.passes.vmap.registry import (
    BY_FORMULA,
    Batched,
    BatchRule,
    batch,
    leading,
    shifted,
    unrolled,
)

leading(ops.topk)

_FEW_ELEMENTS = 64
"""Elements of an example that are sooner all written anew than one after the other in turn."""
leading(ops.sort)
leading(ops.argsort)
unrolled(
    ops.radix_counts,
    ops.radix_move,
    ops.sorted_values,
    because="only passes after vmap make it, of a single row",
)
unrolled(ops.walk_trees, because="each row is a loop, and each table another one")


@batch(ops.gather)
def gather_batch(at: Batching, table: Value, indices: Value, *, axis: int) -> Batched:
    own = normalize_axis(axis, at.operands[0].rank)
    if not at.batched[1]:
        return ops.gather(table, indices, axis=own + 1)
    if not at.batched[0]:
        return batch_to_front(ops.gather(table, indices, axis=own), own)
    shape = at.operands[0].shape
    rows = product(shape[:own])
    flat = reshape_to(table, (at.size * rows * shape[own], *shape[own + 1 :]))
    taken = ops.gather(flat, _end_to_end(at, indices, rows, shape[own]), axis=0)
    return reshape_to(taken, (at.size, *at.result.shape))


@batch(ops.resample)
def resample_batch(at: Batching, x: Value, indices: Value, weights: Value, *, axis: int) -> Batched:
    """Examples that share positions and weights are one operand: its kernel serves all."""
    if at.batched[1] or at.batched[2]:
        return BY_FORMULA
    own = normalize_axis(axis, at.operands[0].rank)
    return ops.resample(x, indices, weights, axis=own + 1)


@batch(ops.gather_backward)
def gather_backward_batch(
    at: Batching, dy: Value, indices: Value, *, axis: int, size: Extent
) -> Batched:
    rank = at.operands[0].rank - at.operands[1].rank + 1
    if not at.batched[1]:
        return ops.gather_backward(dy, indices, axis=shifted(axis, rank), size=size)
    return _scattered(at, dy, indices, normalize_axis(axis, rank), size)


@batch(ops.scatter_add)
def scatter_add_batch(at: Batching, updates: Value, indices: Value, *, size: Extent) -> Batched:
    if not at.batched[1]:
        return ops.gather_backward(updates, indices, axis=1, size=size)
    return _scattered(at, updates, indices, 0, size)


@batch(ops.dynamic_slice)
def dynamic_slice_batch(at: Batching, x: Value, starts: Value, *, sizes: Shape) -> Batched:
    """With a start per example, gather the block's elements one by one."""
    if not at.batched[1]:
        return ops.dynamic_slice(x, _with_batch_start(starts), sizes=(at.size, *sizes))
    if not sizes:
        return MaybeBatched(x, at.batched[0])
    shape = at.operands[0].shape
    clamped = _clamped_starts(at, starts, shape, sizes)
    along = [
        _positions(at.graph, size, axis, len(sizes)) + start
        for axis, (size, start) in enumerate(zip(sizes, clamped, strict=True))
    ]
    return _elements(at, x, at.batched[0], along, shape)


@batch(ops.dynamic_update_slice)
def dynamic_update_slice_batch(at: Batching, x: Value, update: Value, starts: Value) -> Batched:
    """With a start per example, large examples are updated in turn, each in place.

    In small ones each element chooses between `x` and its place in `update`.
    """
    whole = x if at.batched[0] else at.lift(x)
    if not at.batched[2]:
        block = update if at.batched[1] else at.lift(update)
        return ops.dynamic_update_slice(whole, block, _with_batch_start(starts))
    shape, sizes = at.operands[0].shape, at.operands[1].shape
    if not sizes:
        return MaybeBatched(update, at.batched[1])
    if 0 in sizes:
        return whole
    if isinstance(at.size, int) and upper(product(shape)) > _FEW_ELEMENTS:
        return _updated_in_turn(whole, update if at.batched[1] else at.lift(update), starts)
    clamped = _clamped_starts(at, starts, shape, sizes)
    along = [
        _positions(at.graph, extent, axis, len(shape)) - start
        for axis, (extent, start) in enumerate(zip(shape, clamped, strict=True))
    ]
    inside = _all_within(at, along, sizes)
    update, sizes = _not_empty(update, sizes)
    nearest = [
        _clamp(at.graph, position, size) for position, size in zip(along, sizes, strict=True)
    ]
    return ops.where(inside, _elements(at, update, at.batched[1], nearest, sizes), whole)


def _not_empty(update: Value, sizes: Shape) -> tuple[Value, Shape]:
    """Pad the axes of symbolic extents that may be 0, so that clamped positions are elements."""
    more = tuple(0 if is_at_most(1, size) else 1 for size in sizes)
    if not any(more):
        return update, sizes
    none = (0,) * update.rank
    padded = ops.pad(update, low=none, high=(*none[: update.rank - len(more)], *more))
    return padded, tuple(size + extra for size, extra in zip(sizes, more, strict=True))


def _updated_in_turn(whole: Value, updates: Value, starts: Value) -> Value:
    """Scan over the examples; the carry holds all of them."""
    step = LoopStep("update_examples")
    examples = whole.graph.iota(type=TensorType(DType.I64, (whole.shape[0],)))
    carry = step.carry(whole, "examples")
    number, update, start = step.row(examples, "n"), step.row(updates, "u"), step.row(starts, "at")
    place = ops.concat(reshape_to(number, (1,)), ops.cast(start, to=DType.I64), axis=0)
    following = ops.dynamic_update_slice(carry, reshape_to(update, (1, *update.shape)), place)
    (updated,), _ = step.scan([following], [], length=whole.shape[0])
    return updated


def _scatter_batch(definition: OpDef) -> BatchRule:
    """Return the rule of a fold: of shared indices, all examples are one longer row."""

    def rule(at: Batching, updates: Value, indices: Value, *, size: Extent) -> Batched:
        if at.batched[1]:
            return _scattered(at, updates, indices, 0, size, definition)
        rank = at.operands[1].rank
        folded: Value = definition(batch_to(updates, rank), indices, size=size)
        return batch_to_front(folded, 1)

    return rule


for _definition in (ops.scatter_mul, ops.scatter_max, ops.scatter_min):
    batch.register(_definition, _scatter_batch(_definition))


def _scattered(
    at: Batching,
    dy: Value,
    indices: Value,
    axis: int,
    size: Extent,
    definition: OpDef = ops.scatter_add,
) -> Value:
    """Fold the slices of `dy` into the tables of all examples put end to end."""
    whole = dy if at.batched[0] else at.lift(dy)
    before = at.operands[0].shape[:axis]
    after = at.operands[0].shape[axis + at.operands[1].rank :]
    rows = product(before)
    slices = reshape_to(whole, (at.size, rows, *at.operands[1].shape, *after))
    added: Value = definition(
        slices, _end_to_end(at, indices, rows, size), size=at.size * rows * size
    )
    return reshape_to(added, (at.size, *before, size, *after))


def _end_to_end(at: Batching, indices: Value, rows: Extent, extent: Extent) -> Value:
    """Return `[B, rows, *I]` indices into `B * rows` stretches of `extent`, from `[B, *I]`."""
    shape = at.operands[1].shape
    own = reshape_to(ops.cast(indices, to=DType.I64), (at.size, 1, *shape))
    limit = extent_value(at.graph, extent)
    valid = ops.logical_and(own >= 0, own < limit)
    if indices.dtype.is_float:  # the cast takes NaN to 0
        is_number = ops.logical_not(ops.is_nan(indices))
        valid = ops.logical_and(valid, reshape_to(is_number, own.shape))
    stretch = at.graph.iota(type=TensorType(DType.I64, (at.size * rows,)))
    first = reshape_to(stretch * limit, (at.size, rows, *(1,) * len(shape)))
    return ops.where(valid, own + first, -1)


def _with_batch_start(starts: Value) -> Value:
    """Return shared `starts` for blocks that hold every example."""
    return ops.concat(starts.graph.constant([0], starts.dtype), starts, axis=0)


def _clamped_starts(at: Batching, starts: Value, shape: Shape, sizes: Shape) -> list[Value]:
    """Return the start on each axis, `[B, 1, 1, ...]`, so that the block fits."""
    wide = ops.cast(starts, to=DType.I64)
    column = (at.size, *(1,) * len(shape))
    found = []
    for axis, (extent, size) in enumerate(zip(shape, sizes, strict=True)):
        start = reshape_to(ops.narrow(wide, axis=1, start=axis, length=1), column)
        found.append(_clamp(at.graph, start, extent - size + 1))
    return found


def _clamp(graph: Graph, position: Value, extent: Extent) -> Value:
    """Move positions outside [0, extent) to its ends."""
    last = extent_value(graph, extent) - 1
    return ops.maximum(ops.minimum(position, last), 0)


def _positions(graph: Graph, extent: Extent, axis: int, rank: int) -> Value:
    """Return 0, 1, ... along `axis`."""
    shape = (extent, *(1,) * (rank - 1 - axis))
    return graph.iota(type=TensorType(DType.I64, shape))


def _all_within(at: Batching, along: list[Value], sizes: Shape) -> Value:
    within: Value = at.graph.constant(True)
    for position, size in zip(along, sizes, strict=True):
        inside = ops.logical_and(position >= 0, position < extent_value(at.graph, size))
        within = ops.logical_and(within, inside)
    return within


def _elements(at: Batching, x: Value, batched: bool, along: list[Value], shape: Shape) -> Value:
    """Take the elements of each example of `x` at positions `along` its axes."""
    flat = at.graph.constant(0, DType.I64)
    if batched:
        flat = reshape_to(
            at.graph.iota(type=TensorType(DType.I64, (at.size,))), (at.size, *(1,) * len(shape))
        )
    for position, extent in zip(along, shape, strict=True):
        flat = flat * extent_value(at.graph, extent) + position
    return ops.gather(reshape_to(x, (product(x.shape),)), flat, axis=0)
