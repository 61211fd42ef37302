"""Scalar functions of elementwise ops against NumPy, over machine types and their edges."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.codegen.loops.complex_functions import complex_function
from rlx.codegen.loops.evaluate import evaluate_function, numpy_dtype
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.math.storage import (
    NARROW_FLOATS,
    bf16_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
    f64_to_f32_odd,
)
from rlx.codegen.loops.nodes import Function, Prim, ValueType, Var
from rlx.codegen.loops.scalar import scalar_function
from rlx.codegen.loops.verify import verify_function
from rlx.errors import InternalError
from rlx.ir.dtype import DType
from tests.codegen.loops.samples import FLOATS, INTEGERS, others, values

Array = NDArray[Any]
SIGNED = tuple(prim for prim in INTEGERS if prim.is_signed)
DTYPES = (
    *(DType(name) for name in ["f32", "f64", "i8", "i16", "i32", "i64", "u8", "u32", "bool"]),
)  # what a scalar may be cast to besides 16-bit floats


def compute(name: str, *arrays: Array, **attributes: Any) -> Array:
    """Build op `name` as a function of the arrays' types, verify it, and apply it."""
    params = tuple(
        Var(f"x{i}", ValueType(next(p for p in Prim if numpy_dtype(p) == array.dtype)))
        for i, array in enumerate(arrays)
    )
    result = scalar_function(name)(*map(E, params), **attributes)
    function = Function(name, params, (), result.node)
    verify_function(function)
    return evaluate_function(function, *arrays)


def grid(prim: Prim) -> tuple[Array, Array]:
    """All pairs of a type's values."""
    a, b = np.meshgrid(values(prim), np.concatenate([others(prim)[:12], -values(prim)[9:13]]))
    return a.ravel(), b.ravel()


NUMPY_UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "square": np.square,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "is_nan": np.isnan,
    "is_finite": np.isfinite, "logical_not": np.logical_not, "relu": lambda x: np.maximum(x, 0),
    "reciprocal": lambda x: 1 / x, "stop_gradient": lambda x: x,
}  # fmt: skip
NUMPY_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.mod,
    "maximum": np.maximum, "minimum": np.minimum, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


OF_INTEGERS = ("abs", "sign", "square", "relu", "logical_not", "is_nan")


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "prim"), [*product(NUMPY_UNARY, FLOATS), *product(OF_INTEGERS, INTEGERS)]
)
def test_unary_ops_are_numpys(name: str, prim: Prim) -> None:
    with np.errstate(all="ignore"):
        expected = NUMPY_UNARY[name](values(prim))
    np.testing.assert_array_equal(compute(name, values(prim)), expected)


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc"])
def test_rounding_leaves_integers_alone(name: str) -> None:
    np.testing.assert_array_equal(compute(name, values(Prim.I64)), values(Prim.I64))


