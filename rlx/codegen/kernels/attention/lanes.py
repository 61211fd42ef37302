"""Attention with queries in the lanes of vectors: no transposed keys, no sums across lanes.

For each head, and each tile of `rows` queries (some vectors of them), blocks of keys stream by:

    scores[key] = sum over d of keys[key, d] * queries[d]       registers, `panel` keys at a time
    scale, softcap and mask; running maximum of every lane
    weights[key] = exp(scores[key] - maximum), and their running sum
    sums[d] = sums[d] * correction + sum over keys of values[key, d] * weights[key]    registers

Keys and values are read in place, one scalar for all lanes; queries are turned into lanes
once per tile, and the result, `sums / sum`, back.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager

from rlx.codegen.kernels.attention.operands import Attention, Heads
from rlx.codegen.kernels.register_tile import RegisterTile
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.kernels.weights import exp_weight
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, maximum, minimum, select
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass

_BLOCK = 64
"""Keys whose scores exist at a time: with 32 queries 8 KiB of f32, a quarter of the L1 cache."""


def attend_in_lanes(work: Attention, rows: int, panel: int, lanes: int) -> None:
    """Build the kernel: every item is one tile of queries of one head."""
    k = work.k
    tiles = (work.queries + (rows - 1)) / rows
    heads = work.scope.extents(work.axes.batch) * work.axes.heads
    with k.loop("item", heads * tiles, kind=LoopKind.PARALLEL) as item:
        number = k.let("tile", item % tiles)
        if work.mask_kind == "causal":
            number = _alternating(k, number, tiles)
        row = k.let("row", number * rows)
        tile = _Tile.at(work, work.heads(item / tiles), row, rows, panel, lanes)
        tile.compute()


def _alternating(k: KernelBuilder, number: E, tiles: E) -> E:
    """Alternate tiles with many and with few unmasked keys, to balance threads."""
    half = number / 2
    return k.let("balanced", select((number % 2).eq(0), half, tiles - 1 - half))


@dataclass(frozen=True, slots=True)
class _Tile:
    """One tile of queries and what it carries over the blocks of keys."""

    work: Attention
    heads: Heads
    row: E
    rows: int
    panel: int
    lanes: int
    queries: Buffer
    """[d, row], scaled."""
    scores: Buffer
    """[key, row]: scores, then weights."""
    sums: Buffer
    """[d, row]."""
    maximum: Buffer
    total: Buffer

    @classmethod
    def at(cls, work: Attention, heads: Heads, row: E, rows: int, panel: int, lanes: int) -> _Tile:
        def local(name: str, lines: int) -> Buffer:
            return work.k.local(name, work.prim, lines * rows)

        return cls(
            work, heads, row, rows, panel, lanes,
            local("queries", work.depth), local("scores", _block(panel)), local("sums", work.depth),
            local("maximum", 1), local("total", 1),
        )  # fmt: skip

    @property
    def k(self) -> KernelBuilder:
        return self.work.k

    @property
    def prim(self) -> Prim:
        return self.work.prim

    @property
    def block(self) -> int:
        return _block(self.panel)

    def compute(self) -> None:
        k, work = self.k, self.work
        self._start()
        last = k.let("keys_seen", work.keys_seen(self.row, self.rows))
        with k.loop("first", last, step=self.block) as first:
            stop = k.let("stop", minimum(first + self.block, last))
            top, correction = (
                k.local(name, self.prim, self.rows) for name in ("top", "correction")
            )
            self._score(first, stop)
            self._mask(first, stop, top)
            self._advance(top, correction)
            self._weigh(first, stop, top)
            self._accumulate(first, stop, correction)
        if work.skips_keys:
            self._add_skipped(last)
        self._finish()

    def _start(self) -> None:
        """Transpose the queries into lanes, and set the sums to zero."""
        k, work, heads = self.k, self.work, self.heads
        with k.loop("i", self.rows, step=self.lanes) as i, self._turns() as d:
            rows = [
                work.read(
                    work.q, heads.batch, heads.query, self._query(i + lane), d, lanes=self.lanes
                )
                for lane in range(self.lanes)
            ]
            named = [k.let("query", row * work.scale) for row in rows]
            for number, column in enumerate(turned(k, named)):
                k.store(self.queries, (d + number) * self.rows + i, column)
        with k.loop("i", work.depth * self.rows, step=self.lanes) as i:
            k.store(self.sums, i, self._splat(0.0))
        with self._vectors() as i:
            k.store(self.maximum, i, self._splat(-math.inf))
            k.store(self.total, i, self._splat(0.0))

    def _score(self, first: E, stop: E) -> None:
        """Multiply a register tile of keys with the queries. The last key may be repeated."""
        k, work, heads, rows = self.k, self.work, self.heads, self.rows
        with k.loop("key", stop, start=first, step=self.panel) as key:
            tile = self._register_tile("tile")
            tile.zero()
            with k.loop("d", work.depth) as d:
                tile.accumulate(
                    lambda j: work.read(work.keys, heads.batch, heads.kv, self._key(key + j), d),
                    lambda i: k.load(self.queries, d * rows + i, self.lanes),
                )
            start = k.let("start", (key - first) * rows)
            tile.store(lambda j, i, sums: k.store(self.scores, start + (j * rows + i), sums))

    def _mask(self, first: E, stop: E, top: Buffer) -> None:
        """Apply softcap and mask, and find each row's maximum."""
        k, work = self.k, self.work
        with self._vectors() as i:
            k.store(top, i, k.load(self.maximum, i, self.lanes))
        with k.loop("key", stop, start=first) as key:
            given = self._given(key)
            with self._vectors() as i:
                at = (key - first) * self.rows + i
                score = k.load(self.scores, at, self.lanes)
                if work.is_masked:
                    mask = k.load(given, i, self.lanes) if isinstance(given, Buffer) else given
                    score = k.let("score", work.score(score, self._positions(i), key, mask))
                    k.store(self.scores, at, score)
                k.store(top, i, maximum(k.load(top, i, self.lanes), score))

    def _given(self, key: E) -> E | Buffer | None:
        """Load the mask of a key for all queries: one scalar, or one per lane."""
        k, work = self.k, self.work
        if work.mask is None:
            return None
        if not work.mask_varies:
            return k.let("given", work.given(self.heads, self.row, key))
        given = k.local("given", self.prim, self.rows)
        with k.loop("i", self.rows) as i:
            k.store(given, i, work.given(self.heads, self.row + i, key))
        return given

    def _advance(self, top: Buffer, correction: Buffer) -> None:
        """Rescale the running sums to the new maximum."""
        k = self.k
        with self._vectors() as i:
            peak = k.load(top, i, self.lanes)
            shift = k.let("shift", select(peak.eq(-math.inf), 0.0, peak))
            scale = k.let("scale", exp_weight(k.load(self.maximum, i, self.lanes) - shift))
            k.store(correction, i, scale)
            k.store(self.total, i, k.load(self.total, i, self.lanes) * scale)
            k.store(self.maximum, i, peak)
            k.store(top, i, shift)

    def _weigh(self, first: E, stop: E, shift: Buffer) -> None:
        k = self.k
        with k.loop("key", stop, start=first) as key, self._vectors() as i:
            at = (key - first) * self.rows + i
            shifted = k.load(self.scores, at, self.lanes) - k.load(shift, i, self.lanes)
            weight = k.let("weight", exp_weight(shifted))
            k.store(self.scores, at, weight)
            k.store(self.total, i, k.load(self.total, i, self.lanes) + weight)

    def _accumulate(self, first: E, stop: E, correction: Buffer) -> None:
        """Add this block's values times their weights to the corrected sums, in registers."""
        k, work, heads, rows = self.k, self.work, self.heads, self.rows
        with k.loop("d", work.depth, step=self.panel) as d:
            part = self._register_tile("part")
            part.load(
                lambda j, i: (
                    k.load(self.sums, (d + j) * rows + i, self.lanes)
                    * k.load(correction, i, self.lanes)
                )
            )
            with k.loop("key", stop, start=first) as key:
                part.accumulate(
                    lambda j: work.read(work.values, heads.batch, heads.kv, key, d + j),
                    lambda i: k.load(self.scores, (key - first) * rows + i, self.lanes),
                )
            part.store(lambda j, i, sums: k.store(self.sums, (d + j) * rows + i, sums))

    def _add_skipped(self, last: E) -> None:
        """Add the values of keys that are masked for all queries, times their weight of 0."""
        k, rows = self.k, self.rows
        skipped = self.work.skipped_values(self.heads, last, self.lanes)
        with k.loop("d", self.work.depth) as d:
            value = k.let("value", k.load(skipped, d))
            with self._vectors() as i:
                at = d * rows + i
                k.store(self.sums, at, k.load(self.sums, at, self.lanes) + value)

    def _finish(self) -> None:
        """Divide by the sums of weights, turn lanes into rows, and store those that exist."""
        k = self.k
        with k.loop("i", self.rows, step=self.lanes) as i:
            inverse = k.let("inverse", 1.0 / k.load(self.total, i, self.lanes))
            with self._turns() as d:
                columns = [
                    k.let("sum", k.load(self.sums, (d + j) * self.rows + i, self.lanes) * inverse)
                    for j in range(self.lanes)
                ]
                for lane, row in enumerate(turned(k, columns)):
                    self._store_row(self.row + i + lane, d, row)

    def _store_row(self, row: E, d: E, value: E) -> None:
        work = self.work
        if self._whole:
            work.write(self.heads, row, d, value)
            return
        with self.k.if_(row < work.queries):
            work.write(self.heads, row, d, value)

    # Parts

    @property
    def _whole(self) -> bool:
        queries = self.work.axes.queries
        return isinstance(queries, int) and queries % self.rows == 0

    def _query(self, row: E) -> E:
        return self.row + row if self._whole else self.work.query(self.row + row)

    def _key(self, key: E) -> E:
        keys = self.work.axes.keys
        if isinstance(keys, int) and keys % self.panel == 0:
            return key
        return minimum(key, self.work.key_count - 1)

    def _positions(self, i: E) -> E:
        """Number the queries of a vector, in integers as wide as the scores."""
        prim = Prim.I32 if self.prim.size == 4 else Prim.I64
        return (self.row + i).cast(prim).ramp(self.lanes)

    def _register_tile(self, name: str) -> RegisterTile:
        """Keys, or elements of the head, by queries."""
        return RegisterTile.of(
            self.k, name, self.panel, self.rows, self.lanes, self.prim, row="j", column="i"
        )

    def _splat(self, number: float) -> E:
        return const(number, self.prim, self.lanes)

    def _vectors(self) -> AbstractContextManager[E]:
        return self.k.loop("i", self.rows, step=self.lanes, kind=LoopKind.UNROLL)

    def _turns(self) -> AbstractContextManager[E]:
        return self.k.loop("d", self.work.depth, step=self.lanes)


def _block(panel: int) -> int:
    """Return how many keys are scored at a time: whole panels."""
    return -(-_BLOCK // panel) * panel
