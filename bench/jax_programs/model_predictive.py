"""Swinging a pendulum up: iterative LQR, with linear and quadratic parts by jacfwd and hessian."""

import jax
import jax.numpy as jnp
from jax import lax

DT, HORIZON = 0.05, 60


def dynamics(x, u):
    angle, rate = x
    turn = -9.81 * jnp.sin(angle) + u[0] - 0.1 * rate
    return jnp.array([angle + DT * rate, rate + DT * turn])


def cost(x, u):
    return 0.01 * jnp.sum(u**2) + DT * ((jnp.cos(x[0]) + 1.0) ** 2 + 0.1 * x[1] ** 2)


def final_cost(x):
    return 10.0 * ((jnp.cos(x[0]) + 1.0) ** 2 + 0.1 * x[1] ** 2)


def rollout(x0, us):
    def step(x, u):
        new = dynamics(x, u)
        return new, (x, cost(x, u))

    last, (xs, costs) = lax.scan(step, x0, us)
    return xs, last, costs.sum() + final_cost(last)


def backward(xs, last, us):
    parts = jax.vmap(lambda x, u: (*jax.jacfwd(dynamics, (0, 1))(x, u),
                                   *jax.grad(cost, (0, 1))(x, u),
                                   *sum(jax.hessian(cost, (0, 1))(x, u), ())))  # fmt: skip

    def step(carry, inputs):
        v, vv = carry
        a, b, lx, lu, lxx, lxu, lux, luu = inputs
        qx, qu = lx + a.T @ v, lu + b.T @ v
        qxx, qux = lxx + a.T @ vv @ a, lux + b.T @ vv @ a
        quu = luu + b.T @ vv @ b + 1e-2 * jnp.eye(1)
        k, gain = -jnp.linalg.solve(quu, qu), -jnp.linalg.solve(quu, qux)
        v = qx + gain.T @ quu @ k + gain.T @ qu + qux.T @ k
        vv = qxx + gain.T @ quu @ gain + gain.T @ qux + qux.T @ gain
        values, basis = jnp.linalg.eigh(vv)  # what bends down is left out
        return (v, (basis * jnp.maximum(values, 0.0)) @ basis.T), (k, gain)

    start = jax.grad(final_cost)(last), jax.hessian(final_cost)(last)
    return lax.scan(step, start, parts(xs, us), reverse=True)[1]


@jax.jit
def iterate(x0, us):
    xs, last, before = rollout(x0, us)
    ks, gains = backward(xs, last, us)

    def candidate(rate):
        def step(x, inputs):
            old, u, k, gain = inputs
            u = jnp.clip(u + rate * k + gain @ (x - old), -5.0, 5.0)
            return dynamics(x, u), u

        _, new = lax.scan(step, x0, (xs, us, ks, gains))
        return new, rollout(x0, new)[2]

    news, costs = jax.vmap(candidate)(2.0 ** -jnp.arange(8.0))
    best = jnp.argmin(costs)
    better = costs[best] < before
    return jnp.where(better, news[best], us), jnp.minimum(costs[best], before)


def run():
    us = 0.1 * jnp.sin(jnp.arange(HORIZON, dtype=jnp.float32))[:, None]
    x0 = jnp.array([0.1, 0.0])
    values = []
    for _ in range(8):
        us, value = iterate(x0, us)
        values.append(value)
    return {"costs": jnp.stack(values)[:4]}


if __name__ == "__main__":
    print(run())
