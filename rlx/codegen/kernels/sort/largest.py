"""topk: the largest elements of each row in descending order, with their indices.

A long row is divided into twice as many groups as elements are wanted: as many elements as are
wanted are no less than the last of so many of the groups' largest. Blocks of the row are compared
with that bound by vectors, and only those that hold an element from there on are gone through one
by one. Few elements are inserted into the best so far, which are kept in order in the results; many
are sorted. The time depends little on the order of the elements.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.extents import vector_groups
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.sort.keys import greatest, order_key, top_bit
from rlx.codegen.kernels.sort.sort import (
    SHORT_ROW,
    Record,
    Sorter,
    argsort_scratch,
    digit_bits,
    index_key,
    index_of,
    index_record,
    index_words,
    rows_with_scratch,
    sorted_indices,
)
from rlx.codegen.kernels.values import Scalar
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, lshr, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.ir.shape import upper
from rlx.ir.types import TensorType

_BLOCK = 32
"""Elements that are compared with the bound at once."""

_LONG_ROW = 768
"""Elements of a row from which few are inserted faster after the search for a bound."""

_LEAST_GROUPS = 64
"""Groups whose largest elements keep vectors busy."""

_MOST_GROUPS = 4096
"""Groups whose largest elements are kept on the stack."""

_LEAST_GROUP = 4
"""Elements of a group from which its largest says enough about the row."""


@scratch("topk", elements=lambda _: Prim.I64)
def topk_scratch(x: TensorType, *, k: int, **_: object) -> int:
    return argsort_scratch(x) if _sorts(k) else 0


def _sorts(k: int) -> bool:
    """True if so many elements are wanted that sorting them is less work than inserting each."""
    return k > SHORT_ROW


@kernel("topk")
def topk(scope: Scope, x: Reader, values: Writer, indices: Writer, *, k: int) -> None:
    """Insert the elements of each row into the best so far, or sort them."""
    if k == 0:
        return
    groups = vector_groups(x.shape)
    every = _Row(x.grouped(groups), values.grouped(groups), indices.grouped(groups))
    search = _Search(scope, x, every, wanted=k)
    if not _sorts(k):
        _insert(search)
    elif search.groups:
        _sort_candidates(search)
    else:
        _sort_rows(search)


@dataclass(frozen=True)
class _Row:
    """A row, or all of them before one is selected, with the largest elements and their places."""

    source: GroupedReader
    best: GroupedWriter
    places: GroupedWriter

    def at(self, row: E) -> _Row:
        return _Row(self.source.at(row), self.best.at(row), self.places.at(row))

    def write(self, slot: E, value: Scalar, place: E) -> None:
        self.best.write(slot, value=value)
        self.places.write(slot, value=place)


@dataclass(frozen=True)
class _Search:
    """The search for as many elements of each row of `x` as are wanted."""

    scope: Scope
    x: Reader
    every: _Row
    wanted: int

    @property
    def k(self) -> KernelBuilder:
        return self.scope.k

    @property
    def groups(self) -> int:
        """How many groups a row is divided into; 0 if all of its elements are candidates."""
        return _group_count(self.wanted, self.x.type)


def _insert(search: _Search) -> None:
    """Read each row, keeping its largest elements so far sorted in the results.

    An element moves up past those that it outranks, so that equal ones keep their order.
    """
    k, wanted, every = search.k, search.wanted, search.every
    with rows(k, "row", every.source.extent(0), search.x.type.elements) as index:
        row = every.at(index)

        def insert(i: E, count: E) -> None:
            value = k.let("value", row.source.read_real(i))
            slot = k.mutable("slot", minimum(count, wanted))
            climbs = (slot > 0) & _outranks(value, row.best.written(maximum(slot - 1, 0)))
            with k.while_(climbs):
                with k.if_(slot < wanted):
                    row.write(slot, row.best.written(slot - 1), row.places.written(slot - 1))
                slot.set(slot - 1)
            with k.if_(slot < wanted):
                row.write(slot, value, i)

        if not search.groups:
            with k.loop("i", row.source.extent(0)) as i:
                insert(i, i)
            return
        count = k.mutable("count", const(0, Prim.I64))

        def take(i: E, rank: E, enters: E) -> None:
            del rank
            with k.if_(enters):
                insert(i, count)
                count.set(count + 1)

        _candidates(search, row.source, take)


def _outranks(a: E, b: E) -> E:
    """True if `a` comes strictly before `b` in descending order; NaN is above everything."""
    larger = a > b
    return larger | (a.ne(a) & b.eq(b)) if a.type.prim.is_float else larger


def _group_count(k: int, x: TensorType) -> int:
    """Return how many groups a row is divided into; 0 if all of its elements are candidates."""
    length = upper(x.shape[-1])
    groups = max(-(-2 * k // _BLOCK) * _BLOCK, _LEAST_GROUPS)
    most = min(_MOST_GROUPS, length // _LEAST_GROUP)
    return groups if groups <= most and length >= _least_length(k, x.dtype) else 0


def _least_length(k: int, dtype: DType) -> int:
    """Return from which length on a row is searched for a bound."""
    if _sorts(k):
        return 0 if dtype.size >= 4 else 2 * _LONG_ROW  # keys of few digits are soon sorted
    return 4 * _LONG_ROW if dtype.size == 8 else _LONG_ROW  # twice the bits, half the lanes


def _sort_rows(search: _Search) -> None:
    """Sort whole rows in descending order and keep the first elements."""
    scope, x, every = search.scope, search.x, search.every
    with sorted_indices(scope, x, every.source, descending=True) as (index, sorted_row):
        sorted_row(_first(search, every.at(index)))


def _first(search: _Search, row: _Row) -> Callable[[E, E], None]:
    """Return a function that writes the element at an index if its position is among the first."""

    def take(i: E, index: E) -> None:
        with search.k.if_(i < search.wanted):
            index = search.k.let("index", index)
            row.write(i, row.source.read(index), index)

    return take


def _sort_candidates(search: _Search) -> None:
    """Sort the elements of each row that no fewer than those wanted may outrank."""
    scope, k, x = search.scope, search.k, search.x
    words, longest, bits = index_words(x.dtype), upper(x.shape[-1]), digit_bits(search.groups)
    with rows_with_scratch(scope, x.shape, words) as (index, base):
        row = search.every.at(index)
        count = k.mutable("count", const(0, Prim.I64))
        key, memory = index_key(x.dtype), scope.scratch_memory
        sorter = Sorter(k, memory, base, count, words, longest, key, bits)

        def collect(i: E, rank: E, enters: E) -> None:
            sorter.store(base + count, index_record(rank, i))
            count.set(count + enters.cast(Prim.I64))

        _candidates(search, row.source, collect)
        first = _first(search, row)

        def record(i: E) -> Record:
            return sorter.load(base + i)

        sorter.run(record, lambda i, found: first(i, index_of(found)))


def _rank(row: GroupedReader, i: E) -> E:
    """Return an integer that is less for larger elements."""
    return ~order_key(row.read_real(i))


def _bound(search: _Search, row: GroupedReader) -> E:
    """Return a rank that as many elements as are wanted do not exceed.

    It is the last of as many of the groups' least ranks in order. Its bits are found one by one,
    each by counting the ranks below. A group takes one element of each odd stride, so that large
    elements at multiples of a power of two fall into all groups.
    """
    k, groups = search.k, search.groups
    prim, stride = _rank(row, const(0, Prim.I64)).type.prim, groups + 1
    least = k.local("least", prim, groups)
    with k.loop("j", groups, kind=LoopKind.SIMD) as j:
        k.store(least, j, greatest(prim))
    with k.loop("r", row.extent(0) / stride) as r:
        start = k.let("start", r * stride)
        with k.loop("j", groups, kind=LoopKind.SIMD) as j:
            k.store(least, j, minimum(k.load(least, j), _rank(row, start + j)))
    bound = k.mutable("bound", top_bit(prim))
    step = k.mutable("step", top_bit(prim))
    with k.loop("b", 8 * prim.size):
        trial = k.let("trial", bound + step)
        below = k.mutable("below", const(0, prim))
        with k.loop("j", groups, kind=LoopKind.SIMD, accumulators=[(below, BinaryOp.ADD)]) as j:
            below.set(below + (k.load(least, j) < trial).cast(prim))
        bound.set(select(below < search.wanted, trial, bound))
        step.set(lshr(step, 1))
    return k.let("bound", bound)


def _candidates(search: _Search, row: GroupedReader, take: Callable[[E, E, E], None]) -> None:
    """Call `take` with indices in ascending order, their ranks, and whether they are candidates.

    These are all elements above the bound, and of those at the bound as many as are wanted.
    """
    k, wanted = search.k, search.wanted
    bound, length = _bound(search, row), row.extent(0)
    ties = k.mutable("ties", const(0, Prim.I64))
    limit = k.mutable("limit", bound)

    def examine(i: E) -> None:
        rank = k.let("rank", _rank(row, i))
        is_tie = k.let("is_tie", rank.eq(bound))
        enters = k.let("enters", (rank < bound) | (is_tie & (ties < wanted)))
        take(i, rank, enters)
        ties.set(ties + is_tie.cast(Prim.I64))

    first = k.let("first", length % _BLOCK)
    with k.loop("i", first) as i:
        examine(i)
    highest = top_bit(bound.type.prim)
    with k.loop("start", length, start=first, step=_BLOCK) as start:
        found = k.mutable("found", const(0, Prim.I32))
        folded = [(found, BinaryOp.OR)]
        with k.loop("j", _BLOCK, kind=LoopKind.SIMD, accumulators=folded) as j:
            found.set(found | (_rank(row, start + j) <= limit).cast(Prim.I32))
        is_open = bound.ne(highest) | (ties < wanted)  # nothing is above the highest
        with k.if_(found.ne(0) & is_open):
            with k.loop("i", start + _BLOCK, start=start) as i:
                examine(i)
            limit.set(select(ties < wanted, bound, bound - 1))
