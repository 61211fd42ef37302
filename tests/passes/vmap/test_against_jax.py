"""Batched graphs compared with `jax.vmap`, with axes in and out of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.vmap import vmap
from tests.passes.vmap.checking import Array, tensors

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def _double_precision() -> Any:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


@dataclass(frozen=True)
class Pair:
    """The same function of one example twice, the batched arrays, and their axes."""

    name: str
    ours: Any
    theirs: Any
    arrays: tuple[Array, ...]
    in_axes: tuple[int | None, ...]
    out_axes: int = 0


def indices(*values: Any) -> Array:
    return np.array(values, np.int64)


PAIRS = [
    Pair(
        "matmul",
        lambda a, b: a @ b,
        lambda a, b: a @ b,
        tensors(1, (2, 4, 3), (3, 5, 4)),
        (1, 2),
        2,
    ),
    Pair(
        "shared-left",
        lambda a, b: a @ b,
        lambda a, b: a @ b,
        tensors(2, (2, 3), (4, 3, 5)),
        (None, 0),
        1,
    ),
    Pair(
        "take-both",
        lambda t, i: ops.gather(t, i, axis=1),
        lambda t, i: jnp.take(t, i, axis=1),
        (*tensors(3, (2, 5, 4)), indices([0, 1, 2, 3], [4, 4, 0, 1])),
        (2, 1),
        -1,
    ),
    Pair(
        "dynamic-slice",
        lambda x, i: ops.dynamic_slice(x, i, sizes=(2, 3)),
        lambda x, i: jax.lax.dynamic_slice(x, i, (2, 3)),
        (*tensors(4, (4, 3, 6)), indices([0, 3], [1, 9], [0, 0], [7, 2])),
        (0, 0),
        1,
    ),
    Pair(
        "dynamic-update",
        lambda x, u, i: ops.dynamic_update_slice(x, u, i),
        jax.lax.dynamic_update_slice,
        (*tensors(5, (3, 6), (4, 2, 3)), indices([0, 3], [1, 9], [0, 0], [7, 2])),
        (None, 0, 0),
    ),
    Pair(
        "softmax-from-the-end",
        lambda x: ops.softmax(x, axis=-2),
        lambda x: jax.nn.softmax(x, axis=-2),
        tensors(6, (3, 5, 4)),
        (-1,),
        -1,
    ),
    Pair(
        "cumsum",
        lambda x: ops.cumsum(x, axis=0, reverse=True),
        lambda x: jnp.cumsum(x[::-1], axis=0)[::-1],
        tensors(7, (3, 5, 4)),
        (1,),
    ),
    Pair(
        "contraction",
        lambda a, b: ops.dot_general(
            a, b, lhs_contracting=(1,), rhs_contracting=(0,), lhs_batch=(0,), rhs_batch=(1,)
        ),
        lambda a, b: jax.lax.dot_general(a, b, (((1,), (0,)), ((0,), (1,)))),
        tensors(8, (2, 3, 4), (3, 2, 5, 4)),
        (None, 3),
        1,
    ),
    Pair(
        "argmax",
        lambda x: ops.argmax(x, axis=-1, keepdims=True),
        lambda x: jnp.argmax(x, axis=-1, keepdims=True),
        tensors(9, (3, 5, 4)),
        (0,),
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_batched_graph_agrees_with_jax(pair: Pair) -> None:
    graph = Graph("example")
    inputs = []
    for position, (array, axis) in enumerate(zip(pair.arrays, pair.in_axes, strict=True)):
        shape = np.delete(array.shape, axis) if axis is not None else array.shape
        inputs.append(graph.input(f"x{position}", tuple(map(int, shape)), as_dtype(array.dtype)))
    graph.set_outputs([pair.ours(*inputs)])
    sizes = [a.shape[x] for a, x in zip(pair.arrays, pair.in_axes, strict=True) if x is not None]
    batched = vmap(graph, pair.in_axes, pair.out_axes, size=sizes[0])
    feeds = {f"x{position}": array for position, array in enumerate(pair.arrays)}
    expected = jax.vmap(pair.theirs, pair.in_axes, pair.out_axes)(*pair.arrays)
    np.testing.assert_allclose(evaluate(batched, feeds)[0], expected, rtol=1e-12, atol=1e-12)
