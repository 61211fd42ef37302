"""A decoder of characters in plain JAX: stacked layers in a scan, tied embeddings, Adam by hand."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax, random

WIDTH, HEADS, LAYERS, CONTEXT, VOCABULARY = 64, 4, 3, 32, 40


def init(key):
    keys = iter(random.split(key, 8))
    scale = lambda k, *shape: random.normal(k, shape) * 0.02
    return {
        "tokens": scale(next(keys), VOCABULARY, WIDTH),
        "places": scale(next(keys), CONTEXT, WIDTH),
        "layers": {
            "qkv": scale(next(keys), LAYERS, WIDTH, 3 * WIDTH),
            "out": scale(next(keys), LAYERS, WIDTH, WIDTH),
            "up": scale(next(keys), LAYERS, WIDTH, 4 * WIDTH),
            "down": scale(next(keys), LAYERS, 4 * WIDTH, WIDTH),
            "norm1": jnp.ones((LAYERS, WIDTH)),
            "norm2": jnp.ones((LAYERS, WIDTH)),
        },
        "norm": jnp.ones(WIDTH),
    }


def layer_norm(x, g):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    return g * (x - mean) * lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)


def attention(x, p):
    length = x.shape[0]
    q, k, v = jnp.split((x @ p["qkv"]).reshape(length, HEADS, -1), 3, axis=-1)
    scores = jnp.einsum("qhd,khd->hqk", q, k) / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("hqk,khd->qhd", weights, v).reshape(length, -1) @ p["out"]


def logits(params, tokens):
    x = params["tokens"][tokens] + params["places"][: tokens.shape[0]]

    @jax.checkpoint
    def block(x, p):
        x = x + attention(layer_norm(x, p["norm1"]), p)
        return x + jax.nn.gelu(layer_norm(x, p["norm2"]) @ p["up"]) @ p["down"], None

    x, _ = lax.scan(block, x, params["layers"])
    return layer_norm(x, params["norm"]) @ params["tokens"].T


def loss(params, tokens):
    found = jax.vmap(partial(logits, params))(tokens[:, :-1])
    picked = jnp.take_along_axis(jax.nn.log_softmax(found), tokens[:, 1:, None], -1)
    return -picked.mean()


@partial(jax.jit, donate_argnums=0)
def update(state, tokens):
    params, m, v, t = state
    value, grads = jax.value_and_grad(loss)(params, tokens)
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)
    step = lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8)
    return (jax.tree.map(step, params, m, v), m, v, t), value


def run():
    params = init(random.PRNGKey(0))
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (params, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0))
    base = jnp.arange(16 * (CONTEXT + 1)).reshape(16, -1)
    for i in range(8):
        tokens = (base * (1 + i % 3) + base // 7) % VOCABULARY
        state, value = update(state, tokens)
    return {"loss": value}


if __name__ == "__main__":
    print(run())
