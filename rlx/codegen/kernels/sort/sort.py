"""sort and argsort: stable radix sorts.

Each element becomes a record with an integer key that orders as the elements do. A row of records
is counted by digits of the key, lowest digit first, and moved to and fro between the halves of
scratch; digits that all records share are skipped. Short rows are sorted by insertion, or many of
them side by side (`sort_network`). Rows are shared by threads, each row sorted by one.

Keys turn back into elements, but for what shares a key with others: zeros of either sign and NaNs
are then put in their places in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.extents import vector_groups
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.sort.keys import bit, is_signed, key_prim, keyed_value, order_key
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, lshr, maximum, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.ir.ops.sort_stages import INDEX_BITS, even_digits, key_bits
from rlx.ir.shape import Extent, Shape, product, upper
from rlx.ir.types import TensorType

SHORT_ROW = 40
"""Rows up to this length are sorted by insertion: there counting digits costs more."""

_LONG_ROW = 1 << 13
"""Rows from this length on take digits of up to 11 bits, whose 2048 counters pay by then."""

_BLOCKS = 64
"""Blocks of rows that threads share: each has scratch for one row."""

Record: TypeAlias = tuple[E, ...]
"""What is moved: an element, or its key with its index; one or two words."""


@dataclass(frozen=True, slots=True)
class Key:
    """Which bits of a record's first word order it, as an unsigned number but for a sign bit."""

    low: int
    width: int
    is_signed: bool

    def digits(self, bits: int) -> list[tuple[int, int]]:
        return even_digits(self.low, self.width, bits)

    def digit(self, word: E, start: int, bits: int) -> E:
        if self.is_signed:
            word = word ^ bit(self.low + self.width - 1, word.type.prim)
        return (lshr(word, start) & ((1 << bits) - 1)).cast(Prim.I64)


# Rows and their scratch


def _block_count(shape: Shape) -> int:
    rows = upper(product(shape[:-1]))
    return min(rows, _BLOCKS) if is_large(product(shape)) else 1


def _scratch_words(shape: Shape, words: int) -> int:
    """Words for two copies of the records of a row, for each block."""
    return _block_count(shape) * 2 * words * upper(shape[-1])


def index_words(dtype: DType) -> int:
    """Words of a record that holds an index: a key of 32 bits shares the word with it."""
    return 2 if compute_prim(dtype).size == 8 else 1


@scratch("sort", elements=key_prim)
def sort_scratch(x: TensorType, **_: object) -> int:
    return _scratch_words(x.shape, 1) * key_prim(x.dtype).size


@scratch("argsort", elements=lambda _: Prim.I64)
def argsort_scratch(x: TensorType, **_: object) -> int:
    return _scratch_words(x.shape, index_words(x.dtype)) * Prim.I64.size


@contextmanager
def rows_with_scratch(scope: Scope, shape: Shape, words: int) -> Iterator[tuple[E, E]]:
    """Open the loops over rows; yields the row and where its scratch begins."""
    k, count = scope.k, scope.extents(product(shape[:-1]))
    blocks = minimum(count, _block_count(shape))
    kind = LoopKind.PARALLEL if _block_count(shape) > 1 else LoopKind.SERIAL
    with k.loop("block", blocks, kind=kind) as block:
        base = k.let("base", block * (2 * words * upper(shape[-1])))
        first = k.let("first", block * count / blocks)
        last = k.let("last", (block + 1) * count / blocks)
        with k.loop("row", last, start=first) as row:
            yield row, base


