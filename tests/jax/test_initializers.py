"""`jax.nn.initializers`: JAX's numbers, and what is refused."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import InputError, ShapeError
from rlx.jax.nn import initializers


@pytest.fixture
def jax() -> Iterator[Any]:
    """JAX with numbers of 32 bits, its default, which other tests of the process may change."""
    module = pytest.importorskip("jax")
    with module.enable_x64(False):
        yield module


CASES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "zeros": ({}, (2, 3)), "ones": ({}, (3,)), "constant": ({"value": 2.5}, (2, 2)),
    "uniform": ({"scale": 0.5}, (5, 3)), "normal": ({}, (5, 3)),
    "truncated_normal": ({"stddev": 2.0}, (5, 3)), "glorot_uniform": ({}, (4, 6)),
    "glorot_normal": ({"in_axis": -1, "out_axis": 0}, (4, 6)), "lecun_uniform": ({}, (3, 3, 4, 8)),
    "lecun_normal": ({"batch_axis": 0}, (5, 4, 6)),
    "he_uniform": ({"in_axis": (0, 1), "out_axis": (2,)}, (2, 3, 4)), "he_normal": ({}, (4, 6)),
    "xavier_uniform": ({}, (4, 6)), "kaiming_normal": ({}, (4, 6)),
    "variance_scaling": ({"scale": 3.0, "mode": "fan_out", "distribution": "normal"}, (4, 6)),
}  # fmt: skip
MADE_DIRECTLY = ("zeros", "ones")


def drawn(module: Any, name: str, key: Any, options: dict[str, Any], shape: Any) -> Any:
    named = getattr(module, name)
    return (named if name in MADE_DIRECTLY else named(**options))(key, shape)


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_jax_for_the_same_key(name: str, jax: Any) -> None:
    theirs = importlib.import_module("jax.nn.initializers")
    options, shape = CASES[name]
    ours = drawn(initializers, name, rlx.random.PRNGKey(3), options, shape)
    other = np.asarray(drawn(theirs, name, jax.random.PRNGKey(3), options, shape))
    assert ours.dtype == other.dtype
    np.testing.assert_allclose(ours, other, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["zeros", "constant", "uniform", "he_normal", "orthogonal"])
def test_floats_without_a_dtype_are_those_of_the_setting(name: str, jax: Any) -> None:
    theirs = importlib.import_module("jax.nn.initializers")
    options = CASES[name][0] if name in CASES else {}
    with jax.enable_x64(True), rlx.jax.enable_x64(True):
        ours = drawn(initializers, name, rlx.random.PRNGKey(3), options, (4, 6))
        other = np.asarray(drawn(theirs, name, jax.random.PRNGKey(3), options, (4, 6)))
    assert ours.dtype == other.dtype == np.float64
    np.testing.assert_allclose(ours, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 3, 5)])
def test_orthogonal_matrices_are_those_of_jax(shape: tuple[int, ...], jax: Any) -> None:
    theirs = importlib.import_module("jax.nn.initializers")
    ours = np.asarray(initializers.orthogonal()(rlx.random.PRNGKey(1), shape))
    other = np.asarray(theirs.orthogonal()(jax.random.PRNGKey(1), shape))
    np.testing.assert_allclose(ours, other, atol=2e-6)


def test_delta_orthogonal_windows_are_those_of_jax(jax: Any) -> None:
    theirs = importlib.import_module("jax.nn.initializers")
    ours = np.asarray(initializers.delta_orthogonal()(rlx.random.PRNGKey(1), (3, 4, 2, 5)))
    other = np.asarray(theirs.delta_orthogonal()(jax.random.PRNGKey(1), (3, 4, 2, 5)))
    np.testing.assert_allclose(ours, other, atol=2e-6)
    with pytest.raises(ShapeError, match="over as many outputs as inputs"):
        initializers.delta_orthogonal()(rlx.random.PRNGKey(1), (3, 5, 2))


def test_weights_are_drawn_inside_compiled_functions() -> None:
    init = rlx.jit(lambda key: initializers.he_normal()(key, (8, 4)))
    key = rlx.random.PRNGKey(0)
    np.testing.assert_allclose(init(key), initializers.he_normal()(key, (8, 4)), rtol=1e-6)


def test_a_bias_has_no_fans() -> None:
    with pytest.raises(ShapeError, match=r"shape \(3,\) has no axis of inputs"):
        initializers.glorot_normal()(rlx.random.PRNGKey(0), (3,))


@pytest.mark.parametrize(("mode", "distribution"), [("fan", "normal"), ("fan_in", "cauchy")])
def test_unknown_modes_and_distributions_are_refused(mode: str, distribution: str) -> None:
    init = initializers.variance_scaling(1.0, mode, distribution)
    with pytest.raises(InputError, match="give one of"):
        init(rlx.random.PRNGKey(0), (3, 3))
