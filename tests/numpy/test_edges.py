"""NumPy's answers at the limits of dtypes, of infinities, NaNs and zeros of either sign."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.errors import InputError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.numpy import linalg
from rlx.scipy import special

Array = NDArray[Any]
INTEGERS = np.array([-128, 127, -128, 5, 0, -7, -128, 100], np.int8)
DIVISORS = np.array([3, -2, -1, 0, 3, -7, -128, 127], np.int8)
FLOATS = np.array([-0.0, 0.0, -1.5, 2.5, -8.0, 5.0, -5.0], np.float32)


def same(found: Any, expected: Any) -> None:
    """Equal numbers, NaNs and signs of zeros."""
    found, expected = np.asarray(found), np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    if found.dtype.kind == "f":
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", ["floor_divide", "fmod", "remainder"])
def test_quotients_of_extreme_integers(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(INTEGERS, DIVISORS)
    same(rlx.jit(getattr(rnp, name))(INTEGERS, DIVISORS), expected)


def test_floor_divide_by_and_of_infinities() -> None:
    x = np.array([1, -1, np.inf, 5, -np.inf, 2, -3], np.float32)
    y = np.array([np.inf, np.inf, 1, -np.inf, np.inf, 0, 2], np.float32)
    with np.errstate(all="ignore"):
        same(rlx.jit(rnp.floor_divide)(x, y), np.floor_divide(x, y))


@pytest.mark.parametrize("name", ["cbrt", "signbit"])
def test_functions_that_distinguish_zeros(name: str) -> None:
    same(rlx.jit(getattr(rnp, name))(FLOATS), getattr(np, name)(FLOATS))


def test_the_derivative_of_fmod_at_zero_is_one() -> None:
    slopes = rlx.vmap(rlx.grad(lambda x: rnp.fmod(x, abs(x) + 1)))(FLOATS)
    np.testing.assert_array_equal(slopes, np.ones(len(FLOATS)))
    divisors = np.array([2, -2, 8], np.float32)
    slopes = rlx.vmap(rlx.grad(lambda y: rnp.fmod(np.float32(7.5), y)))(divisors)
    np.testing.assert_array_equal(slopes, [-3, 3, 0])


def test_fmod_keeps_the_sign_of_zero() -> None:
    same(rlx.jit(rnp.fmod)(FLOATS, np.float32(1)), np.fmod(FLOATS, 1))


def test_hypot_of_an_infinity_is_infinite() -> None:
    x = np.array([np.inf, np.nan, 3, np.nan], np.float32)
    y = np.array([np.nan, -np.inf, 4, 1], np.float32)
    same(rlx.jit(rnp.hypot)(x, y), np.hypot(x, y))


def test_sinc_and_its_second_derivative_near_zero() -> None:
    second = rlx.jit(rlx.grad(rlx.grad(rnp.sinc)))
    for x in (0.0, 1e-6, 0.003):
        same(second(np.float64(x)), -(np.pi**2) / 3 + np.pi**4 * x**2 / 10)
    near = np.linspace(-0.1, 0.1, 2001)
    np.testing.assert_allclose(rlx.jit(rnp.sinc)(near), np.sinc(near), rtol=1e-15)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_takes_nan_for_the_largest(side: Any) -> None:
    row = np.array([1, 2, 3, np.nan, np.nan], np.float32)
    wanted = np.array([np.nan, 2, 5], np.float32)
    found = rlx.jit(lambda a, v: rnp.searchsorted(a, v, side=side))(row, wanted)
    same(found, np.searchsorted(row, wanted, side=side))


def test_trace_of_a_stack_is_one_per_matrix() -> None:
    stack = np.arange(12.0, dtype=np.float32).reshape(3, 2, 2)
    same(rlx.jit(linalg.trace)(stack), np.linalg.trace(stack))


def test_relu6_has_no_slope_at_its_corners() -> None:
    slope = rlx.jit(rlx.vmap(rlx.grad(nn.relu6)))
    same(slope(np.array([0, 3, 6, 7, -1], np.float32)), np.array([0, 1, 0, 0, 0], np.float32))


def test_complex_log10_of_zero() -> None:
    z = np.array([0, 1j, -100], np.complex64)
    with np.errstate(all="ignore"):
        expected = np.log10(z)
    found = rlx.jit(rnp.log10)(z)
    same(found.real, expected.real)
    same(found.imag, expected.imag)


def test_vecdot_and_nanmax_keep_integers() -> None:
    small = np.array([200, 100], np.uint8)
    assert rnp.vecdot(small, small).dtype == np.uint8
    signed = np.array([[3, -1]], np.int32)
    found = rnp.nanmax(signed, 1)
    assert found.dtype == np.int32
    same(found, [3])
    same(rnp.nanmin(np.array([[np.nan, np.nan], [1, np.nan]]), 1), [np.nan, 1])


def test_cross_along_one_axis_of_unequal_ranks() -> None:
    x, y = np.arange(12.0).reshape(3, 4), np.array([1.0, 2, 4])
    same(rnp.cross(x, y, axis=0), np.cross(x, y, axis=0))
    same(rnp.cross(x.T[:, :2], y), np.cross(np.pad(x.T[:, :2], ((0, 0), (0, 1))), y))


def test_average_over_axes_out_of_order() -> None:
    x, weights = np.arange(24.0).reshape(2, 3, 4), np.arange(8.0).reshape(4, 2) + 1
    expected = np.average(x, axis=(0, 2), weights=weights.T)
    same(rnp.average(x, axis=(2, 0), weights=weights), expected)
    found, total = rnp.average(x, axis=1, weights=np.ones(3), returned=True)
    same(found, x.mean(1))
    same(total, np.full((2, 4), 3.0))


@pytest.mark.parametrize("values", [(1.0, 2.0), ((1.0, 2.0), (3.0, 4.0)), 5, np.arange(2.0)])
def test_pad_with_a_constant_for_each_side(values: Any) -> None:
    x, widths = np.ones((2, 3)), ((1, 2), (0, 1))
    same(rnp.pad(x, widths, constant_values=values), np.pad(x, widths, constant_values=values))


def test_what_can_change_is_copied_and_what_cannot_is_given_back() -> None:
    x = np.arange(3.0)
    copies = rnp.array(x), rnp.asarray(x), rnp.reshape(x, (3,)), rnp.asarray(x, "f64")
    x[0] = 9.0
    assert all(each[0] == 0.0 for each in copies)
    assert rnp.asarray(np.arange(3.0)).base is not x
    assert np.shares_memory(rnp.asarray(copies[0]), copies[0])


PARTS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
SPECIAL = np.array([complex(re, im) for re in PARTS for im in PARTS])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["exp", "log", "sqrt"])
def test_complex_functions_of_zeros_infinities_and_nan(name: str, dtype: Any) -> None:
    """Roots below zero lie on the side of the sign of their zero, as in C and NumPy."""
    z = SPECIAL.astype(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    found = rlx.jit(getattr(rnp, name))(z)
    np.testing.assert_allclose(found.real, expected.real, rtol=1e-6)
    np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "large"), [(np.complex64, 1e30), (np.complex128, 1e200)])
def test_complex_squares_overflow_only_where_they_are_large(dtype: Any, large: float) -> None:
    z = np.array([complex(large, large), complex(large, -large), 3 + 4j], dtype)
    for found in (rlx.jit(rnp.square)(z), rnp.square(z)):
        np.testing.assert_array_equal(found.real, [0, 0, -7])
        np.testing.assert_array_equal(found.imag, [np.inf, -np.inf, 24])


@pytest.mark.parametrize("x", [-6.0, -9.0, -12.0])
def test_exact_gelu_keeps_its_tail(x: float) -> None:
    expected = x / 2 * math.erfc(-x / math.sqrt(2))
    for dtype, tolerance in ((np.float32, 3e-6), (np.float64, 1e-13)):
        found = rlx.jit(lambda x: nn.gelu(x, approximate=False))(dtype(x))
        np.testing.assert_allclose(found, expected, rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
def test_the_reciprocal_of_a_complex_infinity_is_zero(dtype: Any, backend: str) -> None:
    inf, nan = np.inf, np.nan
    z = np.array([complex(inf, 0), complex(0, -inf), complex(-inf, inf), complex(inf, nan)], dtype)
    for function in (rnp.reciprocal, lambda z: 1 / z):
        assert (np.asarray(rlx.jit(function, backend=backend)(z)) == 0).all()


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_mantissas_and_exponents_of_16_bits(backend: str, dtype: Any) -> None:
    """NumPy's `finfo` has no bfloat16: these raised its ValueError."""
    numbers = [0.0, -0.0, 0.75, -2.0, 1.0, 3.5, 60000.0, 6e-5, np.inf, -np.inf]
    x = np.array(numbers, np.float32).astype(dtype)
    mantissa, exponent = rlx.jit(rnp.frexp, backend=backend)(x)
    expected = np.frexp(x.astype(np.float32))
    assert mantissa.dtype == dtype
    np.testing.assert_array_equal(mantissa.astype(np.float32), expected[0])
    np.testing.assert_array_equal(exponent[:-2], expected[1][:-2])
    again = rlx.jit(rnp.ldexp, backend=backend)(mantissa, exponent)
    np.testing.assert_array_equal(again.astype(np.float32), x.astype(np.float32))


