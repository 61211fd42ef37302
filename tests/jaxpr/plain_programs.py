"""Programs of JAX alone, each with control flow or a library of JAX's own; see `programs`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jaxpr.programs import Made, main, normal, program


@program()
def regression_by_descent() -> Made:
    def fit(weights: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.mean(jnp.logaddexp(0.0, -y * (x @ w))) + 0.01 * jnp.sum(w**2)

        return lax.fori_loop(0, 100, lambda _, w: w - 0.5 * jax.grad(loss)(w), weights)

    return fit, (jnp.zeros(8), normal(64, 8), jnp.sign(normal(64, seed=1)))


@program()
def kalman_filter() -> Made:
    def likelihood(noise: Any, seen: Any) -> Any:
        move, look = jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[1.0, 0.0]])

        def step(state: Any, z: Any) -> Any:
            mean, spread = state
            mean, spread = move @ mean, move @ spread @ move.T + 0.01 * jnp.eye(2)
            error, size = z - look @ mean, look @ spread @ look.T + jnp.exp(noise)
            gain = jnp.linalg.solve(size, look @ spread).T
            score = -0.5 * (error @ jnp.linalg.solve(size, error) + jnp.linalg.slogdet(size)[1])
            return (mean + gain @ error, spread - gain @ look @ spread), score

        return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), seen)[1].sum()

    return jax.value_and_grad(likelihood), (jnp.array(-1.0), normal(60, 1))


@program()
def mandelbrot() -> Made:
    def escape(c: Any) -> Any:
        def step(state: Any) -> Any:
            z, count = state
            return z * z + c, count + 1

        def inside(state: Any) -> Any:
            return (jnp.abs(state[0]) < 2) & (state[1] < 50)

        return lax.while_loop(inside, step, (jnp.zeros_like(c), 0))[1]

    real, imaginary = jnp.linspace(-2, 0.5, 40), jnp.linspace(-1, 1, 30)
    return jax.vmap(jax.vmap(escape)), (real[None] + 1j * imaginary[:, None],)


@program()
def planets() -> Made:
    def pull(places: Any) -> Any:
        apart = places[:, None] - places[None]
        square = jnp.sum(apart**2, -1) + 0.1
        return -jnp.sum(apart / square[..., None] ** 1.5, 1)

    def leap(state: Any, _: Any) -> Any:
        places, speeds = state
        speeds = speeds + 0.005 * pull(places)
        places = places + 0.01 * speeds
        return (places, speeds + 0.005 * pull(places)), places

    def orbit(places: Any, speeds: Any) -> Any:
        return lax.scan(leap, (places, speeds), None, length=50)[1]

    return orbit, (normal(16, 3), normal(16, 3, seed=1) * 0.1)


@program()
def predators() -> Made:
    from jax.experimental.ode import odeint

    def change(y: Any, _: Any, rates: Any) -> Any:
        return jnp.stack([y[0] * (rates[0] - rates[1] * y[1]), y[1] * (rates[2] * y[0] - rates[3])])

    def loss(rates: Any) -> Any:
        return jnp.sum(odeint(change, jnp.array([1.0, 1.0]), jnp.linspace(0.0, 3.0, 8), rates) ** 2)

    return jax.value_and_grad(loss), (jnp.array([1.0, 0.5, 0.4, 0.8]),)


@program()
def clusters() -> Made:
    def fit(centers: Any, x: Any) -> Any:
        def step(_: Any, centers: Any) -> Any:
            apart = jnp.sum((x[:, None] - centers[None]) ** 2, -1)
            nearest = jax.nn.one_hot(jnp.argmin(apart, 1), centers.shape[0])
            return nearest.T @ x / jnp.maximum(nearest.sum(0)[:, None], 1.0)

        return lax.fori_loop(0, 20, step, centers)

    x = normal(200, 2) + 3 * jnp.asarray(np.random.default_rng(1).integers(0, 3, (200, 1)))
    return fit, (x[:5], x)


@program()
def life() -> Made:
    def step(cells: Any, _: Any) -> Any:
        rolled = [jnp.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        count = sum(rolled, jnp.zeros_like(cells))
        return ((count == 3) | ((count == 2) & (cells == 1))).astype(cells.dtype), count.sum()

    cells = jnp.asarray(np.random.default_rng(0).integers(0, 2, (32, 32)))
    return (lambda cells: lax.scan(step, cells, None, length=30)), (cells,)


@program()
def hidden_states() -> Made:
    def likelihood(moves: Any, looks: Any, seen: Any) -> Any:
        log_moves, log_looks = jax.nn.log_softmax(moves), jax.nn.log_softmax(looks)

        def step(alpha: Any, symbol: Any) -> Any:
            alpha = jax.nn.logsumexp(alpha[:, None] + log_moves, 0) + log_looks[:, symbol]
            return alpha, None

        return jax.nn.logsumexp(lax.scan(step, jnp.zeros(6), seen)[0])

    seen = jnp.asarray(np.random.default_rng(0).integers(0, 10, 80))
    return jax.value_and_grad(likelihood, (0, 1)), (normal(6, 6), normal(6, 10, seed=1), seen)


@program()
def transport() -> Made:
    def cost(x: Any, y: Any) -> Any:
        price = jnp.sum((x[:, None] - y[None]) ** 2, -1)

        def step(duals: Any, _: Any) -> Any:
            f, g = duals
            f = -0.5 * jax.nn.logsumexp((g[None] - price) / 0.5, 1)
            return (f, -0.5 * jax.nn.logsumexp((f[:, None] - price) / 0.5, 0)), None

        (f, g), _ = lax.scan(step, (jnp.zeros(24), jnp.zeros(24)), None, length=30)
        return jnp.sum(jnp.exp((f[:, None] + g[None] - price) / 0.5) * price)

    return jax.value_and_grad(cost), (normal(24, 2), normal(24, 2, seed=1))


@program()
def minimum_by_bfgs() -> Made:
    from jax.scipy.optimize import minimize

    def valley(x: Any) -> Any:
        return jnp.sum((x - jnp.arange(4.0)) ** 2) + jnp.sum(jnp.log(jnp.cosh(x[1:] - x[:-1])))

    def lowest(x: Any) -> Any:
        found = minimize(valley, x, method="BFGS", options={"maxiter": 20})
        return found.x, found.fun

    return lowest, (jnp.zeros(4),)


if __name__ == "__main__":
    main()
