"""Modules of JAX compared with its own: initial values, flattened trees, random matrices."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import rlx.jax
from rlx.jax.importing import MODULES

NAMES = ("glorot_uniform", "glorot_normal", "lecun_uniform", "lecun_normal", "he_uniform",
         "he_normal")  # fmt: skip


@pytest.fixture(scope="module")
def jax() -> Any:
    return pytest.importorskip("jax")


def same(found: Any, expected: Any, rtol: float = 1e-6) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_initial_values_are_those_of_the_same_key(jax: Any, name: str) -> None:
    own, theirs = (
        getattr(home.nn.initializers, name)()(home.random.PRNGKey(3), (3, 5, 7), dtype="float32")
        for home in (rlx.jax, jax)
    )
    same(own, theirs)


def test_initial_values_of_other_kinds(jax: Any) -> None:
    makers: tuple[Any, ...] = (
        lambda i: i.normal(0.5), lambda i: i.uniform(2.0), lambda i: i.truncated_normal(1.0),
        lambda i: i.constant(3.0), lambda i: i.zeros, lambda i: i.ones, lambda i: i.orthogonal(),
        lambda i: i.variance_scaling(2.0, "fan_out", "normal", batch_axis=(0,)),
    )  # fmt: skip
    for make in makers:
        own, theirs = (
            make(home.nn.initializers)(home.random.PRNGKey(1), (2, 4, 6), "float32")
            for home in (rlx.jax, jax)
        )
        same(own, theirs, 1e-4)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 3), (3, 5)])
def test_random_matrices_are_orthogonal(jax: Any, n: int, m: int) -> None:
    own, theirs = (
        home.random.orthogonal(home.random.PRNGKey(2), n, (2,), "float32", m)
        for home in (rlx.jax, jax)
    )
    same(own, theirs, 1e-4)


def test_a_flattened_tree_comes_back() -> None:
    tree: dict[str, Any] = {"a": np.arange(6.0).reshape(2, 3), "b": (np.int32(4), np.ones(2, "f4"))}
    flat, back = rlx.jax.flatten_util.ravel_pytree(tree)
    np.testing.assert_array_equal(flat, [0, 1, 2, 3, 4, 5, 4, 1, 1])
    again = back(2 * flat)
    np.testing.assert_array_equal(again["a"], 2 * tree["a"])
    assert again["b"][0].dtype == np.int32


def test_every_module_that_answers_imports_is_there() -> None:
    for name in MODULES:
        importlib.import_module(f"rlx.jax{name}")
    assert rlx.jax.dtypes.canonicalize_dtype("float64") == np.float64
    assert issubclass(rlx.jax.errors.TracerBoolConversionError, Exception)


def test_logarithms_and_slopes_of_activations(jax: Any) -> None:
    x = np.array([1e-6, 0.3, 0.7, 5.0, 40.0])
    expected = [*np.log(-np.expm1(-x[:4])), -np.exp(-40.0)]
    np.testing.assert_allclose(rlx.jax.nn.log1mexp(x), expected, rtol=1e-13)
    rows, where = np.arange(6.0).reshape(2, 3), np.array([[True, False, True], [True] * 3])
    for options in ({}, {"axis": 1}, {"axis": 1, "where": where, "keepdims": True}):
        same(rlx.jax.nn.logmeanexp(rows, **options), jax.nn.logmeanexp(rows, **options))
    ends = np.array([-2.0, -1, -0.5, 0, 1, 3])
    same(rlx.jax.nn.sparse_sigmoid(ends), jax.nn.sparse_sigmoid(ends))


def test_derivatives_are_checked_against_differences() -> None:
    check = rlx.jax.test_util.check_grads
    x, w = np.array([0.3, -0.7]), np.array([[0.2, 1.1], [0.4, -0.3]])
    check(lambda x, w: rlx.numpy.tanh(w @ x), (x, w), 2)

    @rlx.custom_jvp
    def wrong(x: Any) -> Any:
        return rlx.numpy.sin(x)

    wrong.defjvp(lambda primals, tangents: (wrong(*primals), 1.01 * tangents[0]))
    for mode, word in (("fwd", "tangent"), ("rev", "cotangent")):
        with pytest.raises(AssertionError, match=f"the {word}"):
            check(wrong, (x,), 1, modes=(mode,))
