"""The plain convolution, for any dtype and geometry, and for sizes too small to pack.

A row of the result at a time, in local sums; every tap adds its products along the row:

    for channels, for taps a of the outer axes, for taps b of the last axis:
        for every column j whose window holds an element there:
            sums[j] += w[..., a, b] * x[..., j * stride + b * dilation - low]

Which columns those are is computed once per tap, so that the row itself has no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim, real
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, index, maximum, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.declaration import takes
from rlx.ir.ops.conv_geometry import ConvAttributes, Sliding
from rlx.ir.shape import Extent, product, upper

_COLUMNS = 256
"""Columns of a block: their sums stay in the first-level cache."""

_OUTER = ("layer", "row")
"""Indices along the outer axes of the result; one axis has neither."""


@kernel("conv", "conv_codes")
@takes(ConvAttributes)
def conv(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
) -> None:
    k, rank = scope.k, len(x.shape)
    sliding = window.sliding(len(x.shape))
    each = tuple((axis,) for axis in range(rank))
    target = out.grouped(((0, 1), *each[2:]))
    channels, groups = scope.extents(out.shape[1]), window.groups
    kind = product_loop(product((*out.shape, *w.shape[1:])))
    with ExitStack() as loops:
        plane = loops.enter_context(k.loop("plane", target.extent(0), kind=kind))
        image = k.let("image", plane / channels)
        channel = k.let("channel", plane % channels)
        rows = _Rows(
            k,
            x.grouped(each).at(image),
            w.grouped(each).at(channel),
            target.at(plane),
            tuple(scope.extents(extent) for extent in x.shape[2:]),
            sliding,
            k.let("first_channel", _first_channel(channel, channels, groups, w.shape[1], scope)),
            compute_prim(out.dtype),
        )
        rows.compute(out.shape[-1])


def _first_channel(channel: E, channels: E, groups: int, inner: Extent, scope: Scope) -> E:
    """Return the first input channel that an output channel sees."""
    if groups == 1:
        return index(0)
    return channel / (channels / groups) * scope.extents(inner)


@dataclass(frozen=True, slots=True)
class _Rows:
    """All rows of one plane of the result: one image's output channel."""

    k: KernelBuilder
    x: GroupedReader
    w: GroupedReader
    target: GroupedWriter
    extents: Sequence[E]
    """The spatial extents of the input."""
    sliding: Sequence[Sliding]
    first_channel: E
    prim: Prim
    """The type of the sums, to which elements are widened."""

    def compute(self, columns: Extent) -> None:
        """Go over the rows, and over blocks of their columns."""
        k, outer = self.k, len(self.sliding) - 1
        width = max(1, min(_COLUMNS, upper(columns)))
        with ExitStack() as loops:
            place = [
                loops.enter_context(k.loop(name, self.target.extent(axis)))
                for axis, name in enumerate(_OUTER[2 - outer :])
            ]
            last = self.target.extent(outer)
            first = loops.enter_context(k.loop("first", last, step=width))
            end = k.let("end", minimum(first + width, last))
            sums = k.local("sums", self.prim, width)
            with k.loop("j", end - first, kind=LoopKind.SIMD) as j:
                k.store(sums, j, 0)
            self._channels(place, lambda c, seen, taps: self._row(sums, first, end, c, seen, taps))
            with k.loop("j", end - first, kind=LoopKind.SIMD) as j:
                self.target.write(*place, first + j, value=k.load(sums, j))

    def _channels(self, place: Sequence[E], add: Callable[[E, list[E], list[E]], None]) -> None:
        """Go over input channels and the taps of outer axes that meet an element."""
        with self.k.loop("c", self.w.extent(0)) as c:
            self._taps(place, c, [], [], add)

    def _taps(
        self,
        place: Sequence[E],
        c: E,
        seen: list[E],
        taps: list[E],
        add: Callable[[E, list[E], list[E]], None],
    ) -> None:
        axis = len(taps)
        if axis == len(place):
            add(c, seen, taps)
            return
        k, sliding = self.k, self.sliding[axis]
        with k.loop("a", self.w.extent(1 + axis)) as tap:
            at = k.let("at", place[axis] * sliding.stride + tap * sliding.dilation - sliding.low)
            step = sliding.input_dilation
            inside = (at >= 0) & (at < self.extents[axis] * step)
            if step > 1:
                inside = inside & (at % step).eq(0)
            with k.if_(inside):
                self._taps(place, c, [*seen, at / step], [*taps, tap], add)

    def _row(
        self, sums: Buffer, first: E, end: E, c: E, seen: Sequence[E], taps: Sequence[E]
    ) -> None:
        """Add what the taps of the last axis give to a block of columns."""
        k, axis = self.k, len(taps)
        with k.loop("b", self.w.extent(1 + axis)) as b:
            factor = k.let("factor", real(self.w.read(c, *taps, b)).cast(self.prim))
            steps = _Columns(k, self.sliding[axis], b, first, end, self.extents[axis])

            def add(column: E, at: E) -> None:
                element = self.x.read_real(self.first_channel + c, *seen, at).cast(self.prim)
                here = column - first
                k.store(sums, here, k.load(sums, here) + factor * element)

            steps.each(add)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a block whose window has an element under one tap of the last axis."""

    k: KernelBuilder
    sliding: Sliding
    tap: E
    first: E
    end: E
    extent: E

    def each(self, add: Callable[[E, E], None]) -> None:
        """Call `add` in loops over pairs of a column and the element that it meets."""
        if self.sliding.input_dilation == 1:
            self._by_column(add)
        elif self.sliding.stride == 1:
            self._by_element(add)
        else:
            self._tested(add)

    def _by_column(self, add: Callable[[E, E], None]) -> None:
        """Element `j * stride + offset` for each column `j` where there is one."""
        k, stride = self.k, self.sliding.stride
        back = k.let("back", self.sliding.low - self.tap * self.sliding.dilation)
        start = maximum(self.first, _ceiling(back, stride))
        stop = minimum(self.end, _ceiling(self.extent + back, stride))
        start, stop = k.let("start", start), k.let("stop", stop)
        with k.loop("j", stop, start=start, kind=LoopKind.SIMD) as j:
            add(j, j * stride - back)

    def _by_element(self, add: Callable[[E, E], None]) -> None:
        """Column `i * input_dilation + offset` for each element `i` that a column meets."""
        k, step = self.k, self.sliding.input_dilation
        back = k.let("back", self.sliding.low - self.tap * self.sliding.dilation)
        start = k.let("start", _ceiling(self.first - back, step))
        stop = k.let("stop", minimum(self.extent, _ceiling(self.end - back, step)))
        with k.loop("i", stop, start=start, kind=LoopKind.SIMD) as i:
            add(i * step + back, i)

    def _tested(self, add: Callable[[E, E], None]) -> None:
        """Columns and elements both move in steps: ask for each column."""
        k, step = self.k, self.sliding.input_dilation
        back = k.let("back", self.sliding.low - self.tap * self.sliding.dilation)
        with k.loop("j", self.end, start=self.first) as j:
            at = k.let("at", j * self.sliding.stride - back)
            inside = (at >= 0) & (at < self.extent * step) & (at % step).eq(0)
            with k.if_(inside):
                add(j, at / step)


def _ceiling(numerator: E, divisor: int) -> E:
    """Return the quotient rounded up, or 0 for what is negative: division rounds towards 0."""
    return (maximum(numerator, 0) + (divisor - 1)) / divisor
