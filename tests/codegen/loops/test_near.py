"""Sines, cosines and tangents of arguments that are not huge keep the bounds of the others."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.evaluate import evaluate_function, numpy_dtype
from rlx.codegen.loops.math.define import build_function
from rlx.codegen.loops.math.near import (
    NEAR,
    NEAR_FUNCTIONS,
    SINGLE_NEAR,
    near_function,
    near_limit,
)
from rlx.codegen.loops.math.paired import sine_and_cosine_function
from rlx.codegen.loops.nodes import Call, Expr, Function, Prim
from rlx.codegen.loops.verify import verify_function
from rlx.codegen.loops.visit import walk_expression as walk
from tests.codegen.loops.test_math import (
    BOTH,
    REFERENCE,
    Array,
    assert_within_bound,
    needs_long_double,
)


def angles(prim: Prim, most: float = NEAR) -> Array:
    """Angles of every size up to `most`, and those next to multiples of a quarter of a circle."""
    rng = np.random.default_rng(3)
    top = int(np.log2(most)) - 1
    spread = np.ldexp(rng.uniform(1, 2, 4000), rng.integers(-60, top, 4000))
    multiples = rng.integers(1, int(most / 2), 4000) * (np.pi / 2)
    every = np.concatenate([spread, multiples, np.arange(1, 200) * (np.pi / 2), [most]])
    return np.concatenate([every, -every]).astype(numpy_dtype(prim))


@needs_long_double
@pytest.mark.parametrize("prim", BOTH)
@pytest.mark.parametrize("name", NEAR_FUNCTIONS)
def test_errors_are_below_the_bounds_of_the_full_range(name: str, prim: Prim) -> None:
    x = angles(prim)
    function = near_function(name, prim)
    verify_function(function)
    exact = REFERENCE[name](x.astype(np.longdouble))
    assert_within_bound(name, prim, evaluate_function(function, x), exact, x)


@needs_long_double
@pytest.mark.parametrize("name", NEAR_FUNCTIONS)
def test_errors_without_doubles_are_below_the_bounds_of_the_full_range(name: str) -> None:
    x = angles(Prim.F32, SINGLE_NEAR)
    function = near_function(name, Prim.F32, single=True)
    verify_function(function)
    assert not any(e.type.prim is Prim.F64 for let in function.lets for e in walk(let.value))
    exact = REFERENCE[name](x.astype(np.longdouble))
    assert_within_bound(name, Prim.F32, evaluate_function(function, x), exact, x)


@pytest.mark.parametrize("prim", BOTH)
def test_zeros_keep_their_sign_and_nan_stays(prim: Prim) -> None:
    x = np.array([0.0, -0.0, np.nan], numpy_dtype(prim))
    for name, at_zero in (("sin", [0.0, -0.0]), ("cos", [1.0, 1.0]), ("tan", [0.0, -0.0])):
        found = evaluate_function(near_function(name, prim), x)
        np.testing.assert_array_equal(found[:2], at_zero)
        np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(at_zero))
        assert np.isnan(found[2])


@pytest.mark.parametrize("single", [False, True])
def test_halves_are_the_sine_and_the_cosine(*, single: bool) -> None:
    x = np.append(
        angles(Prim.F32, 2.0**30), np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    )
    function = sine_and_cosine_function(single=single)
    verify_function(function)
    both = evaluate_function(function, x)
    is_near = np.abs(x) <= near_limit(single=single)
    for name, half in (("sin", both >> 32), ("cos", both)):
        near = evaluate_function(near_function(name, Prim.F32, single=single), x)
        far = evaluate_function(build_function(name, Prim.F32), x)
        found = half.astype(np.int32).view(np.float32)
        if single:  # without doubles, large arguments are rounded in another order
            np.testing.assert_array_max_ulp(found[~is_near], far[~is_near], 1)
            far = found
        np.testing.assert_array_equal(found, np.where(is_near, near, far))
        np.testing.assert_array_equal(np.signbit(found[x == 0]), np.signbit(far[x == 0]))


@needs_long_double
def test_large_arguments_without_doubles_keep_the_bounds() -> None:
    rng = np.random.default_rng(5)
    spread = np.ldexp(rng.uniform(1, 2, 40_000), rng.integers(12, 128, 40_000))
    # The float that is closest to a multiple of a quarter of a circle, and others close to one
    close = np.array([16367173.0 * 2.0**72, 10597981.0 * 2.0**102, 8877249.0 * 2.0**50])
    multiples = np.round(np.ldexp(rng.uniform(1, 2, 4000), 22)) * (np.pi / 2)
    x = np.concatenate([spread, close, multiples]).astype(np.float32)
    function = sine_and_cosine_function(single=True)
    assert not any(e.type.prim is Prim.F64 for e in _all_values(function))
    both = evaluate_function(function, x)
    for name, half in (("sin", both >> 32), ("cos", both)):
        found = half.astype(np.int32).view(np.float32)
        exact = REFERENCE[name](x.astype(np.longdouble))
        assert_within_bound(name, Prim.F32, found, exact, x)


def _all_values(function: Function) -> list[Expr]:
    """Return the expressions of a function and of those that it calls."""
    found = [e for root in (*(let.value for let in function.lets), function.result)
             for e in walk(root)]  # fmt: skip
    return found + [
        e for each in found if isinstance(each, Call) for e in _all_values(each.function)
    ]
