"""Indices out of range by mode, and folds by segments, against NumPy and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import RlxError

X = np.arange(12.0).reshape(4, 3)
ROWS = np.array([0, 9, -1, -7, 2])
IDS = np.array([2, 0, 2, 7, -1])
DATA = np.random.default_rng(0).standard_normal((5, 3))
METHODS = ["set", "add", "multiply", "divide", "power", "min", "max"]


def jax_numpy() -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy


@pytest.mark.parametrize("mode", ["drop", "fill", "clip"])
@pytest.mark.parametrize("method", METHODS)
def test_updates_out_of_range_are_jaxs(method: str, mode: str) -> None:
    jnp = jax_numpy()
    rows = np.array([0, 9, -1, 2]) if mode != "clip" else np.array([0, 9, 2])  # none repeats

    def update(x: Any, rows: Any) -> Any:
        return getattr(x.at[rows, 1], method)(2.5, mode=mode)

    expected = update(jnp.asarray(X), jnp.asarray(rows))
    np.testing.assert_allclose(rlx.jit(update)(X, rows), expected)


@pytest.mark.parametrize(
    "index", [(ROWS,), (ROWS, slice(1, 3)), (Ellipsis, 5), (1, 3), (None, ROWS)]
)
@pytest.mark.parametrize("how", [{"mode": "fill"}, {"mode": "fill", "fill_value": -1.0},
                                 {"mode": "clip"}])  # fmt: skip
def test_reads_out_of_range_are_jaxs(index: Any, how: Any) -> None:
    jnp = jax_numpy()
    expected = jnp.asarray(X).at[index].get(**how)
    np.testing.assert_array_equal(rlx.jit(lambda x: x.at[index].get(**how))(X), expected)


def test_an_index_out_of_range_stays_an_error_without_a_mode() -> None:
    with pytest.raises(RlxError, match=r"out of range|must lie"):
        rlx.jit(lambda x, rows: x.at[rows].get())(X, ROWS)


@pytest.mark.parametrize("fold", ["sum", "prod", "max", "min"])
def test_segment_folds_are_jaxs(fold: str) -> None:
    jnp = jax_numpy()
    jax = pytest.importorskip("jax")
    own, other = getattr(rnp, f"segment_{fold}"), getattr(jax.ops, f"segment_{fold}")

    def loss(data: Any) -> Any:
        return rnp.sum(rnp.sin(own(data, IDS, 4, mode="drop")[np.array([0, 2])]))

    found = rlx.jit(lambda data, ids: own(data, ids, 4, mode="drop"))(DATA, IDS)
    np.testing.assert_allclose(found, other(jnp.asarray(DATA), IDS, 4))
    step = np.random.default_rng(1).standard_normal(DATA.shape) * 1e-6
    slope = rlx.jit(rlx.grad(loss))(DATA)
    expected = (loss(DATA + step) - loss(DATA - step)) / 2
    np.testing.assert_allclose(np.sum(slope * step), expected, rtol=1e-6, atol=1e-14)


def test_the_product_of_a_segment_is_differentiated_at_zeros() -> None:
    data = np.array([0.0, 3, 0, 5, 0, 7])
    ids = np.array([0, 0, 1, 1, 2, 2])
    product = rlx.jit(rlx.grad(lambda x: rnp.sum(rnp.segment_prod(x, ids, 3))))
    np.testing.assert_array_equal(product(data), [3, 0, 5, 0, 7, 0])
    second = rlx.jit(rlx.hessian(lambda x: rnp.sum(rnp.segment_prod(x, ids, 3))))
    np.testing.assert_array_equal(second(data)[0], [0, 1, 0, 0, 0, 0])
