"""Sparsity rules of single ops: run-time indices, running folds, windows, matrices, loops."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.op import OPS
from rlx.ir.shape import normalize_axis
from rlx.sparse.pattern import Pattern, from_entries, stack, union
from rlx.sparse.propagation import Array, Patterns, Reads, dense, rule, through_body
from rlx.sparse.propagation import propagate as propagate  # under these rules

_LARGEST_UNROLLED = 4096
"""Steps: a loop with a carry and more of them gets the union over its steps."""


def shared_along(pattern: Pattern, shape: Sequence[int], axes: Sequence[int]) -> Pattern:
    """Return, for every element, the union over its slice along `axes`."""
    kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    groups = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), shape).ravel()
    return pattern.fold(groups, math.prod(kept)).take(groups)


@rule(ops.stop_gradient, ops.barrier, ops.refuse_derivative)
def same(reads: Reads) -> Patterns:
    """The elements of operand 0 themselves."""
    return [reads.patterns[0]]


# Indices


@rule(ops.gather)
def gather(reads: Reads) -> Patterns:
    axis = normalize_axis(reads.node.attrs["axis"], len(reads.shape(0)))
    indices, table = reads.known[1], reads.pattern(0)
    if indices is None:  # any row: the same for all, so that any constant index will do
        table = shared_along(table, reads.shape(0), [axis])
        indices = np.zeros(reads.shape(1))
    if not reads.shape(0)[axis]:
        return [None]
    taken = np.take(reads.numbers(0), indices.astype(np.int64), axis, mode="clip")
    return [table.take(taken.ravel())]


@rule(ops.scatter_add, ops.scatter_mul, ops.scatter_max, ops.scatter_min, ops.gather_backward)
def scatter(reads: Reads) -> Patterns:
    """The transpose of `gather`: an update is folded into the row of its index."""
    result = reads.node.result.type.static_shape
    axis = normalize_axis(reads.node.attrs.get("axis", 0), len(result))
    if not result[axis]:
        return [None]
    indices, updates = reads.known[1], reads.pattern(0)
    everywhere = indices is None
    if indices is None:
        indices = np.zeros(reads.shape(1))
    numbers = np.arange(math.prod(result)).reshape(result)
    targets = np.take(numbers, indices.astype(np.int64), axis, mode="clip")
    found = updates.fold(targets.ravel(), math.prod(result))
    return [shared_along(found, result, [axis]) if everywhere else found]


@rule(ops.dynamic_slice)
def dynamic_slice(reads: Reads) -> Patterns:
    sizes = reads.node.result.type.static_shape
    source, moving = _started(reads, 0, sizes, reads.known[1])
    block = reads.numbers(0)[tuple(slice(a, a + n) for a, n in zip(source, sizes, strict=True))]
    return [shared_along(reads.pattern(0), reads.shape(0), moving).take(block.ravel())]


@rule(ops.dynamic_update_slice)
def dynamic_update_slice(reads: Reads) -> Patterns:
    shape, sizes = reads.shape(0), reads.shape(1)
    start, moving = _started(reads, 0, sizes, reads.known[2])
    box = tuple(slice(a, a + n) for a, n in zip(start, sizes, strict=True))
    written = reads.pattern(1).fold(reads.numbers(0)[box].ravel(), math.prod(shape))
    if moving:
        return [union([reads.pattern(0), shared_along(written, shape, moving)])]
    kept = reads.numbers(0).copy()
    kept[box] = -1
    return [union([reads.pattern(0).take(kept.ravel()), written])]


def _started(
    reads: Reads, operand: int, sizes: Sequence[int], starts: Array | None
) -> tuple[list[int], list[int]]:
    """Return where a block starts, and the axes along which it may start anywhere."""
    rooms = [e - n for e, n in zip(reads.shape(operand), sizes, strict=True)]
    if starts is None:
        return [0] * len(rooms), [axis for axis, room in enumerate(rooms) if room]
    return [min(max(int(s), 0), room) for s, room in zip(starts, rooms, strict=True)], []


# Axes that are read whole


@rule(ops.cumsum, OPS["cumprod"], OPS["cummax"], OPS["cummin"])
def running(reads: Reads) -> Patterns:
    """All elements up to each, by doubling."""
    numbers, attrs = reads.numbers(0), reads.node.attrs
    axis = normalize_axis(attrs["axis"], numbers.ndim)
    order = np.flip(numbers, axis) if attrs.get("reverse", False) else numbers
    rows = np.moveaxis(order, axis, -1)
    found = reads.pattern(0).take(rows.ravel())
    if attrs.get("exclusive", False):
        found = _delayed(found, rows.shape, 1)
    distance = 1
    while distance < rows.shape[-1]:
        found = union([found, _delayed(found, rows.shape, distance)])
        distance *= 2
    back = np.empty(numbers.size, np.int64)
    back[rows.ravel()] = np.arange(numbers.size)
    return [found.take(back)]


def _delayed(pattern: Pattern, shape: tuple[int, ...], distance: int) -> Pattern:
    """Return the rows that are `distance` earlier along the last axis; none at its start."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    earlier = np.full(shape, -1)
    earlier[..., distance:] = numbers[..., : max(shape[-1] - distance, 0)]
    return pattern.take(earlier.ravel())


