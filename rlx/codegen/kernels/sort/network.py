"""Many short rows, sorted side by side: each lane of a vector is a row.

As many rows as a vector has lanes are turned in registers, so that vectors hold one place of every
row. A network of exchanges (Batcher, 1968) sorts them by minima and maxima, without a branch, and
they are turned back. Elements are integer keys of the same order meanwhile; with their indices
after them, no two records are equal, so that the order is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.extents import vector_groups
from rlx.codegen.kernels.memory import given, result
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.sort.keys import greatest, keyed_value, order_key
from rlx.codegen.kernels.sort.sort import restore
from rlx.codegen.kernels.transposes import starts, turned
from rlx.codegen.loops.expr import E, const, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.lowering import BatchInLanes
from rlx.ir.ops.sort_stages import INDEX_BITS
from rlx.ir.shape import product, upper
from rlx.ir.types import TensorType


def exchanges(n: int) -> Iterator[tuple[int, int]]:
    """Yield the compare-exchange pairs of a network that sorts `n` elements."""
    size = 1
    while size < n:
        step = size
        while step >= 1:
            for first in range(step % size, n - step, 2 * step):
                for i in range(first, min(first + step, n - step)):
                    if i // (2 * size) == (i + step) // (2 * size):
                        yield i, i + step
            step //= 2
        size *= 2


@dataclass(frozen=True, slots=True)
class _Rows:
    """A block of rows, whose places are vectors."""

    scope: Scope
    lanes: int
    length: int
    first: list[E]
    """Where each row starts."""

    def read(self, source: Buffer, record: Callable[[E], E]) -> list[E]:
        k, found = self.scope.k, {}
        for start in starts(self.length, self.lanes):
            rows = [k.let("row", k.load(source, at + start, self.lanes)) for at in self.first]
            columns = turned(k, [k.let("key", record(row)) for row in rows])
            found.update({start + i: column for i, column in enumerate(columns)})
        return [found[i] for i in range(self.length)]

    def write(self, target: Buffer, columns: list[E]) -> None:
        k = self.scope.k
        for start in starts(self.length, self.lanes):
            rows = turned(k, columns[start : start + self.lanes])
            for at, row in zip(self.first, rows, strict=True):
                k.store(target, at + start, row)

    def exchanged(self, records: list[E]) -> list[E]:
        k, sorted_records = self.scope.k, list(records)
        for i, j in exchanges(self.length):
            low, high = sorted_records[i], sorted_records[j]
            sorted_records[i] = k.let("low", minimum(low, high))
            sorted_records[j] = k.let("high", maximum(low, high))
        return sorted_records


@contextmanager
def _blocks(scope: Scope, x: TensorType, lanes: int) -> Iterator[tuple[list[E], _Rows]]:
    """Open the loop over blocks of rows; yields the rows. Lanes beyond the last repeat it."""
    k, length = scope.k, upper(x.shape[-1])
    count = scope.extents(product(x.shape[:-1]))
    kind = LoopKind.PARALLEL if is_large(product(x.shape)) else LoopKind.SERIAL
    with k.loop("block", (count + (lanes - 1)) / lanes, kind=kind) as block:
        rows = [k.let("number", minimum(block * lanes + lane, count - 1)) for lane in range(lanes)]
        yield rows, _Rows(scope, lanes, length, [k.let("at", row * length) for row in rows])


@kernel("sort", lowering=BatchInLanes)
def sort_side_by_side(scope: Scope, x: Reader, y: Writer, *, lowering: BatchInLanes) -> None:
    """Sort keys; zeros and NaNs of a row are put into their order, where there are any."""
    k, groups = scope.k, vector_groups(x.shape)
    source, target = x.grouped(groups), y.grouped(groups)
    with _blocks(scope, x.type, lowering.lanes) as (numbers, rows):
        keys = rows.exchanged(rows.read(given(x), order_key))
        values = [k.let("value", keyed_value(key, x.prim)) for key in keys]
        rows.write(result(y), values)
        if x.prim.is_float:
            with k.if_(_has_equals(keys)):
                for number in numbers:
                    restore(k, source.at(number), target.at(number))


def _has_equals(keys: list[E]) -> E:
    """True if a row has zeros or NaNs; these come last."""
    prim, lanes = keys[0].type.prim, keys[0].type.lanes
    one, zero = const(1, prim, lanes), const(0, prim, lanes)
    found = select(keys[-1].eq(greatest(prim)), one, zero)
    for key in keys:
        found = found | select(key.eq(0), one, zero)
    return found.fold(BinaryOp.MAX).ne(0)


@kernel("argsort", lowering=BatchInLanes)
def argsort_side_by_side(scope: Scope, x: Reader, y: Writer, *, lowering: BatchInLanes) -> None:
    """Sort keys followed by their indices."""
    with _blocks(scope, x.type, lowering.lanes) as (_, rows):
        keys = rows.read(given(x), order_key)
        records = [
            scope.k.let("record", key.cast(Prim.I64) << INDEX_BITS | i)
            for i, key in enumerate(keys)
        ]
        indices = [record & ((1 << INDEX_BITS) - 1) for record in rows.exchanged(records)]
        rows.write(result(y), indices)
