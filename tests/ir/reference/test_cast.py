"""Casts between every pair of dtypes."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from rlx.errors import DTypeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.ir.reference.running import f64, run

_FLOATS = [d for d in DType if d.is_float and d is not DType.F8_E4M3FN]
"""Those that have an infinity."""
_BYTES = [dtype for dtype in DType if dtype.is_storage]
_INTS = [dtype for dtype in DType if dtype.is_int]
_REAL = [dtype for dtype in DType if not dtype.is_complex]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("source", "to"), [(a, b) for a, b in itertools.product(_REAL, DType) if a is not b], ids=str
)
def test_small_integers_survive_between_all_dtypes(source: DType, to: DType) -> None:
    x = np.array([0, 1, 1, 0] if source is DType.BOOL else [0, 1, 7, 96]).astype(source.numpy)
    expected = x.astype(np.int64) != 0 if to is DType.BOOL else x.astype(np.int64)
    result = run(ops.cast, x, to=to)
    assert result.dtype == to.numpy
    np.testing.assert_array_equal(result.astype(np.complex64), expected.astype(np.complex64))


@pytest.mark.whole
@pytest.mark.parametrize(("source", "to"), list(itertools.product(_FLOATS, _INTS)), ids=str)
def test_float_to_integer_truncates_saturates_and_takes_nan_to_zero(
    source: DType, to: DType
) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 2.5, -2.5, -0.75]).astype(source.numpy)
    info = np.iinfo(to.numpy)
    expected = [0, info.max, info.min, 2, max(-2, info.min), 0]
    np.testing.assert_array_equal(run(ops.cast, x, to=to), np.array(expected, to.numpy))


@pytest.mark.parametrize("to", _INTS, ids=str)
def test_float_to_integer_saturates_exactly_at_the_ends_of_the_range(to: DType) -> None:
    info = np.iinfo(to.numpy)
    beyond = float(info.max + 1)
    inside = np.nextafter(beyond, 0.0)
    x = f64(beyond, inside, info.min, np.nextafter(float(info.min), -np.inf), 2 * beyond)
    expected = [info.max, int(inside), info.min, info.min, info.max]
    np.testing.assert_array_equal(run(ops.cast, x, to=to), np.array(expected, to.numpy))


def test_rounding_away_takes_halves_from_zero_and_nothing_else() -> None:
    below_half = float(np.nextafter(0.5, 0))
    x = f64(0.5, 1.5, 2.5, -0.5, -2.5, 2.4, below_half, 2.0**53 + 2)
    expected = [1, 2, 3, -1, -3, 2, 0, 2**53 + 2]
    np.testing.assert_array_equal(run(ops.cast, x, to=DType.I64, rounding="away"), expected)


@pytest.mark.whole
@pytest.mark.parametrize(("source", "to"), list(itertools.permutations(_INTS, 2)), ids=str)
def test_integer_to_integer_wraps(source: DType, to: DType) -> None:
    info = np.iinfo(source.numpy)
    x = np.array([info.min, info.max, info.max - 5], source.numpy)
    width = 8 * to.size
    wrapped = [int(value) % 2**width for value in x]
    result = run(ops.cast, x, to=to)
    assert [int(value) % 2**width for value in result] == wrapped


@pytest.mark.parametrize(
    "source", [DType.F64, DType.F32, DType.I64, DType.U64, DType.I32, DType.U32], ids=str
)
@pytest.mark.parametrize("to", [DType.F32, DType.F16, DType.BF16], ids=str)
def test_narrowing_to_floats_rounds_once_to_nearest_even(source: DType, to: DType) -> None:
    rng = np.random.default_rng(5)
    if source.is_float:
        exact = 1 + rng.integers(0, 64, 400) * 2.0**-9 + rng.choice([0, 1e-9, -1e-9, 2.0**-40], 400)
        x = (exact * 2.0 ** rng.integers(-20, 12, 400)).astype(source.numpy)
    else:
        top = 15 if to is DType.F16 else 8 * source.size - (1 if source.size == 4 else 2)
        x = (2 ** rng.integers(2, top, 400) + rng.integers(-3, 4, 400)).astype(source.numpy)
        ties = 2 ** rng.integers(9, top, 100) // 256 * 257  # halfway between two bf16
        x = np.concatenate([x, (ties + rng.integers(-1, 2, 100)).astype(source.numpy)])
        if source is DType.U64 and to is not DType.F16:  # what no i64 holds
            x = np.concatenate([x, x | np.uint64(1 << 63), ~(x & np.uint64(7))])
    for value, rounded in zip(x, run(ops.cast, x, to=to), strict=True):
        _assert_nearest_even(_fraction(value), rounded, to)


def _fraction(value: np.generic) -> Fraction:
    return Fraction(int(value) if isinstance(value, np.integer) else float(value))


def _assert_nearest_even(exact: Fraction, rounded: np.generic, to: DType) -> None:
    bits = np.array(rounded, to.numpy).view(f"u{to.size}")
    neighbors = (bits + np.array([-1, 0, 1])).astype(bits.dtype).view(to.numpy).astype(np.float64)
    finite = [Fraction(float(v)) for v in neighbors if np.isfinite(v)]
    error = abs(exact - Fraction(float(rounded)))
    nearest = min(abs(exact - candidate) for candidate in finite)
    assert error == nearest, (float(exact), rounded)
    if [abs(exact - candidate) for candidate in finite].count(error) > 1:
        assert int(bits) % 2 == 0, f"the tie {float(exact)} went to the odd {rounded}"


def test_overflow_becomes_infinite_and_the_last_finite_tie_does_not() -> None:
    x = f64(65519, 65520, -1e300)
    np.testing.assert_array_equal(run(ops.cast, x, to=DType.F16), [65504, np.inf, -np.inf])
    largest = (2 - 2.0**-7) * 2.0**127
    narrowed = run(ops.cast, f64(largest, 3.4e38), to=DType.BF16).astype(np.float64)
    np.testing.assert_array_equal(narrowed, [largest, np.inf])


@pytest.mark.parametrize("to", _BYTES, ids=str)
def test_narrowing_to_eight_bits_rounds_once_to_nearest_even(to: DType) -> None:
    """At every number, tie and neighbour of a tie: f64 and f32 must give one result."""
    numbers = np.arange(256, dtype=np.uint8).view(to.numpy).astype(np.float64)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    ties = (numbers[1:] + numbers[:-1]) / 2
    x = np.concatenate([numbers, ties, np.nextafter(ties, 9e9), np.nextafter(ties, -9e9)])
    for value, rounded in zip(x, run(ops.cast, x, to=to), strict=True):
        _assert_nearest_even(_fraction(value), rounded, to)
    singles = x.astype(np.float32)
    np.testing.assert_array_equal(run(ops.cast, singles, to=to), singles.astype(to.numpy))


def test_what_is_beyond_eight_bits_is_infinite_or_no_number() -> None:
    x = f64(464, np.nextafter(464, 500), -1e300, np.inf)
    found = run(ops.cast, x, to=DType.F8_E4M3FN).astype(np.float64)
    np.testing.assert_array_equal(found, [448, np.nan, np.nan, np.nan])
    x = f64(np.nextafter(61440, 0), 61440, -1e300, np.inf)
    found = run(ops.cast, x, to=DType.F8_E5M2).astype(np.float64)
    np.testing.assert_array_equal(found, [57344, np.inf, -np.inf, np.inf])


def test_eight_bits_are_moved_and_converted_and_nothing_else() -> None:
    x = np.array([1.0, 2.0], DType.F8_E5M2.numpy)
    np.testing.assert_array_equal(run(ops.reshape, x, shape=(2, 1)), x[:, None])
    with pytest.raises(DTypeError, match="f8_e5m2; it must be one of"):
        run(ops.tanh, x)


def test_anything_to_bool_means_nonzero() -> None:
    np.testing.assert_array_equal(
        run(ops.cast, f64(np.nan, -0.0, 0.1), to=DType.BOOL), [True, False, True]
    )
    z = np.array([0, 1j, 1], np.complex64)
    np.testing.assert_array_equal(run(ops.cast, z, to=DType.BOOL), [False, True, True])


def test_c64_keeps_its_real_part_in_floats_and_refuses_integers() -> None:
    z = np.array([1.5 + 2j], np.complex64)
    np.testing.assert_array_equal(run(ops.cast, z, to=DType.F64), [1.5])
    with pytest.raises(DTypeError, match="c64 does not convert to i32"):
        run(ops.cast, z, to=DType.I32)
