"""Loops in two versions compute what one does, and check only what leaves the bits alone."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import evaluate_function, numpy_dtype
from rlx.codegen.loops.expr import maximum
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.math.arithmetic import float_modulo, has_near_quotient, near_modulo
from rlx.codegen.loops.nodes import BinaryOp, Buffer, If, LoopKind, Prim
from rlx.codegen.loops.passes.fast_paths import fast_paths
from rlx.codegen.loops.passes.vectorize import vectorize
from rlx.codegen.loops.scalar import scalar_function
from rlx.codegen.loops.verify import verify_kernel
from rlx.codegen.loops.visit import walk
from tests.codegen.loops.passes.cases import after, check, kernel_of, unchanged

modulo = scalar_function("mod")


def sixths(k: KernelBuilder, x: Buffer, y: Buffer, kind: LoopKind = LoopKind.SIMD) -> None:
    with k.loop("i", 64, kind=kind) as i:
        doubled = k.let("doubled", k.load(x, i) * 2.0)
        k.store(y, i, modulo(doubled, k.let("six", doubled * 0.0 + 6.0)) - 3.0)


def test_a_loop_has_a_version_for_small_quotients() -> None:
    check(
        fast_paths,
        lambda k, x, y: sixths(k, x, y),
        """
        var near: i32 = 1
        for i in 0 .. 64, simd, accumulates and near:
          let doubled: f64 = x[i] * 2.0
          let six: f64 = doubled * 0.0 + 6.0
          near = near & is_near_f64(doubled, six)
        if near != 0:
          for i_2 in 0 .. 64, simd:
            let doubled_2: f64 = x[i_2] * 2.0
            let six_2: f64 = doubled_2 * 0.0 + 6.0
            y[i_2] = near_mod_f64(doubled_2, six_2) - 3.0
        else:
          for i_3 in 0 .. 64, simd:
            let doubled_3: f64 = x[i_3] * 2.0
            let six_3: f64 = doubled_3 * 0.0 + 6.0
            y[i_3] = mod_f64(doubled_3, six_3) - 3.0
        """,
    )


def test_scalar_loops_stay() -> None:
    unchanged(fast_paths, lambda k, x, y: sixths(k, x, y, LoopKind.SERIAL))


@after(fast_paths).changes_nothing()
def test_a_loop_that_reads_what_it_writes_stays(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("i", 32, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i))
        k.store(y, i + 32, modulo(k.load(y, i), k.load(x, i)))


def test_a_loop_within_that_may_read_what_it_has_written_stays() -> None:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with (
            k.loop("i", 16, kind=LoopKind.SIMD) as i,
            k.loop("j", 2, kind=LoopKind.UNROLL) as j,
        ):
            k.store(y, i * 2 + j, modulo(k.load(x, i * 2 + j), k.load(x, 3)))

    unchanged(fast_paths, write, may_alias=True)
    assert any(isinstance(s, If) for s in walk(fast_paths(kernel_of(write)).body))


@pytest.mark.whole
@pytest.mark.parametrize("count", [1, 7, 128, 300, 1024, 1031])
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_stretches_cover_every_iteration_once(count: int, far: bool, dynamic: bool) -> None:
    k = KernelBuilder("kernel")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    total = k.argument("total", Prim.F32, writable=True)
    length = k.scalar("n") if dynamic else count
    largest = k.mutable("largest", k.load(total, 0))
    accumulators = ((largest, BinaryOp.MAX),)
    with k.loop("i", length, kind=LoopKind.SIMD, accumulators=accumulators) as i:
        value = k.let("value", modulo(k.load(x, i), k.load(x, i) * 0.0 + 3.0))
        k.store(y, i, value)
        largest.set(maximum(largest, value))
    k.store(total, 0, largest)
    kernel = k.build()
    after = vectorize(fast_paths(kernel), 32)
    verify_kernel(after)
    values = np.random.default_rng(count).uniform(-9, 9, count + 1).astype("f4")
    values[count // 2] = 3e30 if far else 5.0
    buffers = {"x": values, "y": np.full(count + 1, 7, "f4"), "total": np.zeros(1, "f4")}
    run_kernel(after, buffers, {"n": count} if dynamic else {})
    np.testing.assert_array_equal(buffers["y"][:count], np.mod(values[:count], np.float32(3)))
    assert buffers["y"][count] == 7
    assert buffers["total"][0] == buffers["y"][:count].max()


@pytest.mark.parametrize("prim", [Prim.F32, Prim.F64], ids=str)
def test_near_quotients_give_the_bits_of_the_general_function(prim: Prim) -> None:
    dtype = numpy_dtype(prim)
    random = np.random.default_rng(5)
    bits = random.integers(0, 256, (2, 20_000, prim.size), dtype=np.uint8)
    a, b = bits.view(dtype)[..., 0]
    with np.errstate(all="ignore"):
        scaled = b[:10_000] * np.exp2(random.uniform(-30, 60, 10_000)).astype(dtype)
        whole = b[10_000:] * random.integers(-1000, 1000, 10_000).astype(dtype)
    below = np.nextafter(whole, np.zeros(1, dtype))
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, 3e38], dtype)
    pairs = [(a, b), (scaled, b[:10_000]), (whole, b[10_000:]), (below, b[10_000:])]
    pairs.append(tuple(map(np.ravel, np.meshgrid(edges, edges))))  # type: ignore[arg-type]
    chosen = 0
    for x, y in pairs:
        near = evaluate_function(has_near_quotient(prim), x, y).astype(bool)
        chosen += int(near.sum())
        fast = evaluate_function(near_modulo(prim), x[near], y[near])
        exact = evaluate_function(float_modulo(prim), x[near], y[near])
        np.testing.assert_array_equal(fast.view(np.uint8), exact.view(np.uint8))
    assert chosen > 20_000