SPOILED = np.array([1.0, np.nan, 2.0, np.inf, 0.0, 3.0])
INFINITE: dict[str, Callable[[Any], Any]] = {
    "gradient": lambda n: n.gradient(np.array([np.inf, 1.0, 2.0, 4.0, np.inf, 1.0, 5.0])),
    "unwrap": lambda n: n.unwrap(np.array([np.inf, 1.0, 2.0])),
    "convolve": lambda n: [
        n.convolve(SPOILED, np.array([1.0, np.inf, 0.0]), m) for m in ("full", "same")
    ],
    "correlate": lambda n: [
        n.correlate(SPOILED, np.array([1.0, 2.0]), m) for m in ("full", "valid")
    ],
    "polymul": lambda n: n.polymul(SPOILED, np.array([1.0, 2.0])),
    "nanvar": lambda n: [n.nanvar(SPOILED), n.nanstd(np.array([[np.nan, 1, 4], [1, 2, 2]]), 1)],
    "modf": lambda n: n.modf(np.array([1.5, -2, 0, -0.0, np.inf, -np.inf, np.nan])),
    "logaddexp": lambda n: n.logaddexp(
        np.array([np.inf, -np.inf, np.nan]), np.array([np.inf, -np.inf, 1])
    ),
}


@pytest.mark.parametrize("name", INFINITE)
def test_what_is_not_finite_spreads_as_far_as_in_numpy(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = INFINITE[name](np)
    for found, each in zip(INFINITE[name](rnp), expected, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-14)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(each))


