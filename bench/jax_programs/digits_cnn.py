"""A convolutional classifier: clipped gradients, AdamW and a schedule, all of optax."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax import lax, random


def images(key, count):
    labels, noise = random.split(key)
    prototypes = random.normal(random.PRNGKey(3), (10, 16, 16, 1))
    targets = random.randint(labels, (count,), 0, 10)
    return prototypes[targets] + 0.5 * random.normal(noise, (count, 16, 16, 1)), targets


def init(key):
    keys = random.split(key, 3)
    he = jax.nn.initializers.he_normal()
    return {
        "conv1": he(keys[0], (3, 3, 1, 16)),
        "conv2": he(keys[1], (3, 3, 16, 32)),
        "dense": he(keys[2], (4 * 4 * 32, 10)),
        "bias": jnp.zeros(10),
    }


def conv(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def predict(params, x):
    x = max_pool(jax.nn.relu(conv(x, params["conv1"])))
    x = max_pool(jax.nn.relu(conv(x, params["conv2"])))
    return x.reshape(x.shape[0], -1) @ params["dense"] + params["bias"]


def loss(params, x, labels):
    logp = jax.nn.log_softmax(predict(params, x))
    return -jnp.mean(jnp.take_along_axis(logp, labels[:, None], axis=1))


schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 5, 40)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))


@partial(jax.jit, donate_argnums=(0, 1))
def step(params, state, x, labels):
    value, grads = jax.value_and_grad(loss)(params, x, labels)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def run():
    x, labels = images(random.PRNGKey(0), 512)
    params = init(random.PRNGKey(1))
    state = optimizer.init(params)
    for i in range(24):
        rows = jnp.arange(64) + 64 * (i % 8)
        params, state, value = step(params, state, x[rows], labels[rows])
    return {"loss": value, "bias": params["bias"]}


if __name__ == "__main__":
    print(run())
