"""Addresses of the points of Fourier transforms: in rows, or side by side in columns.

In rows, the vectors are transposed in registers on the way in and out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from rlx.codegen.kernels.fourier.stages import Complex, Points
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.kernels.values import load_parts, store_parts
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, minimum
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass
from rlx.ir.shape import Extent


@dataclass(frozen=True, slots=True)
class PointOrder(ABC):
    """Addresses of the points of a block of transforms."""

    k: KernelBuilder
    n: int
    lanes: int
    outer: E
    inner: E
    block: E
    order: Buffer | None = None
    """Where each point goes in scratch and comes from, if not to its own number."""

    def _place(self, points: Points, base: E, i: E) -> E:
        if self.order is None:
            return points.place(base, i)
        return points.place(base, self.k.let("slot", self.k.load(self.order, i).cast(Prim.I64)))

    def _read_lanes(
        self, source: Buffer, points: Points, to: E, places: Sequence[tuple[E, E]]
    ) -> None:
        """Put one point of each transform, whose parts are at `places`, into its lane."""
        for lane, parts in enumerate(places):
            for part, at in enumerate(parts):
                points.store_lane(to, part, lane, self.k.load(source, at))

    def _write_lanes(
        self, target: Buffer, points: Points, at: E, places: Sequence[tuple[E, E]], scale: E
    ) -> None:
        for lane, parts in enumerate(places):
            for part, place in enumerate(parts):
                value = points.load_lane(at, part, lane) * _number(scale)
                self.k.store(target, place, value)

    @abstractmethod
    def read(self, source: Buffer, points: Points, base: E) -> None:
        """Load the points of a block's transforms to scratch at `base`."""

    @abstractmethod
    def write(self, target: Buffer, points: Points, base: E, scale: E) -> None:
        """Store the points from `base` on, times `scale`."""


def _parts(at: E) -> tuple[E, E]:
    """Return the addresses of the parts of a complex number."""
    return at * 2, at * 2 + 1


