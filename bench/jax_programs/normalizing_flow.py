"""RealNVP on two moons: affine couplings, exact densities, samples by the inverse."""

import functools

import jax
import jax.numpy as jnp
import optax
from jax import random
from jax.scipy.stats import norm


def moons(key, count):
    a, b, c = random.split(key, 3)
    angle = jnp.pi * random.uniform(a, (count,))
    side = random.bernoulli(b, 0.5, (count,)).astype(jnp.float32)
    x = jnp.stack([jnp.cos(angle) * (1 - 2 * side) + side, jnp.sin(angle) * (1 - 2 * side)
                   + 0.5 * side], axis=-1)  # fmt: skip
    return x + 0.05 * random.normal(c, x.shape)


def net(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return jnp.split(x @ w + b, 2, axis=-1)


def init(key, layers=6, width=32):
    def one(key):
        a, b = random.split(key)
        return [(random.normal(a, (1, width)), jnp.zeros(width)),
                (0.01 * random.normal(b, (width, 2)), jnp.zeros(2))]  # fmt: skip

    return [one(k) for k in random.split(key, layers)]


def forward(params, x):
    logdet = 0.0
    for i, layer in enumerate(params):
        a, b = x[:, i % 2 : i % 2 + 1], x[:, 1 - i % 2 : 2 - i % 2]
        shift, scale = net(layer, a)
        b = b * jnp.exp(jnp.tanh(scale)) + shift
        logdet += jnp.sum(jnp.tanh(scale), -1)
        x = jnp.concatenate([a, b] if i % 2 == 0 else [b, a], axis=1)
    return x, logdet


def inverse(params, z):
    for i, layer in reversed(list(enumerate(params))):
        a, b = z[:, i % 2 : i % 2 + 1], z[:, 1 - i % 2 : 2 - i % 2]
        shift, scale = net(layer, a)
        b = (b - shift) * jnp.exp(-jnp.tanh(scale))
        z = jnp.concatenate([a, b] if i % 2 == 0 else [b, a], axis=1)
    return z


def loss(params, x):
    z, logdet = forward(params, x)
    return -jnp.mean(norm.logpdf(z).sum(-1) + logdet)


optimizer = optax.adam(optax.exponential_decay(5e-3, 50, 0.9))


@functools.partial(jax.jit, static_argnames="batch")
def step(params, state, key, batch):
    value, grads = jax.value_and_grad(loss)(params, moons(key, batch))
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def run():
    params = init(random.PRNGKey(0))
    state = optimizer.init(params)
    for key in random.split(random.PRNGKey(1), 60):
        params, state, value = step(params, state, key, batch=256)
    samples = jax.jit(inverse)(params, random.normal(random.PRNGKey(2), (1000, 2)))
    return {"loss": value, "mean": samples.mean(0)}


if __name__ == "__main__":
    print(run())
