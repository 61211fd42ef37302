"""A long sort in stages: blocks of keys, shared by threads, are counted by a digit and moved."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.memory import given, result, row_count
from rlx.codegen.kernels.parallel import each_block
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.sort.keys import bit, greatest, is_signed, key_prim, keyed_value
from rlx.codegen.kernels.sort.sort import restore
from rlx.codegen.loops.expr import E, const, lshr, minimum
from rlx.codegen.loops.nodes import LoopKind, Prim
from rlx.ir.ops.sort_stages import key_bits
from rlx.ir.shape import upper


def _unsigned(key: E, x: Reader) -> E:
    """Turn a key of elements of `x` into one that is ordered as an unsigned number, and back."""
    low, width = key_bits(x.dtype)
    return key ^ bit(low + width - 1, key.type.prim) if is_signed(x.dtype) else key


def _digit(key: E, start: int, bits: int) -> E:
    return (lshr(key, start) & ((1 << bits) - 1)).cast(Prim.I64)


@kernel("radix_counts")
def radix_counts(
    scope: Scope, keys: Reader, counts: Writer, *, start: int, bits: int, blocks: int
) -> None:
    k, bins = scope.k, 1 << bits
    with each_block(k, row_count(keys), blocks) as (block, first, last):
        seen = k.local("seen", Prim.I32, bins)
        with k.loop("d", bins, kind=LoopKind.SIMD) as d:
            k.store(seen, d, 0)
        with k.loop("i", last, start=first) as i:
            digit = k.let("digit", _digit(k.load(given(keys), i), start, bits))
            k.store(seen, digit, k.load(seen, digit) + 1)
        with k.loop("d", bins, kind=LoopKind.SIMD) as d:
            k.store(result(counts), block * bins + d, k.load(seen, d))


@kernel("radix_move")
def radix_move(
    scope: Scope, keys: Reader, starts: Reader, moved: Writer, *, start: int, bits: int
) -> None:
    k, bins = scope.k, 1 << bits
    last_key = const(row_count(keys) - 1, Prim.U64)
    with each_block(k, row_count(keys), row_count(starts)) as (block, first, last):
        places = k.local("places", Prim.I32, bins)
        with k.loop("d", bins, kind=LoopKind.SIMD) as d:
            k.store(places, d, k.load(given(starts), block * bins + d))
        with k.loop("i", last, start=first) as i:
            key = k.let("key", k.load(given(keys), i))
            digit = k.let("digit", _digit(key, start, bits))
            place = k.let("place", k.load(places, digit))
            k.store(places, digit, place + 1)
            # starts may come from a file: a negative place is a large number without a sign
            inside = minimum(place.cast(Prim.U32).cast(Prim.U64), last_key)
            k.store(result(moved), inside.cast(Prim.I64), key)


@kernel("sorted_values")
def sorted_values(scope: Scope, keys: Reader, x: Reader, values: Writer) -> None:
    k, length = scope.k, upper(x.shape[0])
    row = const(0, Prim.I64)
    source, target = x.grouped(((), (0,))).at(row), values.grouped(((), (0,))).at(row)
    prim = key_prim(x.dtype)
    shared = k.mutable("shared", const(False, Prim.BOOL))
    with k.loop("i", length) as i:
        key = k.let("key", _unsigned(k.load(given(keys), i), x))
        if x.prim.is_float:
            shared.set(shared | key.eq(0) | key.eq(greatest(prim)))
        target.write(i, value=keyed_value(key, x.prim))
    if x.prim.is_float:
        with k.if_(shared):
            restore(k, source, target)
