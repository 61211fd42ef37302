"""Pooling: windows folded first across rows, then along them.

A fold over a window is a fold over its axes, one after another. The rows that a line of
windows reads are folded into one local row, contiguous and as wide as its windows span,
with the fold's start where there is padding; then each window folds its part of that row.
So an element is read `size / stride` times per outer axis, and nothing is guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.accumulators import accumulators, assign, loaded, local_state, stored
from rlx.codegen.kernels.affine import Groups
from rlx.codegen.kernels.contraction.borders import taps_inside
from rlx.codegen.kernels.folds import (
    Fold,
    State,
    across_columns,
    max_fold,
    min_fold,
    prod_fold,
    sum_fold,
)
from rlx.codegen.kernels.parallel import LOOP_NAMES, rows
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.shape import coordinates
from rlx.codegen.kernels.transposes import every_second
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, maximum, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.ir.ops.pool_geometry import WindowAxis, window_axes
from rlx.ir.shape import Extent, Shape, product, upper

LOCAL_ELEMENTS = 4096
"""Elements of a local row: 16 KiB of f32, half of a first cache."""

MOST_COLUMNS = 256
"""Inner elements worked on together."""

_APART, _FEWEST_LANES = 2, 4
"""Windows so far apart are folded in explicit vectors, if these are no shorter."""

WRITTEN_OUT = 16
"""Taps along a row that are written out; more are a loop."""

POOLS: dict[str, Callable[[DType], Fold]] = {
    "max_pool": max_fold,
    "min_pool": min_fold,
    "sum_pool": sum_fold,
    "prod_pool": prod_fold,
}


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one operand, and their division into blocks."""

    shape: Shape
    axes: tuple[WindowAxis, ...]
    inner: int
    columns: int
    """Inner elements worked on together."""
    width: int
    """Windows along the last spatial axis worked on together."""

    @property
    def last(self) -> WindowAxis:
        return self.axes[-1]

    @property
    def outer(self) -> tuple[WindowAxis, ...]:
        return self.axes[:-1]

    @property
    def leading(self) -> Extent:
        return product(self.shape[: self._first])

    @property
    def groups(self) -> Groups:
        """The outer axes, each spatial axis, and the inner axes."""
        every = tuple(range(len(self.shape)))
        end = len(self.shape) - self.inner
        return every[: self._first], *((axis,) for axis in every[self._first : end]), every[end:]

    def at(self, position: E, column: E) -> tuple[E, ...]:
        """Return the indices of an element of a row; without inner axes there are no columns."""
        return (position, column) if self.inner else (position,)

    @property
    def inner_elements(self) -> Extent:
        return product(self.shape[len(self.shape) - self.inner :])

    @property
    def _first(self) -> int:
        return len(self.shape) - self.inner - len(self.axes)


@dataclass(frozen=True, slots=True)
class Block:
    """Windows `first` to `first + width` of a row, and inner elements from `column` on."""

    first: E
    width: E
    column: E
    columns: E


