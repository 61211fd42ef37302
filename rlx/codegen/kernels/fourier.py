"""Fourier transforms side by side: each lane of a vector is a transform of its own.

A block of transforms is laid in scratch, element by element, and goes to and fro between two
copies of it in stages of small radices that leave it in order (Stockham's). Each stage turns groups
of as many elements as its radix, which butterflies in registers transform. Where transforms
lie in rows, the vectors are turned in registers on the way in and out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.memory import given, result
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, minimum, select, shuffle
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.errors import InternalError
from rlx.ir.ops.fourier import prime_factors
from rlx.ir.shape import Extent, product, upper
from rlx.ir.types import TensorType

Complex: TypeAlias = tuple[E, E]

_BLOCKS = 16
"""Blocks that threads share: each has scratch for as many transforms as a vector has lanes."""
_WIDEST = 64
"""Bytes of the widest vector."""
_LARGEST_WRITTEN = 13
"""Odd radices up to this one are written out, larger ones are loops."""
_POINT_WORK = 4
"""Elements of other kernels that a point of a transform takes the time of."""


def radices(n: int) -> list[int]:
    """Return the radices of the stages: fours, then what is left."""
    factors = prime_factors(n)
    twos = factors.count(2)
    return [4] * (twos // 2) + [2] * (twos % 2) + [f for f in factors if f != 2]


def _groups(x: TensorType) -> int:
    rows = upper(x.shape[0] * x.shape[2])
    return min(rows, _BLOCKS) if is_large(_POINT_WORK * product(x.shape)) else 1


@scratch("dft")
def dft_scratch(operands: list[TensorType], results: list[TensorType], **_: object) -> int:
    del results
    x = operands[0]
    return _groups(x) * 4 * upper(x.shape[1]) * _WIDEST


@kernel("dft")
def dft(scope: Scope, x: Reader, roots: Reader, y: Writer, *, inverse: bool, scale: float) -> None:
    """Transform blocks of as many transforms as vectors have lanes."""
    outer, n, inner = x.shape
    if scope.scratch is None or not isinstance(n, int):
        raise InternalError("transforms need scratch and a length")
    k, prim = scope.k, scope.scratch.prim
    lanes = scope.lanes(prim)
    if inner == 1 and isinstance(outer, int):
        lanes = min(lanes, 1 << (outer - 1).bit_length())
    lay = _Rows if inner == 1 else _Columns
    source, target = given(x), result(y)
    with _blocks(scope, x.type, lay.blocks(scope, outer, inner, lanes)) as (group, block):
        base = group * (4 * n * lanes)
        points = _Points(k, scope.scratch, given(roots), n, lanes, inverse=inverse)
        memory = lay(k, n, lanes, scope.extents(outer), scope.extents(inner), block)
        memory.read(source, points, base)
        found = points.transform(base, base + 2 * n * lanes)
        memory.write(target, points, found, const(scale, prim, lanes))


@contextmanager
def _blocks(scope: Scope, x: TensorType, count: E) -> Iterator[tuple[E, E]]:
    """Open the loops over blocks; yields which scratch a block has, and the block."""
    k, groups = scope.k, _groups(x)
    kind = LoopKind.PARALLEL if groups > 1 else LoopKind.SERIAL
    with k.loop("group", groups, kind=kind) as group:
        first = k.let("first", group * count / groups)
        last = k.let("last", (group + 1) * count / groups)
        with k.loop("block", last, start=first) as block:
            yield group, block


# Memory


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the points of a block of transforms lie in memory."""

    k: KernelBuilder
    n: int
    lanes: int
    outer: E
    inner: E
    block: E

    def _load(self, buffer: Buffer, at: E) -> Complex:
        """Read consecutive complex numbers, and take their parts apart."""
        k, lanes = self.k, self.lanes
        if lanes == 1:
            return k.let("re", k.load(buffer, at * 2)), k.let("im", k.load(buffer, at * 2 + 1))
        low = k.let("low", k.load(buffer, at * 2, lanes))
        high = k.let("high", k.load(buffer, at * 2 + lanes, lanes))
        parts = (list(range(part, 2 * lanes, 2)) for part in (0, 1))
        re, im = (k.let("part", shuffle(low, high, places)) for places in parts)
        return re, im

    def _store(self, buffer: Buffer, at: E, value: Complex) -> None:
        k, lanes = self.k, self.lanes
        if lanes == 1:
            k.store(buffer, at * 2, value[0])
            k.store(buffer, at * 2 + 1, value[1])
            return
        pairs = [place for lane in range(lanes) for place in (lane, lanes + lane)]
        for part in (0, 1):
            both = shuffle(*value, pairs[part * lanes : (part + 1) * lanes])
            k.store(buffer, at * 2 + part * lanes, both)

    def _read_lanes(self, source: Buffer, points: _Points, to: E, starts: Sequence[E]) -> None:
        """Lay one point of each transform into its lane."""
        for lane, at in enumerate(starts):
            for part in (0, 1):
                points.store_lane(to, part, lane, self.k.load(source, at * 2 + part))

    def _write_lanes(
        self, target: Buffer, points: _Points, at: E, places: Sequence[E], scale: E
    ) -> None:
        for lane, place in enumerate(places):
            for part in (0, 1):
                value = points.load_lane(at, part, lane) * _number(scale)
                self.k.store(target, place * 2 + part, value)


