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


KALMAN = '''
import jax
import jax.numpy as jnp
from jax import lax, random

def smooth(noise, observed):
    move = jnp.array([[1.0, 1.0], [0.0, 1.0]], jnp.float32)
    seen = jnp.array([[1.0, 0.0]], jnp.float32)
    def step(carry, y):
        mean, cov = carry
        mean, cov = move @ mean, move @ cov @ move.T + 0.1 * jnp.eye(2, dtype=jnp.float32)
        spread = seen @ cov @ seen.T + noise
        gain = jnp.linalg.solve(spread, seen @ cov).T
        off = y - seen @ mean
        density = jax.scipy.stats.norm.logpdf(off[0], 0.0, jnp.sqrt(spread[0, 0]))
        return (mean + gain @ off, cov - gain @ seen @ cov), density
    start = jnp.zeros(2, jnp.float32), jnp.eye(2, dtype=jnp.float32)
    (mean, _), densities = lax.scan(step, start, observed)
    return jnp.sum(densities), mean

observed = jnp.cumsum(random.normal(random.PRNGKey(1), (40, 1)), 0)
(value, mean), slope = jax.jit(jax.value_and_grad(smooth, has_aux=True))(jnp.float32(0.5), observed)
print(f"{float(value):.2f} {float(slope):.2f} {float(mean[0]):.2f}")
'''  # fmt: skip

SAMPLING = '''
from functools import partial
import jax
import jax.numpy as jnp
from jax import lax, random
from jax.flatten_util import ravel_pytree
from jax.nn import initializers

params = {"w": initializers.glorot_normal()(random.PRNGKey(0), (3, 2)), "b": jnp.zeros(2)}
start, unravel = ravel_pytree(params)
start = start.astype(jnp.float32)

def energy(flat):
    tree = unravel(flat)
    return jnp.sum(tree["w"] ** 2) / 2 + jnp.sum((tree["b"] - 1.0) ** 2)

@partial(jax.jit, static_argnums=2)
def hmc(key, q, steps):
    def leap(_, state):
        q, p = state
        p = p - 0.05 * jax.grad(energy)(q)
        q = q + 0.1 * p
        return q, p - 0.05 * jax.grad(energy)(q)
    def sample(q, key):
        for_p, for_u = random.split(key)
        p = random.normal(for_p, q.shape, jnp.float32)
        new, moved = lax.fori_loop(0, 5, leap, (q, p))
        gain = energy(q) - energy(new) + (jnp.sum(p**2) - jnp.sum(moved**2)) / 2
        q = lax.cond(jnp.log(random.uniform(for_u)) < gain, lambda: new, lambda: q)
        return q, q
    return lax.scan(sample, q, random.split(key, steps))[1]

chain = hmc(random.PRNGKey(2), start, 50)
print(f"{float(jnp.mean(chain)):.3f} {float(jnp.std(chain)):.3f}")
'''  # fmt: skip

FLOW = '''
import jax
import jax.numpy as jnp
from jax import lax, random, tree_util
from jax.ad_checkpoint import checkpoint_name

def field(params, x):
    hidden = checkpoint_name(jnp.tanh(x @ params["in"]), "hidden")
    return hidden @ params["out"]

@jax.checkpoint
def rk4(params, x, dt):
    a = field(params, x)
    b = field(params, x + dt / 2 * a)
    c = field(params, x + dt / 2 * b)
    return x + dt / 6 * (a + 2 * b + 2 * c + field(params, x + dt * c))

def loss(params, x, y):
    end = lax.fori_loop(0, 8, lambda _, x: rk4(params, x, 0.125), x)
    return jnp.mean(jnp.square(end - y))

@jax.jit
def step(params, moments, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    moments = tree_util.tree_map(lambda m, g: 0.9 * m + g, moments, grads)
    return tree_util.tree_map(lambda p, m: p - 0.1 * m, params, moments), moments, value

keys = random.split(random.key(3), 3)
params = {"in": 0.5 * random.normal(keys[0], (2, 8)), "out": 0.5 * random.normal(keys[1], (8, 2))}
x = random.normal(keys[2], (32, 2))
y = x @ jnp.array([[0.0, 1.0], [-1.0, 0.0]], jnp.float32)
moments = tree_util.tree_map(jnp.zeros_like, params)
for _ in range(20):
    params, moments, value = step(params, moments, x, y)
print(f"{float(value):.3f}")
'''  # fmt: skip

PROGRAMS = {"classifier": PROGRAM, "kalman": KALMAN, "sampling": SAMPLING, "flow": FLOW}


def output_of(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=300
    ).stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_on_rlx_what_it_prints_on_jax(name: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[name])
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


MODULES = '''
from jax.ad_checkpoint import checkpoint_name, checkpoint_policies
from jax.dtypes import canonicalize_dtype
from jax.flatten_util import ravel_pytree
from jax.nn.initializers import glorot_uniform
from jax.typing import ArrayLike
import jax, jax.numpy as jnp

def layer(w, x: ArrayLike):
    return jnp.tanh(checkpoint_name(x @ w, "product"))

w = glorot_uniform()(jax.random.PRNGKey(0), (4, 4), canonicalize_dtype("float32"))
policy = checkpoint_policies.save_only_these_names("product")
loss = lambda w: jnp.sum(jax.checkpoint(layer, policy=policy)(w, jnp.ones((2, 4), "float32")))
flat, unravel = ravel_pytree(jax.jit(jax.grad(loss))(w))
print([f"{value:.4f}" for value in flat.tolist()], unravel(flat).shape)
'''  # fmt: skip


def test_smaller_modules_of_jax_are_where_programs_import_them(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    program = tmp_path / "program.py"
    program.write_text(MODULES)
    assert output_of("-m", "rlx.jax", str(program)) == output_of(str(program))
