"""`simd` loops become vector code, with the scalar loop's results."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import evaluate_function
from rlx.codegen.loops.expr import E, call, const, fma, maximum, minimum, select
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.nodes import BinaryOp, Function, Kernel, LoopKind, Prim
from rlx.codegen.loops.passes.vectorize import widen_loop
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.report.stages import Stages
from rlx.runtime.llvm_backend import llvm_assembly
from rlx.target import detect_target
from tests.codegen.llvm import native as harness
from tests.codegen.llvm.native import Array, load, run, same_bits


@functools.cache
def _exp() -> Function:
    return build_function("exp", Prim.F32)


def _exp_kernel(count: int) -> Kernel:
    k = KernelBuilder("exps")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    with k.loop("i", count, kind=LoopKind.SIMD) as i:
        k.store(y, i, call(_exp(), k.load(x, i)))
    return k.build()


def _normal(count: int) -> Array:
    return np.random.default_rng(3).standard_normal(count).astype(np.float32)


def test_simd_loop_over_exp_is_vector_code() -> None:
    text = load(_exp_kernel(1000)).optimized_text
    assert "<16 x float>" in text or "<8 x float>" in text or "<4 x float>" in text
    assert "call float" not in text


@pytest.mark.parametrize("count", [1, 3, 15, 16, 17, 100, 131])
def test_every_tail_of_a_simd_loop_has_the_scalar_results(count: int) -> None:
    x, y = _normal(count), np.zeros(count, np.float32)
    run(_exp_kernel(count), [x, y])
    assert same_bits(y, evaluate_function(_exp(), x))


@pytest.mark.whole
@pytest.mark.parametrize("count", [0, 1, 5, 64, 77])
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (BinaryOp.ADD, np.sum),
        (BinaryOp.MUL, np.prod),
        (BinaryOp.MIN, functools.partial(np.min, initial=math.inf)),
        (BinaryOp.MAX, functools.partial(np.max, initial=-math.inf)),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_float_accumulators_fold_all_elements(
    op: BinaryOp, expected: functools.partial[Array], count: int, dynamic: bool
) -> None:
    neutral = {BinaryOp.ADD: 0.0, BinaryOp.MUL: 1.0, BinaryOp.MIN: math.inf}
    combine = {BinaryOp.ADD: E.__add__, BinaryOp.MUL: E.__mul__, BinaryOp.MIN: minimum}
    k = KernelBuilder("fold")
    x, y = k.argument("x", Prim.F64), k.argument("y", Prim.F64, writable=True)
    stop = k.scalar("n") if dynamic else count
    total = k.mutable("total", const(neutral.get(op, -math.inf), Prim.F64))
    with k.loop("i", stop, kind=LoopKind.SIMD, accumulators=[(total, op)]) as i:
        total.set(combine.get(op, maximum)(total, k.load(x, i)))
    k.store(y, 0, total)
    values = np.random.default_rng(4).uniform(0.9, 1.1, max(count, 1))
    actual = np.zeros(1)
    run(k.build(), [values, actual], [count] if dynamic else [])
    np.testing.assert_allclose(actual[0], expected(values[:count]), rtol=1e-14)


@pytest.mark.parametrize("prim", [Prim.BOOL, Prim.I32, Prim.U8])
@pytest.mark.parametrize("op", [BinaryOp.AND, BinaryOp.OR, BinaryOp.MIN, BinaryOp.MAX])
def test_integer_and_bool_accumulators_are_exact(op: BinaryOp, prim: Prim) -> None:
    combine = {BinaryOp.AND: E.__and__, BinaryOp.OR: E.__or__, BinaryOp.MIN: minimum}
    reference = {
        BinaryOp.AND: np.bitwise_and,
        BinaryOp.OR: np.bitwise_or,
        BinaryOp.MIN: np.minimum,
        BinaryOp.MAX: np.maximum,
    }
    k = KernelBuilder("fold")
    x, y = k.argument("x", prim), k.argument("y", prim, writable=True)
    total = k.mutable("total", k.load(x, 0))
    with k.loop("i", 77, kind=LoopKind.SIMD, accumulators=[(total, op)]) as i:
        total.set(combine.get(op, maximum)(total, k.load(x, i)))
    k.store(y, 0, total)
    dtype: type[Any] = {Prim.BOOL: np.bool_, Prim.I32: np.int32, Prim.U8: np.uint8}[prim]
    largest = 2 if prim is Prim.BOOL else 200
    values: Array = np.random.default_rng(2).integers(0, largest, 77).astype(dtype)
    actual: Array = np.zeros(1, dtype)
    run(k.build(), [values, actual])
    assert actual[0] == reference[op].reduce(values)


def test_dot_product_through_fma_accumulates_in_vectors() -> None:
    k = KernelBuilder("dot")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    total = k.mutable("total", const(0.0, Prim.F32))
    with k.loop("i", 999, kind=LoopKind.SIMD, accumulators=[(total, BinaryOp.ADD)]) as i:
        value = k.let("value", k.load(x, i))
        total.set(fma(value, value, total))
    k.store(y, 0, total)
    native, values, actual = load(k.build()), _normal(999), np.zeros(1, np.float32)
    harness.call(native, np.zeros(8, np.int64), [values, actual])
    np.testing.assert_allclose(actual[0], (values.astype(np.float64) ** 2).sum(), rtol=1e-6)
    assert "@llvm.fma.v" in native.optimized_text


def test_uniform_values_indices_and_inner_loops_widen() -> None:
    k = KernelBuilder("columns")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    scale = k.argument("scale", Prim.F32)
    with k.loop("column", 50, kind=LoopKind.SIMD) as column:
        total = k.mutable("total", const(0.0, Prim.F32))
        with k.loop("row", 3) as row:
            at = k.let("at", row * 50 + column)
            total.set(total + k.load(x, at) * k.load(scale, row))
        even = k.let("even", (column % 2).eq(0))
        k.store(y, column, select(even, total, -total) + column.cast(Prim.F32))
    loop = k.build().body[0]
    assert widen_loop(loop, 64) is not None  # type: ignore[arg-type]  # it is a For
    values, factors = _normal(150).reshape(3, 50), np.array([1, 2, 4], np.float32)
    actual = np.zeros(50, np.float32)
    run(k.build(), [values, actual, factors])
    columns = np.arange(50, dtype=np.float32)
    total = (values[0] * 1 + values[1] * 2) + values[2] * 4
    assert same_bits(actual, np.where(columns % 2 == 0, total, -total) + columns)


@pytest.mark.parametrize("scale", [0, 2, -1])
def test_loop_with_strided_access_stays_correct(scale: int) -> None:
    k = KernelBuilder("strided")
    x, y = k.argument("x", Prim.I32), k.argument("y", Prim.I32, writable=True)
    with k.loop("i", 20, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i * scale + 19))
    values, actual = np.arange(100, dtype=np.int32), np.zeros(20, np.int32)
    run(k.build(), [values, actual])
    assert actual.tolist() == [19 + scale * i for i in range(20)]


def test_elements_found_through_a_table_are_gathered() -> None:
    k = KernelBuilder("lookup")
    table, positions = k.argument("table", Prim.F32), k.argument("positions", Prim.I32)
    y = k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 21, kind=LoopKind.SIMD) as i:
        at = k.let("at", k.load(positions, i / 2).cast(Prim.I64))
        k.store(y, i, call(_exp(), k.load(table, at * 3 + i % 2)))
    values = _normal(64)
    chosen: Array = np.arange(20, 9, -1, dtype=np.int32)
    native, actual = load(k.build()), np.zeros(21, np.float32)
    harness.call(native, np.zeros(8, np.int64), [values, chosen, actual])
    step = np.arange(21)
    looked_up: Array = values[chosen[step // 2] * 3 + step % 2]
    assert same_bits(actual, evaluate_function(_exp(), looked_up))
    assert re.search(r"@llvm\.fma\.v\d+f32", native.optimized_text)


def test_interleaved_pairs_are_read_and_written_apart() -> None:
    k = KernelBuilder("swap")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    n = k.scalar("n")
    with k.loop("i", n, start=1, kind=LoopKind.SIMD) as i:
        at = k.let("at", i * 2)
        real, imaginary = k.let("re", k.load(x, at)), k.let("im", k.load(x, at + 1))
        k.store(y, at, -imaginary)
        k.store(y, at + 1, real)
    values, actual = _normal(2 * 23), np.zeros(2 * 23, np.float32)
    run(k.build(), [values, actual], [23])
    expected = np.stack([-values[1::2], values[::2]], axis=1)
    expected[0] = 0
    assert same_bits(actual, expected.ravel())


def test_two_strided_operands_of_one_expression_stay_apart() -> None:
    k = KernelBuilder("difference")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 23, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i * 2) - k.load(x, i * 2 + 1))
    values, actual = _normal(46), np.zeros(23, np.float32)
    run(k.build(), [values, actual])
    assert same_bits(actual, values[::2] - values[1::2])


def test_loop_that_rewrites_its_operand_in_place_is_exact() -> None:
    k = KernelBuilder("in_place")
    x = k.argument("x", Prim.F32, may_alias=True)
    y = k.argument("y", Prim.F32, writable=True, may_alias=True)
    with k.loop("i", 45, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i) * 2.0 + 1.0)
    values = _normal(45)
    expected = values * np.float32(2) + np.float32(1)
    run(k.build(), [values, values])
    assert same_bits(values, expected)


def test_conditional_store_is_left_scalar_and_correct() -> None:
    k = KernelBuilder("conditional")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 40, kind=LoopKind.SIMD) as i:
        value = k.let("value", k.load(x, i))
        with k.if_(value > 0.0):
            k.store(y, i, value)
    values, actual = _normal(40), np.full(40, 7, np.float32)
    run(k.build(), [values, actual])
    assert same_bits(actual, np.where(values > 0, values, np.float32(7)))


def test_nan_held_by_a_maximum_survives_a_loop_that_has_none() -> None:
    k = KernelBuilder("nan")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    best = k.mutable("best", const(math.nan, Prim.F32))
    with k.loop("i", 0, kind=LoopKind.SIMD, accumulators=[(best, BinaryOp.MAX)]) as i:
        best.set(maximum(k.load(x, i), best))
    k.store(y, 0, best)
    actual = np.zeros(1, np.float32)
    run(k.build(), [np.zeros(1, np.float32), actual])
    assert math.isnan(actual[0])


@pytest.mark.skipif(not detect_target().has("fma"), reason="counts instructions of x86")
def test_constants_of_what_follows_a_product_take_no_registers_from_its_sums() -> None:
    graph = Graph("product")
    x, w = graph.input("x", (96, 480), DType.F32), graph.param("w", (480, 96), DType.F32)
    y = 1.25 * ops.matmul(x, w) + 0.75
    gate = ops.minimum(ops.maximum(y + 3.0, 0.0), 6.5)
    graph.set_outputs([0.5 * (y * gate / 6.0) + 0.125])
    assembly = llvm_assembly(Stages.of(graph, detect_target()).program.module)
    loops = [loop for loop in _innermost_loops(assembly) if loop.count("vfmadd231ps") >= 8]
    assert loops
    assert not [line for loop in loops for line in loop.splitlines() if "sp)" in line]


def _innermost_loops(assembly: str) -> list[str]:
    """Return what is between labels and jumps to them."""
    blocks = re.split(r"^(\.?L\w+):", assembly, flags=re.MULTILINE)[1:]
    found = []
    for label, body in zip(blocks[::2], blocks[1::2], strict=True):
        jump = re.search(rf"\tj\w+\t{re.escape(label)}\n", body)
        if jump:
            found.append(body[: jump.start()])
    return found
