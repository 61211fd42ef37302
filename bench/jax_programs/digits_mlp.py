"""A classifier of noisy 8x8 glyphs: layers of a perceptron, trained with optax's Adam."""

import jax
import jax.numpy as jnp
import optax
from jax import random


def glyphs(key, count):
    shapes, labels, noise = random.split(key, 3)
    prototypes = random.bernoulli(random.PRNGKey(7), 0.4, (10, 64)).astype(jnp.float32)
    targets = random.randint(labels, (count,), 0, 10)
    return prototypes[targets] + 0.4 * random.normal(noise, (count, 64)), targets


def init(key, sizes):
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (m, n)) * jnp.sqrt(2 / m), "b": jnp.zeros(n)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:])
    ]


def predict(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss(params, x, labels):
    logits = predict(params, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


optimizer = optax.adam(3e-3)


@jax.jit
def step(params, state, x, labels):
    value, grads = jax.value_and_grad(loss)(params, x, labels)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def run():
    x, labels = glyphs(random.PRNGKey(0), 2048)
    params = init(random.PRNGKey(1), [64, 128, 64, 10])
    state = optimizer.init(params)
    for i in range(40):
        rows = slice(i % 16 * 128, i % 16 * 128 + 128)
        params, state, value = step(params, state, x[rows], labels[rows])
    accuracy = jnp.mean(jnp.argmax(predict(params, x), 1) == labels)
    return {"loss": value, "accuracy": accuracy}


if __name__ == "__main__":
    print(run())
