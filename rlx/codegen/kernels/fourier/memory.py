"""Addresses of the points of Fourier transforms: in rows, or side by side in columns.

In rows, the vectors are transposed in registers on the way in and out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

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

    @abstractmethod
    def _each(
        self, whole: Callable[[E, list[E]], None], single: Callable[[E, list[E]], None]
    ) -> None:
        """Go over the points: as vectors from some places on, or lane by lane.

        `whole` takes a point and a vector's place for it, or for as many points as there are
        lanes; `single` takes a point and its place in each transform.
        """

    def _parts(self, at: E) -> tuple[E, E]:
        """Return the addresses of the parts of a complex number."""
        return at * 2, at * 2 + 1

    def _load(self, buffer: Buffer, at: E) -> Complex:
        return load_parts(self.k, buffer, at, self.lanes)

    def _store(self, buffer: Buffer, at: E, value: Complex) -> None:
        store_parts(self.k, buffer, at, *value)

    def read(self, source: Buffer, points: Points, base: E) -> None:
        """Load the points of a block's transforms to scratch at `base`."""

        def whole(first: E, places: list[E]) -> None:
            vectors = self._turned([self._load(source, at) for at in places])
            for number, vector in enumerate(vectors):
                points.store(self._place(points, base, first + number), vector)

        def single(i: E, places: list[E]) -> None:
            to = self._place(points, base, i)
            for lane, at in enumerate(places):
                for part, place in enumerate(self._parts(at)):
                    points.store_lane(to, part, lane, self.k.load(source, place))

        self._each(whole, single)

    def write(self, target: Buffer, points: Points, base: E, scale: E) -> None:
        """Store the points from `base` on, times `scale`."""

        def whole(first: E, places: list[E]) -> None:
            numbers = range(len(places))
            found = [points.load(self._place(points, base, first + number)) for number in numbers]
            vectors = self._turned([(re * scale, im * scale) for re, im in found])
            for at, vector in zip(places, vectors, strict=True):
                self._store(target, at, vector)

        def single(i: E, places: list[E]) -> None:
            source = self._place(points, base, i)
            for lane, at in enumerate(places):
                for part, place in enumerate(self._parts(at)):
                    value = points.load_lane(source, part, lane) * _number(scale)
                    self.k.store(target, place, value)

        self._each(whole, single)

    def _place(self, points: Points, base: E, i: E) -> E:
        if self.order is None:
            return points.place(base, i)
        return points.place(base, self.k.let("slot", self.k.load(self.order, i).cast(Prim.I64)))

    def _turned(self, vectors: list[Complex]) -> list[Complex]:
        """Transpose as many vectors as there are lanes; one is as it is."""
        if len(vectors) == 1:
            return vectors
        re, im = (turned(self.k, [vector[part] for vector in vectors]) for part in (0, 1))
        return list(zip(re, im, strict=True))


@dataclass(frozen=True, slots=True)
class Rows(PointOrder):
    """Each transform is a row; tiles are transposed in registers.

    Lanes beyond the last row are that row once more.
    """

    @staticmethod
    def blocks(scope: Scope, outer: Extent, inner: Extent, lanes: int) -> E:
        del inner
        return (scope.extents(outer) + (lanes - 1)) / lanes

    def _each(
        self, whole: Callable[[E, list[E]], None], single: Callable[[E, list[E]], None]
    ) -> None:
        k, n, lanes = self.k, self.n, self.lanes
        rows = (minimum(self.block * lanes + lane, self.outer - 1) for lane in range(lanes))
        starts = [k.let("row", row * n) for row in rows]
        with k.loop("tile", n // lanes) as tile:
            at = k.let("at", tile * lanes)
            whole(at, [start + at for start in starts])
        with k.loop("i", n, start=n - n % lanes) as i:
            single(i, [start + i for start in starts])


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

    def _in_line(self, line: E, column: E) -> E:
        return line + column

    def _each(
        self, whole: Callable[[E, list[E]], None], single: Callable[[E, list[E]], None]
    ) -> None:
        k, lanes, per = self.k, self.lanes, self._per_outer(self.inner, self.lanes)
        outer = k.let("outer", self.block / per)
        column = k.let("column", (self.block - outer * per) * lanes)
        origin = k.let("origin", outer * self.n * self.inner)
        full = column + lanes <= self.inner
        with k.if_(full), k.loop("i", self.n) as i:
            whole(i, [self._in_line(k.let("line", origin + i * self.inner), column)])
        with k.if_(~full), k.loop("i", self.n) as i:
            line = k.let("line", origin + i * self.inner)
            columns = (minimum(column + lane, self.inner - 1) for lane in range(lanes))
            single(i, [self._in_line(line, each) for each in columns])


@dataclass(frozen=True, slots=True)
class LinePairs(Columns):
    """Columns of real numbers: a line is the real parts of points, the next the imaginary ones."""

    def _in_line(self, line: E, column: E) -> E:
        return line * 2 + column

    def _parts(self, at: E) -> tuple[E, E]:
        return at, at + self.inner

    def _load(self, buffer: Buffer, at: E) -> Complex:
        k = self.k
        re, im = (k.let("part", k.load(buffer, place, self.lanes)) for place in self._parts(at))
        return re, im

    def _store(self, buffer: Buffer, at: E, value: Complex) -> None:
        for place, part in zip(self._parts(at), value, strict=True):
            self.k.store(buffer, place, part)


def _number(scale: E) -> E:
    return const(float(scale.node.value), scale.type.prim)  # type: ignore[union-attr]
