"""A Kalman filter and smoother, whose noise is fitted by the gradient of the likelihood."""

from collections import namedtuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.scipy.stats import multivariate_normal

Model = namedtuple("Model", ["move", "look", "drive", "noise"])


def model(log_noise):
    dt = 0.1
    move = jnp.eye(4) + dt * jnp.eye(4, k=2)
    look = jnp.eye(2, 4)
    return Model(move, look, 0.01 * jnp.eye(4), jnp.exp(log_noise) * jnp.eye(2))


def filtered(m, ys):
    def step(carry, y):
        mean, cov = carry
        mean, cov = m.move @ mean, m.move @ cov @ m.move.T + m.drive
        spread = m.look @ cov @ m.look.T + m.noise
        gain = jnp.linalg.solve(spread, m.look @ cov).T
        density = multivariate_normal.logpdf(y, m.look @ mean, spread)
        new = mean + gain @ (y - m.look @ mean), cov - gain @ spread @ gain.T
        return new, (*new, density)

    return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), ys)[1]


def smoothed(m, means, covs):
    def back(carry, inputs):
        later, later_cov = carry
        mean, cov = inputs
        ahead, ahead_cov = m.move @ mean, m.move @ cov @ m.move.T + m.drive
        gain = jnp.linalg.solve(ahead_cov, m.move @ cov).T
        new = mean + gain @ (later - ahead), cov + gain @ (later_cov - ahead_cov) @ gain.T
        return new, new[0]

    last = means[-1], covs[-1]
    return lax.scan(back, last, (means[:-1], covs[:-1]), reverse=True)[1]


@jax.jit
def fit(log_noise, ys):
    loss = lambda p: -jnp.mean(filtered(model(p), ys)[2])
    value, slope = jax.value_and_grad(loss)(log_noise)
    return log_noise - 0.5 * slope, value


@jax.jit
def estimate(log_noise, ys):
    means, covs, _ = filtered(model(log_noise), ys)
    return smoothed(model(log_noise), means, covs)


def run():
    a, b = random.split(random.PRNGKey(3))
    path = jnp.cumsum(0.1 * random.normal(a, (200, 2)), axis=0)
    ys = path + 0.3 * random.normal(b, path.shape)
    p = jnp.float32(0.0)
    for _ in range(30):
        p, value = fit(p, ys)
    smooth = estimate(p, ys)
    return {"noise": jnp.exp(p), "loss": value, "error": jnp.mean((smooth[:, :2] - path[:-1]) ** 2)}


if __name__ == "__main__":
    print(run())
