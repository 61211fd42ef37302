"""Attention in one pass over the keys, a tile of queries at a time.

For each head, and each tile of `rows` queries, blocks of `panel` keys stream by:

    scores = q @ keys^T                       registers; keys were transposed into scratch
    scale, softcap and mask; running maximum  one row at a time
    weights = exp(scores - maximum)           and their running sum
    sums = sums * correction + weights @ v    registers

The result is `sums / sum`. The score matrix never exists; what is read of K and V stays in
the cache. A row whose keys were all hidden by -inf gives NaN, as the formula does.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, index, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim, storage
from rlx.codegen.loops.scalar import scalar_expression
from rlx.errors import InternalError
from rlx.ir.ops.attention_layout import (
    MASKED_SCORE,
    VISIBLE_FROM,
    AttentionLayout,
    attention_layout,
    mask_view,
)
from rlx.ir.shape import upper
from rlx.ir.types import TensorType

_DIRECT_QUERIES = 3
"""Up to this many queries, keys are used once or twice: transposing them does not pay."""


def _layout(
    q: TensorType, k: TensorType, num_heads: int, head_dim: int, layout: str
) -> AttentionLayout:
    return attention_layout(
        q.shape, k.shape, k.shape, num_heads=num_heads, head_dim=head_dim, layout=layout
    )


def _is_direct(axes: AttentionLayout) -> bool:
    return upper(axes.queries) <= _DIRECT_QUERIES


@scratch("attention_tiled")
def attention_scratch(
    operands: list[TensorType],
    results: list[TensorType],  # noqa: ARG001
    *,
    panel: int,
    num_heads: int,
    head_dim: int,
    layout: str,
    **_: object,
) -> int:
    """Bytes for the transposed keys of every head."""
    q, k = operands[:2]
    axes = _layout(q, k, num_heads, head_dim, layout)
    if _is_direct(axes):
        return 0
    blocks = -(-upper(axes.keys) // panel)
    heads = upper(axes.batch) * axes.heads
    return heads * blocks * panel * head_dim * storage(q.dtype).size


@kernel("attention_tiled")
def attention_tiled(
    scope: Scope,
    q: Reader,
    k: Reader,
    v: Reader,
    *rest: Reader | Writer,
    rows: int,
    panel: int,
    lanes: int,
    num_heads: int,
    head_dim: int,
    mask_kind: str,
    window: int | None,
    score_scale: float | None,
    softcap: float | None,
    layout: str,
) -> None:
    axes = _layout(q.type, k.type, num_heads, head_dim, layout)
    mask = rest[0] if isinstance(rest[0], Reader) else None
    result = rest[-1]
    if not isinstance(result, Writer):
        raise InternalError("attention_tiled: the last operand is the result")
    scale = head_dim**-0.5 if score_scale is None else score_scale
    tile = _Tile(
        scope, axes, q, k, v, mask, result, rows, panel, lanes, mask_kind, window, scale, softcap
    )
    builder = scope.k
    heads = scope.extents(axes.batch) * num_heads
    with builder.loop("head", heads, kind=LoopKind.PARALLEL) as head:
        tile.head(head)


@dataclass(frozen=True, slots=True)
class _Tile:
    scope: Scope
    axes: AttentionLayout
    q: Reader
    keys: Reader
    values: Reader
    mask: Reader | None
    result: Writer
    rows: int
    panel: int
    lanes: int
    mask_kind: str
    window: int | None
    scale: float
    softcap: float | None

    @property
    def k(self) -> KernelBuilder:
        return self.scope.k

    @property
    def prim(self) -> Prim:
        return compute_prim(self.q.dtype)

    @property
    def depth(self) -> int:
        return self.axes.head_dim

    def head(self, head: E) -> None:
        """Compute all queries of one head of one batch element."""
        k = self.k
        batch = k.let("batch", head / self.axes.heads)
        own = k.let("query_head", head % self.axes.heads)
        kv = k.let("kv_head", own / self.axes.group)
        key_count = self.scope.extents(self.axes.keys)
        queries = self.scope.extents(self.axes.queries)
        packed = None
        if not _is_direct(self.axes):
            packed = self._transpose_keys(batch, kv, head, key_count)
        with k.loop("row", queries, step=self.rows) as row:
            state = _State.fresh(k, self)
            blocks = self._blocks(row, key_count, queries)
            with k.loop("block", blocks) as block:
                first = k.let("first_key", block * self.panel)
                count = k.let("key_count", minimum(key_count - first, self.panel))
                self._scores(state, packed, batch, own, kv, row, first, count)
                with k.loop("i", self.rows) as i:
                    self._weigh(state, batch, own, row + i, i, first, count)
                self._accumulate(state, batch, kv, first, count)
            self._finish(state, batch, own, row, queries)

    def _blocks(self, row: E, key_count: E, queries: E) -> E:
        """Key blocks that the tile at `row` may see."""
        last = key_count
        if self.mask_kind == "causal":
            past = maximum(key_count - queries, 0)
            last = minimum(key_count, past + row + self.rows)
        return (last + (self.panel - 1)) / self.panel

    def _transpose_keys(self, batch: E, kv: E, head: E, key_count: E) -> tuple[Buffer, E]:
        """Lay the keys out as [block, depth, panel] in this head's scratch."""
        k, depth, panel = self.k, self.depth, self.panel
        if self.scope.scratch is None:
            raise InternalError("attention_tiled: no scratch was planned")
        buffer = self.scope.scratch
        most = -(-upper(self.axes.keys) // panel) * panel * depth
        start = k.let("head_scratch", head * most)
        blocks = (key_count + (panel - 1)) / panel
        with k.loop("block", blocks) as block, k.loop("j", panel) as j:
            key = k.let("key", minimum(block * panel + j, key_count - 1))
            with k.loop("d", depth) as d:
                value = self._read(self.keys, batch, kv, key, d)
                k.store(buffer, start + (block * depth + d) * panel + j, value)
        return buffer, start

    def _scores(
        self,
        state: _State,
        packed: tuple[Buffer, E] | None,
        batch: E,
        own: E,
        kv: E,
        row: E,
        first: E,
        count: E,
    ) -> None:
        if packed is None:
            self._direct_scores(state, batch, own, kv, row, first, count)
        else:
            self._tile_scores(state, packed, batch, own, row, first)

    def _direct_scores(
        self, state: _State, batch: E, own: E, kv: E, row: E, first: E, count: E
    ) -> None:
        """One dot product per query and key."""
        k = self.k
        with k.loop("i", self.rows) as i, k.loop("j", count) as j:
            total = k.mutable("total", const(0.0, self.prim))
            accumulators = [(total, BinaryOp.ADD)]
            with k.loop("d", self.depth, kind=LoopKind.SIMD, accumulators=accumulators) as d:
                x = self._read(self.q, batch, own, self._query(row + i), d)
                total.set(total + x * self._read(self.keys, batch, kv, first + j, d))
            k.store(state.scores, i * self.panel + j, total)

    def _tile_scores(
        self, state: _State, packed: tuple[Buffer, E], batch: E, own: E, row: E, first: E
    ) -> None:
        """A register tile of queries times transposed keys."""
        k, panel = self.k, self.panel
        buffer, start = packed
        tile = k.local("tile", self.prim, self.rows * panel)
        zero = const(0.0, self.prim, self.lanes)
        with self._each_row() as i, self._vectors(panel) as j:
            k.store(tile, i * panel + j, zero)
        block = k.let("block_keys", start + first * self.depth)
        with k.loop("d", self.depth) as d, self._each_row() as i:
            x = k.let("x", self._read(self.q, batch, own, self._query(row + i), d))
            with self._vectors(panel) as j:
                key = k.load(buffer, block + d * panel + j, self.lanes)
                total = fma(x, key, k.load(tile, i * panel + j, self.lanes))
                k.store(tile, i * panel + j, total)
        with self._each_row() as i, self._vectors(panel) as j:
            k.store(state.scores, i * panel + j, k.load(tile, i * panel + j, self.lanes))

    def _weigh(self, state: _State, batch: E, own: E, query: E, i: E, first: E, count: E) -> None:
        """Turn one row of scores into weights and update its running maximum and sum."""
        k, at = self.k, i * self.panel
        top = k.mutable("top", k.load(state.maximum, i))
        with k.loop("j", count, kind=LoopKind.SIMD, accumulators=[(top, BinaryOp.MAX)]) as j:
            score = k.load(state.scores, at + j) * self.scale
            score = k.let("score", self._masked(score, batch, own, query, first + j))
            k.store(state.scores, at + j, score)
            top.set(maximum(top, score))
        shift = k.let("shift", select(top.eq(-math.inf), 0.0, top))
        before = k.load(state.maximum, i)
        correction = k.let("correction", scalar_expression("exp", [before - shift]))
        total = k.mutable("total", const(0.0, self.prim))
        with k.loop("j", count, kind=LoopKind.SIMD, accumulators=[(total, BinaryOp.ADD)]) as j:
            shifted = k.load(state.scores, at + j) - shift
            weight = k.let("weight", scalar_expression("exp", [shifted]))
            k.store(state.scores, at + j, weight)
            total.set(total + weight)
        k.store(state.maximum, i, top)
        k.store(state.total, i, fma(k.load(state.total, i), correction, total))
        with k.loop("d", self.depth, kind=LoopKind.SIMD) as d:
            place = i * self.depth + d
            k.store(state.sums, place, k.load(state.sums, place) * correction)

    def _masked(self, score: E, batch: E, own: E, query: E, key: E) -> E:
        """Apply softcap and mask to one score."""
        if self.softcap is not None and self.softcap > 0:
            capped = scalar_expression("tanh", [score / self.softcap])
            score = capped * self.softcap
        if self.mask_kind in ("causal", "sliding_window"):
            past = self.scope.extents(self.axes.keys) - self.scope.extents(self.axes.queries)
            position = maximum(past, 0) + query
            hidden = key > position
            if self.mask_kind == "sliding_window":
                hidden = hidden | (key < position - (self.window or 0))
            return select(hidden, MASKED_SCORE, score)
        if self.mask is None:
            return score
        given = self._mask_element(self.mask, batch, own, query, key)
        if self.mask_kind == "bias":
            return score + given
        return select(self._hides(given), MASKED_SCORE, score)

    def _hides(self, given: E) -> E:
        if given.type.prim is Prim.BOOL:
            return ~given
        return given < VISIBLE_FROM if given.type.prim.is_float else given < 1

    def _mask_element(self, mask: Reader, batch: E, own: E, query: E, key: E) -> E:
        view = mask_view(mask.shape, self.axes)
        place = {0: batch, 1: own, 2: self._query(query), 3: key}
        axes = {2: (0, 3), 3: (0, 2, 3), 4: (0, 1, 2, 3)}[len(mask.shape)]
        at = [index(0) if view[axis] == 1 else place[axis] for axis in axes]
        groups = tuple((axis,) for axis in range(len(mask.shape)))
        return mask.grouped(groups).read_real(*at)

    def _accumulate(self, state: _State, batch: E, kv: E, first: E, count: E) -> None:
        """Add this block's weights times its values, in registers."""
        k, depth = self.k, self.depth
        part = k.local("part", self.prim, self.rows * depth)
        with self._each_row() as i, self._vectors(depth) as d:
            k.store(part, i * depth + d, k.load(state.sums, i * depth + d, self.lanes))
        with k.loop("j", count) as j, self._each_row() as i:
            weight = k.let("weight", k.load(state.scores, i * self.panel + j))
            with self._vectors(depth) as d:
                value = self._read_vector(self.values, batch, kv, first + j, d)
                total = fma(weight, value, k.load(part, i * depth + d, self.lanes))
                k.store(part, i * depth + d, total)
        with self._each_row() as i, self._vectors(depth) as d:
            k.store(state.sums, i * depth + d, k.load(part, i * depth + d, self.lanes))

    def _finish(self, state: _State, batch: E, own: E, row: E, queries: E) -> None:
        k = self.k
        groups = self._groups(len(self.result.shape))
        target = self.result.grouped(groups)
        stop = minimum(queries - row, self.rows)
        with k.loop("i", stop) as i:
            inverse = k.let("inverse", 1.0 / k.load(state.total, i))
            with k.loop("d", self.depth, kind=LoopKind.SIMD) as d:
                value = k.load(state.sums, i * self.depth + d) * inverse
                place = self._place(len(groups), batch, own, row + i, d)
                target.write(*place, value=value)

    def _query(self, row: E) -> E:
        """Rows past the end repeat the last query; their results are not stored."""
        queries = self.axes.queries
        if isinstance(queries, int) and queries % self.rows == 0:
            return row
        return minimum(row, self.scope.extents(queries) - 1)

    def _groups(self, rank: int) -> tuple[tuple[int, ...], ...]:
        if rank < 4:
            return tuple((axis,) for axis in range(rank))
        return ((0,), (1,), (2,), (3,)) if self.axes.head_major else ((0,), (1,), (2, 3))

    def _place(self, groups: int, batch: E, head: E, position: E, d: E) -> tuple[E, ...]:
        if groups == 4:
            return batch, head, position, d
        column = head * self.depth + d
        return (batch, position, column) if groups == 3 else (position, column)

    def _read(self, reader: Reader, batch: E, head: E, position: E, d: E) -> E:
        groups = self._groups(len(reader.shape))
        place = self._place(len(groups), batch, head, position, d)
        return reader.grouped(groups).read_real(*place)

    def _read_vector(self, reader: Reader, batch: E, head: E, position: E, d: E) -> E:
        groups = self._groups(len(reader.shape))
        place = self._place(len(groups), batch, head, position, d)
        return reader.grouped(groups).read_vector(*place, lanes=self.lanes)

    def _each_row(self) -> AbstractContextManager[E]:
        return self.k.loop("i", self.rows, kind=LoopKind.UNROLL)

    def _vectors(self, width: int) -> AbstractContextManager[E]:
        return self.k.loop("j", width, step=self.lanes, kind=LoopKind.UNROLL)


@dataclass(frozen=True, slots=True)
class _State:
    """What a tile of queries carries over the key blocks."""

    scores: Buffer
    sums: Buffer
    maximum: Buffer
    total: Buffer

    @classmethod
    def fresh(cls, k: KernelBuilder, tile: _Tile) -> _State:
        rows = tile.rows
        state = cls(
            k.local("scores", tile.prim, rows * tile.panel),
            k.local("sums", tile.prim, rows * tile.depth),
            k.local("maximum", tile.prim, rows),
            k.local("total", tile.prim, rows),
        )
        with k.loop("i", rows) as i:
            k.store(state.maximum, i, -math.inf)
            k.store(state.total, i, 0.0)
        with k.loop("i", rows * tile.depth, kind=LoopKind.SIMD) as i:
            k.store(state.sums, i, 0.0)
        return state
