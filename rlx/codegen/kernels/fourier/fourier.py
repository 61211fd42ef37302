"""Fourier transforms side by side: each lane of a vector is a transform of its own.

A block of transforms is laid in scratch, point by point, transformed in stages and stored. A
transform of n real numbers is one of n / 2 points, whose real parts are those at even places and
whose imaginary parts those at odd ones: sums and differences of points that mirror each other are
the spectra of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.fourier.memory import Columns, LinePairs, PointOrder, Rows
from rlx.codegen.kernels.fourier.stages import Complex, Points, added, multiplied, subtracted
from rlx.codegen.kernels.memory import given, result
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, product, upper
from rlx.ir.types import TensorType

_BLOCKS = 16
"""Blocks that threads share: each has scratch for as many transforms as a vector has lanes."""
_WIDEST = 64
"""Bytes of the widest vector."""
_POINT_WORK = 4
"""Elements of other kernels that a point of a transform takes the time of."""


def _groups(x: TensorType) -> int:
    rows = upper(x.shape[0] * x.shape[2])
    return min(rows, _BLOCKS) if is_large(_POINT_WORK * product(x.shape)) else 1


def _scratch_bytes(x: TensorType, points: int) -> int:
    return _groups(x) * 4 * points * _WIDEST


scratch("dft")(lambda x, *_, **__: _scratch_bytes(x, upper(x.shape[1])))
scratch("dft_to_reals")(lambda x, *_, **__: _scratch_bytes(x, upper(x.shape[1])))
scratch("dft_of_reals")(lambda x, *_, results, **__: _scratch_bytes(x, upper(results[0].shape[1])))
scratch("dft_of_prime")(lambda x, y, *_, **__: _scratch_bytes(x, upper(y.shape[1]) + 1))


@kernel("dft")
def dft(scope: Scope, x: Reader, roots: Reader, y: Writer, *, inverse: bool, scale: float) -> None:
    """Transform blocks of as many transforms as vectors have lanes."""
    n = upper(x.shape[1])
    with _blocks(scope, x, _table(roots, n, inverse=inverse), room=n) as block:
        points = block.points
        block.layout(n).read(given(x), points, block.first)
        found = points.transform(block.first, block.second)
        block.layout(n).write(result(y), points, found, block.constant(scale))


@kernel("dft_of_reals")
def dft_of_reals(scope: Scope, x: Reader, roots: Reader, y: Writer, *, scale: float) -> None:
    """Transform pairs of real numbers as points, and take the two spectra apart."""
    bins = upper(y.shape[1])
    with _blocks(scope, x, _table(roots, bins - 1, step=2), room=bins) as block:
        points = block.points
        block.layout(bins - 1, LinePairs).read(given(x), points, block.first)
        found = points.transform(block.first, block.second)
        other = block.first + block.second - found
        _take_apart(points, found, other)
        block.layout(bins).write(result(y), points, other, block.constant(scale / 2))


@kernel("dft_to_reals")
def dft_to_reals(scope: Scope, x: Reader, roots: Reader, y: Writer, *, scale: float) -> None:
    """Put the spectra of two halves together, and store parts of points as numbers."""
    bins = upper(x.shape[1])
    with _blocks(scope, x, _table(roots, bins - 1, step=2, inverse=True), room=bins) as block:
        points = block.points
        block.layout(bins).read(given(x), points, block.first)
        _put_together(points, block.first, block.second)
        found = points.transform(block.second, block.first)
        block.layout(bins - 1, LinePairs).write(result(y), points, found, block.constant(scale))


@kernel("dft_of_prime")
def dft_of_prime(
    scope: Scope, x: Reader, roots: Reader, spectrum: Reader, given_order: Reader,
    taken_order: Reader, y: Writer, *, inverse: bool, scale: float,
) -> None:  # fmt: skip
    """Convolve points in the order of powers of a generator (Rader, 1968).

    The first point is stored last meanwhile. The transform back is the one forth of numbers
    whose parts have changed places.
    """
    del inverse  # the spectrum is that of its roots
    n, length = upper(x.shape[1]), upper(roots.shape[1])
    with _blocks(scope, x, _table(roots, length), room=length + 1) as block:
        points, k = block.points, scope.k
        with k.loop("i", length - (n - 1)) as i:
            zero = block.constant(0.0)
            points.store(points.place(block.first, i + (n - 1)), (zero, zero))
        last = const(length, Prim.I64)
        block.layout(n, order=given(given_order)).read(given(x), points, block.first)
        found = points.transform(block.first, block.second)
        other = block.first + block.second - found
        start = points.load(points.place(block.first, last))
        total = added(points.load(points.place(found, const(0, Prim.I64))), start)
        _filtered(points, found, given(spectrum), start)
        back = points.transform(found, other)
        points.store(points.place(back, last), (total[1], total[0]))
        turned = replace(points, is_swapped=True)
        layout = block.layout(n, order=given(taken_order))
        layout.write(result(y), turned, back, block.constant(scale))


# Blocks


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of transforms: where its points are in scratch, and which they are in memory."""

    scope: Scope
    points: Points
    first: E
    second: E
    outer: Extent
    inner: Extent
    number: E

    def layout(
        self, n: int, columns: type[Columns] = Columns, *, order: Buffer | None = None
    ) -> PointOrder:
        """Return the addresses of the points; rows of reals are read as complex numbers."""
        kind = Rows if self.inner == 1 else columns
        extents = self.scope.extents
        return kind(
            self.scope.k, n, self.points.lanes, extents(self.outer), extents(self.inner),
            self.number, order,
        )  # fmt: skip

    def constant(self, value: float) -> E:
        return const(value, self.points.memory.prim, self.points.lanes)


