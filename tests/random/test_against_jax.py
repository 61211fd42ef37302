"""The same keys, bits and numbers as JAX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.jax.random as ours
import rlx.random as rr

jax = pytest.importorskip("jax")
jr = pytest.importorskip("jax.random")


@pytest.fixture(autouse=True)
def numbers_of_32_bits() -> Iterator[None]:
    """JAX's default, which other tests of the process may have changed."""
    with jax.enable_x64(False):
        yield


Array = NDArray[Any]
SEEDS = (0, 7, 2**31 - 1)
SHAPE = (13, 5)


def keys(seed: int) -> tuple[Any, Any]:
    return rr.key(seed), jr.PRNGKey(seed)


def assert_equal(actual: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


def assert_close(actual: Any, expected: Any, ulp: int) -> None:
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_max_ulp(actual, expected, ulp)


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_and_their_splits_are_jaxs(seed: int) -> None:
    key, theirs = keys(seed)
    assert_equal(key, theirs)
    assert_equal(rr.split(key), jr.split(theirs))
    assert_equal(rr.split(key, (3, 2)), jr.split(theirs, (3, 2)))
    assert_equal(rr.fold_in(key, 2**32 - 5), jr.fold_in(theirs, 2**32 - 5))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_bits_are_jaxs(dtype: str) -> None:
    key, theirs = keys(3)
    assert_equal(rr.bits(key, SHAPE, dtype), jr.bits(theirs, SHAPE, dtype))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_uniform_numbers_are_jaxs(dtype: Any) -> None:
    key, theirs = keys(4)
    assert_equal(rr.uniform(key, SHAPE, dtype), jr.uniform(theirs, SHAPE, dtype))


def test_uniform_numbers_of_an_interval_are_jaxs_up_to_a_fused_product() -> None:
    key, theirs = keys(4)
    actual = rr.uniform(key, SHAPE, minval=-3, maxval=5.5)
    np.testing.assert_allclose(actual, jr.uniform(theirs, SHAPE, minval=-3, maxval=5.5), atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_integers_of_a_range_are_jaxs(dtype: str) -> None:
    key, theirs = keys(5)
    for low, high in ((3, 100), (0, 2**31 - 1), (9, 9), (0, int(np.iinfo(dtype).max) + 1)):
        if dtype == "uint32" or high < 2**31:
            expected = jr.randint(theirs, SHAPE, low, min(high, 2**31 - 1), dtype)
            assert_equal(ours.randint(key, SHAPE, low, min(high, 2**31 - 1), dtype), expected)


def test_integers_of_ranges_in_arrays_are_jaxs() -> None:
    key, theirs = keys(5)
    low = np.arange(5, dtype=np.int32) - 2
    assert_equal(ours.randint(key, SHAPE, low, 9), jr.randint(theirs, SHAPE, low, 9))


def test_normals_are_jaxs_within_four_ulp() -> None:
    key, theirs = keys(6)
    assert_close(rr.normal(key, (300,)), jr.normal(theirs, (300,)), 4)
    drawn = rlx.jit(lambda key: rr.normal(key, (1000,)))(key)
    assert_close(drawn, jr.normal(theirs, (1000,)), 4)


def test_numbers_of_64_bits_are_jaxs() -> None:
    key = rr.key(8)
    with jax.enable_x64(True):
        theirs = jr.PRNGKey(8)
        assert_equal(rr.bits(key, SHAPE, "u64"), jr.bits(theirs, SHAPE, "uint64"))
        assert_equal(rr.uniform(key, SHAPE, "f64"), jr.uniform(theirs, SHAPE, "float64"))
        assert_equal(ours.randint(key, SHAPE, -5, 2**40, "i64"),
                     jr.randint(theirs, SHAPE, -5, 2**40, "int64"))  # fmt: skip
        assert_equal(rr.key(2**40 + 3), jr.PRNGKey(2**40 + 3))
        expected = np.asarray(jr.normal(theirs, (200,), "float64"))
        np.testing.assert_allclose(rr.normal(key, (200,), "f64"), expected, rtol=1e-12)


@pytest.mark.parametrize("mode", ["low", "high"])
def test_coin_flips_are_jaxs(mode: str) -> None:
    key, theirs = keys(9)
    chances = np.linspace(0, 1, 5).astype(np.float32)
    assert_equal(
        rr.bernoulli(key, chances, SHAPE, mode), jr.bernoulli(theirs, chances, SHAPE, mode)
    )
    assert_equal(rr.rademacher(key, SHAPE), jr.rademacher(theirs, SHAPE))


def test_draws_under_vmap_are_jaxs() -> None:
    key, theirs = keys(10)
    actual = rlx.jit(rlx.vmap(lambda key: rr.uniform(key, (4,))))(rr.split(key, 3))
    assert_equal(actual, jax.vmap(lambda key: jr.uniform(key, (4,)))(jr.split(theirs, 3)))


A = np.array([0.3, 1.5, 2, 7, 30], np.float32)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_normals_are_jaxs(dtype: str) -> None:
    key, theirs = rr.PRNGKey(3), jr.PRNGKey(3)
    with jax.enable_x64(True):
        expected = np.asarray(jr.normal(theirs, (200,), dtype))
    found = rr.normal(key, (200,), dtype)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "complex64" else 1e-12)


LOGITS = np.random.default_rng(0).standard_normal((6, 9)).astype(np.float32)
COVARIANCE = np.array([[2, 0.5], [0.5, 1]], np.float32)
FLOATS: dict[str, tuple[Any, ...]] = {
    "exponential": (SHAPE,), "gumbel": (SHAPE,), "laplace": (SHAPE,), "logistic": (SHAPE,),
    "cauchy": (SHAPE,), "maxwell": (SHAPE,), "truncated_normal": (-1.0, 2.0, SHAPE),
    "pareto": (3.0, SHAPE), "rayleigh": (np.float32(2), SHAPE), "weibull_min": (2.0, 3.0, SHAPE),
    "lognormal": (0.5, SHAPE), "double_sided_maxwell": (0.5, 2.0, (5,)),
    "triangular": (-1.0, 0.5, 2.0, SHAPE), "wald": (np.float32(2), SHAPE),
    "multivariate_normal": (np.array([1, 2], np.float32), COVARIANCE, (7,)), "gamma": (A, SHAPE),
    "loggamma": (A, SHAPE), "beta": (A, 2.0, SHAPE), "dirichlet": (A, (4,)),
    "chisquare": (A, SHAPE), "f": (3.0, 4.0, SHAPE), "t": (A, SHAPE),
    "generalized_normal": (3.0, SHAPE), "ball": (4, 2, (3,)),
}  # fmt: skip
WHOLE: dict[str, tuple[Any, ...]] = {
    "geometric": (0.3, SHAPE),
    "categorical": (LOGITS, 0),
    "permutation": (20,),
    "choice": (20, (3, 4)),
    "poisson": (np.array([0, 0.5, 3, 20, 300], np.float32), SHAPE),
}


BY_REJECTION = ("beta", "chisquare", "f", "t", "generalized_normal", "ball", "loggamma")
NAMES = [pytest.param(n, marks=pytest.mark.slow) if n in BY_REJECTION else n for n in FLOATS]
"""JAX takes ten seconds to compile one of these."""


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_a_distribution_are_jaxs(name: str) -> None:
    key, theirs = keys(7)
    drawn = getattr(rr, name)(key, *FLOATS[name])
    expected = np.asarray(getattr(jr, name)(theirs, *FLOATS[name]))
    assert drawn.dtype == expected.dtype
    np.testing.assert_allclose(drawn, expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("name", WHOLE)
def test_integers_of_a_distribution_are_jaxs(name: str) -> None:
    key, theirs = keys(7)
    assert_equal(getattr(ours, name)(key, *WHOLE[name]), getattr(jr, name)(theirs, *WHOLE[name]))


TRIALS = (
    (np.float32(10), np.float32(0.3), (50,)),
    (np.float32(1000), np.array([0.4, 0.9], np.float32), (20, 2)),
    (np.array([5, 2000, np.nan, -1, np.inf], np.float32), np.float32(0.6), (5,)),
    (np.float32(10), np.array([-0.5, 0, 1, np.nan], np.float32), (4,)),
)


@pytest.mark.parametrize("given", TRIALS)
def test_counts_of_successes_are_jaxs(given: tuple[Any, ...]) -> None:
    key, theirs = keys(7)
    drawn = rlx.jit(lambda key: rr.binomial(key, *given))(key)
    np.testing.assert_array_equal(drawn, np.asarray(jr.binomial(theirs, *given)))


def test_counts_of_several_outcomes_are_jaxs_and_sum_up() -> None:
    key, theirs = keys(7)
    chances = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], np.float32)
    drawn = rlx.jit(lambda key: rr.multinomial(key, np.float32(100), chances))(key)
    np.testing.assert_array_equal(drawn, jr.multinomial(theirs, np.float32(100), chances))
    np.testing.assert_array_equal(drawn.sum(axis=-1), [100, 100])


CHOICES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("choice", (LOGITS, (3,), False), {}),
    ("choice", (LOGITS, (3, 2)), {}),
    ("choice", (LOGITS, (3,), False, np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.1], np.float32)), {}),
    ("permutation", (LOGITS,), {"axis": 1, "independent": True}),
    ("categorical", (LOGITS,), {"shape": (4, 6), "replace": False}),
]


@pytest.mark.parametrize(("name", "given", "options"), CHOICES)
def test_choices_of_every_kind_are_jaxs(
    name: str, given: tuple[Any, ...], options: dict[str, Any]
) -> None:
    key, theirs = keys(7)
    actual = getattr(ours, name)(key, *given, **options)
    assert_equal(actual, getattr(jr, name)(theirs, *given, **options))


def test_compiled_gamma_numbers_are_jaxs() -> None:
    key, theirs = keys(7)
    drawn = rlx.jit(lambda key, a: rr.gamma(key, a, SHAPE))(key, A)
    np.testing.assert_allclose(drawn, jr.gamma(theirs, A, SHAPE), rtol=3e-6)
