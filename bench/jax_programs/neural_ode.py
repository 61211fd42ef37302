"""A neural differential equation fitted to a spiral through `odeint` and its adjoint."""

import jax
import jax.numpy as jnp
from jax import random
from jax.example_libraries import optimizers
from jax.experimental.ode import odeint

TIMES = jnp.linspace(0.0, 5.0, 20)


def field(y, t, params):
    h = jnp.tanh(y**3 @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"]


def spiral(y, t):
    return y**3 @ jnp.array([[-0.1, 2.0], [-2.0, -0.1]])


def loss(params, y0, target):
    found = odeint(field, y0, TIMES, params, rtol=1e-4, atol=1e-4)
    return jnp.mean(jnp.abs(found - target))


opt_init, opt_update, get_params = optimizers.adam(1e-2)


@jax.jit
def update(i, opt_state, y0, target):
    value, grads = jax.value_and_grad(loss)(get_params(opt_state), y0, target)
    return opt_update(i, grads, opt_state), value


@jax.jit
def data(y0):
    return odeint(spiral, y0, TIMES)


def run():
    y0 = jnp.array([2.0, 0.0])
    target = data(y0)
    a, b = random.split(random.PRNGKey(0))
    params = {"w1": 0.1 * random.normal(a, (2, 32)), "b1": jnp.zeros(32),
              "w2": 0.1 * random.normal(b, (32, 2)), "b2": jnp.zeros(2)}  # fmt: skip
    state = opt_init(params)
    for i in range(10):
        state, value = update(i, state, y0, target)
    return {"end": target[-1], "loss": value}


if __name__ == "__main__":
    print(run())