@dataclass(frozen=True, slots=True)
class Sorter:
    """Sorts the records of one row, which it is given one by one."""

    k: KernelBuilder
    memory: Buffer
    base: E
    length: E
    words: int
    longest: int
    key: Key
    bits: int
    """Bits of a digit, at most."""

    def run(self, record: Callable[[E], Record], take: Callable[[E, Record], None]) -> None:
        """Sort `record(i)` over all i; hand the i-th of the order to `take`."""
        start = self._by_insertion(record) if self.longest <= SHORT_ROW else self._by_radix(record)
        with self.k.loop("i", self.length) as i:
            take(i, self.load(start + i))

    def load(self, at: E) -> Record:
        stride = 2 * self.longest
        return tuple(
            self.k.let("record", self.k.load(self.memory, at + word * stride))
            for word in range(self.words)
        )

    def store(self, at: E, record: Record) -> None:
        for word, part in enumerate(record):
            self.k.store(self.memory, at + word * 2 * self.longest, part)

    def _by_insertion(self, record: Callable[[E], Record]) -> E:
        k = self.k
        with k.loop("i", self.length) as i:
            new = tuple(k.let("new", part) for part in record(i))
            slot = k.mutable("slot", i)
            before = k.load(self.memory, self.base + maximum(slot - 1, 0))
            with k.while_((slot > 0) & (before > new[0])):
                self.store(self.base + slot, self.load(self.base + slot - 1))
                slot.set(slot - 1)
            self.store(self.base + slot, new)
        return self.base

    def _by_radix(self, record: Callable[[E], Record]) -> E:
        k = self.k
        digits = self.key.digits(self.bits)
        bins = 1 << max(bits for _, bits in digits)
        prim = Prim.I32 if self.longest < 1 << 31 else Prim.I64
        counts = k.local("counts", prim, len(digits) * bins)
        with k.loop("b", len(digits) * bins, kind=LoopKind.SIMD) as b:
            k.store(counts, b, 0)
        self._count(counts, bins, digits, record)
        source = k.mutable("source", self.base)
        target = k.mutable("target", self.base + self.length)
        for number, (start, bits) in enumerate(digits):
            first = self.key.digit(k.load(self.memory, source), start, bits)
            together = k.load(counts, first + number * bins).cast(Prim.I64)
            with k.if_(together.ne(self.length)):
                self._starts(counts, number * bins, 1 << bits)
                self._move(counts, number * bins, start, bits, source, target)
                free = k.let("free", source)
                source.set(target)
                target.set(free)
        return source

    def _count(
        self,
        counts: Buffer,
        bins: int,
        digits: list[tuple[int, int]],
        record: Callable[[E], Record],
    ) -> None:
        """Write down all records, and count every digit."""
        k = self.k
        with k.loop("i", self.length) as i:
            new = tuple(k.let("new", part) for part in record(i))
            self.store(self.base + i, new)
            for number, (start, bits) in enumerate(digits):
                at = k.let("bin", self.key.digit(new[0], start, bits) + number * bins)
                k.store(counts, at, k.load(counts, at) + 1)

    def _starts(self, counts: Buffer, first: int, bins: int) -> None:
        """Turn the counts of a digit into where its records go."""
        k = self.k
        total = k.mutable("total", const(0, counts.prim))
        with k.loop("b", first + bins, start=first) as b:
            here = k.let("here", k.load(counts, b))
            k.store(counts, b, total)
            total.set(total + here)

    def _move(
        self, counts: Buffer, first: int, start: int, bits: int, source: E, target: E
    ) -> None:
        k = self.k
        with k.loop("i", self.length) as i:
            record = self.load(source + i)
            at = k.let("bin", self.key.digit(record[0], start, bits) + first)
            place = k.let("place", k.load(counts, at))
            k.store(counts, at, place + 1)
            self.store(target + place.cast(Prim.I64), record)


