"""Gaussian splatting in rlx, PyTorch and JAX, each as its users write it.

The peers work on whole arrays: splats are sorted once, and for each tile there is a product of
monomials of its pixels with the coefficients of the splats that touch it, exponentials, and a
running product. Every implementation draws the same scene with the same formula.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import rlx
from bench.splatting_scene import Array
from rlx.splat import ops as splat_ops

TILE, SCALE, CUTOFF = 16, 1.6, 1 / 255

Run: TypeAlias = Callable[[], Any]
Runs: TypeAlias = tuple[Run, Run, Array]
"""The image, the image with its gradient, and the image as an array."""
Peer: TypeAlias = Callable[[list[Array], int, int | None], Runs]
"""Makes the runs of a scene, on images of so many pixels a side, on so many threads."""


def rlx_runs(arrays: list[Array], size: int, threads: int | None) -> Runs:
    """Return the image, the image with its gradient, and the image as an array."""
    options: dict[str, Any] = {
        "width": size, "height": size, "max_splat_steps": 0, "transmittance_threshold": 1e-4,
        "max_list_entries": min(1 << 24, 16 * len(arrays[0]) + (size // TILE) ** 2),
    }  # fmt: skip
    runs = []
    for backward in (False, True):
        graph = rlx.Graph("splat")
        given = [graph.input(f"x{i}", a.shape, "f32") for i, a in enumerate(arrays)]
        image = splat_ops.gaussian_splat_render(*given, **options)
        graph.set_outputs([image])
        feeds = {f"x{i}": array for i, array in enumerate(arrays)}
        if backward:
            graph = rlx.passes.grad_with_loss(graph, wrt=given[:5])
            feeds["d_output"] = np.ones(4 * size * size, np.float32)
        executable = rlx.compile(graph, threads=threads)
        runs.append(lambda executable=executable, feeds=feeds: executable.run(feeds))
    return runs[0], runs[1], np.asarray(runs[0]()[0])


def coefficients(xp: Any, arrays: list[Any], size: int) -> tuple[Any, Any, Any]:
    """Return for every splat six coefficients of distance and of stretch, and a radius box."""
    positions, scales, q, _, _, _, meta = arrays
    frame = np.array([[-1.0, 0, 0], [0, 1, 0], [0, 0, -1]], np.float32)
    focal = 0.5 * size / float(np.tan(np.pi / 6))
    relative = meta[:3] - positions
    w, x, y, z = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
        [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
        [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
    ]
    m = 1.0 / (SCALE * xp.exp(scales))
    turned = xp.stack([xp.stack(row, -1) for row in rows], -2) * m[:, :, None]
    u = xp.einsum("nij,nj->ni", turned, relative)
    in_camera = [turned[:, :, axis] * float(frame[axis, axis]) for axis in range(3)]
    depth = relative[:, 2]
    at = [-relative[:, 0] * -focal / depth, -relative[:, 1] * focal / depth]
    center = at[0][:, None] / focal * in_camera[0] + at[1][:, None] / focal * in_camera[1]
    w0 = center + in_camera[2]
    vectors = [w0, in_camera[0] / focal, in_camera[1] / focal]
    crosses = [_cross(xp, u, v) for v in vectors]
    a, b = _quadratic(xp, crosses), _quadratic(xp, vectors)
    largest = xp.exp(scales).max(1)
    largest = largest[0] if isinstance(largest, tuple) else getattr(largest, "values", largest)
    radius = 3.4 * SCALE * largest * focal / depth
    return (0.5 * a, b), at, radius


def _cross(xp: Any, a: Any, b: Any) -> Any:
    parts = [a[:, (i + 1) % 3] * b[:, (i + 2) % 3] - a[:, (i + 2) % 3] * b[:, (i + 1) % 3]
             for i in range(3)]  # fmt: skip
    return xp.stack(parts, -1)


def _quadratic(xp: Any, v: list[Any]) -> Any:
    """Return coefficients of 1, x, y, x^2, x y, y^2 in |v0 + v1 x + v2 y|^2."""

    def dot(i: int, j: int) -> Any:
        return (v[i] * v[j]).sum(-1)

    return xp.stack(
        [dot(0, 0), 2 * dot(0, 1), 2 * dot(0, 2), dot(1, 1), 2 * dot(1, 2), dot(2, 2)], -1
    )


def blended(xp: Any, parts: list[Any], pixels: Any, cumprod: Any) -> Any:
    """Return the pixels `[pixels, 4]` of a tile from its splats, near to far."""
    a, b, at_x, at_y, opacity, color = parts
    x, y = pixels[0][None] - at_x[:, None], pixels[1][None] - at_y[:, None]

    def form(c: Any) -> Any:
        inner = c[:, 1:2] + c[:, 3:4] * x + c[:, 4:5] * y
        return c[:, 0:1] + inner * x + (c[:, 2:3] + c[:, 5:6] * y) * y

    alpha = opacity[:, None] * xp.exp(-form(a) / form(b))
    alpha = xp.where(alpha >= CUTOFF, alpha, 0.0 * alpha)
    through = cumprod(1.0 - alpha)
    before = xp.concatenate([xp.ones_like(through[:1]), through[:-1]])
    light = xp.einsum("np,nc->pc", before * alpha, color)
    rest = through[-1] if len(through) else xp.ones_like(pixels[0])
    background = np.array([0.1, 0.15, 0.2], np.float32)
    seen = xp.stack([light[:, c] + rest * float(background[c]) for c in range(3)], -1)
    return xp.concatenate([seen**2.2, 1.0 - rest[:, None]], -1)


def torch_runs(arrays: list[Array], size: int, threads: int | None) -> Runs:
    import torch

    if threads:
        torch.set_num_threads(threads)
    given = [torch.tensor(array, requires_grad=i < 5) for i, array in enumerate(arrays)]

    def draw() -> Any:
        (a, b), at, radius = coefficients(torch, given, size)
        order = torch.argsort(torch.linalg.norm(given[6][:3] - given[0], dim=1))
        a, b, x, y, radius = (t[order] for t in (a, b, *at, radius))
        opacity, color = given[3][order], given[4][order]
        tiles = []
        with torch.no_grad():
            left, right = x + 0.5 * size - radius, x + 0.5 * size + radius
            low, high = y + 0.5 * size - radius, y + 0.5 * size + radius
        span = torch.arange(TILE)
        for top in range(0, size, TILE):
            in_row = torch.nonzero((high >= top) & (low <= top + TILE))[:, 0]
            for start in range(0, size, TILE):
                inside = (right[in_row] >= start) & (left[in_row] <= start + TILE)
                chosen = in_row[inside]
                columns = (start + span + 0.5 - 0.5 * size).repeat(TILE)
                rows = (top + span + 0.5 - 0.5 * size).repeat_interleave(TILE)
                parts = [t[chosen] for t in (a, b, x, y, opacity, color)]
                tiles.append(blended(torch, parts, (columns, rows), lambda t: t.cumprod(0)))
        count = size // TILE
        image = torch.stack(tiles).reshape(count, count, TILE, TILE, 4)
        return image.permute(0, 2, 1, 3, 4).reshape(size, size, 4)

    def forward() -> Any:
        with torch.no_grad():
            return draw()

    def both() -> Any:
        for tensor in given[:5]:
            tensor.grad = None
        draw().sum().backward()
        return given[0].grad

    return forward, both, forward().numpy()


def jax_runs(
    arrays: list[Array], size: int, threads: int | None, checkpoint: bool = False
) -> Runs:  # fmt: skip
    """With `checkpoint`, the gradient computes the products of a tile again: time for memory."""
    import jax
    import jax.numpy as jnp

    del threads  # XLA has one for each core of its process
    count = size // TILE
    (_, _), at, radius = coefficients(np, arrays, size)
    corner = np.arange(count) * TILE

    def touched(low: Any, high: Any) -> Array:
        result: Array = (high[None] >= corner[:, None]) & (low[None] <= corner[:, None] + TILE)
        return result

    across = touched(at[0] + 0.5 * size - radius, at[0] + 0.5 * size + radius)
    along = touched(at[1] + 0.5 * size - radius, at[1] + 0.5 * size + radius)
    most = int((along.astype(np.float32) @ across.astype(np.float32).T).max())

    def draw(*given: Any) -> Any:
        (a, b), at, radius = coefficients(jnp, [*given, *arrays[5:]], size)
        order = jnp.argsort(jnp.linalg.norm(arrays[6][:3] - given[0], axis=1))
        a, b, x, y, radius = (t[order] for t in (a, b, *at, radius))
        opacity, color = given[3][order], given[4][order]

        def tile(number: Any) -> Any:
            top, left = number // count * TILE - 0.5 * size, number % count * TILE - 0.5 * size
            inside = (x + radius >= left) & (x - radius <= left + TILE)
            inside &= (y + radius >= top) & (y - radius <= top + TILE)
            (chosen,) = jnp.nonzero(inside, size=most, fill_value=0)
            present = jnp.arange(most) < inside.sum()
            span = jnp.arange(TILE) + 0.5
            pixels = jnp.tile(left + span, TILE), jnp.repeat(top + span, TILE)
            parts = [t[chosen] for t in (a, b, x, y, opacity, color)]
            parts[4] = jnp.where(present, parts[4], 0.0)
            return blended(jnp, parts, pixels, lambda t: jnp.cumprod(t, 0))

        image = jax.lax.map(jax.checkpoint(tile) if checkpoint else tile, jnp.arange(count * count))
        image = image.reshape(count, count, TILE, TILE, 4)
        return image.transpose(0, 2, 1, 3, 4).reshape(size, size, 4)

    image = jax.jit(draw)
    both = jax.jit(jax.value_and_grad(lambda *g: draw(*g).sum(), argnums=range(5)))
    given = [jnp.asarray(array) for array in arrays[:5]]
    ready: Any = jax.block_until_ready
    return (
        lambda: ready(image(*given)),
        lambda: ready(both(*given)),
        np.asarray(image(*given)),
    )


PEERS: dict[str, Peer] = {
    "rlx": rlx_runs,
    "torch": torch_runs,
    "jax": jax_runs,
    "jax_checkpoint": partial(jax_runs, checkpoint=True),
}
