"""The operands of an attention kernel: addresses of heads, and what is applied to a score."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.affine import Groups
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, index, maximum, minimum, select
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.scalar import scalar_expression
from rlx.dataclass import dataclass
from rlx.ir.ops.attention_layout import (
    MASKED_SCORE,
    VISIBLE_FROM,
    AttentionLayout,
    mask_view,
)


@dataclass(frozen=True, slots=True)
class Heads:
    """One head of one batch element, and the head of keys and values that it reads."""

    batch: E
    query: E
    kv: E


@dataclass(frozen=True, slots=True)
class Attention:
    """Operands and options of one attention."""

    scope: Scope
    axes: AttentionLayout
    q: Reader
    keys: Reader
    values: Reader
    mask: Reader | None
    result: Writer
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

    @property
    def queries(self) -> E:
        return self.scope.extents(self.axes.queries)

    @property
    def key_count(self) -> E:
        return self.scope.extents(self.axes.keys)

    @property
    def is_masked(self) -> bool:
        """True if scores are more than scaled products."""
        return self.mask_kind != "none" or self.caps

    @property
    def caps(self) -> bool:
        return self.softcap is not None and self.softcap > 0

    def heads(self, number: E, together: int = 1) -> Heads:
        """Name the parts of a head's number, counted over the batch.

        With `together` heads counted as one, that is the first of them.
        """
        k, each = self.k, self.axes.heads // together
        batch = k.let("batch", number / each)
        query = k.let("query_head", number % each * together)
        return Heads(batch, query, k.let("kv_head", query / self.axes.group))

    def keys_seen(self, row: E, rows: int) -> E:
        """Return the number of keys that are not masked for some query from `row` on."""
        if self.mask_kind != "causal":
            return self.key_count
        past = maximum(self.key_count - self.queries, 0)
        return minimum(self.key_count, past + row + rows)

    @property
    def skips_keys(self) -> bool:
        """True if some queries may see fewer keys than there are."""
        return self.mask_kind == "causal" and self.axes.queries != 1

    def skipped_values(self, heads: Heads, first: E, lanes: int) -> Buffer:
        """Return the sum over keys from `first` on of 0 times their values.

        That is 0, or NaN where a value is infinite or NaN: what the formula adds for hidden keys.
        It costs a load and an addition per vector, for each tile of queries.
        """
        k = self.k
        sums = k.local("skipped", self.prim, self.depth)
        with k.loop("d", self.depth, step=lanes) as d:
            total = k.mutable("total", const(0.0, self.prim, lanes))
            with k.loop("key", self.key_count, start=first) as key:
                value = self.read(self.values, heads.batch, heads.kv, key, d, lanes=lanes)
                total.set(fma(value, 0.0, total))
            k.store(sums, d, total)
        return sums

    # Scores

    def score(self, product: E, query: E, key: E, given: E | None) -> E:
        """Apply softcap and mask to scaled scores of `query` (one, or one per lane) and `key`.

        `given` is the mask's element, as a number.
        """
        if self.caps and self.softcap is not None:
            product = scalar_expression("tanh", [product / self.softcap]) * self.softcap
        if self.mask_kind in ("causal", "sliding_window"):
            return select(self._is_hidden(query, key), MASKED_SCORE, product)
        if given is None:
            return product
        if self.mask_kind == "bias":
            return product + given
        return select(given < VISIBLE_FROM, MASKED_SCORE, product)

    def _is_hidden(self, query: E, key: E) -> E:
        lanes, narrow = query.type.lanes, query.type.prim
        past = maximum(self.key_count - self.queries, 0).cast(narrow).splat(lanes)
        position = past + query
        at = key.cast(narrow).splat(lanes)
        hidden = at > position
        if self.mask_kind == "sliding_window":
            hidden = hidden | (at < position - (self.window or 0))
        return hidden

    @property
    def mask_varies(self) -> bool:
        """True if queries have masks of their own."""
        return self.mask is not None and mask_view(self.mask.shape, self.axes)[2] != 1

    def given(self, heads: Heads, query: E, key: E) -> E:
        """Read the mask's element for one query and key, as a number: 1 for true."""
        mask = self.mask
        assert mask is not None, "only where there is a mask"
        view = mask_view(mask.shape, self.axes)
        place = {0: heads.batch, 1: heads.query, 2: self.query(query), 3: key}
        axes = {2: (0, 3), 3: (0, 2, 3), 4: (0, 1, 2, 3)}[len(mask.shape)]
        at = [index(0) if view[axis] == 1 else place[axis] for axis in axes]
        groups = tuple((axis,) for axis in range(len(mask.shape)))
        return mask.grouped(groups).read_real(*at).cast(self.prim)

    # Elements

    def query(self, row: E) -> E:
        """Rows past the end repeat the last query; their results are not stored."""
        return minimum(row, self.queries - 1)

    def read(self, reader: Reader, batch: E, head: E, position: E, d: E, *, lanes: int = 1) -> E:
        groups, place = self._place(len(reader.shape), batch, head, position, d)
        return reader.grouped(groups).read_vector(*place, lanes=lanes)

    def prefetch(self, reader: Reader, heads: Heads, position: E) -> None:
        """Prefetch a key or a value."""
        groups, place = self._place(len(reader.shape), heads.batch, heads.kv, position, index(0))
        reader.grouped(groups).prefetch(*place, count=self.depth)

    def write(self, heads: Heads, row: E, d: E, value: E) -> None:
        """Store one element of the result, or consecutive ones."""
        groups, place = self._place(len(self.result.shape), heads.batch, heads.query, row, d)
        target = self.result.grouped(groups)
        if value.type.lanes == 1:
            target.write(*place, value=value)
        else:
            target.write_vector(*place, value=value)

    def _place(
        self, rank: int, batch: E, head: E, position: E, d: E
    ) -> tuple[Groups, tuple[E, ...]]:
        groups = tuple((axis,) for axis in range(rank))
        if rank == 4:
            inner = (head, position, d) if self.axes.head_major else (position, head, d)
            return groups, (batch, *inner)
        column = head * self.depth + d
        return groups, (batch, position, column) if rank == 3 else (position, column)