@dataclass(frozen=True, slots=True)
class _Rows(_Layout):
    """Each transform is a row; vectors of rows are turned into vectors of columns.

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

    def read(self, source: Buffer, points: _Points, base: E) -> None:
        k, lanes, starts = self.k, self.lanes, self._starts()
        with k.loop("tile", self._whole // lanes) as tile:
            at = k.let("at", tile * lanes)
            numbers = [self._load(source, start + at) for start in starts]
            columns = [turned(k, [number[part] for number in numbers]) for part in (0, 1)]
            for lane in range(lanes):
                points.store(points.place(base, at + lane), (columns[0][lane], columns[1][lane]))
        with k.loop("i", self.n, start=self._whole) as i:
            self._read_lanes(source, points, points.place(base, i), [s + i for s in starts])

    def write(self, target: Buffer, points: _Points, base: E, scale: E) -> None:
        k, lanes, starts = self.k, self.lanes, self._starts()
        with k.loop("tile", self._whole // lanes) as tile:
            at = k.let("at", tile * lanes)
            columns = [points.load(points.place(base, at + i)) for i in range(lanes)]
            rows = [turned(k, [_times(c[part], scale) for c in columns]) for part in (0, 1)]
            for lane, start in enumerate(starts):
                self._store(target, start + at, (rows[0][lane], rows[1][lane]))
        with k.loop("i", self.n, start=self._whole) as i:
            places = [s + i for s in starts]
            self._write_lanes(target, points, points.place(base, i), places, scale)


@dataclass(frozen=True, slots=True)
class _Columns(_Layout):
    """Transforms lie side by side already; the lanes of a block have one outer index.

    Lanes beyond the last column are that column once more.
    """

    @staticmethod
    def _per_outer(inner: E, lanes: int) -> E:
        return (inner + (lanes - 1)) / lanes

    @staticmethod
    def blocks(scope: Scope, outer: Extent, inner: Extent, lanes: int) -> E:
        return scope.extents(outer) * _Columns._per_outer(scope.extents(inner), lanes)

    def _place(self) -> tuple[E, E]:
        """Return where the matrix of the block starts, and its first column."""
        k, per = self.k, self._per_outer(self.inner, self.lanes)
        outer = k.let("outer", self.block / per)
        column = k.let("column", (self.block - outer * per) * self.lanes)
        return k.let("origin", outer * self.n * self.inner), column

    def _each(self, whole: Callable[[E, E], None], parts: Callable[[E, list[E]], None]) -> None:
        """Go over the points: as vectors where all lanes have a column, or lane by lane."""
        k, lanes = self.k, self.lanes
        origin, column = self._place()
        full = column + lanes <= self.inner
        with k.if_(full), k.loop("i", self.n) as i:
            whole(i, k.let("at", origin + i * self.inner + column))
        with k.if_(~full), k.loop("i", self.n) as i:
            at = k.let("at", origin + i * self.inner)
            parts(i, [at + minimum(column + lane, self.inner - 1) for lane in range(lanes)])

    def read(self, source: Buffer, points: _Points, base: E) -> None:
        self._each(
            lambda i, at: points.store(points.place(base, i), self._load(source, at)),
            lambda i, at: self._read_lanes(source, points, points.place(base, i), at),
        )

    def write(self, target: Buffer, points: _Points, base: E, scale: E) -> None:
        def whole(i: E, at: E) -> None:
            re, im = points.load(points.place(base, i))
            self._store(target, at, (_times(re, scale), _times(im, scale)))

        self._each(
            whole, lambda i, at: self._write_lanes(target, points, points.place(base, i), at, scale)
        )


def _number(scale: E) -> E:
    return const(float(scale.node.value), scale.type.prim)  # type: ignore[union-attr]


def _times(x: E, scale: E) -> E:
    return x * scale


# Stages


@dataclass(frozen=True, slots=True)
class _Points:
    """The points of a block in scratch: vectors of real parts, each before its imaginary parts."""

    k: KernelBuilder
    memory: Buffer
    roots: Buffer
    n: int
    lanes: int
    inverse: bool

    def place(self, base: E, i: E) -> E:
        return base + i * (2 * self.lanes)

    def load(self, at: E) -> Complex:
        k, lanes = self.k, self.lanes
        re = k.let("re", k.load(self.memory, at, lanes))
        return re, k.let("im", k.load(self.memory, at + lanes, lanes))

    def store(self, at: E, value: Complex) -> None:
        self.k.store(self.memory, at, value[0])
        self.k.store(self.memory, at + self.lanes, value[1])

    def load_lane(self, at: E, part: int, lane: int) -> E:
        return self.k.load(self.memory, at + (part * self.lanes + lane))

    def store_lane(self, at: E, part: int, lane: int, value: E) -> None:
        self.k.store(self.memory, at + (part * self.lanes + lane), value)

    def transform(self, source: E, target: E) -> E:
        """Transform the points at `source`; returns where the result is, there or at `target`."""
        stride, length = 1, self.n
        for radix in radices(self.n):
            run = self._written if radix <= _LARGEST_WRITTEN else self._looped
            run(source, target, length, stride, radix)
            source, target = target, source
            stride, length = stride * radix, length // radix
        return source

    def _root(self, exponent: E) -> Complex:
        """Return a root of unity in all lanes."""
        k, at = self.k, self.k.let("exponent", exponent)
        c, s = (
            k.let(name, k.load(self.roots, place))
            for name, place in (("c", at), ("s", at + self.n))
        )
        return c.splat(self.lanes), s.splat(self.lanes)

    def _written(self, source: E, target: E, length: int, stride: int, radix: int) -> None:
        k, groups = self.k, length // radix
        with k.loop("p", groups) as p:
            turns = [self._root(p * (j * stride)) for j in range(1, radix)] if groups > 1 else []
            with k.loop("q", stride) as q:
                given = [
                    self.load(self.place(source, q + (p + part * groups) * stride))
                    for part in range(radix)
                ]
                for j, value in enumerate(butterfly(k, given, 1 if self.inverse else -1)):
                    turn = turns[j - 1] if turns and j else None
                    at = self.place(target, q + (p * radix + j) * stride)
                    self.store(at, value if turn is None else _product(value, turn))

    def _looped(self, source: E, target: E, length: int, stride: int, radix: int) -> None:
        k, groups, zero = self.k, length // radix, const(0.0, self.memory.prim, self.lanes)
        with k.loop("p", groups) as p, k.loop("q", stride) as q, k.loop("j", radix) as j:
            re, im = k.mutable("sum_re", zero), k.mutable("sum_im", zero)
            at = k.mutable("at", const(0, Prim.I64))
            with k.loop("part", radix) as part:
                c, s = self._root(at * (self.n // radix))
                x_re, x_im = self.load(self.place(source, q + (p + part * groups) * stride))
                re.set(fma(x_re, c, fma(-x_im, s, re)))
                im.set(fma(x_re, s, fma(x_im, c, im)))
                at.set(at + j)
                at.set(select(at >= radix, at - radix, at))
            value = _product((re, im), self._root(p * j * stride)) if groups > 1 else (re, im)
            self.store(self.place(target, q + (p * radix + j) * stride), value)


# Butterflies


def butterfly(k: KernelBuilder, x: Sequence[Complex], sign: int) -> list[Complex]:
    """Return the transform of a few points: an even number of them by halves."""
    count = len(x)
    if count == 1:
        return list(x)
    if count % 2:
        return _odd_butterfly(k, x, sign)
    even, odd = butterfly(k, x[0::2], sign), butterfly(k, x[1::2], sign)
    turns = [_turned(k, value, j, count, sign) for j, value in enumerate(odd)]
    upper_half = [_named(k, _sum(a, b)) for a, b in zip(even, turns, strict=True)]
    return [*upper_half, *(_named(k, _difference(a, b)) for a, b in zip(even, turns, strict=True))]


def _odd_butterfly(k: KernelBuilder, x: Sequence[Complex], sign: int) -> list[Complex]:
    """Sums and differences of points that mirror each other meet cosines and sines."""
    count = len(x)
    half = range(1, count // 2 + 1)
    sums = [_named(k, _sum(x[i], x[-i])) for i in half]
    differences = [_named(k, _difference(x[i], x[-i])) for i in half]
    total = x[0]
    for each in sums:
        total = _sum(total, each)
    found: list[Complex] = [_named(k, total)] * count
    for j in half:
        angles = [2 * math.pi * (i * j % count) / count for i in half]
        even = _weighted([x[0], *sums], [1.0, *(math.cos(angle) for angle in angles)])
        odd = _weighted(differences, [sign * math.sin(angle) for angle in angles])
        even, odd = _named(k, even), _named(k, odd)
        found[j] = _named(k, (even[0] - odd[1], even[1] + odd[0]))
        found[-j] = _named(k, (even[0] + odd[1], even[1] - odd[0]))
    return found


def _weighted(x: Sequence[Complex], weights: Sequence[float]) -> Complex:
    re, im = (part * weights[0] for part in x[0])
    for value, weight in zip(x[1:], weights[1:], strict=True):
        re, im = fma(value[0], weight, re), fma(value[1], weight, im)
    return re, im


def _turned(k: KernelBuilder, x: Complex, j: int, count: int, sign: int) -> Complex:
    """Multiply by the j-th of the `count` roots of unity."""
    if j == 0:
        return x
    if 4 * j == count:
        return (-x[1], x[0]) if sign > 0 else (x[1], -x[0])
    angle = sign * 2 * math.pi * j / count
    c, s = (
        const(each, x[0].type.prim, x[0].type.lanes) for each in (math.cos(angle), math.sin(angle))
    )
    return _named(k, _product(x, (c, s)))


def _product(x: Complex, turn: Complex) -> Complex:
    c, s = turn
    return fma(x[0], c, -(x[1] * s)), fma(x[0], s, x[1] * c)


def _sum(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _named(k: KernelBuilder, x: Complex) -> Complex:
    return k.let("re", x[0]), k.let("im", x[1])
