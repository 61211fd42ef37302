"""Vectorization: `simd` loops become loops over vectors; other loops stay."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, For, Kernel, LoopKind, Prim
from rlx.codegen.loops.passes.vectorize import vectorize, widen_loop
from rlx.codegen.loops.verify import verify_kernel
from tests.codegen.loops.passes.cases import after, kernel_of, results, unchanged


def in_vectors(kernel: Kernel) -> Kernel:
    return vectorize(kernel, 32)


@after(in_vectors).gives("""
    let scale: f64 = x[40]
    for i in 0 .. 4 step 4:
      let value.x4: f64x4 = x[i; 4] * splat4(scale)
      y[i; 4] = value.x4 + value.x4
    for i_2 in 4 .. 6 step 2:
      let value.x2: f64x2 = x[i_2; 2] * splat2(scale)
      y[i_2; 2] = value.x2 + value.x2
    for i_3 in 6 .. 7:
      let value: f64 = x[i_3] * scale
      y[i_3] = value + value
""")
def test_each_width_takes_what_the_wider_ones_left(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    scale = k.let("scale", k.load(x, 40))
    with k.loop("i", 7, kind=LoopKind.SIMD) as i:
        value = k.let("value", k.load(x, i) * scale)
        k.store(y, i, value + value)


def strided(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    """Elements apart, and twice the same names."""
    for _ in range(2):
        with k.loop("i", 13, kind=LoopKind.SIMD) as i:
            at = k.let("at", i * 3)
            k.store(y, at, k.load(x, at) + k.load(y, at + 1))


def nested(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("row", 3) as row, k.loop("i", 11, kind=LoopKind.SIMD) as i:
        total = k.mutable("total", const(0.0, Prim.F64))
        with k.loop("j", 3) as j:
            total.set(total + k.load(x, j * 11 + i) * k.load(x, row))
        k.store(y, row * 11 + i, select(total > 0.0, total, 0.0 - total))


@pytest.mark.parametrize("write", [strided, nested])
def test_vectors_compute_what_scalars_do_under_names_of_their_own(write: object) -> None:
    kernel = kernel_of(write)  # type: ignore[arg-type]
    after = in_vectors(kernel)
    verify_kernel(after)
    np.testing.assert_array_equal(results(after), results(kernel))


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_no_width_comes_twice_where_the_extent_is_not_known(vector_bytes: int) -> None:
    """A second loop in pairs began where the one before it ended, under the name of its own end."""

    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with (
            k.loop("row", 9) as row,
            k.loop("i", row + 13, start=row, kind=LoopKind.SIMD) as i,
        ):
            k.store(y, i, k.load(x, i) * k.load(x, i + 1) + 1.0)

    kernel = kernel_of(write)
    after = vectorize(kernel, vector_bytes)
    verify_kernel(after)
    assert after != kernel
    np.testing.assert_array_equal(results(after), results(kernel))


@after(in_vectors).gives("""
    for q in 0 .. 4 step 2:
      let i: i64 = 0
      let turn.x4: f64x4 = shuffle(x[q * 2 + 1 - i + -1; 4], x[q * 2 + 1 - i + -1; 4]; 1 0 3 2)
      let scaled.x4: f64x4 = turn.x4 * shuffle(x[q + 40; 2], x[q + 40; 2]; 0 0 1 1)
      y[q * 2 + i; 4] = scaled.x4 + shuffle(x[i; 2], x[i; 2]; 0 1 0 1)
    for q_2 in 4 .. 5:
      for i_2 in 0 .. 2, unroll:
        let turn: f64 = x[q_2 * 2 + 1 - i_2]
        let scaled: f64 = turn * x[q_2 + 40]
        y[q_2 * 2 + i_2] = scaled + x[i_2]
