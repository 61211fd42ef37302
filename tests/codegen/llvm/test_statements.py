"""Statements: loops, branches, scratch, failures, calls and atomics do what the grammar says."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import index, select
from rlx.codegen.loops.nodes import (
    Atomic,
    AtomicOp,
    BinaryOp,
    Kernel,
    LoopKind,
    Prim,
    Status,
    ValueType,
)
from tests.codegen.llvm.native import ORIGIN, aligned, call, load, number, run


def _counting(kind: LoopKind, start: int, stop: int, step: int) -> list[int]:
    """Return the positions that a loop of `kind` marks."""
    k = KernelBuilder("count")
    y = k.argument("y", Prim.I64, writable=True)
    with k.loop("i", stop, start=start, step=step, kind=kind) as i:
        k.store(y, i, i + 100)
    marks = np.zeros(200, np.int64)
    run(k.build(), [marks])
    return [int(at) for at in np.flatnonzero(marks) if marks[at] == at + 100]


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, LoopKind.UNROLL])
@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 5, 1), (3, 17, 4), (2, 3, 1), (2, 2, 1), (5, 2, 1), (0, 150, 1)],
)
def test_loop_visits_exactly_its_range(kind: LoopKind, start: int, stop: int, step: int) -> None:
    assert _counting(kind, start, stop, step) == list(range(start, stop, step))


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_simd_loop_visits_exactly_its_range(count: int) -> None:
    assert _counting(LoopKind.SIMD, 0, count, 1) == list(range(count))


@pytest.mark.parametrize("count", [-3, 0, 1, 5, 16, 37])
@pytest.mark.parametrize("kind", [LoopKind.SERIAL, LoopKind.SIMD, LoopKind.UNROLL])
def test_loop_bounds_may_be_known_at_run_time_only(kind: LoopKind, count: int) -> None:
    k = KernelBuilder("count")
    y = k.argument("y", Prim.I32, writable=True)
    n = k.scalar("n")
    with k.loop("i", n, kind=kind) as i:
        k.store(y, i, i.cast(Prim.I32) + 1)
    marks = np.zeros(64, np.int32)
    run(k.build(), [marks], [count])
    assert np.flatnonzero(marks).tolist() == list(range(count))


def _parallel_rows() -> Kernel:
    k = KernelBuilder("rows")
    y = k.argument("y", Prim.I64, writable=True)
    n = k.scalar("n")
    rows = k.let("rows", n * 2)
    with k.loop("begin", rows, kind=LoopKind.PARALLEL) as row:
        k.store(y, row, 1)
    return k.build()


def test_parallel_loop_runs_the_range_it_is_given() -> None:
    marks = np.zeros(8, np.int64)
    run(_parallel_rows(), [marks], [4], bounds=(2, 5))
    assert np.flatnonzero(marks).tolist() == [2, 3, 4]


def test_parallel_loop_without_a_range_runs_whole_even_for_symbolic_extents() -> None:
    marks = np.zeros(8, np.int64)
    run(_parallel_rows(), [marks], [3])
    assert np.flatnonzero(marks).tolist() == [0, 1, 2, 3, 4, 5]


def test_while_loop_and_mutable_variables_compute_a_greatest_common_divisor() -> None:
    k = KernelBuilder("gcd")
    y = k.argument("y", Prim.I64, writable=True)
    a, b = k.mutable("a", k.scalar("m")), k.mutable("b", k.scalar("n"))
    with k.while_(b.ne(0)):
        rest = k.let("rest", a % b)
        a.set(b)
        b.set(rest)
    k.store(y, 0, a)
    result = np.zeros(1, np.int64)
    run(k.build(), [result], [252, 105])
    assert result[0] == 21


def test_if_takes_one_branch_and_nests() -> None:
    k = KernelBuilder("sign")
    y = k.argument("y", Prim.I64, writable=True)
    n = k.scalar("n")
    with k.if_(n < 0):
        k.store(y, 0, -1)
    with k.else_():
        with k.if_(n > 0):
            k.store(y, 0, 1)
        with k.else_():
            k.store(y, 0, 0)
    native = load(k.build())
    result = np.full(1, 9, np.int64)
    seen = []
    for value in (-5, 0, 5):
        call(native, np.zeros(8, np.int64), [result], [value])
        seen.append(int(result[0]))
    assert seen == [-1, 0, 1]


def test_local_scratch_reverses_an_array_in_place() -> None:
    k = KernelBuilder("reverse")
    x = k.argument("x", Prim.F32, writable=True)
    scratch = k.local("scratch", Prim.F32, 10)
    with k.loop("i", 10) as i:
        k.store(scratch, i, k.load(x, i))
    with k.loop("j", 10) as j:
        k.store(x, j, k.load(scratch, index(9) - j))
    values = np.arange(10, dtype=np.float32)
    run(k.build(), [values])
    assert values.tolist() == list(range(9, -1, -1))


def test_bools_are_bytes_of_zero_and_one_in_memory() -> None:
    k = KernelBuilder("bools")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.BOOL, writable=True)
    any_set = k.mutable("any_set", index(0).ne(0))
    with k.loop("i", 4) as i:
        positive = k.let("positive", k.load(x, i) > 0.0)
        k.store(y, i, positive)
        any_set.set(any_set | positive)
    k.store(y, 4, any_set)
    actual = np.full(5, 9, np.uint8)
    run(k.build(), [np.array([-1, 1, np.nan, 2], np.float32), actual])
    assert actual.tolist() == [0, 1, 0, 1, 1]


def test_streaming_store_writes_the_same_values() -> None:
    k = KernelBuilder("stream")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 32, step=16) as i:
        k.store(y, i, k.load(x, i, 16) * 2.0, streaming=True)
    native = load(k.build())
    source, actual = np.arange(32, dtype=np.float32), aligned(32, np.float32)
    call(native, np.zeros(8, np.int64), [source, actual])
    assert actual.tolist() == (source * 2).tolist()
    assert "!nontemporal" in native.optimized_text


def _checked_lookup() -> Kernel:
    k = KernelBuilder("lookup")
    positions, y = k.argument("positions", Prim.I64), k.argument("y", Prim.I64, writable=True)
    with k.loop("i", 4) as i:
        at = k.let("at", k.load(positions, i))
        with k.if_((at < 0) | (at >= 10)):
            k.fail(Status.INDEX_OUT_OF_RANGE, i)
        k.store(y, i, at)
    return k.build()


def test_failure_returns_the_status_and_records_origin_and_position() -> None:
    header = np.zeros(8, np.int64)
    marks = np.zeros(4, np.int64)
    status = call(load(_checked_lookup()), header, [np.array([1, 2, 10, 3]), marks])
    assert status == Status.INDEX_OUT_OF_RANGE
    assert header[:3].tolist() == [Status.INDEX_OUT_OF_RANGE, ORIGIN, 2]
    assert marks.tolist() == [1, 2, 0, 0]


def test_kernel_that_can_fail_returns_ok_and_leaves_the_record_alone() -> None:
    header = np.zeros(8, np.int64)
    marks = np.zeros(4, np.int64)
    assert call(load(_checked_lookup()), header, [np.array([1, 2, 9, 3]), marks]) == Status.OK
    assert not header.any()


def test_failure_passes_through_a_kernel_that_invokes_another() -> None:
    inner = _checked_lookup()
    k = KernelBuilder("outer")
    positions, y = k.argument("positions", Prim.I64), k.argument("y", Prim.I64, writable=True)
    k.invoke(inner, [k.address(positions, 1), k.address(y, 1)])
    header = np.zeros(8, np.int64)
    status = call(load(k.build()), header, [np.array([99, 1, 2, 3, -1]), np.zeros(5, np.int64)])
    assert status == Status.INDEX_OUT_OF_RANGE
    assert header[:3].tolist() == [Status.INDEX_OUT_OF_RANGE, ORIGIN, 3]


def test_external_function_gets_values_and_pointers() -> None:
    k = KernelBuilder("libm")
    x, y = k.argument("x", Prim.F64), k.argument("y", Prim.F64, writable=True)
    size = number(k.external("fabs", [k.load(x, 0)], ValueType(Prim.F64)))
    exponent = k.local("exponent", Prim.I32, 1)
    mantissa = number(
        k.external("frexp", [size, k.address(exponent, writable=True)], ValueType(Prim.F64))
    )
    k.store(y, 0, mantissa)
    k.store(y, 1, k.load(exponent, 0).cast(Prim.F64))
    actual = np.zeros(2)
    run(k.build(), [np.array([-12.0]), actual])
    assert actual.tolist() == [0.75, 4.0]


def test_narrow_integers_reach_external_functions_extended() -> None:
    k = KernelBuilder("extended")
    x, y = k.argument("x", Prim.I8), k.argument("y", Prim.I32, writable=True)
    k.store(y, 0, number(k.external("abs", [k.load(x, 0)], ValueType(Prim.I32))))
    actual = np.zeros(1, np.int32)
    run(k.build(), [np.array([-3], np.int8), actual])
    assert actual[0] == 3


def test_atomics_load_store_and_fetch_and_add() -> None:
    k = KernelBuilder("atomics")
    counter = k.argument("counter", Prim.I64, writable=True)
    y = k.argument("y", Prim.I64, writable=True)
    k.store(y, 0, number(k.atomic(AtomicOp.ADD, counter, 0, 5)))
    k.store(y, 1, number(k.atomic(AtomicOp.LOAD, counter, 0)))
    k.atomic(AtomicOp.STORE, counter, 1, 42)
    k.emit(Atomic(AtomicOp.ADD, counter, index(2).node, index(1).node))
    k.pause()
    k.comment("no code")
    cells, actual = np.array([10, 0, 0]), np.zeros(2, np.int64)
    native = load(k.build())
    call(native, np.zeros(8, np.int64), [cells, actual])
    assert actual.tolist() == [10, 15]
    assert cells.tolist() == [15, 42, 1]
    assert "acq_rel" in native.text
    assert "acquire" in native.text
    assert "release" in native.text


def test_arguments_that_may_be_one_buffer_are_read_before_they_are_overwritten() -> None:
    k = KernelBuilder("shift")
    x = k.argument("x", Prim.I32, may_alias=True)
    y = k.argument("y", Prim.I32, writable=True, may_alias=True)
    with k.loop("i", 7) as i:
        k.store(y, i + 1, k.load(x, i) + 1)
    values = np.zeros(8, np.int32)
    run(k.build(), [values, values])
    assert values.tolist() == list(range(8))


def test_kernel_may_use_any_identifier_as_a_name() -> None:
    k = KernelBuilder("names")
    y = k.argument("entry", Prim.I64, writable=True)
    begin, end, fault = k.scalar("begin"), k.scalar("end"), k.scalar("fault")
    with k.loop("i", 4, kind=LoopKind.PARALLEL) as i:
        k.store(y, i, select(i < end, begin, fault))
        with k.if_(begin > 100):
            k.fail(Status.SINGULAR_MATRIX, i)
    actual = np.zeros(4, np.int64)
    run(k.build(), [actual], [1, 2, 3])
    assert actual.tolist() == [1, 1, 3, 3]


def test_unrolled_loop_keeps_indexed_scratch_in_registers() -> None:
    k = KernelBuilder("registers")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    tile = k.local("tile", Prim.F32, 4)
    with k.loop("i", 4, kind=LoopKind.UNROLL) as i:
        k.store(tile, i, k.load(x, i) * 2.0)
    total = k.mutable("total", k.load(x, 0))
    with k.loop("j", 4, kind=LoopKind.UNROLL) as j:
        total.set(total + k.load(tile, j))
    k.store(y, 0, total)
    native = load(k.build())
    actual = np.zeros(1, np.float32)
    call(native, np.zeros(8, np.int64), [np.array([1, 2, 3, 4], np.float32), actual])
    assert actual[0] == 21.0
    assert "alloca" not in native.optimized_text


def test_accumulators_of_a_scalar_loop_may_be_reassociated_and_others_not() -> None:
    k = KernelBuilder("strided_sum")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    total = k.mutable("total", k.load(x, 0))
    folded = [(total, BinaryOp.ADD)]
    with k.loop("i", 64, kind=LoopKind.SIMD, accumulators=folded) as i:
        value = k.let("value", k.load(x, i))
        with k.if_(value > 2.0):
            total.set(total + value)
    k.store(y, 0, total + k.load(x, 1))
    native = load(k.build())
    assert native.text.count("reassoc") == 1
    values, actual = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    call(native, np.zeros(8, np.int64), [values, actual])
    assert actual[0] == values[3:].sum() + 1
