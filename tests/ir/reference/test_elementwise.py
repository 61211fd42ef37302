"""Elementwise meaning against NumPy, SciPy and known values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import DTypeError
from rlx.ir import ops
from rlx.ir.op import OpDef
from tests.ir.reference.running import f32, f64, run


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (ops.gelu, (0.8413447461, -0.1586552539)),
        (ops.gelu_approx, (0.8411919906, -0.1588080094)),
        (ops.silu, (0.7310585786, -0.2689414214)),
    ],
)
def test_activations_have_known_values(op: OpDef, expected: tuple[float, float]) -> None:
    np.testing.assert_allclose(run(op, f64(1, -1)), expected, atol=1e-10)


def test_round_takes_halves_to_even_and_keeps_the_sign_of_zero() -> None:
    rounded = run(ops.round, f64(0.5, 1.5, 2.5, -0.5))
    np.testing.assert_array_equal(rounded, [0, 2, 2, 0])
    assert np.signbit(rounded[3])


def test_erf_agrees_with_scipy_to_two_units_in_the_last_place() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-6, 6, 4001), np.logspace(-300, 0, 400)])
    expected = special.erf(x)
    assert np.max(np.abs(run(ops.erf, x) - expected) / np.spacing(np.abs(expected))) <= 2
    np.testing.assert_array_equal(run(ops.erf, f64(-np.inf, np.inf, np.nan)), [-1, 1, np.nan])


def test_sigmoid_neither_overflows_nor_loses_small_values() -> None:
    np.testing.assert_allclose(
        run(ops.sigmoid, f64(-745, -50, 0, 50, 800)),
        [np.exp(-745.0), np.exp(-50.0), 0.5, 1, 1],
        rtol=1e-13,
    )


@pytest.mark.parametrize(
    ("op", "at_minus_200", "at_200"),
    [
        (ops.softplus, np.exp(-200.0), 200.0),
        (ops.log_sigmoid, -200.0, -np.exp(-200.0)),
        (ops.mish, -200 * np.exp(-200.0), 200.0),
        (ops.elu, -1.0, 200.0),
        (ops.silu, -200 * np.exp(-200.0), 200.0),
    ],
)
def test_activations_are_finite_far_from_zero(
    op: OpDef, at_minus_200: float, at_200: float
) -> None:
    np.testing.assert_allclose(run(op, f64(-200, 200)), [at_minus_200, at_200], rtol=1e-12)


def test_activations_agree_with_jax() -> None:
    jax = pytest.importorskip("jax")
    x = np.linspace(-6, 6, 97, dtype=np.float32)
    for op, theirs in {
        ops.softplus: jax.nn.softplus,
        ops.log_sigmoid: jax.nn.log_sigmoid,
        ops.leaky_relu: jax.nn.leaky_relu,
        ops.elu: jax.nn.elu,
        ops.selu: jax.nn.selu,
        ops.hard_sigmoid: jax.nn.hard_sigmoid,
        ops.hard_swish: jax.nn.hard_swish,
        ops.mish: jax.nn.mish,
    }.items():
        np.testing.assert_allclose(run(op, x), theirs(x), rtol=2e-6, atol=2e-6, err_msg=op.name)


def test_maximum_and_minimum_propagate_nan_from_either_side() -> None:
    a, b = f64(np.nan, 1, np.nan), f64(1, np.nan, np.nan)
    assert np.isnan(run(ops.maximum, a, b)).all()
    assert np.isnan(run(ops.minimum, a, b)).all()
    assert np.isnan(run(ops.relu, f64(np.nan))).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integer_division_truncates_and_never_faults(dtype: type[np.integer]) -> None:
    least = np.iinfo(dtype).min
    a, b = np.array([7, -7, 7, -7, 5, least], dtype), np.array([2, 2, -2, -2, 0, -1], dtype)
    np.testing.assert_array_equal(run(ops.div, a, b), np.array([3, -3, -3, 3, 0, least], dtype))


def test_integer_power_wraps_and_truncates_negative_powers() -> None:
    a = np.array([2, 3, 5, 0, 0, 1, -1, -1], np.int8)
    b = np.array([7, 5, -3, 0, -1, -3, -3, -128], np.int8)
    expected = np.array([-128, -13, 0, 1, 0, 1, -1, 1], np.int8)
    np.testing.assert_array_equal(run(ops.pow, a, b), expected)


def test_integers_wrap_without_a_warning() -> None:
    big = np.array([127, -128], np.int8)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(run(ops.add, big, big), np.array([-2, 0], np.int8))
        np.testing.assert_array_equal(run(ops.neg, big), np.array([-127, -128], np.int8))
        np.testing.assert_array_equal(run(ops.abs, big), np.array([127, -128], np.int8))


def test_complex_arithmetic_has_known_values() -> None:
    def c64(*numbers: complex) -> np.ndarray:
        return np.array(numbers, np.complex64)

    np.testing.assert_allclose(run(ops.mul, c64(1 + 2j), c64(3 + 4j)), [-5 + 10j], atol=1e-5)
    np.testing.assert_allclose(run(ops.div, c64(1 + 2j), c64(3 + 4j)), [0.44 + 0.08j], atol=1e-5)
    # Along the cut the sign of the zero decides, as in C and NumPy.
    roots = run(ops.sqrt, c64(4, 3 + 4j, complex(-1, 0.0), complex(-1, -0.0)))
    np.testing.assert_allclose(roots, [2, 2 + 1j, 1j, -1j], atol=1e-5)
    np.testing.assert_allclose(
        run(ops.log, c64(1, 1j, -1)), [0, 0.5j * np.pi, 1j * np.pi], atol=1e-5
    )
    np.testing.assert_allclose(run(ops.exp, c64(1j * np.pi, 1)), [-1, np.e], atol=1e-5)
    np.testing.assert_array_equal(run(ops.complex_norm_sq, c64(3 + 4j, 1, 0)), [25, 1, 0])
    np.testing.assert_array_equal(run(ops.conj, c64(2 - 3j)), c64(2 + 3j))


def test_complex_parts_keep_infinities() -> None:
    z = run(ops.complex, f32(np.inf), f32(1))
    assert (z[0].real, z[0].imag) == (np.inf, 1)


@pytest.mark.parametrize("op", [ops.maximum, ops.minimum, ops.erf, ops.lt, ops.relu, ops.floor])
def test_ops_without_a_complex_meaning_refuse_c64(op: OpDef) -> None:
    z = np.ones(2, np.complex64)
    with pytest.raises(DTypeError, match="c64"):
        run(op, *[z] * len(op.operands))


def test_where_keeps_the_bits_of_a_nan() -> None:
    payload = np.array([0x7FC01234, 0xFFC00001], np.uint32).view(np.float32)
    chosen = run(ops.where, np.array([True, False]), payload, payload)
    np.testing.assert_array_equal(chosen.view(np.uint32), payload.view(np.uint32))


def test_where_reads_nan_as_true_and_minus_zero_as_false() -> None:
    chosen = run(ops.where, f32(np.nan, -0.0, 0.0, 2), f32(1), f32(0))
    np.testing.assert_array_equal(chosen, [1, 0, 0, 1])


def test_f16_is_computed_in_f32_and_rounded_once() -> None:
    x = np.linspace(-4, 4, 257).astype(np.float16)
    wide = run(ops.gelu, x.astype(np.float32))
    np.testing.assert_array_equal(run(ops.gelu, x), wide.astype(np.float16))
    # 300 * 300 overflows f16 on the way, the result does not.
    big = np.full(4, 300, np.float16)
    np.testing.assert_array_equal(run(ops.reduce_mean, big, axes=(0,)), np.float16(300))


@pytest.mark.parametrize("op", [ops.gelu, ops.gelu_approx, ops.silu, ops.mish])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gated_activations_of_infinities_are_their_limits(op: OpDef, dtype: Any) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 3], dtype)
    y = run(op, x)
    assert y[0] == np.inf
    assert y[1] == 0
    assert np.signbit(y[1])
    assert np.isnan(y[2])
    assert 2.8 < y[3] < 3
