"""Rows of some hundred or thousand elements, each sorted by a bitonic network in vectors.

A row fills a power of two of places, the last of them with keys above all: place `p` is lane
`p / height` of vector `p % height`. Merging two sorted runs (Batcher, 1968) puts each place in
order with its mirror image, and then with those at half of the distance, and so on. Within a lane
that takes minima and maxima of whole vectors, eight at a time in registers; between lanes a shuffle
before them. No step depends on the elements. At the end squares of vectors are turned, so that
lanes become rows. Keys are followed by their indices where these are needed.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.extents import vector_groups
from rlx.codegen.kernels.memory import given, result
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.sort.keys import greatest, key_prim, keyed_value, order_key
from rlx.codegen.kernels.sort.network import exchanges
from rlx.codegen.kernels.sort.sort import restore
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index, maximum, minimum, select, shuffle
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.lowering import Bitonic
from rlx.ir.ops.sort_stages import INDEX_BITS
from rlx.ir.shape import product, upper

_HELD = 8
"""Vectors that are put in order in registers: with their minima, what 16 registers hold."""


@dataclass(frozen=True, slots=True)
class _Column:
    """The places of one row: `height` vectors in memory."""

    k: KernelBuilder
    places: Buffer
    height: int
    lanes: int

    def load(self, at: E | int) -> E:
        return self.k.let("x", self.k.load(self.places, index(at) * self.lanes, self.lanes))

    def store(self, at: E | int, value: E) -> None:
        self.k.store(self.places, index(at) * self.lanes, value)

    def sort(self) -> None:
        """Sort all places: runs of eight in each lane, then merges of runs twice as long."""
        with self.k.loop("first", self.height, step=_HELD) as first:
            held = [self.load(first + i) for i in range(_HELD)]
            self._exchange(held, list(exchanges(_HELD)))
            for i, x in enumerate(held):
                self.store(first + i, x)
        run = 2 * _HELD
        while run <= self.height:
            self._merge_within(run)
            self._clean(run // 16)
            run *= 2
        block = 2
        while block <= self.lanes:
            self._merge_between(block)
            self._clean(self.height // 2)
            block *= 2

    def _exchange(self, held: list[E], pairs: list[tuple[int, int]]) -> None:
        for i, j in pairs:
            low, high = held[i], held[j]
            held[i] = self.k.let("low", minimum(low, high))
            held[j] = self.k.let("high", maximum(low, high))

    def _merge_within(self, run: int) -> None:
        """Compare and exchange elements of runs with their mirror images, then closer ones."""
        part = run // _HELD
        pairs = [(i, 7 - i) for i in range(4)] + [(i, i + 2) for i in (0, 1, 4, 5)]
        pairs += [(i, i + 1) for i in range(0, 8, 2)]
        with self.k.loop("run", self.height, step=run) as first, self.k.loop("j", part) as j:
            left, right = first + j, first + (part - 1) - j
            at = [(left if i < 4 else right) + i * part for i in range(_HELD)]
            held = [self.load(each) for each in at]
            self._exchange(held, pairs)
            for each, x in zip(at, held, strict=True):
                self.store(each, x)

    def _clean(self, distance: int) -> None:
        """Compare and exchange vectors `distance` apart, then half of it, down to 1."""
        while distance >= 1:
            count = min(_HELD, 2 * distance)
            step, span = 2 * distance // count, 2 * distance
            with self.k.loop("run", self.height, step=span) as first, self.k.loop("j", step) as j:
                at = [first + j + i * step for i in range(count)]
                held = [self.load(each) for each in at]
                half = count // 2
                while half >= 1:
                    self._exchange(held, [(i, i + half) for i in range(count) if not i & half])
                    half //= 2
                for each, x in zip(at, held, strict=True):
                    self.store(each, x)
            distance //= count

    def _merge_between(self, block: int) -> None:
        """Put places of neighboring lanes in order with their mirror images, then lane by lane."""
        with self.k.loop("v", self.height // 2) as v:
            w = (self.height - 1) - v
            first, second = self.load(v), self.load(w)
            mirrored = self._moved(second, block - 1)
            low, high = self._ordered(first, mirrored)
            first = self._chosen(low, high, block // 2)
            second = self._moved(self._chosen(high, low, block // 2), block - 1)
            distance = block // 4
            while distance >= 1:
                first, second = (
                    self._chosen(*self._ordered(x, self._moved(x, distance)), distance)
                    for x in (first, second)
                )
                distance //= 2
            self.store(v, first)
            self.store(w, second)

    def _ordered(self, x: E, y: E) -> tuple[E, E]:
        return self.k.let("low", minimum(x, y)), self.k.let("high", maximum(x, y))

    def _moved(self, x: E, bits: int) -> E:
        """Exchange lanes whose numbers differ by `bits`."""
        return self.k.let("moved", shuffle(x, x, [lane ^ bits for lane in range(self.lanes)]))

    def _chosen(self, x: E, y: E, bit: int) -> E:
        """Take lanes of `y` where their numbers have `bit`, of `x` elsewhere."""
        lanes = range(self.lanes)
        return self.k.let("x", shuffle(x, y, [i + self.lanes if i & bit else i for i in lanes]))

    def turn(self, target: Buffer) -> None:
        """Write the places one after the other."""
        with self.k.loop("first", self.height, step=self.lanes) as first:
            square = turned(self.k, [self.load(first + i) for i in range(self.lanes)])
            for lane, x in enumerate(square):
                self.k.store(target, first + lane * self.height, x)


def places_of(length: int) -> int:
    """Return how many places a row takes."""
    return 1 << max(length - 1, 1).bit_length()


def _sorted_rows(
    scope: Scope,
    x: Reader,
    lanes: int,
    prim: Prim,
    record: Callable[[E, E], E],
    take: Callable[[E, E, Buffer], None],
) -> None:
    """Sort the records of every row; `take` is given the row, its start and them in order."""
    k, length = scope.k, upper(x.shape[-1])
    count, extent = scope.extents(product(x.shape[:-1])), places_of(length)
    kind = LoopKind.PARALLEL if is_large(product(x.shape)) else LoopKind.SERIAL
    with k.loop("row", count, kind=kind) as row:
        places, in_order = k.local("places", prim, extent), k.local("in_order", prim, extent)
        start = k.let("start", row * length)
        with k.loop("i", length, kind=LoopKind.SIMD) as i:
            k.store(places, i, record(k.load(given(x), start + i), i))
        with k.loop("i", extent, start=length, kind=LoopKind.SIMD) as i:
            k.store(places, i, greatest(prim))
        column = _Column(k, places, extent // lanes, lanes)
        column.sort()
        column.turn(in_order)
        take(row, start, in_order)


@kernel("sort", lowering=Bitonic)
def sort_by_bitonic_network(scope: Scope, x: Reader, y: Writer, *, lowering: Bitonic) -> None:
    """Sort keys; zeros and NaNs of a row are put into their order, where there are any."""
    k, prim, length = scope.k, key_prim(x.dtype), upper(x.shape[-1])
    target = result(y)
    groups = vector_groups(x.shape)
    source, rows = x.grouped(groups), y.grouped(groups)

    def take(row: E, start: E, in_order: Buffer) -> None:
        shared = k.mutable("shared", const(0, prim))
        folded = [(shared, BinaryOp.MAX)] if x.prim.is_float else []
        with k.loop("i", length, kind=LoopKind.SIMD, accumulators=folded) as i:
            key = k.let("key", k.load(in_order, i))
            if x.prim.is_float:
                is_shared = key.eq(0) | key.eq(greatest(prim))
                shared.set(maximum(shared, select(is_shared, const(1, prim), const(0, prim))))
            k.store(target, start + i, keyed_value(key, x.prim))
        if x.prim.is_float:
            with k.if_(shared.ne(0)):
                restore(k, source.at(row), rows.at(row))

    _sorted_rows(scope, x, lowering.lanes, prim, lambda value, _: order_key(value), take)


@kernel("argsort", lowering=Bitonic)
def argsort_by_bitonic_network(scope: Scope, x: Reader, y: Writer, *, lowering: Bitonic) -> None:
    """Sort keys followed by their indices, so that no two records are equal."""
    k, length, target = scope.k, upper(x.shape[-1]), result(y)

    def take(row: E, start: E, in_order: Buffer) -> None:
        del row
        with k.loop("i", length, kind=LoopKind.SIMD) as i:
            k.store(target, start + i, k.load(in_order, i) & ((1 << INDEX_BITS) - 1))

    _sorted_rows(
        scope, x, lowering.lanes, Prim.I64,
        lambda value, i: order_key(value).cast(Prim.I64) << INDEX_BITS | i, take,
    )  # fmt: skip
