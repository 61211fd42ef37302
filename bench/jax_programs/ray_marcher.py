"""A picture of smooth shapes: one function of distance, normals by its gradient, pixels by vmap."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def norm(x):
    return jnp.sqrt(jnp.sum(x**2))


def scene(p):
    ball = norm(p - jnp.array([0.0, 0.2, 0.0])) - 0.6
    q = jnp.abs(p - jnp.array([0.7, -0.1, 0.4])) - jnp.array([0.3, 0.3, 0.3])
    box = norm(jnp.maximum(q, 0.0)) + jnp.minimum(jnp.max(q), 0.0)
    h = jnp.clip(0.5 + 0.5 * (box - ball) / 0.2, 0.0, 1.0)
    joined = box * (1 - h) + ball * h - 0.2 * h * (1 - h)
    return jnp.minimum(joined, p[1] + 0.5)


def march(origin, direction, steps=64):
    def body(state):
        i, t, d = state
        d = scene(origin + t * direction)
        return i + 1, t + d, d

    def far(state):
        i, t, d = state
        return (i < steps) & (d > 1e-3) & (t < 20.0)

    _, t, _ = lax.while_loop(far, body, (0, 0.0, 1.0))
    return t


def shade(origin, direction):
    t = march(origin, direction)
    p = origin + t * direction
    n = jax.grad(scene)(p)
    light = jnp.array([0.5, 0.8, -0.6]) / norm(jnp.array([0.5, 0.8, -0.6]))
    shadow = lax.fori_loop(
        0, 24, lambda _, s: s + jnp.clip(scene(p + n * 0.01 + light * s), 0.02, 0.2), 0.05
    )
    lit = jnp.where(scene(p + n * 0.01 + light * shadow) < 0.01, 0.3, 1.0)
    color = lit * jnp.maximum(jnp.dot(n / norm(n), light), 0.0)
    return jnp.where(t < 20.0, color, 0.1)


@partial(jax.jit, static_argnums=(0, 1))
def render(height, width):
    y, x = jnp.mgrid[1.0 : -1.0 : height * 1j, -1.0 : 1.0 : width * 1j]
    rays = jnp.stack([x, y, jnp.full_like(x, 1.5)], -1)
    rays = rays / jnp.linalg.norm(rays, axis=-1, keepdims=True)
    origin = jnp.array([0.0, 0.3, -3.0])
    return jax.vmap(jax.vmap(partial(shade, origin)))(rays)


def run():
    image = render(96, 128)
    return {"mean": image.mean(), "row": image[48, ::16]}


if __name__ == "__main__":
    print(run())
