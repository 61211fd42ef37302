"""Every function of `rlx.numpy` against NumPy (values) and JAX (values and dtypes)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from tests.transforms import cases

FLOATS = ("f16", "bf16", "f32", "f64")
_TOLERANCE = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-6, "float64": 1e-12}
"""Relative: a few units in the last place, and what other orders of summation change."""


def calls(dtypes: tuple[str, ...], expressions: list[str]) -> list[Any]:
    return [pytest.param(e, d, id=f"{e}-{d}") for e in expressions for d in dtypes]


QUICK = ("bool", "i64", "f32")
"""The dtypes of the quick run against JAX, which compiles each call; the others are slow."""


def elementwise_calls(dtypes: tuple[str, ...]) -> list[Any]:
    unary = calls(dtypes, [f"np.{name}(x)" for name in cases.UNARY])
    binary = calls(dtypes, [f"np.{name}(x, y)" for name in cases.BINARY])
    return unary + binary + calls(dtypes, cases.POSITIVE)


def read(expression: str, module: Any, dtype: str, convert: Any = lambda array: array) -> Any:
    given = {name: convert(array) for name, array in cases.arrays(dtype).items()}
    with np.errstate(all="ignore"):
        return eval(expression, {"np": module, **given})


def traced(expression: str, dtype: str) -> Any:
    """Read the expression on traced arrays, and run the graph by the reference interpreter."""

    def function(given: dict[str, Any]) -> Any:
        return eval(expression, {"np": rnp, **given})

    return rlx.jit(function, backend="reference")(cases.arrays(dtype))


def assert_equal(given: Any, expected: Any) -> None:
    if isinstance(expected, (list, tuple)):
        assert len(given) == len(expected)
        for one, other in zip(given, expected, strict=True):
            assert_equal(one, other)
        return
    given, expected = np.asarray(given), np.asarray(expected)
    assert given.shape == expected.shape
    tolerance = max(_TOLERANCE.get(a.dtype.name, 0.0) for a in (given, expected))
    if tolerance:
        given, expected = given.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(given, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(given, expected)


NUMERIC = ("i32", "i64", "f32", "f64", "u8", "i8")
EVERY_CALL = (
    calls(("f32", "i32", "bool"), cases.STRUCTURE)
    + calls(("f32", "i64"), cases.INDEXING)
    + calls(("i32", "i64", "u8", "u32", "i8"), cases.BITS)
    + calls(NUMERIC, cases.REDUCING)
    + calls(("f32", "f64", "i32"), cases.RUNNING)
    + calls(("f32", "f64", "i32"), cases.PRODUCTS)
    + calls(("f64",), cases.CREATION)
    + calls(("f32", "f64"), cases.NORMS)
)


@pytest.mark.whole
@pytest.mark.parametrize(("expression", "dtype"), EVERY_CALL)
def test_values_are_those_of_numpy(expression: str, dtype: str) -> None:
    assert_equal(traced(expression, dtype), read(expression, np, dtype))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("expression", "dtype"), calls(FLOATS, [f"np.{name}(x)" for name in cases.UNARY])
)
def test_elementwise_values_are_those_of_numpy(expression: str, dtype: str) -> None:
    # NumPy computes float16 in float32 as well, so that only the last rounding differs.
    assert_equal(read(expression, rnp, dtype), read(expression, np, dtype))


@pytest.fixture(scope="module")
def jnp() -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return pytest.importorskip("jax.numpy")


def agrees_with_jax(expression: str, dtype: str, jnp: Any) -> None:
    try:
        expected = read(expression, jnp, dtype, jnp.asarray)
    except (TypeError, ValueError):
        pytest.skip("JAX does not take this dtype here")
    given = traced(expression, dtype)
    for one, other in zip(rlx.tree_leaves(given), rlx.tree_leaves(expected), strict=True):
        assert one.dtype == other.dtype
    assert_equal(given, expected)


@pytest.mark.parametrize(("expression", "dtype"), elementwise_calls(QUICK))
def test_dtypes_and_values_are_those_of_jax(expression: str, dtype: str, jnp: Any) -> None:
    agrees_with_jax(expression, dtype, jnp)


@pytest.mark.parametrize(
    ("expression", "dtype"),
    EVERY_CALL + elementwise_calls(tuple(d for d in cases.DTYPES if d not in QUICK)),
)
def test_all_dtypes_are_those_of_jax(expression: str, dtype: str, jnp: Any) -> None:
    agrees_with_jax(expression, dtype, jnp)


def test_eager_calls_give_arrays_that_numpy_takes_as_its_own() -> None:
    result = rnp.sin(np.ones(3))
    assert type(result) is rlx.Array
    assert type(np.asarray(result)) is np.ndarray
    assert np.shares_memory(np.asarray(result), result)
    assert_equal(result, np.sin(np.ones(3)))


def test_sum_over_chosen_elements_leaves_the_others_out() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert_equal(rnp.sum(x, 1, where=x > 1), np.sum(x, 1, where=x > 1))
    assert_equal(rnp.mean(x, 1, where=x > 1), np.mean(x, 1, where=x > 1))
