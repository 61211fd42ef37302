"""Molecular dynamics: forces by the gradient of the energy, pairs by a mask, velocity Verlet."""

import functools

import jax
import jax.numpy as jnp
from jax import lax, random

SIDE = 6.0


def displacement(a, b):
    d = a - b
    return d - SIDE * jnp.round(d / SIDE)


def pair_energy(r2, cutoff=2.5):
    inverse = 1.0 / r2
    six = inverse**3
    return jnp.where(r2 < cutoff**2, 4.0 * (six * six - six), 0.0)


def energy(positions):
    rows = jax.vmap(lambda a: jax.vmap(lambda b: jnp.sum(displacement(a, b) ** 2))(positions))
    r2 = rows(positions)
    same = jnp.eye(len(positions), dtype=bool)
    return 0.5 * jnp.sum(jnp.where(same, 0.0, pair_energy(jnp.where(same, 1.0, r2))))


@functools.partial(jax.jit, static_argnums=(2,))
def simulate(positions, velocities, steps, dt=0.002):
    force = lambda x: -jax.grad(energy)(x)

    def step(state, _):
        x, v, f = state
        v = v + 0.5 * dt * f
        x = jnp.mod(x + dt * v, SIDE)
        f = force(x)
        v = v + 0.5 * dt * f
        return (x, v, f), energy(x) + 0.5 * jnp.sum(v**2)

    (x, v, _), totals = lax.scan(step, (positions, velocities, force(positions)), None, steps)
    return x, v, totals


def run():
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(4) * 1.5 + 0.3] * 3), -1).reshape(-1, 3)
    velocities = 0.5 * random.normal(random.PRNGKey(0), grid.shape)
    velocities = velocities - velocities.mean(0)
    x, v, totals = simulate(grid, velocities, 200)
    return {"first": totals[0], "last": totals[-1], "kinetic": 0.5 * jnp.sum(v**2)}


if __name__ == "__main__":
    print(run())
