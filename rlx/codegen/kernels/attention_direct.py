"""Attention of a few queries: vectors run along the heads, keys are read where they lie.

Each key is used once or twice, so memory sets the pace. Blocks of `panel` keys stream by with
a running maximum and sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlx.codegen.kernels.attention_operands import Attention, Heads
from rlx.codegen.kernels.register_tile import RegisterTile
from rlx.codegen.kernels.weights import exp_weight
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim


def attend_directly(work: Attention, rows: int, panel: int, lanes: int) -> None:
    """Build the kernel: every item is one head."""
    k = work.k
    count = work.scope.extents(work.axes.batch) * work.axes.heads
    with k.loop("head", count, kind=LoopKind.PARALLEL) as number:
        heads = work.heads(number)
        with k.loop("row", work.queries, step=rows) as row:
            _Rows.at(work, heads, row, rows, panel, lanes).compute()


@dataclass(frozen=True, slots=True)
class _Rows:
    """A few queries and what they carry over the blocks of keys."""

    work: Attention
    heads: Heads
    row: E
    rows: int
    panel: int
    lanes: int
    scores: Buffer
    sums: Buffer
    maximum: Buffer
    total: Buffer

    @classmethod
    def at(cls, work: Attention, heads: Heads, row: E, rows: int, panel: int, lanes: int) -> _Rows:
        k = work.k
        state = cls(
            work, heads, row, rows, panel, lanes,
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

    def compute(self) -> None:
        k, work = self.k, self.work
        last = work.keys_seen(self.row, self.rows)
        with k.loop("block", (last + (self.panel - 1)) / self.panel) as block:
            first = k.let("first_key", block * self.panel)
            count = k.let("key_count", minimum(work.key_count - first, self.panel))
            self._score(first, count)
            with k.loop("i", self.rows) as i:
                self._weigh(self.row + i, i, first, count)
            self._accumulate(first, count)
        if work.skips_keys:
            self._add_skipped(last)
        self._finish()

    def _score(self, first: E, count: E) -> None:
        """One dot product per query and key."""
        k, work, heads = self.k, self.work, self.heads
        with k.loop("i", self.rows) as i, k.loop("j", count) as j:
            total = k.mutable("total", const(0.0, self.prim))
            accumulators = [(total, BinaryOp.ADD)]
            with k.loop("d", work.depth, kind=LoopKind.SIMD, accumulators=accumulators) as d:
                x = work.read(work.q, heads.batch, heads.query, work.query(self.row + i), d)
                key = work.read(work.keys, heads.batch, heads.kv, first + j, d)
                total.set(total + x * key)
            k.store(self.scores, i * self.panel + j, total * work.scale)

    def _weigh(self, query: E, i: E, first: E, count: E) -> None:
        """Turn one row of scores into weights and update its running maximum and sum."""
        k, at, work = self.k, i * self.panel, self.work
        top = k.mutable("top", k.load(self.maximum, i))
        with k.loop("j", count, kind=LoopKind.SIMD, accumulators=[(top, BinaryOp.MAX)]) as j:
            given = work.given(self.heads, query, first + j) if work.mask else None
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
        k, work, heads, depth = self.k, self.work, self.heads, self.work.depth
        part = RegisterTile.of(k, "part", self.rows, depth, self.lanes, self.prim, column="d")
        part.load(lambda i, d: k.load(self.sums, i * depth + d, self.lanes))
        with k.loop("j", count) as j:
            part.accumulate(
                lambda i: k.load(self.scores, i * self.panel + j),
                lambda d: work.read_vector(
                    work.values, heads.batch, heads.kv, first + j, d, lanes=self.lanes
                ),
                name="weight",
            )
        part.store(lambda i, d, sums: k.store(self.sums, i * depth + d, sums))

    def _add_skipped(self, last: E) -> None:
        """Add the values of keys that no query sees, times their weight of 0."""
        k, depth = self.k, self.work.depth
        skipped = self.work.skipped_values(self.heads, last, self.lanes)
        with k.loop("i", self.rows) as i, k.loop("d", depth, kind=LoopKind.SIMD) as d:
            at = i * depth + d
            k.store(self.sums, at, k.load(self.sums, at) + k.load(skipped, d))

    def _finish(self) -> None:
        k, work = self.k, self.work
        with k.loop("i", minimum(work.queries - self.row, self.rows)) as i:
            inverse = k.let("inverse", 1.0 / k.load(self.total, i))
            with k.loop("d", work.depth, kind=LoopKind.SIMD) as d:
                value = k.load(self.sums, i * work.depth + d) * inverse
                work.write(self.heads, self.row + i, d, value)
