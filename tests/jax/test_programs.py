"""Programs written for JAX, on rlx by exchanged imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = '''
import jax
import jax.numpy as jnp
from jax import lax, random
from jax.tree_util import tree_map

def predict(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return jax.nn.log_softmax(x @ w + b)

def loss(params, x, labels):
    return -jnp.mean(jnp.sum(predict(params, x) * jax.nn.one_hot(labels, 3), axis=1))

@jax.jit
def step(params, x, labels):
    value, grads = jax.value_and_grad(loss)(params, x, labels)
    return value, tree_map(lambda p, g: p - 0.5 * g, params, grads)

keys = random.split(random.PRNGKey(0), 3)
params = [(0.3 * random.normal(keys[0], (2, 8)), jnp.zeros(8)),
          (0.3 * random.normal(keys[1], (8, 3)), jnp.zeros(3))]
x = random.normal(keys[2], (64, 2))
labels = jnp.argmax(jnp.stack([x[:, 0], x[:, 1], -x[:, 0]], 1), 1)
for _ in range(30):
    value, params = step(params, x, labels)
column = x[:, 0]
total = lax.fori_loop(0, 5, lambda i, t: t + lax.dynamic_index_in_dim(column, i, 0, False), 0.0)
print(f"{float(value):.4f} {float(total):.4f}")
'''  # fmt: skip


def output_of(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=300
    ).stdout


def test_a_program_prints_on_rlx_what_it_prints_on_jax(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert output_of("-m", "rlx.jax", str(program)) == output_of(str(program))


LAX: dict[str, Any] = {
    "pad": lambda lax, x: lax.pad(x, 0.5, [(1, 2, 0), (-1, 0, 2)]),
    "broadcast_in_dim": lambda lax, x: lax.broadcast_in_dim(x[0], (2, 5, 3), (1,)),
    "conv": lambda lax, x: lax.conv_general_dilated(
        x.reshape(1, 4, 5, 1), x[:3, :4].reshape(2, 3, 1, 2), (1, 2), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    ),
    "dot_general": lambda lax, x: lax.dot_general(x, x, (((0,), (0,)), ((), ()))),
    "sort": lambda lax, x: tuple(lax.sort_key_val(x[0], x[1])),
    "reductions": lambda lax, x: (lax.reduce_max(x, (0,)), lax.cummax(x, 1)),
    "cumlogsumexp": lambda lax, x: lax.cumlogsumexp(x, 0),
    "slices": lambda lax, x: (
        lax.slice(x, (0, 1), (3, 5), (2, 2)), lax.slice_in_dim(x, 1, 3, axis=1),
        lax.dynamic_slice_in_dim(x, -2, 2, axis=1), lax.collapse(x, 0, 2),
        lax.dynamic_update_index_in_dim(x, x[0], 2, 0), lax.rev(x, (1,)),
    ),
    "choices": lambda lax, x: (lax.select_n(x > 0, x, -x), lax.clamp(-0.5, x, 0.5)),
    "rsqrt": lambda lax, x: lax.rsqrt(x * x),
    "iota": lambda lax, x: lax.broadcasted_iota("int32", x.shape, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", LAX)
def test_operators_of_lax_are_jaxs(name: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    import rlx
    import rlx.jax

    x = np.random.default_rng(2).standard_normal((4, 5))
    expected = jax.tree_util.tree_leaves(LAX[name](jax.lax, jax.numpy.asarray(x)))
    found = rlx.tree_leaves(rlx.jit(lambda x: LAX[name](rlx.jax.lax, x))(x))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
        assert one.dtype == other.dtype


def test_trees_have_their_short_names() -> None:
    import rlx
    import rlx.jax

    tree = {"a": (1, 2), "b": 3}
    assert rlx.jax.tree.map(lambda x: 2 * x, tree) == {"a": (2, 4), "b": 6}
    assert rlx.jax.tree.leaves(tree) == [1, 2, 3]
    assert rlx.jax.tree.reduce(lambda x, y: x + y, tree) == 6
    for name in rlx.jax.tree.__all__:
        assert getattr(rlx.jax.tree, name) is getattr(rlx.tree_util, f"tree_{name}")
