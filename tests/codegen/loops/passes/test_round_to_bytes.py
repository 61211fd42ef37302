"""Rounding to small integers in fewer steps: the integers are those of the steps spelled out."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import numpy_dtype
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import Buffer, Kernel, Prim, UnaryOp
from rlx.codegen.loops.passes.round_to_bytes import round_to_bytes
from rlx.codegen.loops.scalar import cast
from rlx.codegen.loops.verify import verify_kernel
from rlx.ir.dtype import DType
from tests.codegen.loops.passes.cases import text

TARGETS = (DType.U8, DType.I8, DType.U16, DType.I16)


def _samples() -> np.ndarray:
    """Return halves and what is next to them, bounds, infinities, NaN and random bits."""
    ends = [bound + np.arange(-4, 4) for bound in (-(2**16), -(2**15), 2**15, 2**16)]
    halves = np.concatenate([np.arange(-600, 600), *ends]).astype(np.float32) / 2
    near = [np.nextafter(halves, np.float32(to)) for to in (-np.inf, np.inf)]
    bits = np.random.default_rng(0).integers(0, 2**32, 400, np.uint32).view(np.float32)
    special = np.array([0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, np.nan, -np.nan], np.float32)
    return np.concatenate([halves, *near, bits, special])


X = _samples()


def _kernel(to: DType, zero_point: float, *, dequantized: bool = False, lanes: int = 1) -> Kernel:
    k = KernelBuilder("kernel")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.F32 if dequantized else Prim(to.value), writable=True)
    with k.loop("i", X.size // 8 * 8, step=lanes) as i:
        k.store(y, i, _result(k, x, i, to, zero_point, dequantized, lanes))
    return k.build()


def _result(
    k: KernelBuilder, x: Buffer, i: E, to: DType, zero_point: float, dequantized: bool, lanes: int
) -> E:
    rounded = k.load(x, i, lanes).unary(UnaryOp.ROUND_EVEN)
    integer = cast(rounded + zero_point if zero_point else rounded, to=to)
    if not dequantized:
        return integer
    wide = integer.cast(Prim.I32)
    return (wide - int(zero_point) if zero_point else wide).cast(Prim.F32)


def _run(kernel: Kernel) -> np.ndarray:
    verify_kernel(kernel)
    y = np.zeros(X.size, numpy_dtype(kernel.buffers[1].prim))
    with np.errstate(all="ignore"):
        run_kernel(kernel, {"x": X, "y": y})
    return y


def test_a_rounded_number_is_converted_at_once() -> None:
    k = _kernel(DType.U8, 3.0, lanes=4)
    assert "f32_to_u8_cut(round_even(x[i; 4]) + splat4(3.0))" in text(k)
    assert "y[i; 4] = f32_to_u8_even(x[i; 4], splat4(3))" in text(round_to_bytes(k))


def test_what_is_dequantized_again_stays_a_float() -> None:
    after = text(round_to_bytes(_kernel(DType.U8, 3.0, dequantized=True)))
    assert "y[i] = min(max(x[i], -3.0), 252.0) + 12582912.0 - 12582912.0" in after


@pytest.mark.parametrize("zero_point", [0.5, 256.0, -1.0, float("nan"), float("inf")])
def test_a_zero_point_that_is_no_byte_stays(zero_point: float) -> None:
    k = _kernel(DType.U8, zero_point)
    assert round_to_bytes(k) == k


@pytest.mark.parametrize("dequantized", [False, True], ids=["integer", "float"])
@pytest.mark.parametrize("to", TARGETS, ids=str)
@pytest.mark.parametrize("zero_point", [0.0, 1.0, 3.0, 126.0, 127.0])
def test_results_are_equal(to: DType, zero_point: float, dequantized: bool) -> None:
    before = _kernel(to, zero_point, dequantized=dequantized, lanes=8)
    after = round_to_bytes(before)
    assert after != before
    expected, found = _run(before), _run(after)
    assert np.array_equal(expected, found)
    assert np.array_equal(np.signbit(expected), np.signbit(found))
