"""Model-agnostic meta-learning of sine waves: the gradient of a step of the gradient."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import grad, jit, random, vmap
from jax.example_libraries import optimizers, stax
from jax.example_libraries.stax import Dense, Relu

net_init, net_apply = stax.serial(Dense(40), Relu, Dense(40), Relu, Dense(1))


def loss(params, x, y):
    return jnp.mean((y - net_apply(params, x)) ** 2)


def inner(params, x, y, alpha=0.1):
    return jax.tree_util.tree_map(lambda p, g: p - alpha * g, params, grad(loss)(params, x, y))


def task_loss(params, x1, y1, x2, y2):
    return loss(inner(params, x1, y1), x2, y2)


def batch_loss(params, tasks):
    return jnp.mean(vmap(partial(task_loss, params))(*tasks))


def sample(key, tasks=25, points=10):
    a, b, c = random.split(key, 3)
    amplitude = random.uniform(a, (tasks, 1, 1), minval=0.1, maxval=0.5)
    phase = random.uniform(b, (tasks, 1, 1), minval=0.0, maxval=jnp.pi)
    x = random.uniform(c, (tasks, 2 * points, 1), minval=-5.0, maxval=5.0)
    y = amplitude * jnp.sin(x + phase)
    return x[:, :points], y[:, :points], x[:, points:], y[:, points:]


opt_init, opt_update, get_params = optimizers.adam(step_size=1e-3)


@jit
def step(i, state, key):
    params = get_params(state)
    value, grads = jax.value_and_grad(batch_loss)(params, sample(key))
    return opt_update(i, grads, state), value


def run():
    _, params = net_init(random.PRNGKey(0), (-1, 1))
    state = opt_init(params)
    values = []
    for i, key in enumerate(random.split(random.PRNGKey(1), 50)):
        state, value = step(i, state, key)
        values.append(value)
    return {"first": values[0], "last": values[-1]}


if __name__ == "__main__":
    print(run())