@pytest.mark.whole
@pytest.mark.parametrize("prim", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("name", [name for name in NUMPY_BINARY if name not in ("div", "mod")])
def test_binary_ops_are_numpys(name: str, prim: Prim) -> None:
    a, b = grid(prim)
    with np.errstate(all="ignore"):
        expected = NUMPY_BINARY[name](a, b)
    np.testing.assert_array_equal(compute(name, a, b), expected)


@pytest.mark.parametrize("prim", FLOATS)
@pytest.mark.parametrize("name", ["div", "mod"])
def test_float_division_and_modulo_are_numpys(name: str, prim: Prim) -> None:
    rng = np.random.default_rng(3)
    scales = np.ldexp(1.0, rng.integers(-40, 40, 2000))
    dtype = numpy_dtype(prim)
    edges = grid(prim)
    a = np.concatenate([edges[0], (rng.uniform(-9, 9, 2000) * scales).astype(dtype)])
    b = np.concatenate([edges[1], rng.uniform(-9, 9, 2000).astype(dtype)])
    with np.errstate(all="ignore"):
        expected = NUMPY_BINARY[name](a, b)
    np.testing.assert_array_equal(compute(name, a, b), expected)


@pytest.mark.parametrize("prim", FLOATS)
def test_float_modulo_is_exact_over_all_bit_patterns(prim: Prim) -> None:
    rng = np.random.default_rng(4)
    raw = rng.integers(0, 256, (2, 4000, prim.size), dtype=np.uint8)
    a, b = raw.view(numpy_dtype(prim))[..., 0]
    with np.errstate(all="ignore"):
        expected = np.mod(a, b)
    np.testing.assert_array_equal(compute("mod", a, b), expected)


@pytest.mark.parametrize("prim", INTEGERS)
def test_integer_division_truncates_and_never_traps(prim: Prim) -> None:
    a, b = grid(prim)
    bits = prim.size * 8
    expected = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        quotient = 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        expected.append(quotient % (1 << bits))
    actual = compute("div", a, b).astype(object) % (1 << bits)
    np.testing.assert_array_equal(actual, np.array(expected, object))


@pytest.mark.parametrize("prim", INTEGERS)
def test_integer_modulo_has_the_sign_of_the_divisor(prim: Prim) -> None:
    a, b = grid(prim)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compute("mod", a, b), np.mod(a, b))


@pytest.mark.whole
@pytest.mark.parametrize("prim", INTEGERS)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bitwise_and", np.bitwise_and),
        ("bitwise_or", np.bitwise_or),
        ("bitwise_xor", np.bitwise_xor),
        ("shift_left", np.left_shift),
        ("shift_right", np.right_shift),
    ],
)
def test_bits_are_numpys_for_any_distance(
    name: str, expected: Callable[..., Any], prim: Prim
) -> None:
    a, b = grid(prim)
    np.testing.assert_array_equal(compute(name, a, b), expected(a, b))