""")
def test_short_rows_share_vectors_whose_lanes_are_moved(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("q", 5) as q, k.loop("i", 2, kind=LoopKind.UNROLL) as i:
        turn = k.let("turn", k.load(x, q * 2 + 1 - i))
        scaled = k.let("scaled", turn * k.load(x, q + 40))
        k.store(y, q * 2 + i, scaled + k.load(x, i))


def _row_kernel(size: int, prim: Prim, *, may_alias: bool = False) -> Kernel:
    """Rows with all ways to read in lanes: in order, reversed, one for a row, one for all rows."""
    k = KernelBuilder("kernel")
    arguments = {"may_alias": may_alias}
    x, y = k.argument("x", prim, **arguments), k.argument("y", prim, writable=True, **arguments)
    with k.loop("q", 11, start=1) as q:
        at = k.let("at", q * size)
        scale = k.let("scale", k.load(x, q) + k.load(x, 3))
        with k.loop("i", size, kind=LoopKind.UNROLL) as i:
            last = size - 1 - i
            value = k.load(x, at + last) * scale + k.load(x, at + i) * k.load(x, i)
            k.store(y, at + i, select(value > 1, value, k.load(x, last)))
    return k.build()


@pytest.mark.parametrize("prim", [Prim.F64, Prim.F32, Prim.I32, Prim.U8, Prim.I16])
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_short_rows_are_what_they_were(prim: Prim, size: int, vector_bytes: int) -> None:
    kernel = _row_kernel(size, prim)
    after = vectorize(kernel, vector_bytes)
    verify_kernel(after)
    assert (after != kernel) == (vector_bytes // prim.size >= 2 * size)
    np.testing.assert_array_equal(results(after), results(kernel))


def test_short_rows_that_depend_on_others_stay() -> None:
    def reads_what_is_stored(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with k.loop("q", 8) as q, k.loop("i", 2, kind=LoopKind.UNROLL) as i:
            k.store(y, q * 2 + i, k.load(y, q) + k.load(x, i))

    def stores_apart(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with k.loop("q", 8) as q, k.loop("i", 2, kind=LoopKind.UNROLL) as i:
            k.store(y, q + i, k.load(x, q * 2 + i))

    def reads_every_other(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with k.loop("q", 8) as q, k.loop("i", 2, kind=LoopKind.UNROLL) as i:
            k.store(y, q * 2 + i, k.load(x, q * 2 + i) * k.load(x, q * 2))

    for write in (reads_what_is_stored, stores_apart, reads_every_other):
        unchanged(in_vectors, write)
    in_place = _row_kernel(2, Prim.F64, may_alias=True)
    assert in_vectors(in_place) == in_place


def test_two_loops_may_add_to_one_accumulator() -> None:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        total = k.mutable("total", const(0.0, Prim.F64))
        for _ in range(2):
            pairs = [(total, BinaryOp.ADD)]
            with k.loop("i", 19, kind=LoopKind.SIMD, accumulators=pairs) as i:
                total.set(total + k.load(x, i))
        k.store(y, 0, total)

    kernel = kernel_of(write)
    after = in_vectors(kernel)
    verify_kernel(after)
    np.testing.assert_allclose(results(after)[0], results(kernel)[0], rtol=1e-13)


@after(in_vectors).changes_nothing()
def test_serial_loops_and_those_with_masks_stay(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("i", 16) as i:
        k.store(y, i, k.load(x, i))
    with k.loop("j", 16, kind=LoopKind.SIMD) as j, k.if_(k.load(x, j) > 0.0):
        k.store(y, j, 1.0)


@after(lambda kernel: vectorize(kernel, 128)).gives("""
    for i in 0 .. 16 step 16:
      prefetch x[i + 1032]
      prefetch x[i + 1024]
      y[i; 16] = x[i; 16]
""")
def test_a_prefetch_is_one_for_each_cache_line_of_the_lanes(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("i", 16, kind=LoopKind.SIMD) as i:
        k.prefetch(x, i + 1024)
        k.store(y, i, k.load(x, i))


def test_a_chain_of_squares_that_is_one_expression_is_widened_in_linear_time() -> None:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with k.loop("i", 16, kind=LoopKind.SIMD) as i:
            value = k.load(x, i)
            for _ in range(40):  # as a tree: 2**40 products
                value = value * value
            k.store(y, i, value)

    (loop,) = kernel_of(write).body
    assert isinstance(loop, For)
    assert widen_loop(loop, 32) is not None
