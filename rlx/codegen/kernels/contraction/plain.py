"""The loops of a contraction without tiles: for any dtype, any window, and sizes too small to pack.

    for the outer axes of the result:              shared by threads, but for those of windows
        for blocks of columns, along the last axis:
            sums[:] = 0
            for folded axes:  for columns j:  sums[j] += x[...] * w[...]
            store

What is read where follows from the contraction's map. An operand that is the same along the last
axis is read once for all columns. Where a window reaches outside of the first operand, taps of
outer axes are skipped, and the columns for which a tap of the last axis has an element are computed
once per tap: the inner loop has no condition. Of an axis whose range is given at run time, such as
the rows of a group, only that range is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.affine import sum_of
from rlx.codegen.kernels.contraction.addresses import map_of
from rlx.codegen.kernels.contraction.clipping import Clip, each_column, is_element
from rlx.codegen.kernels.contraction.spans import Range, is_long_sum, items, summed_apart
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.register_tile import multiply_add
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import Complex, Scalar, compute_prim
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.complex_scalar import multiply
from rlx.codegen.loops.expr import E, const, index, minimum
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.fold_maps import FoldMap
from rlx.ir.index_maps import Index, Interval, Position, reach, whole
from rlx.ir.shape import Shape, product, upper

Point: TypeAlias = Mapping[int, E]
"""The index along each axis of the map whose loop is open."""

Ranges: TypeAlias = Mapping[int, Callable[[Point], Range]]
"""Axes of the map that are computed in part: where that starts and stops, inside of outer loops."""

Elements: TypeAlias = Mapping[int, E]
"""Along some axes of the first operand, which element a window has there."""

_COLUMNS = 256
"""Columns of a convolution's block: their sums stay in the first-level cache."""
_FOLDED = ("c", "a", "b", "d")
_PARTS = ("sums", "imaginary")


@kernel("conv", "stored_conv")
def convolve(scope: Scope, x: Reader, w: Reader, out: Writer, **_: object) -> None:
    contract(scope, x, w, out, width=min(_COLUMNS, upper(out.shape[-1])))


def contract(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    *,
    width: int,
    kind: LoopKind = LoopKind.SIMD,
    dots: bool = False,
    found: FoldMap | None = None,
    ranges: Ranges | None = None,
) -> None:
    """Sum products as a map says, or else the anchor's, for `width` columns at a time.

    Blocks of `UNROLL` loops must divide the columns. With `dots` each result is computed alone, and
    the last folded axis is the innermost loop, in vectors.
    """
    found, ranges = found or map_of(scope), ranges or {}
    work = _Loops(scope, found, x, w, compute_prim(out.dtype), width, kind, ranges)
    whole = (axis for axis in range(work.column) if axis not in ranges)
    outer = [axis for axis in whole if not work.is_clipped(axis)]
    names = {0: "group"} if found.is_grouped else {}
    number = scope.extents.number
    counts = [(names.get(axis, f"i{axis}"), number(work.shape[axis])) for axis in outer]
    with items(scope.k, counts, product_loop(product(work.shape[found.is_grouped :]))) as numbers:
        point = dict(zip(outer, numbers.values(), strict=True))
        access = _Access(
            _bound(scope, x, found.positions[0], point),
            _bound(scope, w, found.positions[1], point),
            _target(scope, out, found, point),
        )
        work.compute(access, point, dots=dots)


def _bound(scope: Scope, reader: Reader, position: Position, point: Point) -> GroupedReader:
    """Return a reader that is bound along the leading axes whose index is known."""
    bound = reader.grouped(tuple((axis,) for axis in range(len(reader.shape))))
    for where in position:
        if not _is_known(where, point):
            break
        bound = bound.at(scope.k.let("at", _value(scope, where, point)))
    return bound


def _target(scope: Scope, out: Writer, found: FoldMap, point: Point) -> GroupedWriter:
    """Return the writer, bound along the leading axes whose index is known."""
    target = out.grouped(tuple((axis,) for axis in range(len(out.shape))))
    for where in found.result:
        if not _is_known(where, point):
            break
        target = target.at(_value(scope, where, point))
    return target


def _is_known(where: Index, point: Point) -> bool:
    return not where.varies([axis for axis in range(len(where.coefficients)) if axis not in point])


def _value(scope: Scope, where: Index, point: Point) -> E:
    """Return an index over the axes of `point`; others count as 0."""
    total = index(0)
    for axis, coefficient in enumerate(where.coefficients):
        if coefficient != 0 and axis in point:
            total = total + point[axis] * scope.extents.number(coefficient)
    return sum_of(total, scope.extents(where.constant))


@dataclass(frozen=True, slots=True)
class _Access:
    """Readers and writer of a kernel, bound to the outer axes."""

    x: GroupedReader
    w: GroupedReader
    out: GroupedWriter


