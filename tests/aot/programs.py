"""Small programs to export, and their params."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlx.ir.ops  # noqa: F401  (the ops register themselves)
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim
from rlx.passes.autodiff import vjp_in_graph
from rlx.splat import ops as splat_ops
from tests.splat_scenes import random_scene

BATCH, FEATURES, HIDDEN, CLASSES = 32, 64, 32, 10
LARGE = 192


def mlp(name: str = "mlp") -> Graph:
    """Class probabilities by a two-layer perceptron."""
    g = Graph(name)
    x = g.input("x", (BATCH, FEATURES))
    w1, b1 = g.param("w1", (FEATURES, HIDDEN)), g.param("b1", (HIDDEN,))
    w2, b2 = g.param("w2", (HIDDEN, CLASSES)), g.param("b2", (CLASSES,))
    hidden = g.relu(g.matmul(x, w1) + b1)
    g.set_outputs([g.softmax(g.matmul(hidden, w2) + b2, axis=-1)])
    return g


def training_step(name: str = "step", rate: float = 0.1) -> Graph:
    """One step of gradient descent; the params are updated in place."""
    g = Graph(name)
    x, labels = g.input("x", (BATCH, FEATURES)), g.input("labels", (BATCH,), "i64")
    w1, b1 = g.param("w1", (FEATURES, HIDDEN)), g.param("b1", (HIDDEN,))
    w2, b2 = g.param("w2", (HIDDEN, CLASSES)), g.param("b2", (CLASSES,))
    hidden = g.relu(g.matmul(x, w1) + b1)
    logits = g.matmul(hidden, w2) + b2
    losses = g.softmax_cross_entropy_with_logits(logits, labels)
    loss = g.reduce_mean(losses, axes=(0,))
    leaves = [w1, b1, w2, b2]
    gradients = vjp_in_graph(g, [loss], leaves, [g.constant(1.0)])
    pairs = zip(leaves, gradients, strict=True)
    updated = [leaf - rate * ct for leaf, ct in pairs if ct is not None]
    g.set_outputs([loss, *updated], donated=dict(zip(leaves, updated, strict=True)))
    return g


def splat_step(name: str = "splats") -> Graph:
    """The image of a scene, and the scene after a step that makes the image darker."""
    g = Graph(name)
    *arrays, meta = [g.constant(array) for array in random_scene(3, 6, 4, size=0.3).arrays]
    arrays[0] = arrays[0] + 0.1 * g.reshape(g.input("x", (18,)), shape=(6, 3))
    size: dict[str, Any] = {"width": 11, "height": 9, "tile_size": 4}
    view = [*arrays, meta]
    image = splat_ops.gaussian_splat_render(*view, **size)
    view.append(image)
    gradient = splat_ops.gaussian_splat_render_backward(*view, **size)
    scene = g.concat(*(g.reshape(a, shape=(a.type.elements,)) for a in arrays), axis=0)
    g.set_outputs([g.concat(image, scene - 0.01 * gradient, axis=0)])
    return g


def scaled_rows(name: str = "rows") -> Graph:
    """A symbolic extent, as a number too: n times row sums of x times a constant, plus a table."""
    g = Graph(name)
    x = g.input("x", (n := Dim("n", max=16), 5))
    scale = g.constant(np.linspace(-1, 1, 5, dtype=np.float32))
    shift = g.param("shift", (5,))
    rows = g.reduce_sum(x * scale + shift, axes=(1,))
    g.set_outputs([rows * g.cast(g.extent(value=n), to="f32")])
    return g


def large_rows(name: str = "large") -> Graph:
    """Enough work in every kernel for several threads, and hardly more."""
    g = Graph(name)
    x = g.input("x", (LARGE, LARGE))
    w = g.param("w", (LARGE, LARGE))
    y = g.softmax(g.tanh(g.matmul(x, w)), axis=-1)
    g.set_outputs([y, g.reduce_sum(y * x, axes=(0,))])
    return g


def lookup(name: str = "lookup") -> Graph:
    """A kernel that can fail."""
    g = Graph(name)
    table = g.param("table", (8, 4))
    g.set_outputs([g.gather(table, g.input("rows", (3,), "i64"), axis=0)])
    return g


def params_of(graph: Graph, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Random values for the params of `graph`."""
    rng = np.random.default_rng(seed)
    return {
        str(p.node.name): (rng.standard_normal(p.type.static_shape) / 8).astype(p.dtype.numpy)
        for p in graph.params
    }


def encoder_layer(name: str = "encoder") -> Graph:
    """One transformer encoder layer: attention and a feed-forward block, each with a norm."""
    width, heads, length = 32, 4, 8
    g = Graph(name)
    x = g.input("x", (2, length, width))

    def projected(value: Value, weight: str, extent: int) -> Value:
        rows = value.shape[-1]
        return g.matmul(value, g.param(weight, (rows, extent))) + g.param(
            f"{weight}_bias", (extent,)
        )

    def normed(value: Value, norm: str) -> Value:
        gain, bias = g.param(f"{norm}_gain", (width,)), g.param(f"{norm}_bias", (width,))
        return g.layer_norm(value, gain, bias, axis=-1, eps=1e-5)

    def split(value: Value) -> Value:
        shape = (2, length, heads, width // heads)
        return g.transpose(g.reshape(value, shape=shape), perm=(0, 2, 1, 3))

    q, k, v = (split(projected(x, weight, width)) for weight in ("query", "key", "value"))
    scores = g.matmul(q, g.transpose(k, perm=(0, 1, 3, 2))) * (width // heads) ** -0.5
    mixed = g.transpose(g.matmul(g.softmax(scores, axis=-1), v), perm=(0, 2, 1, 3))
    attended = normed(x + projected(g.reshape(mixed, shape=x.shape), "out", width), "norm1")
    hidden = g.gelu(projected(attended, "up", 4 * width))
    g.set_outputs([normed(attended + projected(hidden, "down", width), "norm2")])
    return g
