"""Loops that fold: a row by vector accumulators, a block of columns by one element for each.

Long sums are taken in chunks whose partial results are added, so that the rounding error grows
with the chunk and not with the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rlx.codegen.kernels.access import Reads
from rlx.codegen.kernels.accumulators import (
    accumulators,
    assign,
    carried,
    declared,
    fill,
    loaded,
    local_state,
    loop_kind,
    settled,
    stored,
)
from rlx.codegen.kernels.affine import sum_of
from rlx.codegen.kernels.folds import Element, FoldOf, State
from rlx.codegen.kernels.parallel import LOOP_NAMES
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.kernels.slices import Columns
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.ir.dtype import DType
from rlx.ir.shape import Extent, product, upper

ROW_CHUNK = 4096
"""Elements of a contiguous row folded into one set of accumulators."""

COLUMN_CHUNK = 512
"""Steps along a strided axis folded into one set of accumulators."""

ROWS_AT_ONCE = 8
"""Steps along a strided axis taken per pass over the accumulators, which are memory."""

STREAMS = 4
"""Independent accumulators of a long row: an addition takes four cycles, one starts in each."""


STREAMED = 256
"""Row length from which several streams pay."""


def fold_row(
    scope: Scope,
    x: Reads[Element],
    fold: FoldOf[Element],
    *,
    streams: int = 1,
) -> State:
    """Fold everything that `x` still iterates over; its last group is contiguous."""
    groups = len(x.grid.groups) - len(x.fixed)
    with ExitStack() as stack:
        length = x.extent_of(groups - 1)
        chunked = groups > 1 or (upper(length) > ROW_CHUNK and fold.is_rounded_sum)
        if not chunked and not x.is_split:
            return _fold_run(scope, x, fold, (scope.extents(0), x.extent(0)), streams)
        total = accumulators(scope.k, fold)
        for number in range(groups - 1):
            index = stack.enter_context(scope.k.loop(LOOP_NAMES[number], x.extent(0)))
            x = x.at(index)
        segments = x.segments()
        if len(segments) > 1:
            for start, stop, segment in segments:
                with _pieces(scope, (start, stop), length) as bounds:
                    part = _fold_run(scope, segment, fold, bounds, 1)
                    assign(scope.k, fold, total, fold.join(tuple(total), part))
            return tuple(total)
        bounds = stack.enter_context(chunks(scope, length, ROW_CHUNK))
        part = _fold_run(scope, x, fold, bounds, streams)
        assign(scope.k, fold, total, fold.join(tuple(total), part))
    return tuple(total)


def _fold_run(
    scope: Scope,
    x: Reads[Element],
    fold: FoldOf[Element],
    bounds: tuple[E, E],
    streams: int,
) -> State:
    if scope.target.has_vectors and _suits_vectors(x, fold):
        return _fold_vectors(scope, x, fold, bounds)
    k = scope.k
    start, stop = bounds
    states = [accumulators(k, fold) for _ in range(streams)]
    width = (stop - start) / streams
    with k.loop("i", width, kind=loop_kind(fold), accumulators=declared(fold, states)) as i:
        for number, state in enumerate(states):
            at = sum_of(start, i, width * number)
            assign(k, fold, state, fold.take(tuple(state), fold.settle(k, x.read(at))))
    folded: list[State] = [tuple(state) for state in states]
    while len(folded) > 1:
        folded = [fold.join(a, b) for a, b in zip(folded[::2], folded[1::2], strict=True)]
    return folded[0]


def _suits_vectors(x: Reads[Element], fold: FoldOf[Element]) -> bool:
    """True for long runs of floats that vectors give as they are, folded in any order."""
    length, dtypes = x.extent_of(0), x.dtypes
    plain = x.has_vectors and dtypes in ({DType.F32}, {DType.F64})
    return plain and fold.free_order is not None and isinstance(length, int) and length >= STREAMED


def _fold_vectors(
    scope: Scope,
    x: Reads[Element],
    fold: FoldOf[Element],
    bounds: tuple[E, E],
) -> State:
    """Fold a run by several vectors of accumulators, then these, then what is left over."""
    k = scope.k
    start, stop = bounds
    (dtype,) = x.dtypes
    lanes = scope.lanes(compute_prim(dtype))
    step = lanes * STREAMS
    states = [accumulators(k, fold, lanes) for _ in range(STREAMS)]
    whole = k.let("whole", start + (stop - start) / step * step)
    with k.loop("i", whole, start=start, step=step) as i:
        for number, state in enumerate(states):
            element = x.read_vector(i + number * lanes, lanes=lanes)
            assign(k, fold, state, fold.take(tuple(state), fold.settle(k, element)))
    partial: list[State] = [tuple(state) for state in states]
    while len(partial) > 1:
        partial = [fold.join(a, b) for a, b in zip(partial[::2], partial[1::2], strict=True)]
    length = x.extent_of(0)
    assert isinstance(length, int), "only static lengths come here"
    if length % step == 0:
        return _fold_lanes(k, fold, partial[0])  # so are chunks
    assign(k, fold, states[0], partial[0])
    vectors = k.let("vectors", start + (stop - start) / lanes * lanes)
    with k.loop("i", vectors, start=whole, step=lanes) as i:
        element = x.read_vector(i, lanes=lanes)
        assign(k, fold, states[0], fold.take(tuple(states[0]), fold.settle(k, element)))
    rest = accumulators(k, fold)
    assign(k, fold, rest, _fold_lanes(k, fold, tuple(states[0])))
    with k.loop("i", stop, start=vectors) as i:
        element = x.read(i)
        assign(k, fold, rest, fold.take(tuple(rest), fold.settle(k, element)))
    return tuple(rest)


def _fold_lanes(k: KernelBuilder, fold: FoldOf[Element], state: State) -> State:
    named_parts = zip(fold.names, state, fold.free_order or (), strict=True)
    return tuple(k.let(name, vector.fold(op)) for name, vector, op in named_parts)


def streams_for(x: Reads[Element], fold: FoldOf[Element]) -> int:
    """Several streams hide how long an addition takes, of elements that cost little but a load."""
    length = x.extent_of(len(x.grid.groups) - len(x.fixed) - 1)
    known = isinstance(length, int) and length >= STREAMED and length % STREAMS == 0
    plain = x.is_cheap and len(x.roots()) == 1
    return STREAMS if known and plain and fold.free_order is not None else 1


def fold_columns(
    scope: Scope,
    x: Reads[Element],
    fold: FoldOf[Element],
    state: Sequence[Buffer],
    columns: Columns,
) -> None:
    """Fold all groups of `x` but the last into `state`, one element per column."""
    k = scope.k
    runs = len(x.grid.groups) - len(x.fixed) - 1
    lengths = [x.extent_of(run) for run in range(runs)]
    chunked = upper(product(lengths)) > 2 * COLUMN_CHUNK and fold.is_rounded_sum
    part = local_state(k, fold, state[0].extent or 1, "part_") if chunked else state
    with ExitStack() as stack:
        for number in range(runs - 1):
            x = x.at(stack.enter_context(k.loop(LOOP_NAMES[number], x.extent(0))))
        start, stop = scope.extents(0), x.extent(0)
        if chunked:
            start, stop = stack.enter_context(chunks(scope, lengths[-1], COLUMN_CHUNK))
            fill(k, fold, part, columns.width)
        for first, last, height in _passes(k, x, start, stop):
            with k.loop("r", last, start=first, step=height) as r:
                lines = [x.at(r + number) for number in range(height)]
                with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                    taken = loaded(k, part, j)
                    for number, line in enumerate(lines):
                        taken = (carried if number else settled)(k, fold, taken)
                        value = line.read(columns.start + j)
                        taken = fold.take(taken, fold.settle(k, value))
                    stored(k, fold, part, j, taken)
        if chunked:
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                stored(k, fold, state, j, fold.join(loaded(k, state, j), loaded(k, part, j)))


def _passes(k: KernelBuilder, x: Reads[Element], start: E, stop: E) -> Iterator[tuple[E, E, int]]:
    """Split a range of lines into passes over several at once, then over single ones.

    What is computed on the way is written out several times, and must be cheap.
    """
    length = x.extent_of(0)
    if not x.is_cheap or upper(length) < ROWS_AT_ONCE:
        yield start, stop, 1
        return
    if isinstance(length, int) and length % ROWS_AT_ONCE == 0:
        yield start, stop, ROWS_AT_ONCE  # so are chunks
        return
    whole = k.let("whole", start + (stop - start) / ROWS_AT_ONCE * ROWS_AT_ONCE)
    yield start, whole, ROWS_AT_ONCE
    yield whole, stop, 1


@contextmanager
def chunks(scope: Scope, length: Extent, size: int) -> Iterator[tuple[E, E]]:
    """Open a loop over chunks of a run; a short run is its own chunk."""
    whole = scope.extents(length)
    if upper(length) <= size:
        yield scope.extents(0), whole
        return
    with scope.k.loop("chunk", whole, step=size) as start:
        if isinstance(length, int) and length % size == 0:
            yield start, start + size
        else:
            yield start, scope.k.let("stop", minimum(start + size, whole))


@contextmanager
def _pieces(scope: Scope, segment: tuple[E, E], length: Extent) -> Iterator[tuple[E, E]]:
    """Open a loop over chunks of one segment of a run of `length`."""
    if upper(length) <= ROW_CHUNK:
        yield segment
        return
    with scope.k.loop("chunk", segment[1], start=segment[0], step=ROW_CHUNK) as start:
        yield start, scope.k.let("stop", minimum(start + ROW_CHUNK, segment[1]))
