"""Attention of a few queries: vectors run along the heads, keys are read in place.

Each key is used a few times, so memory sets the pace: query heads that share a head of keys and
values (grouped-query attention) read these together, once. Blocks of `panel` keys stream by with
a running maximum and sum.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rlx.codegen.kernels.attention.operands import Attention, Heads
from rlx.codegen.kernels.register_tile import RegisterTile
from rlx.codegen.kernels.weights import exp_weight
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, index, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.shape import upper

_AHEAD = 24
"""Prefetch distance in keys: rows of a head are not contiguous, and
processors foresee too few of them."""


def attend_directly(work: Attention, rows: int, panel: int, lanes: int) -> None:
    """Build the kernel: every item is some heads that share keys, with all of their queries."""
    k = work.k
    together = rows // upper(work.axes.queries)
    count = work.scope.extents(work.axes.batch) * (work.axes.heads // together)
    with k.loop("head" if together == 1 else "group", count, kind=LoopKind.PARALLEL) as number:
        _Rows.at(work, work.heads(number, together), together, panel, lanes).compute()


@dataclass(frozen=True, slots=True)
class _Rows:
    """The queries of some heads, one after the other, and what they carry over the blocks of keys.

    `rows` of them are head by head: row i is query i % queries of head i / queries.
    """

    work: Attention
    first: Heads
    """The first of the heads."""
    rows: int
    panel: int
    lanes: int
    scores: Buffer
    sums: Buffer
    maximum: Buffer
    total: Buffer

    @classmethod
    def at(cls, work: Attention, first: Heads, together: int, panel: int, lanes: int) -> _Rows:
        k, rows = work.k, together * upper(work.axes.queries)
        state = cls(
            work, first, rows, panel, lanes,
            k.local("scores", work.prim, rows * panel),
            k.local("sums", work.prim, rows * work.depth),
            k.local("maximum", work.prim, rows),
            k.local("total", work.prim, rows),
        )  # fmt: skip
        with k.loop("i", rows) as i:
            k.store(state.maximum, i, -math.inf)
            k.store(state.total, i, 0.0)
        with k.loop("i", rows * work.depth, kind=LoopKind.SIMD) as i:
            k.store(state.sums, i, 0.0)
        return state

    @property
    def k(self) -> KernelBuilder:
        return self.work.k

    @property
    def prim(self) -> Prim:
        return self.work.prim

    def _row(self, i: E | int) -> tuple[Heads, E]:
        """Return the head and the query of a row."""
        queries = upper(self.work.axes.queries)
        if queries == self.rows:
            return self.first, index(i)
        member = index(i) / queries
        return replace(self.first, query=self.first.query + member), index(i) % queries

    def compute(self) -> None:
        k, work = self.k, self.work
        last = work.keys_seen(index(0), upper(work.axes.queries))
        with k.loop("block", (last + (self.panel - 1)) / self.panel) as block:
            first = k.let("first_key", block * self.panel)
            count = k.let("key_count", minimum(work.key_count - first, self.panel))
            self._score(first, count)
            with k.loop("i", self.rows) as i:
                self._weigh(i, first, count)
            self._accumulate(first, count)
        if work.skips_keys:
            self._add_skipped(last)
        self._finish()

    def _score(self, first: E, count: E) -> None:
        """One dot product per row and key; a key is read once for all rows."""
        k, work = self.k, self.work
        with k.loop("j", count) as j:
            work.prefetch(work.keys, self.first, first + j + _AHEAD)
            totals = [k.mutable("total", const(0.0, self.prim)) for _ in range(self.rows)]
            accumulators = [(total, BinaryOp.ADD) for total in totals]
            with k.loop("d", work.depth, kind=LoopKind.SIMD, accumulators=accumulators) as d:
                kv = self.first
                key = k.let("key", work.read(work.keys, kv.batch, kv.kv, first + j, d))
                for i, total in enumerate(totals):
                    heads, query = self._row(i)
                    x = work.read(work.q, heads.batch, heads.query, work.query(query), d)
                    total.set(total + x * key)
            for i, total in enumerate(totals):
                k.store(self.scores, i * self.panel + j, total * work.scale)

    def _weigh(self, i: E, first: E, count: E) -> None:
        """Turn one row of scores into weights and update its running maximum and sum."""
        k, at, work = self.k, i * self.panel, self.work
        heads, query = self._row(i)
        top = k.mutable("top", k.load(self.maximum, i))
        with k.loop("j", count, kind=LoopKind.SIMD, accumulators=[(top, BinaryOp.MAX)]) as j:
            given = work.given(heads, query, first + j) if work.mask else None
            score = work.score(k.load(self.scores, at + j), query, first + j, given)
            score = k.let("score", score)
            k.store(self.scores, at + j, score)
            top.set(maximum(top, score))
        shift = k.let("shift", select(top.eq(-math.inf), 0.0, top))
        before = k.load(self.maximum, i)
        correction = k.let("correction", exp_weight(before - shift))
        total = k.mutable("total", const(0.0, self.prim))
        with k.loop("j", count, kind=LoopKind.SIMD, accumulators=[(total, BinaryOp.ADD)]) as j:
            shifted = k.load(self.scores, at + j) - shift
            weight = k.let("weight", exp_weight(shifted))
            k.store(self.scores, at + j, weight)
            total.set(total + weight)
        k.store(self.maximum, i, top)
        k.store(self.total, i, fma(k.load(self.total, i), correction, total))
        with k.loop("d", work.depth, kind=LoopKind.SIMD) as d:
            place = i * work.depth + d
            k.store(self.sums, place, k.load(self.sums, place) * correction)

    def _accumulate(self, first: E, count: E) -> None:
        """Add this block's weights times its values, in registers."""
        k, work, heads, depth = self.k, self.work, self.first, self.work.depth
        part = RegisterTile.of(k, "part", self.rows, depth, self.lanes, self.prim, column="d")
        part.load(lambda i, d: k.load(self.sums, i * depth + d, self.lanes))
        with k.loop("j", count) as j:
            work.prefetch(work.values, heads, first + j + _AHEAD)
            part.accumulate(
                lambda i: k.load(self.scores, i * self.panel + j),
                lambda d: work.read(
                    work.values, heads.batch, heads.kv, first + j, d, lanes=self.lanes
                ),
                name="weight",
            )
        part.store(lambda i, d, sums: k.store(self.sums, i * depth + d, sums))

    def _add_skipped(self, last: E) -> None:
        """Add the values of keys that are masked for all queries, times their weight of 0."""
        k, depth = self.k, self.work.depth
        skipped = self.work.skipped_values(self.first, last, self.lanes)
        with k.loop("i", self.rows) as i, k.loop("d", depth, kind=LoopKind.SIMD) as d:
            at = i * depth + d
            k.store(self.sums, at, k.load(self.sums, at) + k.load(skipped, d))

    def _finish(self) -> None:
        k, work = self.k, self.work
        queries = upper(work.axes.queries)
        with (
            k.loop("head", self.rows // queries) as member,
            k.loop("query", work.queries) as query,
        ):
            i = k.let("i", member * queries + query)
            heads = replace(self.first, query=self.first.query + member)
            inverse = k.let("inverse", 1.0 / k.load(self.total, i))
            with k.loop("d", work.depth, kind=LoopKind.SIMD) as d:
                value = k.load(self.sums, i * work.depth + d) * inverse
                work.write(heads, query, d, value)
