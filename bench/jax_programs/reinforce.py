"""Policy gradients on a cart with a pole: rollouts in a scan, environments by vmap."""

import jax
import jax.numpy as jnp
import optax
from jax import lax, random


def dynamics(state, action):
    x, v, angle, rate = state
    force = jnp.where(action == 1, 10.0, -10.0)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    shared = (force + 0.05 * rate**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * shared) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
    push = shared - 0.05 * turn * cosine / 1.1
    new = jnp.array([x + 0.02 * v, v + 0.02 * push, angle + 0.02 * rate, rate + 0.02 * turn])
    return new, (jnp.abs(new[0]) > 2.4) | (jnp.abs(new[2]) > 0.2095)


def policy(params, state):
    h = jnp.tanh(state @ params["w1"] + params["b1"])
    return jax.nn.log_softmax(h @ params["w2"])


def rollout(params, key, steps=100):
    start, noise = random.split(key)

    def step(carry, key):
        state, alive = carry
        action = random.categorical(key, policy(params, state))
        new, failed = dynamics(state, action)
        reward = jnp.where(alive, 1.0, 0.0)
        return (jnp.where(alive, new, state), alive & ~failed), (state, action, reward)

    first = random.uniform(start, (4,), minval=-0.05, maxval=0.05)
    return lax.scan(step, (first, True), random.split(noise, steps))[1]


def loss(params, key):
    keys = random.split(key, 32)
    states, actions, rewards = jax.vmap(rollout, (None, 0))(lax.stop_gradient(params), keys)
    ahead = lax.associative_scan(lambda a, b: a + b, rewards, reverse=True, axis=1)
    gain = (ahead - ahead.mean()) / (ahead.std() + 1e-6)
    chosen = jnp.take_along_axis(policy(params, states), actions[..., None], -1)[..., 0]
    return -jnp.mean(chosen * gain * rewards), rewards.sum(1).mean()


optimizer = optax.adam(1e-2)


@jax.jit
def train(carry, key):
    params, state = carry
    grads, score = jax.grad(loss, has_aux=True)(params, key)
    updates, state = optimizer.update(grads, state)
    return (optax.apply_updates(params, updates), state), score


def run():
    a, b, c = random.split(random.PRNGKey(0), 3)
    params = {"w1": 0.3 * random.normal(a, (4, 32)), "b1": jnp.zeros(32),
              "w2": 0.3 * random.normal(b, (32, 2))}  # fmt: skip
    carry, scores = lax.scan(train, (params, optimizer.init(params)), random.split(c, 20))
    return {"scores": scores[:5], "norm": jnp.linalg.norm(carry[0]["w1"])}


if __name__ == "__main__":
    print(run())
