"""Extents: arithmetic of bounded symbols, exact division, broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.errors import ShapeError, UnsupportedError
from rlx.ir.shape import (
    Dim,
    Extent,
    bind_symbol,
    broadcast_shapes,
    divide,
    ends,
    evaluate,
    floor_divide,
    is_at_most,
    normalize_axis,
    product,
    row_major_strides,
    upper,
)

N = Dim("n", max=8)
M = Dim("m", min=1, max=5)
extents = st.recursive(
    st.one_of(st.integers(-3, 3), st.sampled_from([N, M])),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] - pair[1]),
        st.tuples(inner, st.integers(1, 4)).map(lambda pair: pair[0] // pair[1]),
    ),
    max_leaves=5,
)


@given(extents, extents, st.integers(0, 8), st.integers(1, 5))
def test_arithmetic_agrees_with_integers_at_every_binding(
    a: Extent, b: Extent, n: int, m: int
) -> None:
    at = {"n": n, "m": m}
    assert evaluate(a + b, at) == evaluate(a, at) + evaluate(b, at)
    assert evaluate(a * b, at) == evaluate(a, at) * evaluate(b, at)
    assert evaluate(a - b, at) == evaluate(a, at) - evaluate(b, at)


@given(extents, extents)
def test_equal_polynomials_are_equal_values(a: Extent, b: Extent) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) * 2 == 2 * a + 2 * b
    assert hash(a * b) == hash(b * a)


@given(extents, st.integers(0, 8), st.integers(1, 5))
def test_upper_bounds_every_binding(extent: Extent, n: int, m: int) -> None:
    low, high = ends(extent)
    assert low <= evaluate(extent, {"n": n, "m": m}) <= upper(extent) == high


@given(extents, st.integers(1, 5), st.integers(0, 8), st.integers(1, 5))
def test_quotients_are_rounded_down_at_every_binding(
    extent: Extent, divisor: int, n: int, m: int
) -> None:
    at = {"n": n, "m": m}
    assert evaluate(floor_divide(extent, divisor), at) == evaluate(extent, at) // divisor


@given(extents, st.integers(1, 4), st.integers(1, 4), st.integers(-5, 5))
def test_equal_quotients_are_equal_values(extent: Extent, a: int, b: int, shift: int) -> None:
    assert floor_divide(extent + shift * a, a) == floor_divide(extent, a) + shift
    assert floor_divide(a * N, a * b) == floor_divide(N, b)
    assert floor_divide(floor_divide(N + shift, a), b) == floor_divide(N + shift, a * b)
    assert -floor_divide(-N, a) == floor_divide(N + (a - 1), a)


def test_quotients_have_tight_bounds() -> None:
    assert ends((N + 1) // 2) == (0, 4)
    assert ends(-(-N // 2)) == (0, 4)
    assert upper((N - 3) // 2 + 1) == 3


def test_a_divisor_below_one_is_refused() -> None:
    with pytest.raises(ShapeError, match="divided by 0"):
        N // 0


@given(extents)
def test_division_undoes_multiplication(extent: Extent) -> None:
    assert divide(extent * 3, 3) == extent
    assert divide(extent * N, N) == extent


def test_extents_print_as_they_are_written() -> None:
    assert str(2 * N * M - N + 1) == "2*m*n-n+1"
    assert str(-N) == "-n"
    assert str(2 * (N // 2) + 1) == "2*floordiv(n, 2)+1"
    assert N - N == 0


@pytest.mark.parametrize(
    ("dividend", "divisor"), [(7, 2), (N, 2), (2 * N, M), (N, N + 1), (3, 0), (2 * N, 4 * N)]
)
def test_inexact_division_is_a_shape_error(dividend: Extent, divisor: Extent) -> None:
    with pytest.raises(ShapeError, match="not divisible"):
        divide(dividend, divisor)


@pytest.mark.parametrize(("low", "high"), [(-1, 4), (5, 4)])
def test_bounds_out_of_order_are_refused(low: int, high: int) -> None:
    with pytest.raises(ShapeError, match="0 <= min <= max"):
        Dim("n", min=low, max=high)


@pytest.mark.parametrize("name", ["", "2n", "a b", "é", "f32", "none", "graph"])
def test_a_name_that_the_text_form_could_not_read_is_refused(name: str) -> None:
    with pytest.raises(ShapeError, match="cannot name an extent"):
        Dim(name)


def test_an_unbounded_symbol_has_no_upper_bound() -> None:
    with pytest.raises(ShapeError, match="no upper bound"):
        upper(Dim("k") * 2)


@pytest.mark.parametrize(
    ("extent", "size", "known", "expected"),
    [
        (2 * N + 1, 7, {}, {"n": 3}),
        (N * M - 2, 10, {"m": 4}, {"n": 3}),
        (N + M // 2, 7, {"m": 4}, {"n": 5}),
        (N + M, 7, {}, None),
        (N // 2, 3, {}, None),
        (N + N // 2, 7, {}, None),
        (N * N, 9, {}, None),
        (N * M, 0, {"m": 0}, None),
        (N, 3, {"n": 2}, None),
    ],
)
def test_a_symbol_is_bound_by_an_extent_that_is_linear_in_it(
    extent: Dim, size: int, known: dict[str, int], expected: dict[str, int] | None
) -> None:
    binding = dict(known)
    assert bind_symbol(extent, size, binding) is (expected is not None)
    assert binding == known | (expected or {})


def test_symbols_of_one_name_and_other_bounds_can_be_ordered() -> None:
    assert Dim("n") + Dim("n", max=3) == Dim("n", max=3) + Dim("n")


def test_broadcasting_stretches_ones_and_matches_symbols() -> None:
    assert broadcast_shapes((N, 1), (3,), ()) == (N, 3)
    with pytest.raises(ShapeError, match="extents n and m differ on axis -1"):
        broadcast_shapes((N,), (M,))


def test_axes_count_from_both_ends() -> None:
    assert [normalize_axis(axis, 3) for axis in (0, 2, -1, -3)] == [0, 2, 2, 0]
    for axis in (3, -4):
        with pytest.raises(ShapeError, match="out of range for rank 3"):
            normalize_axis(axis, 3)


def test_strides_and_products_stay_symbolic() -> None:
    assert row_major_strides((2, N, 3)) == (3 * N, 3, 1)
    assert product((2, N, 3)) == 6 * N


def test_halves_are_known_to_be_at_most_the_whole() -> None:
    n = Dim("n", max=9)
    assert is_at_most(n // 2, n)
    assert is_at_most(n // 2 + n // 3, n)
    assert is_at_most(n - 1, 2 * (n // 2))
    assert not is_at_most(n, 2 * (n // 2))
    assert not is_at_most((n + 3) // 2, n)


def test_extents_compare_where_their_bounds_decide() -> None:
    assert N <= 8
    assert N < 9
    assert M >= 1
    assert not M > 5
    assert N + 2 > N
    assert max(N, N + 1) == N + 1
    with pytest.raises(UnsupportedError, match=r"whether n is at most 3 differs.*\n?.*rlx.Dim"):
        assert N <= 3
    with pytest.raises(UnsupportedError, match="differs between runs"):
        assert N >= M


def test_arithmetic_that_needs_a_number_is_a_typed_error() -> None:
    cases: list[tuple[Callable[[Any, Any], object], Any, Any]] = [
        (operator.mod, N, M), (operator.mod, 7, N), (operator.truediv, N, 2),
        (operator.truediv, 1, N), (operator.floordiv, 9, N), (operator.pow, 2, N),
        (operator.mul, N, 0.5), (operator.add, 1.5, N), (operator.sub, 1.5, N),
    ]  # fmt: skip
    for compute, a, b in cases:
        with pytest.raises(ShapeError, match="extent n is symbolic"):
            compute(a, b)


def test_integers_of_numpy_are_integers() -> None:
    n = Dim("n", max=8)
    assert n * np.int64(2) + np.int32(1) == 2 * n + 1
    assert np.int64(2) * n - np.int64(1) == 2 * n - 1
    assert n * 4 // np.int64(2) == 2 * n
