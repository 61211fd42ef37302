"""A variational autoencoder with Bernoulli pixels; noise by explicit keys in the step."""

import jax
import jax.numpy as jnp
import optax
from jax import random

LATENT, HIDDEN, PIXELS = 4, 64, 100


def dense(key, m, n):
    return {"w": random.normal(key, (m, n)) / jnp.sqrt(m), "b": jnp.zeros((n,))}


def init(key):
    k = random.split(key, 5)
    return {
        "hidden": dense(k[0], PIXELS, HIDDEN),
        "mean": dense(k[1], HIDDEN, LATENT),
        "logvar": dense(k[2], HIDDEN, LATENT),
        "up": dense(k[3], LATENT, HIDDEN),
        "out": dense(k[4], HIDDEN, PIXELS),
    }


def apply(layer, x):
    return jnp.dot(x, layer["w"]) + layer["b"]


def elbo(params, key, x):
    h = jax.nn.softplus(apply(params["hidden"], x))
    mean, logvar = apply(params["mean"], h), apply(params["logvar"], h)
    z = mean + jnp.exp(0.5 * logvar) * random.normal(key, mean.shape)
    logits = apply(params["out"], jax.nn.softplus(apply(params["up"], z)))
    likelihood = -jnp.sum(jnp.logaddexp(0.0, jnp.where(x, -1.0, 1.0) * logits))
    divergence = -0.5 * jnp.sum(1 + logvar - mean**2 - jnp.exp(logvar))
    return likelihood - divergence


def loss(params, key, batch):
    keys = random.split(key, batch.shape[0])
    return -jnp.mean(jax.vmap(elbo, in_axes=(None, 0, 0))(params, keys, batch))


optimizer = optax.rmsprop(1e-3, momentum=0.9)


@jax.jit
def epoch(params, state, key, batches):
    def step(carry, inputs):
        params, state = carry
        key, batch = inputs
        value, grads = jax.value_and_grad(loss)(params, key, batch)
        updates, state = optimizer.update(grads, state)
        return (optax.apply_updates(params, updates), state), value

    keys = random.split(key, batches.shape[0])
    (params, state), values = jax.lax.scan(step, (params, state), (keys, batches))
    return params, state, values.mean()


def run():
    rows = random.uniform(random.PRNGKey(5), (8, PIXELS))
    pick = random.randint(random.PRNGKey(6), (512,), 0, 8)
    data = random.bernoulli(random.PRNGKey(4), rows[pick]).reshape(8, 64, PIXELS)
    params = init(random.PRNGKey(0))
    state = optimizer.init(params)
    key = random.PRNGKey(1)
    for _ in range(5):
        key, sub = random.split(key)
        params, state, value = epoch(params, state, sub, data)
    return {"negative elbo": value}


if __name__ == "__main__":
    print(run())