@pytest.mark.parametrize("prim", INTEGERS)
def test_integer_power_wraps_and_truncates_negative_powers(prim: Prim) -> None:
    a, b = grid(prim)
    modulus = 1 << prim.size * 8
    truncated = {1: 1, -1: -1}  # all others are below 1, and 0 is 0
    expected = [
        pow(x, y, modulus) if y >= 0 else truncated.get(x, 0) ** (2 - y % 2) % modulus
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    actual = compute("pow", a, b).astype(object) % modulus
    np.testing.assert_array_equal(actual, np.array(expected, object))


def test_bools_compare_and_combine() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for name in ("lt", "ge", "maximum", "minimum", "logical_xor", "eq"):
        np.testing.assert_array_equal(compute(name, a, b), NUMPY_BINARY[name](a, b))


def test_where_takes_any_number_as_condition_and_nan_as_true() -> None:
    condition = np.array([0.0, -0.0, np.nan, 2.0])
    a, b = np.arange(4, dtype=np.int8), -np.arange(4, dtype=np.int8)
    np.testing.assert_array_equal(compute("where", condition, a, b), [0, -1, 2, 3])


# Casts


@pytest.mark.whole
@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("source", [*INTEGERS, Prim.BOOL])
def test_casts_of_integers_wrap_or_round(source: Prim, to: DType) -> None:
    x = values(source)
    np.testing.assert_array_equal(compute("cast", x, to=to), x.astype(to.numpy))


@pytest.mark.parametrize("to", [dtype for dtype in DTYPES if dtype.is_int])
@pytest.mark.parametrize("source", FLOATS)
def test_casts_of_floats_to_integers_saturate_and_map_nan_to_zero(source: Prim, to: DType) -> None:
    limits = np.iinfo(to.numpy)
    edges = [float(limits.min), float(limits.max), limits.min - 0.75, limits.max + 0.75, 1e30]
    x = np.concatenate([values(source), np.array(edges, numpy_dtype(source))])
    expected = []
    for value in x.tolist():
        whole = 0 if np.isnan(value) else limits.max if value == np.inf else value
        whole = limits.min if value == -np.inf else int(whole)
        expected.append(min(max(whole, limits.min), limits.max))
    np.testing.assert_array_equal(compute("cast", x, to=to), np.array(expected, to.numpy))


def test_rounding_away_takes_halves_from_zero() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388609.0, -0.2], np.float32)
    actual = compute("cast", x, to=DType.I32, rounding="away")
    np.testing.assert_array_equal(actual, [1, -1, 2, 3, -3, 0, 8388609, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("to", [DType.I8, DType.U8, DType.I32])
def test_rounding_away_is_exact_next_to_halves(dtype: Any, to: DType) -> None:
    random, limits = np.random.default_rng(0), np.iinfo(to.numpy)
    whole = np.concatenate([np.arange(-300, 300), random.integers(-(2**24), 2**24, 2000)])
    halves = (whole + 0.5).astype(dtype)
    infinite = np.array([np.inf, -np.inf, np.nan, -0.0, 1e30, -1e30], dtype)
    sides = [np.nextafter(halves, dtype(side)) for side in (-np.inf, np.inf)]
    x = np.concatenate([halves, *sides, whole.astype(dtype), infinite])
    wide = np.nan_to_num(x.astype(np.longdouble), nan=0.0, posinf=1e30, neginf=-1e30)
    nearest = np.trunc(wide) + np.where(np.abs(wide - np.trunc(wide)) >= 0.5, np.sign(wide), 0)
    expected = np.clip(nearest, limits.min, limits.max).astype(to.numpy)
    np.testing.assert_array_equal(compute("cast", x, to=to, rounding="away"), expected)


@pytest.mark.parametrize("to", [DType.F16, DType.BF16])
def test_casts_to_16_bit_floats_round_once(to: DType) -> None:
    rng = np.random.default_rng(5)
    near = np.ldexp(1 + 2.0**-11, np.arange(-20, 15)) * (1 + 2.0**-40)
    x = np.concatenate([rng.uniform(-70000, 70000, 4000), values(Prim.F64), near])
    actual = compute("cast", x, to=to)
    if to is DType.F16:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(actual, x.astype(np.float16).astype(np.float32))
    tie = np.array([1 + 2.0**-8 + 2.0**-40])  # rounds down if rounded to f32 first
    assert compute("cast", tie, to=DType.BF16) == 1 + 2.0**-7


# 16-bit floats


def test_every_f16_converts_exactly_and_back() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = evaluate_function(f16_to_f32, bits)
    np.testing.assert_array_equal(wide, bits.view(np.float16).astype(np.float32))
    number = ~np.isnan(wide)
    np.testing.assert_array_equal(evaluate_function(f32_to_f16, wide)[number], bits[number])


def test_every_bf16_converts_exactly_and_back() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = evaluate_function(bf16_to_f32, bits)
    np.testing.assert_array_equal(wide, bits.view(ml_dtypes.bfloat16).astype(np.float32))
    number = ~np.isnan(wide)
    np.testing.assert_array_equal(evaluate_function(f32_to_bf16, wide)[number], bits[number])


def test_rounding_to_16_bit_floats_is_to_nearest_even() -> None:
    rng = np.random.default_rng(6)
    patterns = rng.integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
    edges = [65519.996, 65520.0, 65504.0, 2.0**-25, 1.5 * 2.0**-24, 2.0**-14, 0.0, -0.0, np.nan]
    small = rng.uniform(-1e-4, 1e-4, 50_000)
    more = np.concatenate([small, rng.uniform(-66000, 66000, 50_000), edges])
    x = np.concatenate([patterns, more.astype(np.float32)])
    halves = evaluate_function(f32_to_f16, x).view(np.float16)
    brains = evaluate_function(f32_to_bf16, x).view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(halves, x.astype(np.float16))
        np.testing.assert_array_equal(
            brains.astype(np.float32), x.astype(ml_dtypes.bfloat16).astype(np.float32)
        )
    np.testing.assert_array_equal(np.signbit(halves[-3:-1]), [False, True])


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_storage], ids=str)
def test_every_float_of_eight_bits_converts_and_is_rounded_to_as_in_ml_dtypes(dtype: DType) -> None:
    narrow = NARROW_FLOATS[dtype]
    bits = np.arange(256, dtype=np.uint8)
    wide = evaluate_function(narrow.widen, bits)
    np.testing.assert_array_equal(wide, bits.view(dtype.numpy).astype(np.float32))
    rng = np.random.default_rng(6)
    x = rng.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    spread = np.exp2(rng.uniform(-20, 18, 100_000)) * rng.choice([-1, 1], 100_000)
    x = np.concatenate(
        [x, spread.astype(np.float32), wide, np.array([464, 61440, -0.0], np.float32)]
    )
    with np.errstate(all="ignore"):
        expected = x.astype(dtype.numpy).astype(np.float32)
    for found in (
        evaluate_function(narrow.narrow, x).view(dtype.numpy).astype(np.float32),
        evaluate_function(narrow.round, x),
    ):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[-1:]), [True])


