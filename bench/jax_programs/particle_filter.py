"""A bootstrap particle filter for stochastic volatility, resampled at every step."""

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

PARTICLES = 2000


def step(carry, inputs):
    particles, total = carry
    y, key = inputs
    move, pick = random.split(key)
    particles = 0.95 * particles + 0.3 * random.normal(move, particles.shape)
    logw = norm.logpdf(y, 0.0, jnp.exp(particles / 2))
    total = total + logsumexp(logw) - jnp.log(PARTICLES)
    weights = jnp.exp(logw - logw.max())
    mean = jnp.sum(weights * particles) / weights.sum()
    # systematic resampling
    edges = jnp.cumsum(weights) / weights.sum()
    places = (jnp.arange(PARTICLES) + random.uniform(pick)) / PARTICLES
    chosen = jnp.clip(jnp.searchsorted(edges, places), 0, PARTICLES - 1)
    return (particles[chosen], total), mean


@jax.jit
def run_filter(key, ys):
    start, rest = random.split(key)
    particles = random.normal(start, (PARTICLES,))
    keys = random.split(rest, len(ys))
    (_, total), means = lax.scan(step, (particles, 0.0), (ys, keys))
    return total, means


def run():
    ys = 0.8 * random.normal(random.PRNGKey(1), (100,)) * jnp.linspace(0.5, 2.0, 100)
    total, means = run_filter(random.PRNGKey(0), ys)
    return {"likelihood": total, "means": means[::25]}


if __name__ == "__main__":
    print(run())