PointsOf = Callable[[Scope, Buffer, int], Points]


def _table(roots: Reader, n: int, *, step: int = 1, inverse: bool = False) -> PointsOf:
    """Return a constructor of `Points` with a table of roots of unity."""

    def points(scope: Scope, memory: Buffer, lanes: int) -> Points:
        return Points(scope.k, memory, given(roots), n, lanes, inverse=inverse, step=step)

    return points


@contextmanager
def _blocks(scope: Scope, x: Reader, points_of: PointsOf, *, room: int) -> Iterator[_Block]:
    """Open the loops over blocks, each with two times room for so many points."""
    outer, _, inner = x.shape
    k, memory = scope.k, scope.scratch_memory
    lanes = scope.lanes(memory.prim)
    if inner == 1 and isinstance(outer, int):
        lanes = min(lanes, 1 << (outer - 1).bit_length())
    points = points_of(scope, memory, lanes)
    count = (Rows if inner == 1 else Columns).blocks(scope, outer, inner, lanes)
    groups = _groups(x.type)
    kind = LoopKind.PARALLEL if groups > 1 else LoopKind.SERIAL
    with k.loop("group", groups, kind=kind) as group:
        base = group * (4 * room * lanes)
        first = k.let("first", group * count / groups)
        last = k.let("last", (group + 1) * count / groups)
        with k.loop("block", last, start=first) as block:
            yield _Block(scope, points, base, base + 2 * room * lanes, outer, inner, block)


def _filtered(points: Points, base: E, spectrum: Buffer, start: Complex) -> None:
    """Multiply by a spectrum, add `start` to every point, and exchange real and imaginary parts."""
    k = points.k

    def product(i: E) -> Complex:
        at = points.place(base, i)
        c, s = (
            k.let("c", k.load(spectrum, i + part)).splat(points.lanes) for part in (0, points.n)
        )
        return multiplied(points.load(at), (c, s))

    first = added(product(const(0, Prim.I64)), start)
    points.store(points.place(base, const(0, Prim.I64)), (first[1], first[0]))
    with k.loop("i", points.n, start=1) as i:
        re, im = product(i)
        points.store(points.place(base, i), (im, re))


# Real numbers


def _take_apart(points: Points, source: E, target: E) -> None:
    """Turn the points into twice the lower half of the spectrum of all reals, and one bin more."""
    points.store(points.place(source, const(points.n, Prim.I64)), points.load(source))
    _mirror(points, source, target)


def _put_together(points: Points, source: E, target: E) -> None:
    """Turn half of a spectrum and one bin more into points; the first and last bin are real."""
    zero = const(0.0, points.memory.prim, points.lanes)
    for bin in (0, points.n):
        at = points.place(source, const(bin, Prim.I64))
        points.store(at, (points.load(at)[0], zero))
    _mirror(points, source, target)


def _mirror(points: Points, source: E, target: E) -> None:
    """Go from points z[i] to z[i] + conj z[n-i] and their difference times i-th roots, or back."""
    k, n = points.k, points.n
    with k.loop("low", n // 2 + 1) as low:
        high = k.let("high", n - low)
        a, (re, im) = (
            points.load(points.place(source, low)),
            points.load(points.place(source, high)),
        )
        b = (re, -im)
        c, s = points.root(low)
        turn = (-s, c) if points.inverse else (s, -c)
        total, turned = added(a, b), multiplied(subtracted(a, b), turn)
        points.store(points.place(target, low), added(total, turned))
        re, im = subtracted(total, turned)
        points.store(points.place(target, high), (re, -im))