def test_slopes_where_a_formula_has_cases() -> None:
    x = np.array([1.0, -2.0, 0.0, -0.0, 2.5])
    parts = rlx.grad(lambda x: rnp.sum(rnp.modf(x)[0]))(x)
    np.testing.assert_array_equal(parts, np.ones(5))
    known = np.array([1.0, np.nan, 3.0, 5.0])
    np.testing.assert_allclose(rlx.grad(rnp.nanvar)(known), [-4 / 3, 0, 0, 4 / 3])
    np.testing.assert_array_equal(rlx.grad(rnp.nanmedian)(np.zeros(4)), [0, 0.5, 0.5, 0])
    assert np.isnan(rlx.grad(lambda x: rnp.logaddexp(x, 1.0))(np.nan))


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
def test_rows_without_an_element_stay_so(op: Any, backend: str) -> None:
    """Also where that is known at the call only: an axis of up to eight elements holds none."""
    graph = Graph("rows")
    graph.set_outputs([op(graph.input("x", (3, rlx.Dim("n", max=8)), DType.F32), axis=-1)])
    compiled = rlx.compile(graph, backend=backend)
    half = 0.5 if op is ops.softmax else np.log(0.5)
    np.testing.assert_allclose(compiled.run({"x": np.ones((3, 2), np.float32)})[0], half, rtol=1e-6)
    assert compiled.run({"x": np.ones((3, 0), np.float32)})[0].shape == (3, 0)
    assert nn.softmax(np.ones((3, 0))).shape == nn.log_softmax(np.ones((3, 0))).shape == (3, 0)