@dataclass(frozen=True, slots=True)
class _Loops:
    scope: Scope
    map: FoldMap
    x: Reader
    w: Reader
    prim: Prim
    width: int
    kind: LoopKind
    ranges: Ranges

    @property
    def k(self) -> KernelBuilder:
        return self.scope.k

    @property
    def shape(self) -> Shape:
        return (*self.map.outer, *self.map.folded)

    @property
    def column(self) -> int:
        """The axis of columns: the result's last."""
        return self.map.kept - 1

    def is_clipped(self, axis: int) -> bool:
        """True if a window that moves along `axis` may reach outside of the first operand."""
        return any(where.varies((axis,)) for where, _, _ in self._windows)

    @property
    def _windows(self) -> list[tuple[Index, int, int]]:
        """Return the indices into the first operand that may be outside, with axis and spacing."""
        found = []
        for axis, where in enumerate(self.map.positions[0]):
            spacing = self.map.spacing[axis] if self.map.spacing else 1
            extent, covered = self.x.shape[axis], reach(where, whole(self.shape))
            inside = covered is not None and Interval(0, extent).holds(covered)
            if self.map.spacing and not (inside and spacing == 1):
                found.append((where, axis, spacing))
        return found

    # The loops

    def compute(self, access: _Access, point: Point, *, dots: bool) -> None:
        """Build the loops over what is left of the outer axes, and over columns."""
        axis = next((axis for axis in range(self.column) if axis not in point), None)
        if axis is not None:
            start, stop = self._range(axis, point)
            with self.k.loop("row", stop, start=start) as at:
                self.compute(access, {**point, axis: at}, dots=dots)
        elif dots:
            self._dots(access, point)
        else:
            self._blocks(access, point)

    def _blocks(self, access: _Access, point: Point) -> None:
        """Add up a block of columns at a time, in local sums."""
        k, columns = self.k, self.scope.extents(self.shape[self.column])
        unrolled, complex_ = self.kind is LoopKind.UNROLL, self.x.dtype.is_complex
        with k.loop("first", columns, step=self.width) as first:
            rest = minimum(columns - first, self.width)
            count = index(self.width) if unrolled else k.let("count", rest)
            sums = [k.local(name, self.prim, self.width) for name in _PARTS[: 1 + complex_]]
            self._each_sum(sums, count, lambda _, __: 0)

            def add(inner: Point, elements: Elements) -> None:
                self._add(access, inner, elements, sums, (first, count))

            if self._sums_apart:
                sums = self._add_parts(sums, count, point, add)
            else:
                self._fold(point, {}, len(self.shape), add)
            with k.loop("j", count, kind=self.kind) as j:
                at = {**point, self.column: first + j}
                self._write(access, at, [k.load(part, j) for part in sums])

    @property
    def _sums_apart(self) -> bool:
        """True if the folded axes are long, so that parts of them are summed apart."""
        return is_long_sum(self.prim, self.map.folded)

    def _add_parts(
        self,
        sums: Sequence[Buffer],
        count: E,
        point: Point,
        add: Callable[[Point, Elements], None],
    ) -> list[Buffer]:
        """Return the sums of those of parts of the folded axes."""
        totals = [self.k.local("total", self.prim, self.width) for _ in sums]
        self._each_sum(totals, count, lambda _, __: 0)
        axes = range(self.map.kept, len(self.shape))
        whole = [self._range(axis, point) for axis in axes]
        named = [(self._name(axis), self.shape[axis]) for axis in axes]
        with summed_apart(self.k, whole, named) as parts:
            found = {axis: _always(part) for axis, part in zip(axes, parts, strict=True)}
            loops = replace(self, ranges={**self.ranges, **found})
            loops._fold(point, {}, len(self.shape), add)
            both = dict(zip(totals, sums, strict=True))
            load = self.k.load
            self._each_sum(totals, count, lambda total, j: load(total, j) + load(both[total], j))
            self._each_sum(sums, count, lambda _, __: 0)
        return totals

    def _name(self, axis: int) -> str:
        return _FOLDED[axis - self.map.kept] if len(self.map.folded) > 1 else "p"

    def _each_sum(
        self, sums: Sequence[Buffer], count: E, value: Callable[[Buffer, E], E | int]
    ) -> None:
        """Set each column of some sums."""
        with self.k.loop("j", count, kind=self.kind) as j:
            for part in sums:
                self.k.store(part, j, value(part, j))

    def _fold(
        self,
        point: Point,
        elements: Elements,
        stop: int,
        body: Callable[[Point, Elements], None],
    ) -> None:
        """Build the loops over the folded axes before `stop`."""
        k, kept = self.k, self.map.kept
        axis = max(point) + 1 if kept in point else kept
        if axis == stop:
            body(point, elements)
            return
        with ExitStack() as loops:
            known = self._inside(loops, point, elements)
            start, end = self._range(axis, point)
            tap = loops.enter_context(k.loop(self._name(axis), end, start=start))
            point = {**point, axis: tap}
            self._fold(point, self._inside(loops, point, known), stop, body)

    def _inside(self, loops: ExitStack, point: Point, elements: Elements) -> Elements:
        """Leave out points without an element, along axes whose index is known by now."""
        k, known = self.k, dict(elements)
        for where, source, spacing in self._windows:
            if source not in known and _is_known(where, point):
                at = k.let("at", _value(self.scope, where, point))
                extent = self.scope.extents(self.x.shape[source])
                loops.enter_context(k.if_(is_element(at, spacing, extent)))
                known[source] = at / spacing
        return known

    def _add(
        self,
        access: _Access,
        point: Point,
        elements: Elements,
        sums: Sequence[Buffer],
        block: Range,
    ) -> None:
        """Add the products of one step to the sums of a block of columns."""
        k, (first, count) = self.k, block
        shared = {
            n: [k.let("factor", part) for part in self._read(access, n, point, elements)]
            for n in (0, 1)
            if not any(where.varies((self.column,)) for where in self.map.positions[n])
        }

        def add(here: E, column: E, known: Elements) -> None:
            inner = {**point, self.column: column}
            x, w = (shared.get(n) or self._read(access, n, inner, known) for n in (0, 1))
            totals = _sums(x, w, [k.load(part, here) for part in sums])
            for part, total in zip(sums, totals, strict=True):
                k.store(part, here, total)

        clips = [window for window in self._windows if window[0].varies((self.column,))]
        if not clips:
            with k.loop("j", count, kind=self.kind) as j:
                add(j, first + j, elements)
            return
        ((where, axis, spacing),) = clips
        stride = where.coefficients[self.column]
        assert isinstance(stride, int)  # strides of windows are numbers
        rest = _value(self.scope, where.shifted(-where.constant), point)
        back = k.let("back", self.scope.extents(-where.constant) - rest)
        clip = Clip(stride, spacing, back, self.scope.extents(self.x.shape[axis]))

        def add_element(j: E, at: E) -> None:
            add(j - first, j, {**elements, axis: at})

        each_column(k, clip, first, first + count, add_element)

    def _dots(self, access: _Access, point: Point) -> None:
        """Add up each result alone, along the last folded axis."""
        k, last = self.k, len(self.shape) - 1
        with k.loop("j", self._extent(self.column)) as j:
            total = k.mutable("total", const(0, self.prim))

            def add(inner: Point, elements: Elements) -> None:
                loop = k.loop(
                    "p",
                    self._extent(last),
                    kind=LoopKind.SIMD,
                    accumulators=[(total, BinaryOp.ADD)],
                )
                with loop as p:
                    at = {**inner, last: p}
                    x, w = (self._read(access, n, at, elements) for n in (0, 1))
                    (value,) = _sums(x, w, [total])
                    total.set(value)

            self._fold({**point, self.column: j}, {}, last, add)
            self._write(access, {**point, self.column: j}, [total])

    def _range(self, axis: int, point: Point) -> Range:
        """Return where the loop over an axis starts and stops."""
        given = self.ranges.get(axis)
        return (index(0), self._extent(axis)) if given is None else given(point)

    def _extent(self, axis: int) -> E:
        return self.scope.extents(self.shape[axis])

    # Elements

    def _read(self, access: _Access, operand: int, point: Point, elements: Elements) -> list[E]:
        """Return the parts of an operand's element, widened to the type of the sums."""
        reader = (access.x, access.w)[operand]
        places = [
            elements[axis]
            if operand == 0 and axis in elements
            else _value(self.scope, where, point)
            for axis, where in enumerate(self.map.positions[operand])
        ]
        return _parts(reader.read(*places[len(reader.fixed) :]), self.prim)

    def _write(self, access: _Access, point: Point, parts: Sequence[E]) -> None:
        left = self.map.result[len(access.out.fixed) :]
        places = [_value(self.scope, where, point) for where in left]
        access.out.write(*places, value=parts[0] if len(parts) == 1 else Complex(*parts))


def _always(steps: Range) -> Callable[[Point], Range]:
    return lambda _: steps


def _parts(element: Scalar, prim: Prim) -> list[E]:
    """Return an element, or both parts of a complex one, in the type of the sums."""
    if isinstance(element, Complex):
        return [element.re, element.im]
    return [element.cast(prim)]


def _sums(x: Sequence[E], w: Sequence[E], totals: Sequence[E]) -> Sequence[E]:
    """Return sums with the product of two elements added, by parts."""
    if len(totals) == 1:
        return [multiply_add(x[0], w[0], totals[0])]
    terms = multiply((x[0], x[1]), (w[0], w[1]))
    return [total + term for total, term in zip(totals, terms, strict=True)]
