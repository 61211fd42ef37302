"""`shard_map` gives what its shards give, one device each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

from jax import lax  # noqa: E402  after JAX is known to be there
from jax.sharding import AbstractMesh  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

X = np.arange(32, dtype="float32").reshape(8, 4)


def test_arrays_are_cut_and_joined_along_the_axes_of_the_mesh() -> None:
    mesh = AbstractMesh((2, 4), ("i", "j"))
    specs = (P("i"), P(None, "j"), P(("j", "i")), P(("i", "j"), None))
    for ins in specs:
        f = jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=ins, out_specs=ins)
        np.testing.assert_array_equal(rlx.from_jax(f)(X), 2 * X)


def test_collectives_are_those_of_the_axes() -> None:
    mesh = AbstractMesh((2, 2), ("i", "j"))

    def f(x: Any, y: Any) -> Any:
        rows = lax.psum(x, "i")
        whole = lax.all_gather(y, "j", axis=1, tiled=True)
        return rows + lax.axis_index("j"), lax.psum(x, ("i", "j")), whole, x @ whole[:, :2].T

    specs = (P(None, "j"), P(), P("i"), P("i", "j"))
    g = jax.shard_map(
        f, mesh=mesh, in_specs=(P("i", "j"), P("i", "j")), out_specs=specs, check_vma=False
    )
    rows, total, whole, products = rlx.from_jax(g)(X, X)
    top, bottom = X[:4], X[4:]
    np.testing.assert_array_equal(rows, top + bottom + [0, 0, 1, 1])
    np.testing.assert_array_equal(total, (top + bottom)[:, :2] + (top + bottom)[:, 2:])
    np.testing.assert_array_equal(whole, X)
    blocks = [[x[:, c] @ x[:, :2].T for c in (slice(2), slice(2, 4))] for x in (top, bottom)]
    np.testing.assert_array_equal(products, np.block(blocks))


def test_a_gradient_passes_through_a_shard_map() -> None:
    mesh = AbstractMesh((4,), ("i",))

    def loss(x: Any) -> Any:
        f = jax.shard_map(
            lambda x: lax.psum((x**3).sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
        )
        return f(x)

    np.testing.assert_allclose(rlx.jit(rlx.grad(rlx.from_jax(loss)))(X), 3 * X**2)
    np.testing.assert_allclose(rlx.from_jax(jax.grad(loss))(X), 3 * X**2)