def windows_of(shape: Shape, *, inner: int, **geometry: Any) -> Windows:
    """Return the windows of an operand, in blocks whose local row is small enough."""
    axes = window_axes(shape, inner=inner, **geometry)
    last = axes[-1]
    columns = max(1, min(upper(product(shape[len(shape) - inner :])), MOST_COLUMNS))
    while columns > 1 and last.dilated_size * columns > LOCAL_ELEMENTS:
        columns = (columns + 1) // 2
    fitting = (LOCAL_ELEMENTS // columns - last.dilated_size) // last.stride + 1
    return Windows(shape, axes, inner, columns, max(1, min(fitting, upper(last.count))))


@kernel(*POOLS)
def pool(scope: Scope, x: Reader, y: Writer, **geometry: Any) -> None:
    """Fold every window, by the fold of the anchor's name."""
    anchor = scope.body.anchor
    assert anchor is not None  # this builder runs for an anchor
    fold = across_columns(POOLS[anchor.op.name](x.dtype))
    windows = windows_of(x.shape, **geometry)
    groups = windows.groups if windows.inner else windows.groups[:-1]  # rows in vectors
    source, target = x.grouped(groups), y.grouped(groups)
    lines = (windows.leading, *(axis.count for axis in windows.outer))
    with rows(scope.k, "row", scope.extents(product(lines)), x.type.elements) as row:
        leading, *place = coordinates(scope, row, lines)
        image, line = source.at(leading), target.at(leading, *place)
        with blocks(scope, windows) as block:
            _Line(scope, windows, image, place, block, fold, line).compute()


@dataclass(frozen=True, slots=True)
class _Line:
    """A block of windows along the last spatial axis, and how they are folded."""

    scope: Scope
    windows: Windows
    image: GroupedReader
    place: Sequence[E]
    """Which windows along the outer axes."""
    block: Block
    fold: Fold
    target: GroupedWriter

    @property
    def k(self) -> KernelBuilder:
        return self.scope.k

    def compute(self) -> None:
        if self.windows.last.dilated_size > LOCAL_ELEMENTS:
            self._fold_long()
        else:
            self._fold_rows()

    def _write(self, at: E, column: E, state: State) -> None:
        value, place = self.fold.finish(state, at), self.block.first + at
        if isinstance(value, E) and value.type.lanes > 1:
            self.target.write_vector(place, value=value)
        else:
            self.target.write(*self.windows.at(place, self.block.column + column), value=value)

    def _fold_rows(self) -> None:
        """Fold rows into a local one, then windows of it."""
        k, scope, windows, block, fold = self.k, self.scope, self.windows, self.block, self.fold
        last = windows.last
        span = k.let("span", (block.width - 1) * last.stride + last.dilated_size)
        state = local_state(
            k, fold, ((windows.width - 1) * last.stride + last.dilated_size) * windows.columns
        )
        base = k.let("base", block.first * last.stride - last.low)
        with lanes(scope, windows, block, scope.extents(0), span) as (i, c):
            stored(k, fold, state, i * windows.columns + c, fold.start)
        start, stop = _inside(scope, last, base, span)
        done = self._fold_in_registers(base, (start, stop), state)
        with outer_taps(scope, windows, self.place) as (positions, _):
            line = self.image.at(*positions)
            with lanes(scope, windows, block, done, stop) as (i, c):
                at = k.let("at", i * windows.columns + c)
                value = line.read(*windows.at(base + i, block.column + c))
                stored(k, fold, state, at, fold.take(loaded(k, state, at), value))
        paired = self._fold_pairs(state)
        with lanes(scope, windows, block, paired, block.width) as (i, c):
            self._write(i, c, self._fold_taps(state, i * last.stride, c))

    def _fold_in_registers(self, base: E, span: tuple[E, E], state: Sequence[Buffer]) -> E:
        """Fold vectors of the rows while they are in registers; return where the whole ones end."""
        k, windows, fold, (start, stop) = self.k, self.windows, self.fold, span
        count = self.scope.lanes(state[0].prim)
        wide = upper(windows.last.extent) >= count >= _FEWEST_LANES
        if windows.columns > 1 or len(state) > 1 or windows.inner or not wide:
            return start
        whole = k.let("whole", start + maximum(stop - start, 0) / count * count)
        with k.loop("i", whole, start=start, step=count) as i:
            running = accumulators(k, fold, count)
            with outer_taps(self.scope, windows, self.place) as (positions, _):
                read = self.image.at(*positions).read_vector(base + i, lanes=count)
                value = k.let("value", read)
                assign(k, fold, running, fold.take(tuple(running), value))
            k.store(state[0], i, running[0])
        return whole

    def _fold_pairs(self, state: Sequence[Buffer]) -> E:
        """Fold windows that are two elements apart, a vector of them at a time; return how many.

        Every second element of two vectors is one shuffle: no compiler finds it in loads two apart.
        """
        k, fold, last, (line, *rest) = self.k, self.fold, self.windows.last, state
        count = self.scope.lanes(line.prim)
        few = last.size > WRITTEN_OUT or upper(last.count) < count or count < _FEWEST_LANES
        if few or rest or self.windows.columns > 1 or last.stride != _APART:
            return self.scope.extents(0)
        whole = k.let("whole", self.block.width / count * count)
        with k.loop("i", whole, step=count) as i:
            total: State = ()
            for tap in range(last.size):
                at = i * _APART + tap * last.dilation
                low, high = k.load(line, at, count), k.load(line, at + (count - 1), count)
                found = (k.let("elements", every_second(low, high)),)
                total = fold.join(total, found) if total else found
                total = (k.let(fold.names[0], total[0]),)
            self._write(i, self.scope.extents(0), total)
        return whole

    def _fold_taps(self, state: Sequence[Buffer], first: E, column: E) -> State:
        """Fold the taps of one window of the local row."""
        k, fold, last, columns = self.k, self.fold, self.windows.last, self.windows.columns
        if last.size <= WRITTEN_OUT:
            total = loaded(k, state, first * columns + column)
            for number in range(1, last.size):
                at = (first + number * last.dilation) * columns + column
                pairs = zip(fold.names, total, strict=True)
                total = tuple(k.let(name, part) for name, part in pairs)
                total = fold.join(total, loaded(k, state, at))
            return total
        running = accumulators(k, fold)
        with k.loop("tap", last.size) as tap:
            at = (first + tap * last.dilation) * columns + column
            assign(k, fold, running, fold.join(tuple(running), loaded(k, state, at)))
        return tuple(running)

    def _fold_long(self) -> None:
        """Fold windows too long for a local row, each by itself."""
        k, scope, windows, block, fold = self.k, self.scope, self.windows, self.block, self.fold
        with k.loop("i", block.width) as i, k.loop("c", block.columns) as c:
            running = accumulators(k, fold)
            with outer_taps(scope, windows, self.place) as (positions, _):
                line = self.image.at(*positions)
                with tap_loop(scope, "tap", windows.last, block.first + i) as (position, _):
                    value = line.read(*windows.at(position, block.column + c))
                    assign(k, fold, running, fold.take(tuple(running), value))
            self._write(i, c, tuple(running))


@contextmanager
def blocks(scope: Scope, windows: Windows) -> Iterator[Block]:
    """Loop over the blocks of a line of windows."""
    k, extents = scope.k, scope.extents
    count, inner = extents(windows.last.count), extents(windows.inner_elements)
    with (
        k.loop("first", count, step=windows.width) as first,
        k.loop("column", inner, step=windows.columns) as column,
    ):
        yield Block(
            first,
            k.let("width", _rest(scope, windows.last.count, first, windows.width)),
            column,
            k.let("columns", _rest(scope, windows.inner_elements, column, windows.columns)),
        )


def _rest(scope: Scope, extent: Extent, at: E, step: int) -> E:
    if isinstance(extent, int) and extent % step == 0:
        return scope.extents(step)
    return minimum(scope.extents(extent) - at, step)


@contextmanager
def lanes(scope: Scope, windows: Windows, block: Block, start: E, stop: E) -> Iterator[tuple[E, E]]:
    """Loop over positions along the last axis and the columns inside, the fastest in lanes."""
    k = scope.k
    if windows.columns == 1:
        with k.loop("i", stop, start=start, kind=LoopKind.SIMD) as i:
            yield i, scope.extents(0)
        return
    with (
        k.loop("i", stop, start=start) as i,
        k.loop("c", block.columns, kind=LoopKind.SIMD) as c,
    ):
        yield i, c


@contextmanager
def outer_taps(scope: Scope, windows: Windows, place: Sequence[E]) -> Iterator[tuple[list[E], E]]:
    """Loop over the rows of the windows at `place`: their positions, and their number."""
    with ExitStack() as stack:
        positions, number = [], scope.extents(0)
        for name, axis, window in zip(LOOP_NAMES, windows.outer, place, strict=False):
            position, tap = stack.enter_context(tap_loop(scope, name, axis, window))
            positions.append(position)
            number = number * axis.size + tap
        yield positions, number


@contextmanager
def tap_loop(scope: Scope, name: str, axis: WindowAxis, window: E) -> Iterator[tuple[E, E]]:
    """Loop over the taps of one window that are inside: position and tap."""
    k, extent = scope.k, scope.extents(axis.extent)
    start, stop = scope.extents(0), scope.extents(axis.size)
    if not axis.is_inside:
        seen = k.let("seen", window * axis.stride - axis.low)
        start, stop = taps_inside(k, seen, axis.dilation, extent, axis.size)
    with k.loop(name, stop, start=start) as tap:
        at = window * axis.stride + tap * axis.dilation - axis.low
        yield k.let(f"{name}_at", at), tap


def _inside(scope: Scope, last: WindowAxis, base: E, span: E) -> tuple[E, E]:
    """Return which part of the local row, which begins at position `base`, is no padding."""
    if last.is_inside:
        return scope.extents(0), span
    start = scope.k.let("inside", minimum(maximum(base * -1, 0), span))
    end = minimum(scope.extents(last.extent) - base, span)
    return start, scope.k.let("end", maximum(end, start))
