"""Gaussian splatting without lists, boxes or stages, in f64: every splat at every pixel.

Written from the formulas alone, one pixel at a time for all splats, for the tests to compare
with. `render` also takes part in finite differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.splat_scenes import Scene

Array = NDArray[Any]
C0, C1 = 0.28209479177387814, 0.4886025119029199


def normalized(v: Array) -> Array:
    length = np.linalg.norm(v)
    return v / length if length > 1e-8 else np.array([0.0, 0.0, 1.0])


def turned(v: Array, q: Array) -> Array:
    """Return `v` in the frame of quaternions (w, x, y, z), by two cross products."""
    w, a = q[..., :1], q[..., 1:]
    inner = np.cross(v, a) + w * v
    return v + 2.0 * np.cross(inner, a)


def render(
    scene: Scene,
    width: int,
    height: int,
    *,
    radius_scale: float = 1.6,
    alpha_cutoff: float = 1 / 255,
    max_splat_steps: int = 0,
    transmittance_threshold: float = 0.0,
    everything: bool = False,
) -> Array:
    """Return the image `[height, width, 4]`. With `everything`, splats too thin count as well."""
    given = [np.asarray(getattr(scene, n), np.float64) for n in scene.__dataclass_fields__]
    mu, scales, q, opacity, colors, sh, meta = given
    n = len(mu)
    eye, background = meta[:3], meta[12:15]
    forward = normalized(meta[3:6] - eye)
    right = normalized(np.cross(normalized(meta[6:9]), forward))
    basis = np.stack([right, normalized(np.cross(forward, right)), forward])
    focal = 0.5 * height / np.tan(0.5 * np.deg2rad(meta[9]))
    rgb = _colors(mu, eye, colors, sh.reshape(n, -1, 3) if sh.size else np.zeros((n, 0, 3)))
    shown = np.clip(opacity, 0.0, 1.0)
    m = 3.0 / np.maximum(3.0 * radius_scale * np.exp(scales), 1e-6)
    u = m * turned(eye - mu, q)
    support = np.sqrt(np.maximum(0.0, -2.0 * np.log(alpha_cutoff / np.maximum(shown, 1e-300))))
    finite = np.isfinite(np.concatenate([mu, scales, q, opacity[:, None]], 1)).all(1)
    drawn = finite & (shown >= alpha_cutoff) & (((mu - eye) @ forward) > 1e-4) & (support > 1e-10)
    if not everything:
        drawn &= thick(scene, basis, focal, radius_scale * support)
    order = np.argsort(np.linalg.norm(mu - eye, axis=1).astype(np.float32), kind="stable")
    order = order[drawn[order]]
    image = np.zeros((height, width, 4))
    for row in range(height):
        for column in range(width):
            at = ((column + 0.5 - 0.5 * width) / focal, (row + 0.5 - 0.5 * height) / focal, 1.0)
            ray = normalized(basis.T @ np.array(at))
            w = m[order] * turned(np.broadcast_to(ray, (len(order), 3)), q[order])
            length = np.sum(w * w, -1)
            t = -np.sum(u[order] * w, -1) / length
            c = u[order] + t[:, None] * w
            alpha = shown[order] * np.exp(-0.5 * np.sum(c * c, -1))
            hit = (length > 1e-10 * support[order] ** 2) & (t > 0) & (alpha >= alpha_cutoff)
            through, light, steps = 1.0, np.zeros(3), 0
            for splat, a in zip(order[hit], alpha[hit], strict=True):
                if max_splat_steps and steps >= max_splat_steps:
                    break
                light = light + through * a * rgb[splat]
                through, steps = through * (1.0 - a), steps + 1
                if through < transmittance_threshold:
                    break
            seen = np.maximum(light + through * background, 0.0) ** 2.2
            image[row, column] = [*seen, 1.0 - through]
    return image


def _colors(mu: Array, eye: Array, colors: Array, sh: Array) -> Array:
    count = sh.shape[1]
    padded = np.zeros((len(mu), max(count, 4), 3))
    padded[:, :count] = sh
    if count < 16 and (np.abs(padded[:, 0]) <= 1e-8).all():
        padded[:, 0] = (np.clip(colors, 0.0, 1.0) - 0.5) / C0
    relative = eye - mu
    distance = np.linalg.norm(relative, axis=1, keepdims=True)
    n = np.where(distance > 1e-8, relative / np.maximum(distance, 1e-8), 0.0)
    x, y, z = n[:, :1], n[:, 1:2], n[:, 2:]
    rgb: Array = 0.5 + C0 * padded[:, 0]
    rgb += C1 * (z * padded[:, 2] - y * padded[:, 1] - x * padded[:, 3])
    return rgb


def thick(scene: Scene, basis: Array, focal: float, support: Array) -> Array:
    """Return which splats are at least a quarter of a pixel wide on the screen, or around it.

    The outline's shadow: the 2-D section of the inverse of the quadric that the ellipsoid is.
    """
    kept = np.ones(len(support), bool)
    for i in range(len(support)):
        center, scale, q = scene.positions[i], scene.scales[i], scene.rotations[i]
        axes = np.maximum(support[i] * np.exp(scale), 1e-6)
        frame = np.stack([turned(e, q) for e in np.eye(3)], 1)  # world to local
        if not np.isfinite(frame).all() or not np.isfinite(axes).all():
            continue
        to_camera = basis @ np.linalg.inv(frame) @ np.diag(axes)
        c = basis @ (center - scene.meta[:3])
        if np.linalg.norm(np.linalg.solve(to_camera, c)) <= 1.0 + 1e-6:
            continue
        dual = to_camera @ to_camera.T - np.outer(c, c)  # planes through the eye that touch it
        if dual[2, 2] >= 0:
            continue  # it crosses the plane of the camera
        middle = dual[:2, 2] / dual[2, 2]
        spread = focal**2 * (np.outer(middle, middle) - dual[:2, :2] / dual[2, 2])
        kept[i] = np.sqrt(np.linalg.eigvalsh(spread)[0]) >= 0.125
    return kept
