"""The oracle's own semantics: memory safety, failures, rounding, order of folds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import Array, apply_binary, fold_lanes, fused_multiply_add
from rlx.codegen.loops.expr import const
from rlx.codegen.loops.interpreter import Outcome, run_kernel
from rlx.codegen.loops.nodes import BinaryOp, LoopKind, Prim, Status
from rlx.errors import InternalError
from tests.codegen.loops.samples import SAMPLES, run_sample

BY_NAME = {sample.name: sample for sample in SAMPLES}


def reading_kernel(lanes: int = 1) -> KernelBuilder:
    k = KernelBuilder("reads")
    x = k.argument("x", Prim.F32)
    out = k.argument("out", Prim.F32, writable=True)
    at = k.scalar("at")
    k.store(out, 0, k.load(x, at, lanes))
    return k


@pytest.mark.parametrize(("at", "lanes"), [(4, 1), (-1, 1), (2, 4), (1 << 40, 1)])
def test_a_read_out_of_bounds_is_an_internal_error(at: int, lanes: int) -> None:
    buffers = {"x": np.zeros(4, np.float32), "out": np.zeros(8, np.float32)}
    with pytest.raises(InternalError, match=r"reads: reads x\[.*holds 4 elements"):
        run_kernel(reading_kernel(lanes).build(), buffers, {"at": at})


def test_a_write_out_of_bounds_is_an_internal_error() -> None:
    buffers = {"x": np.zeros(4, np.float32), "out": np.zeros(0, np.float32)}
    with pytest.raises(InternalError, match=r"writes out\[0\], which holds 0 elements"):
        run_kernel(reading_kernel().build(), buffers, {"at": 0})


def test_a_local_must_be_stored_before_it_is_read() -> None:
    k = KernelBuilder("stale")
    out = k.argument("out", Prim.F32, writable=True)
    scratch = k.local("scratch", Prim.F32, 4)
    k.store(scratch, 1, 1.0)
    k.store(out, 0, k.load(scratch, 2))
    with pytest.raises(InternalError, match=r"local scratch\[2\] before it is stored"):
        run_kernel(k.build(), {"out": np.zeros(1, np.float32)})


def test_buffers_must_have_the_declared_element_type() -> None:
    buffers: dict[str, Array] = {"x": np.zeros(4), "out": np.zeros(1, np.float32)}
    with pytest.raises(InternalError, match="buffer x is a 1-d array of float64"):
        run_kernel(reading_kernel().build(), buffers, {"at": 0})


@pytest.mark.parametrize(("a", "b"), [(7, 0), (-(1 << 31), -1)])
def test_division_that_c_leaves_undefined_is_an_internal_error(a: int, b: int) -> None:
    with pytest.raises(InternalError, match="division"):
        apply_binary(BinaryOp.DIV, np.array([a], np.int32), np.array([b], np.int32))


def test_a_shift_count_must_be_below_the_width() -> None:
    with pytest.raises(InternalError, match="shift count"):
        apply_binary(BinaryOp.SHL, np.array([1], np.int32), np.array([32], np.int32))


def test_a_cast_of_a_float_out_of_range_is_an_internal_error() -> None:
    k = KernelBuilder("cast")
    out = k.argument("out", Prim.I8, writable=True)
    k.store(out, 0, const(300.0, Prim.F32).cast(Prim.I8))
    with pytest.raises(InternalError, match="outside the range of i8"):
        run_kernel(k.build(), {"out": np.zeros(1, np.int8)})


def test_division_truncates_toward_zero() -> None:
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    np.testing.assert_array_equal(apply_binary(BinaryOp.DIV, a, b), [3, -3, -3, 3])
    np.testing.assert_array_equal(apply_binary(BinaryOp.MOD, a, b), [1, -1, 1, -1])


def test_the_second_operand_of_min_wins_where_either_is_nan() -> None:
    a, b = np.array([np.nan, 1.0], np.float32), np.array([1.0, np.nan], np.float32)
    np.testing.assert_array_equal(apply_binary(BinaryOp.MIN, a, b), b)
    np.testing.assert_array_equal(apply_binary(BinaryOp.MAX, a, b), b)


def test_a_fold_is_a_tree_of_halves() -> None:
    lanes = np.array([1e8, 1.0, -1e8, 1.0], np.float32)
    assert fold_lanes(BinaryOp.ADD, lanes) == np.float32(2.0)  # (1e8 - 1e8) + (1 + 1)


def round_fraction(exact: Fraction, dtype: type) -> float:
    """The nearest f64, or f32 by an exact comparison of its neighbors."""
    if dtype is np.float64:
        return float(exact)
    near = np.float32(float(exact))
    candidates = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, -near)]
    candidates.append(np.nextafter(near, np.float32(-np.inf)))
    return float(
        min(
            candidates,
            key=lambda c: (abs(Fraction(float(c)) - exact), int(np.float32(c).view(np.uint32)) & 1),
        )
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype: type) -> None:
    rng = np.random.default_rng(9)
    count = 3000
    exponents = rng.integers(-30, 30, (2, count))
    a, b = (np.ldexp(rng.uniform(1, 2, count), e).astype(dtype) for e in exponents)
    c = (-(a * b) * rng.choice([1.0, 1 + 2.0**-20, 2.0**-30, 0.5], count)).astype(dtype)
    one = dtype(1)
    eps = np.finfo(dtype).eps
    a = np.concatenate([a, np.array([one + eps, np.finfo(dtype).tiny, 1.5], dtype)])
    b = np.concatenate([b, np.array([one + eps, 0.5 + eps, np.finfo(dtype).tiny], dtype)])
    c = np.concatenate([c, np.array([eps * eps / 4, -np.finfo(dtype).tiny / 2, 0], dtype)])
    actual = fused_multiply_add(a, b, c)
    for x, y, z, result in zip(a.tolist(), b.tolist(), c.tolist(), actual.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        assert result == round_fraction(exact, dtype), (x, y, z)


def test_a_failing_callee_ends_the_caller_with_its_origin() -> None:
    result = run_sample(BY_NAME["invoke_failing"])
    assert result.outcome == Outcome(Status.INDEX_OUT_OF_RANGE, 3, 9)


def test_a_parallel_kernel_runs_only_the_given_range() -> None:
    k = KernelBuilder("ones")
    out = k.argument("out", Prim.I64, writable=True)
    with k.loop("i", 6, kind=LoopKind.PARALLEL) as i:
        k.store(out, i, 1)
    memory = np.zeros(6, np.int64)
    run_kernel(k.build(), {"out": memory}, bounds=(2, 4))
    np.testing.assert_array_equal(memory, [0, 0, 1, 1, 0, 0])


def test_an_unknown_external_function_is_an_internal_error() -> None:
    sample = BY_NAME["external_calls"]
    with pytest.raises(InternalError, match="no external function frexp"):
        run_kernel(sample.kernel, sample.fresh_buffers())
