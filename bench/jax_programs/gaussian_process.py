"""Gaussian process regression: hyperparameters by the marginal likelihood, in doubles."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import random

jax.config.update("jax_enable_x64", True)


def covariance(kernel, x, y):
    return jax.vmap(lambda a: jax.vmap(lambda b: kernel(a, b))(y))(x)


def rbf(params, a, b):
    return jnp.exp(2 * params["amplitude"]) * jnp.exp(
        -0.5 * jnp.sum(((a - b) / jnp.exp(params["length"])) ** 2)
    )


def factor(params, x):
    gram = covariance(lambda a, b: rbf(params, a, b), x, x)
    noise = jnp.exp(2 * params["noise"]) + 1e-6
    return jsp.linalg.cholesky(gram + noise * jnp.eye(x.shape[0]), lower=True)


def negative_log_likelihood(params, x, y):
    lower = factor(params, x)
    alpha = jsp.linalg.solve_triangular(lower, y, lower=True)
    return 0.5 * alpha @ alpha + jnp.log(jnp.diag(lower)).sum() + 0.5 * len(y) * jnp.log(2 * jnp.pi)


@jax.jit
def train(params, moments, x, y):
    value, grads = jax.value_and_grad(negative_log_likelihood)(params, x, y)
    moments = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments, grads)
    return jax.tree.map(lambda p, m: p - 0.01 * m, params, moments), moments, value


@jax.jit
def predict(params, x, y, test):
    lower = factor(params, x)
    cross = covariance(lambda a, b: rbf(params, a, b), x, test)
    mean = cross.T @ jsp.linalg.cho_solve((lower, True), y)
    v = jsp.linalg.solve_triangular(lower, cross, lower=True)
    return mean, jnp.exp(2 * params["amplitude"]) - jnp.sum(v**2, axis=0)


def run():
    a, b = random.split(random.PRNGKey(2))
    x = random.uniform(a, (80, 1), minval=-3.0, maxval=3.0)
    y = jnp.sin(2 * x[:, 0]) + 0.1 * random.normal(b, (80,))
    params = {"amplitude": jnp.zeros(()), "length": jnp.zeros((1,)), "noise": jnp.asarray(-1.0)}
    moments = jax.tree.map(jnp.zeros_like, params)
    for _ in range(60):
        params, moments, value = train(params, moments, x, y)
    mean, variance = predict(params, x, y, jnp.linspace(-3, 3, 50)[:, None])
    return {"value": value, "params": params, "mean": mean[::10], "variance": variance[::10]}


if __name__ == "__main__":
    print(run())
