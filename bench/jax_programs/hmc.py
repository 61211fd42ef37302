"""Hamiltonian Monte Carlo for a logistic regression: chains side by side by vmap."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random


class State(NamedTuple):
    position: jax.Array
    energy: jax.Array
    accepted: jax.Array


def potential(w, x, y):
    logits = x @ w
    return jnp.sum(jax.nn.softplus(logits) - y * logits) + 0.5 * jnp.sum(w**2)


def leapfrog(gradient, q, p, size, steps):
    def body(_, state):
        q, p = state
        q = q + size * p
        return q, p - size * gradient(q)

    p = p - 0.5 * size * gradient(q)
    q, p = lax.fori_loop(0, steps - 1, body, (q, p))
    q = q + size * p
    return q, p - 0.5 * size * gradient(q)


def kernel(energy, key, state, size, steps):
    key_p, key_u = random.split(key)
    p = random.normal(key_p, state.position.shape)
    q, moved = leapfrog(jax.grad(energy), state.position, p, size, steps)
    new = energy(q)
    gain = state.energy - new + 0.5 * (jnp.sum(p**2) - jnp.sum(moved**2))
    accept = jnp.log(random.uniform(key_u)) < gain
    proposal = State(q, new, jnp.float32(1.0))
    return jax.tree_util.tree_map(
        lambda a, b: jnp.where(accept, a, b), proposal, state._replace(accepted=jnp.float32(0.0))
    )


@partial(jax.jit, static_argnums=(3, 4))
def sample(key, x, y, chains, draws):
    energy = partial(potential, x=x, y=y)

    def chain(key):
        start = jnp.zeros(x.shape[1])
        first = State(start, energy(start), jnp.float32(0.0))

        def step(state, key):
            state = kernel(energy, key, state, 0.05, 10)
            return state, (state.position, state.accepted)

        return lax.scan(step, first, random.split(key, draws))[1]

    return jax.vmap(chain)(random.split(key, chains))


def run():
    a, b, c = random.split(random.PRNGKey(0), 3)
    truth = random.normal(a, (6,))
    x = random.normal(b, (200, 6))
    y = random.bernoulli(c, jax.nn.sigmoid(x @ truth)).astype(jnp.float32)
    positions, accepted = sample(random.PRNGKey(9), x, y, 4, 300)
    kept = positions[:, 100:].reshape(-1, 6)
    return {"mean": kept.mean(0), "spread": kept.std(0), "accepted": accepted.mean()}


if __name__ == "__main__":
    print(run())
