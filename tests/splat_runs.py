"""The Gaussian splatting ops in the reference interpreter, for tests of their meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.splat import ops as splat_ops
from tests.splat_scenes import NAMES, Array, Scene


def inputs(graph: Graph, scene: Scene) -> list[Value]:
    pairs = zip(NAMES, scene.arrays, strict=True)
    return [graph.input(name, array.shape, "f32") for name, array in pairs]


def drawn(scene: Scene, width: int = 64, height: int = 64, **settings: Any) -> Array:
    graph = Graph("render")
    given = inputs(graph, scene)
    graph.set_outputs(
        [splat_ops.gaussian_splat_render(*given, width=width, height=height, **settings)]
    )
    (image,) = evaluate(graph, scene.feeds)
    return image.reshape(height, width, 4)


def gradient(scene: Scene, upstream: Array, **settings: Any) -> dict[str, Array]:
    graph = Graph("backward")
    given = inputs(graph, scene)
    seed = graph.input("upstream", (upstream.size,), "f32")
    settings["loss_grad_clip"] = settings.get("loss_grad_clip", np.inf)
    packed = splat_ops.gaussian_splat_render_backward(*given, seed, **settings)
    graph.set_outputs([packed])
    flat = upstream.reshape(-1).astype(np.float32)
    (result,) = evaluate(graph, {**scene.feeds, "upstream": flat})
    n = len(scene.positions)
    bounds = np.cumsum([3 * n, 3 * n, 4 * n, n, 3 * n])
    return dict(zip(NAMES, np.split(result.astype(np.float64), bounds), strict=False))


def prepared(scene: Scene, **settings: Any) -> Array:
    graph = Graph("prepare")
    graph.set_outputs([splat_ops.gaussian_splat_prepare(*inputs(graph, scene), **settings)])
    (buffer,) = evaluate(graph, scene.feeds)
    return buffer


def near(found: Any, expected: Any, tolerance: float = 3e-6) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def sections(buffer: Array, n: int, entries: int, tiles: int, pixels: int) -> list[Array]:
    lengths = [4 * n, n, 3 * n, 3 * n, 4 * n, entries, 2 * tiles, 3 * pixels]
    return np.split(buffer, np.cumsum(lengths))
