"""CMA-ES on Rosenbrock's function, and an evolution strategy for a small network."""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax, random


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@functools.partial(jax.jit, static_argnums=(1, 2))
def cma(key, n, generations):
    population = 4 + int(3 * math.log(n))
    mu = population // 2
    weights = jnp.log(mu + 0.5) - jnp.log(jnp.arange(1, mu + 1))
    weights = weights / weights.sum()
    effective = 1 / jnp.sum(weights**2)
    cs, cc = (effective + 2) / (n + effective + 5), 4 / (n + 4)
    c1, cmu = 2 / ((n + 1.3) ** 2 + effective), effective / ((n + 2.0) ** 2 + effective)
    expected = jnp.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))

    def generation(state, key):
        mean, sigma, cov, ps, pc = state
        values, basis = jnp.linalg.eigh(cov)
        root = jnp.sqrt(jnp.maximum(values, 1e-12))
        z = random.normal(key, (population, n))
        y = (z @ basis * root) @ basis.T  # a root of its own, whatever the signs of vectors
        x = mean + sigma * y
        cost = jax.vmap(rosenbrock)(x)
        best = y[jnp.argsort(cost)[:mu]]
        step = weights @ best
        whitened = basis @ ((basis.T @ step) / root)
        ps = (1 - cs) * ps + jnp.sqrt(cs * (2 - cs) * effective) * whitened
        pc = (1 - cc) * pc + jnp.sqrt(cc * (2 - cc) * effective) * step
        rank = jnp.einsum("i,ij,ik->jk", weights, best, best)
        cov = (1 - c1 - cmu) * cov + c1 * jnp.outer(pc, pc) + cmu * rank
        sigma = sigma * jnp.exp(cs * (jnp.linalg.norm(ps) / expected - 1))
        return (mean + sigma * step, sigma, cov, ps, pc), cost.min()

    start = (jnp.zeros(n), jnp.float32(0.3), jnp.eye(n), jnp.zeros(n), jnp.zeros(n))
    return lax.scan(generation, start, random.split(key, generations))


@jax.jit
def strategy(params, key, x, y):
    noise = random.normal(key, (64, params.size))
    loss = lambda p: jnp.mean((jnp.tanh(x @ p[:16].reshape(2, 8)) @ p[16:24] + p[24] - y) ** 2)
    gain = jax.vmap(lambda e: loss(params + 0.05 * e) - loss(params - 0.05 * e))(noise)
    return params - 0.1 * noise.T @ gain / (2 * 64 * 0.05), loss(params)


def run():
    (mean, *_), best = cma(random.PRNGKey(0), 8, 60)
    x = random.normal(random.PRNGKey(1), (100, 2))
    y = x[:, 0] * x[:, 1]
    params = 0.5 * random.normal(random.PRNGKey(2), (25,))
    for key in random.split(random.PRNGKey(3), 50):
        params, value = strategy(params, key, x, y)
    return {"first": best[:3], "loss": value}


if __name__ == "__main__":
    print(run())