def test_f64_to_f32_rounds_to_odd_only_if_inexact() -> None:
    x = np.array([1.0, 1.5, 1 + 2.0**-30, -1 - 2.0**-30, np.inf, np.nan, 0.0])
    actual = evaluate_function(f64_to_f32_odd, x)
    bits = actual.view(np.uint32)
    np.testing.assert_array_equal(actual[[0, 1, 4, 6]], [1.0, 1.5, np.inf, 0.0])
    np.testing.assert_array_equal(bits[[2, 3]] & 1, [1, 1])
    assert np.isnan(actual[5])


# Complex


def complex_compute(name: str, *arrays: Array) -> Array:
    """Apply a complex scalar function to complex64 arrays."""
    params: list[Var] = []
    pairs = []
    for i in range(len(arrays)):
        pair = [Var(f"{part}{i}", ValueType(Prim.F32)) for part in ("re", "im")]
        params += pair
        pairs.append((E(pair[0]), E(pair[1])))
    parts = [part.copy() for array in arrays for part in (array.real, array.imag)]
    result = complex_function(name)(*pairs)
    outputs = result if isinstance(result, tuple) else (result,)
    computed = [
        evaluate_function(Function(name, tuple(params), (), output.node), *parts)
        for output in outputs
    ]
    return computed[0] + 1j * computed[1] if len(computed) == 2 else computed[0]


NUMPY_COMPLEX: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "conj": np.conj, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "square": np.square, "reciprocal": np.reciprocal, "real": np.real, "imag": np.imag,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "eq": np.equal,
    "ne": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("name", NUMPY_COMPLEX)
def test_complex_functions_are_numpys(name: str) -> None:
    rng = np.random.default_rng(8)
    a = (rng.normal(size=500) + 1j * rng.normal(size=500)).astype(np.complex64)
    b = np.where(np.arange(500) % 3, (rng.normal(size=500) - 2j).astype(np.complex64), a)
    binary = name in ("add", "sub", "mul", "div", "eq", "ne")
    operands = (a, b) if binary else (a,)
    expected = NUMPY_COMPLEX[name](*(x.astype(np.complex128) for x in operands))
    np.testing.assert_allclose(complex_compute(name, *operands), expected, rtol=1e-6, atol=1e-6)


def test_complex_square_root_keeps_the_small_part() -> None:
    z = np.array([-4 + 1e-10j, 4 - 1e-10j, -1e30 + 1j, 0j], np.complex64)
    actual = complex_compute("sqrt", z)
    expected = np.sqrt(z.astype(np.complex128))
    np.testing.assert_allclose(actual.real, expected.real, rtol=1e-6)
    np.testing.assert_allclose(actual.imag, expected.imag, rtol=1e-6)


def test_an_op_without_scalar_function_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="transmogrify: no scalar function"):
        scalar_function("transmogrify")


def test_every_narrow_float_has_its_conversions() -> None:
    assert set(NARROW_FLOATS) == {dtype for dtype in DType if dtype.is_low_precision}
