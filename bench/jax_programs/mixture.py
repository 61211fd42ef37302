"""A mixture of Gaussians by expectation and maximization, and the same by BFGS."""

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.flatten_util import ravel_pytree
from jax.scipy.optimize import minimize
from jax.scipy.special import logsumexp
from jax.scipy.stats import multivariate_normal as mvn

K = 3


def log_joint(params, x):
    weights, means, covs = params
    density = jax.vmap(lambda m, c: mvn.logpdf(x, m, c), out_axes=1)(means, covs)
    return jax.nn.log_softmax(weights) + density


def em(params, x):
    logp = log_joint(params, x)
    resp = jnp.exp(logp - logsumexp(logp, axis=1, keepdims=True))
    count = resp.sum(0)
    means = resp.T @ x / count[:, None]
    off = x[:, None] - means
    covs = jnp.einsum("nk,nki,nkj->kij", resp, off, off) / count[:, None, None]
    return (jnp.log(count), means, covs + 1e-3 * jnp.eye(2)), logsumexp(logp, axis=1).mean()


@jax.jit
def fit(params, x):
    return lax.scan(lambda p, _: em(p, x), params, None, length=30)


@jax.jit
def by_bfgs(flat, x):
    def objective(flat):
        means = flat[: 2 * K].reshape(K, 2)
        covs = jnp.exp(flat[2 * K : 3 * K])[:, None, None] * jnp.eye(2)
        return -jnp.mean(logsumexp(log_joint((jnp.zeros(K), means, covs), x), axis=1))

    return minimize(objective, flat, method="BFGS", options={"maxiter": 20})


def run():
    a, b = random.split(random.PRNGKey(0))
    centers = jnp.array([[0.0, 3.0], [3.0, 0.0], [-3.0, -1.0]])
    x = centers[random.randint(a, (600,), 0, K)] + random.normal(b, (600, 2))
    params = (jnp.zeros(K), x[:K] + 0.0, jnp.tile(jnp.eye(2), (K, 1, 1)))
    (weights, means, _), values = fit(params, x)
    flat, _ = ravel_pytree((x[:K], jnp.zeros(K)))
    found = by_bfgs(flat, x)
    return {"likelihood": values[-1], "means": jnp.sort(means[:, 0]), "bfgs": found.fun}


if __name__ == "__main__":
    print(run())
