"""Layers and networks: feed-forward, attention, encoders, training steps."""

from __future__ import annotations

import functools

from bench.workload import ALL_PEERS, TENSOR_LIBRARIES, Training, Workload
from rlx import blocks
from rlx.ir.graph import Graph, Value

_HIDDEN, _HEADS, _LAYERS = 384, 12, 6


def feed_forward() -> Graph:
    g = Graph("ffn_gelu")
    x = g.input("x", (128, 768))
    up, up_bias = g.param("up", (768, 3072)), g.param("up_bias", (3072,))
    down, down_bias = g.param("down", (3072, 768)), g.param("down_bias", (768,))
    hidden = g.gelu(g.matmul(x, up) + up_bias)
    g.set_outputs([g.matmul(hidden, down) + down_bias])
    return g


def attention(queries: int, keys: int, mask: str) -> Graph:
    g = Graph("attention")
    q = g.input("q", (1, 12, queries, 64))
    k, v = g.input("k", (1, 12, keys, 64)), g.input("v", (1, 12, keys, 64))
    g.set_outputs([g.attention(q, k, v, num_heads=12, head_dim=64, mask_kind=mask, layout="bhsd")])
    return g


def encoder(length: int) -> Graph:
    g = Graph(f"encoder_{length}")
    x = g.input("x", (1, length, _HIDDEN))
    for layer in range(_LAYERS):
        name = f"layer.{layer}"
        weights = blocks.EncoderLayerWeights.params(
            g, name, hidden=_HIDDEN, intermediate=4 * _HIDDEN
        )
        x = blocks.transformer_encoder_layer(x, weights, num_heads=_HEADS, name=name)
    g.set_outputs([x])
    return g


def classifier_loss() -> Graph:
    """784-512-256-10 with ReLU, mean cross entropy over a batch of 128."""
    g = Graph("classifier")
    x: Value = g.input("x", (128, 784))
    labels = g.input("labels", (128,), "i32")
    for layer, (rows, columns) in enumerate(((784, 512), (512, 256), (256, 10))):
        w, b = g.param(f"w{layer}", (rows, columns)), g.param(f"b{layer}", (columns,))
        x = g.matmul(x, w) + b
        if columns > 10:
            x = g.relu(x)
    loss = g.softmax_cross_entropy_with_logits(x, labels)
    g.set_outputs([g.reduce_mean(loss, axes=(0,))])
    return g


def _encoder_workload(length: int, aim: str) -> Workload:
    weights = 12 * _HIDDEN * _HIDDEN
    per_layer = 2 * length * weights + 4 * length * length * _HIDDEN
    return Workload(
        f"encoder_{length}",
        functools.partial(encoder, length),
        flops=_LAYERS * per_layer,
        bytes=_LAYERS * 4 * weights,
        aim=aim,
    )


def _training(name: str, optimizer: str, rate: float, aim: str) -> Workload:
    weights = 784 * 512 + 512 * 256 + 256 * 10
    return Workload(
        name,
        classifier_loss,
        peers=TENSOR_LIBRARIES,
        flops=6 * 128 * weights - 2 * 128 * 784 * 512,
        bytes=4 * 3 * weights,
        training=Training(optimizer, rate),
        ranges=(("labels", 10),),
        aim=aim,
    )


NETWORKS = (
    Workload(
        "ffn_gelu",
        feed_forward,
        flops=4 * 128 * 768 * 3072,
        bytes=4 * (2 * 768 * 3072 + 2 * 128 * 768),
        aim="<= 0.95x",
    ),
    Workload(
        "attention_causal_512",
        functools.partial(attention, 512, 512, "causal"),
        flops=2 * 12 * 512 * 512 * 64,
        bytes=4 * 4 * 12 * 512 * 64,
        aim="<= 0.4x",
    ),
    Workload(
        "attention_decode_2048",
        functools.partial(attention, 1, 2048, "none"),
        peers=ALL_PEERS,
        flops=4 * 12 * 2048 * 64,
        bytes=4 * 2 * 12 * 2048 * 64,
        aim="< 1x",
    ),
    _encoder_workload(16, "<= 0.9x"),
    _encoder_workload(77, "< 1x"),
    _encoder_workload(128, "<= 0.95x"),
    _training("train_sgd", "sgd", 0.1, "<= 0.9x"),
    _training("train_adam", "adam", 1e-3, "< 1x"),
)