def test_a_share_that_is_none_has_no_quantile() -> None:
    x = np.array([3.0, 1.0, 2.0])
    shares = np.array([0.5, np.nan, 1.0])
    for found in (rnp.quantile(x, shares), rlx.jit(rnp.quantile)(x, shares)):
        np.testing.assert_array_equal(found, [2, np.nan, 3])
    with pytest.raises(InputError, match="must be in"):
        rnp.quantile(x, 1.5)
    with pytest.raises(InputError, match="must be in"):
        rnp.nanpercentile(x, -1)


def test_the_beta_function_has_the_signs_of_its_gammas() -> None:
    a, b = np.array([-2.5, -0.5, -1.5, 2.0]), np.array([1.0, -0.25, 0.25, 3.0])
    expected = [
        math.gamma(x) * math.gamma(y) / math.gamma(x + y) for x, y in zip(a, b, strict=True)
    ]
    found = rlx.jit(special.beta, backend="reference")(a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert rlx.grad(special.beta)(-2.5, 1.0) == pytest.approx(-0.16)  # that of 1 / a


def test_what_cannot_be_chosen_has_no_slope() -> None:
    n, k = np.array([2.0, -1.5, 3.0, 5.0]), np.array([3.0, 1.0, -0.5, 2.0])
    slopes = rlx.grad(lambda n: rnp.sum(special.comb(n, k)))(n)
    np.testing.assert_allclose(slopes, [0, 0, 0, 4.5], rtol=1e-12)  # that of n (n - 1) / 2


@pytest.mark.slow
def test_slopes_of_a_choice_at_its_edge() -> None:
    """`gammainc` rises from 0 with the density there, and a remainder with its own quotient."""
    slope = rlx.grad(special.gammainc, argnums=1)
    assert [float(slope(a, 0.0)) for a in (1.0, 1.5, 3.0)] == [1, 0, 0]
    by_divisor = rlx.grad(rnp.mod, argnums=1)
    for x, y in ((-3.0, 0.3), (7.5, 2.0), (-7.5, 2.0), (5.0, -3.0), (-3.0, np.inf), (3.0, np.inf)):
        assert by_divisor(x, y) == -np.floor_divide(x, y), (x, y)


@pytest.mark.parametrize("how", [{}, {"axis": 0}, {"axis": 1, "ddof": 1, "keepdims": True},
                                 {"axis": (0, 1), "ddof": 0.5}])  # fmt: skip
@pytest.mark.parametrize("name", ["var", "std"])
def test_deviations_of_what_is_chosen(name: str, how: dict[str, Any]) -> None:
    x = np.array([[1, np.nan, 3, -0.0], [-2, 5, np.inf, 2], [0.5, -1, 2, 7]])
    chosen = np.isfinite(x) & (x != 7)
    for each in (x, x.astype(np.float32), x + 0.5j):
        expected = getattr(np, name)(each, where=chosen, **how)
        for found in (
            getattr(rnp, name)(each, where=chosen, **how),
            rlx.jit(lambda x: getattr(rnp, name)(x, where=chosen, **how))(each),
        ):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=2e-6)
    slopes = rlx.jit(rlx.grad(lambda x: rnp.sum(getattr(rnp, name)(x, where=chosen, **how))))(x)
    assert np.isfinite(slopes).all()  # also of what is left out
