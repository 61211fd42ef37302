"""Escape times of Mandelbrot's set in complex numbers, and a game of life."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.scipy.signal import convolve2d


@partial(jax.jit, static_argnums=(0, 1))
def mandelbrot(height, width):
    y, x = jnp.mgrid[-1.2 : 1.2 : height * 1j, -2.0 : 0.8 : width * 1j]
    c = x + 1j * y

    def escape(c):
        def body(state):
            z, n = state
            return z * z + c, n + 1

        return lax.while_loop(lambda s: (jnp.abs(s[0]) <= 2.0) & (s[1] < 60), body, (0j * c, 0))[1]

    return jax.vmap(jax.vmap(escape))(c)


@partial(jax.jit, static_argnames="steps")
def life(board, steps):
    kernel = jnp.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], jnp.float32)

    def step(_, board):
        around = convolve2d(board, kernel, mode="same")
        return ((around == 3) | ((board == 1) & (around == 2))).astype(jnp.float32)

    return lax.fori_loop(0, steps, step, board)


def run():
    times = mandelbrot(120, 160)
    board = random.bernoulli(random.PRNGKey(0), 0.3, (64, 64)).astype(jnp.float32)
    return {"times": times.sum(), "row": times[60, ::40], "alive": life(board, steps=50).sum()}


if __name__ == "__main__":
    print(run())