@dataclass(frozen=True, slots=True)
class Rows(PointOrder):
    """Each transform is a row; tiles are transposed in registers.

    Lanes beyond the last row are that row once more.
    """

    @staticmethod
    def blocks(scope: Scope, outer: Extent, inner: Extent, lanes: int) -> E:
        del inner
        return (scope.extents(outer) + (lanes - 1)) / lanes

    def _starts(self) -> list[E]:
        rows = (
            minimum(self.block * self.lanes + lane, self.outer - 1) for lane in range(self.lanes)
        )
        return [self.k.let("row", row * self.n) for row in rows]

    @property
    def _whole(self) -> int:
        return self.n - self.n % self.lanes

    def read(self, source: Buffer, points: Points, base: E) -> None:
        k, lanes, starts = self.k, self.lanes, self._starts()
        with k.loop("tile", self._whole // lanes) as tile:
            at = k.let("at", tile * lanes)
            numbers = [load_parts(self.k, source, start + at, self.lanes) for start in starts]
            columns = [turned(k, [number[part] for number in numbers]) for part in (0, 1)]
            for lane in range(lanes):
                points.store(
                    self._place(points, base, at + lane), (columns[0][lane], columns[1][lane])
                )
        with k.loop("i", self.n, start=self._whole) as i:
            places = [_parts(start + i) for start in starts]
            self._read_lanes(source, points, self._place(points, base, i), places)

    def write(self, target: Buffer, points: Points, base: E, scale: E) -> None:
        k, lanes, starts = self.k, self.lanes, self._starts()
        with k.loop("tile", self._whole // lanes) as tile:
            at = k.let("at", tile * lanes)
            columns = [points.load(self._place(points, base, at + i)) for i in range(lanes)]
            rows = [turned(k, [_times(c[part], scale) for c in columns]) for part in (0, 1)]
            for lane, start in enumerate(starts):
                store_parts(self.k, target, start + at, rows[0][lane], rows[1][lane])
        with k.loop("i", self.n, start=self._whole) as i:
            places = [_parts(start + i) for start in starts]
            self._write_lanes(target, points, self._place(points, base, i), places, scale)


@dataclass(frozen=True, slots=True)
class Columns(PointOrder):
    """Transforms are columns, consecutive in memory; a block has one outer index.

    Lanes beyond the last column are that column once more.
    """

    @staticmethod
    def _per_outer(inner: E, lanes: int) -> E:
        return (inner + (lanes - 1)) / lanes

    @staticmethod
    def blocks(scope: Scope, outer: Extent, inner: Extent, lanes: int) -> E:
        return scope.extents(outer) * Columns._per_outer(scope.extents(inner), lanes)

    def _start(self) -> tuple[E, E]:
        """Return where the matrix of the block starts, and its first column."""
        k, per = self.k, self._per_outer(self.inner, self.lanes)
        outer = k.let("outer", self.block / per)
        column = k.let("column", (self.block - outer * per) * self.lanes)
        return k.let("origin", outer * self.n * self.inner), column

    def _load_line(self, buffer: Buffer, line: E, column: E) -> Complex:
        """Read the points of neighboring columns from `column` on."""
        return load_parts(self.k, buffer, line + column, self.lanes)

    def _store_line(self, buffer: Buffer, line: E, column: E, value: Complex) -> None:
        store_parts(self.k, buffer, line + column, *value)

    def _parts_in_line(self, line: E, column: E) -> tuple[E, E]:
        return _parts(line + column)

    def _each(
        self,
        whole: Callable[[E, E, E], None],
        parts: Callable[[E, list[tuple[E, E]]], None],
    ) -> None:
        """Go over the points: as vectors where all lanes have a column, or lane by lane."""
        k, lanes = self.k, self.lanes
        origin, column = self._start()
        full = column + lanes <= self.inner
        with k.if_(full), k.loop("i", self.n) as i:
            whole(i, k.let("line", origin + i * self.inner), column)
        with k.if_(~full), k.loop("i", self.n) as i:
            line = k.let("line", origin + i * self.inner)
            columns = (minimum(column + lane, self.inner - 1) for lane in range(lanes))
            parts(i, [self._parts_in_line(line, each) for each in columns])

    def read(self, source: Buffer, points: Points, base: E) -> None:
        def whole(i: E, line: E, column: E) -> None:
            points.store(self._place(points, base, i), self._load_line(source, line, column))

        self._each(
            whole,
            lambda i, places: self._read_lanes(
                source, points, self._place(points, base, i), places
            ),
        )

    def write(self, target: Buffer, points: Points, base: E, scale: E) -> None:
        def whole(i: E, line: E, column: E) -> None:
            re, im = points.load(self._place(points, base, i))
            self._store_line(target, line, column, (_times(re, scale), _times(im, scale)))

        def parts(i: E, places: list[tuple[E, E]]) -> None:
            self._write_lanes(target, points, self._place(points, base, i), places, scale)

        self._each(whole, parts)


@dataclass(frozen=True, slots=True)
class LinePairs(Columns):
    """Columns of real numbers: a line is the real parts of points, the next the imaginary ones."""

    def _load_line(self, buffer: Buffer, line: E, column: E) -> Complex:
        k, places = self.k, self._parts_in_line(line, column)
        re, im = (k.let("part", k.load(buffer, place, self.lanes)) for place in places)
        return re, im

    def _store_line(self, buffer: Buffer, line: E, column: E, value: Complex) -> None:
        for place, part in zip(self._parts_in_line(line, column), value, strict=True):
            self.k.store(buffer, place, part)

    def _parts_in_line(self, line: E, column: E) -> tuple[E, E]:
        return line * 2 + column, line * 2 + column + self.inner


def _number(scale: E) -> E:
    return const(float(scale.node.value), scale.type.prim)  # type: ignore[union-attr]


def _times(x: E, scale: E) -> E:
    return x * scale