@kernel("sort")
def sort(scope: Scope, x: Reader, y: Writer) -> None:
    """Sort keys, which turn back into elements."""
    k = scope.k
    source, target = x.grouped(vector_groups(x.shape)), y.grouped(vector_groups(x.shape))
    key = Key(*key_bits(x.dtype), is_signed(x.dtype))
    with rows_with_scratch(scope, x.shape, 1) as (row, base):
        x_row, y_row = source.at(row), target.at(row)
        shared = k.mutable("shared", const(False, Prim.BOOL))

        def record(i: E) -> Record:
            value = k.let("value", x_row.read_real(i))
            if x.prim.is_float:
                shared.set(shared | value.eq(0.0) | value.ne(value))
            return (order_key(value),)

        _sorter(scope, x.shape[-1], base, 1, key).run(
            record, lambda i, found: y_row.write(i, value=keyed_value(found[0], x.prim))
        )
        if x.prim.is_float:
            with k.if_(shared):
                restore(k, x_row, y_row)


def restore(k: KernelBuilder, x_row: GroupedReader, y_row: GroupedWriter) -> None:
    """Write zeros and NaNs into their places of a sorted row, in the order of the row."""
    length = x_row.extent(0)
    zero, nan = k.mutable("zero", const(0, Prim.I64)), k.mutable("nan", length + 0)
    with k.loop("i", length) as i:
        value = k.let("value", x_row.read_real(i))
        zero.set(zero + (value < 0.0).cast(Prim.I64))
        nan.set(nan - value.ne(value).cast(Prim.I64))
    with k.loop("i", length) as i:
        value = k.let("value", x_row.read_real(i))
        with k.if_(value.eq(0.0)):
            y_row.write(zero, value=value)
            zero.set(zero + 1)
        with k.if_(value.ne(value)):
            y_row.write(nan, value=value)
            nan.set(nan + 1)


@kernel("argsort")
def argsort(scope: Scope, x: Reader, y: Writer) -> None:
    """Sort keys with their indices."""
    groups = vector_groups(x.shape)
    source, target = x.grouped(groups), y.grouped(groups)
    with sorted_indices(scope, x, source, descending=False) as (row, sorted_row):
        y_row = target.at(row)
        sorted_row(lambda i, index: y_row.write(i, value=index))


Sorted: TypeAlias = Callable[[Callable[[E, E], None]], None]
"""Sorts a row; its argument is called with each place in the order and its index."""


@contextmanager
def sorted_indices(
    scope: Scope, x: Reader, source: GroupedReader, *, descending: bool
) -> Iterator[tuple[E, Sorted]]:
    """Open the loops over rows; yields the row, and what sorts its indices."""
    words = index_words(x.dtype)
    key = index_key(x.dtype)
    with rows_with_scratch(scope, x.shape, words) as (row, base):
        x_row = source.at(row)

        def record(i: E) -> Record:
            own = order_key(x_row.read_real(i))
            return index_record(~own if descending else own, i)

        def run(take: Callable[[E, E], None]) -> None:
            sorter = _sorter(scope, x.shape[-1], base, words, key)
            sorter.run(record, lambda i, found: take(i, scope.k.let("index", index_of(found))))

        yield row, run


def index_record(key: E, i: E) -> Record:
    """Return the record of a key and its index: one word if the key has 32 bits."""
    if key.type.prim is Prim.I64:
        return key, i
    return (key.cast(Prim.I64) << INDEX_BITS | i,)


def index_of(record: Record) -> E:
    """Return the index of an `index_record`."""
    return record[-1] if len(record) == 2 else record[0] & ((1 << INDEX_BITS) - 1)


def index_key(dtype: DType) -> Key:
    """Return the key of records with indices; complemented keys are signed in any case."""
    low, width = key_bits(dtype)
    shift = 0 if index_words(dtype) == 2 else INDEX_BITS
    return Key(low + shift, width, is_signed(dtype))


def _sorter(scope: Scope, length: Extent, base: E, words: int, key: Key) -> Sorter:
    memory, whole = scope.scratch_memory, scope.extents(length)
    return Sorter(
        scope.k, memory, base, whole, words, upper(length), key, digit_bits(upper(length))
    )


def digit_bits(count: int) -> int:
    """Return how many bits the digits of so many keys have."""
    return 11 if count >= _LONG_ROW else 8