@rule(ops.sort, ops.sorted_values, ops.topk, ops.argsort)
def along_rows(reads: Reads) -> Patterns:
    """Every element of a last-axis row depends on all of the row of operand 0 or of others."""
    return _by_batch(reads, 1)


def by_matrix(reads: Reads) -> Patterns:
    """Every element depends on all of the matrices of the same place in the batch."""
    return _by_batch(reads, 2)


@rule(ops.max_pool, ops.min_pool, ops.sum_pool, ops.max_pool_take, ops.max_pool_backward)
def windowed(reads: Reads) -> Patterns:
    """All of the spatial axes and the inner ones, for every index of those in front."""
    attrs = reads.node.attrs
    return _by_batch(reads, len(attrs["kernel_size"]) + attrs.get("inner", 0))


def _by_batch(reads: Reads, rank: int) -> Patterns:
    """Return dense blocks over the last axes of each operand, for the leading axes they share."""
    batches = {
        reads.shape(place)[: max(len(reads.shape(place)) - rank, 0)] for place in reads.active
    }
    batch = max(batches, key=len)
    results = [result.type.static_shape for result in reads.node.results]
    if len(batches) > 1 or any(shape[: len(batch)] != batch for shape in results):
        return dense(reads)
    count = math.prod(batch)
    parts = []
    for place in reads.active:
        pattern = reads.pattern(place)
        each = pattern.shape[0] // max(count, 1)
        parts.append(pattern.fold(np.repeat(np.arange(count), each), count))
    together = union(parts)
    each_of = (math.prod(shape) // max(count, 1) for shape in results)
    return [together.take(np.repeat(np.arange(count), each)) for each in each_of]


rule(
    ops.solve, ops.triangular_solve, ops.cholesky, ops.lu, ops.qr, ops.eigh, ops.eig, ops.schur,
    ops.svd,
)(by_matrix)  # fmt: skip


# Control flow


@rule(ops.switch)
def switch(reads: Reads) -> Patterns:
    """What any branch depends on; the selector has no derivative."""
    operands = range(1, len(reads.node.operands))
    branches = [through_body(b, reads, operands) for b in reads.node.attrs["branches"]]
    return [union(parts) for parts in zip(*branches, strict=True)]


@rule(ops.scan)
def scan(reads: Reads) -> Patterns:
    """The body's own pattern is found once, and its steps are boolean products with it."""
    attrs = reads.node.attrs
    length, count, body = attrs["length"], attrs["num_carries"], attrs["body"]
    first = count + attrs["num_consts"]
    if not length:
        return [*reads.patterns[:count], *[None] * (len(body.outputs) - count)]
    local = _local(body, reads, range(count, first))
    carried = [reads.pattern(place) for place in range(count)]
    consts = [reads.pattern(place) for place in range(count, first)]
    scanned = [reads.pattern(place) for place in range(first, len(reads.node.operands))]
    every = [p.fold(np.arange(p.shape[0]) % _row(p, length), _row(p, length)) for p in scanned]
    closed = _closed(local[:count], carried, [*consts, *every])
    if closed == carried or length > _LARGEST_UNROLLED:
        given = stack([*closed, *consts, *scanned])
        fixed = sum(p.shape[0] for p in (*closed, *consts))
        rows = [_row(p, length) for p in scanned]
        return [*closed, *(_stacked(part, given, fixed, rows, length) for part in local[count:])]
    stacked: list[Sequence[Pattern]] = []
    for step in reversed(range(length)) if attrs["reverse"] else range(length):
        here = [
            p.take(np.arange(step * n, (step + 1) * n)) for p in scanned for n in [_row(p, length)]
        ]
        given = stack([*carried, *consts, *here])
        found = [part.after(given) for part in local]
        carried = found[:count]
        stacked.append(found[count:])
    order = stacked[::-1] if attrs["reverse"] else stacked
    return [*carried, *(stack(parts) for parts in zip(*order, strict=True))]


def _row(pattern: Pattern, length: int) -> int:
    """Return the number of elements that a step sees of a scanned operand."""
    return pattern.shape[0] // length


def _stacked(
    local: Pattern, given: Pattern, fixed: int, rows: Sequence[int], length: int
) -> Pattern:
    """Return the rows of all steps: the carries and consts are the same for each.

    `given` has the `fixed` elements of those, then the scanned operands, `rows` elements a step.
    """
    starts = [fixed + length * before for before in np.cumsum([0, *rows])[:-1]]
    base = np.concatenate([np.arange(fixed), *map(np.arange, starts, np.add(starts, rows))])
    stride = np.concatenate([np.zeros(fixed, np.int64), *(np.full(n, n) for n in rows)])
    step = np.arange(length)[:, None]
    terms = base[local.indices] + step * stride[local.indices]
    groups = local.rows + step * local.shape[0]
    return given.take(terms.ravel()).fold(groups.ravel(), length * local.shape[0])


@rule(ops.while_loop)
def while_loop(reads: Reads) -> Patterns:
    """The union over any number of steps; the condition has no derivative."""
    count = len(reads.node.operands) - reads.node.attrs["num_consts"]
    everything = [reads.pattern(place) for place in range(len(reads.node.operands))]
    consts = range(count, len(everything))
    local = _local(reads.node.attrs["body"], reads, consts)
    return [*_closed(local, everything[:count], everything[count:]), None]


def _local(body: Graph, reads: Reads, consts: Sequence[int]) -> list[Pattern]:
    """Return what the outputs of a loop's body depend on: elements x elements of its inputs."""
    sizes = [int(value.type.elements) for value in body.inputs]
    starts, total = np.cumsum([0, *sizes]), sum(sizes)
    seeds = {
        value: from_entries(np.arange(size), start + np.arange(size), (size, total))
        for value, size, start in zip(body.inputs, sizes, starts, strict=False)
    }
    arrays = ((body.inputs[place], reads.known[place]) for place in consts)
    known = {value: array for value, array in arrays if array is not None}
    moving = {value: seed for value, seed in seeds.items() if value not in known}
    return propagate(body, moving, total, known)


def _closed(
    local: Sequence[Pattern], carried: Sequence[Pattern], others: Sequence[Pattern]
) -> list[Pattern]:
    """Return the carries after any number of steps: the fixed point of their unions."""
    before = list(carried)
    while before:
        given = stack([*before, *others])
        after = [union([b, part.after(given)]) for b, part in zip(before, local, strict=True)]
        if after == before:
            break
        before = after
    return before
