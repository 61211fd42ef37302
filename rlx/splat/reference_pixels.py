"""Gaussian splatting in NumPy: compositing tiles, and its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlx.splat.layout import MOMENTS, Screen
from rlx.splat.reference import C0, C1, Array, Camera, rotation, toward_camera


@dataclass(frozen=True)
class Settings:
    """When a pixel takes no further splats."""

    alpha_cutoff: float
    max_splat_steps: int
    transmittance_threshold: float


@dataclass(frozen=True)
class Hit:
    """A splat at the pixels of a tile: its alpha, 0 where it is not blended."""

    place: int
    coefficients: Array
    x: Array
    y: Array
    alpha: Array
    distance: Array
    """`a` of `splat_coefficients`."""
    stretch: Array
    """`b` of `splat_coefficients`."""
    before: Array
    """Transmittance in front of it."""


class Tile:
    """The pixels of a tile while splats are blended."""

    def __init__(self, screen: Screen, number: int, settings: Settings, focal: float) -> None:
        row, column = divmod(number, screen.columns)
        size = screen.tile_size
        self.rows = np.arange(row * size, min((row + 1) * size, screen.height))
        self.columns = np.arange(column * size, min((column + 1) * size, screen.width))
        self.x, self.y = np.meshgrid(self.columns + 0.5, self.rows + 0.5)
        self.settings = settings
        self.lengths = 1.0 + (
            (self.x - 0.5 * screen.width) ** 2 + (self.y - 0.5 * screen.height) ** 2
        ) / (focal * focal)
        self.transmittance = np.ones(self.x.shape)
        self.color = np.zeros((*self.x.shape, 3))
        self.steps = np.zeros(self.x.shape, int)

    def blend(self, listed: list[tuple[int, Array]]) -> Iterator[Hit]:
        """Blend splats near to far, each a place and its coefficients."""
        settings = self.settings
        limit = settings.max_splat_steps or np.inf
        stop = min(settings.transmittance_threshold, 1.0)
        for place, c in listed:
            going = (self.steps < limit) & (self.transmittance >= stop)
            if not going.any():
                return
            hit = self._hit(place, c, going)
            blended = hit.alpha > 0
            weight = np.where(blended, self.transmittance * hit.alpha, 0.0)
            self.color += np.where(blended[..., None], weight[..., None] * c[14:17], 0.0)
            self.transmittance = self.transmittance * (1.0 - hit.alpha)
            self.steps += blended
            yield hit

    def _hit(self, place: int, c: Array, going: Array) -> Hit:
        x, y = self.x - c[0], self.y - c[1]
        distance = (c[2] * x + c[3] * y + c[4]) ** 2 + (c[5] * y + c[6]) ** 2 + c[7]
        stretch = 1.0 + c[8] * x + c[9] * y + c[10] * x * x + c[11] * x * y + c[12] * y * y
        alpha = c[13] * np.exp(-distance / stretch)
        going = going & (alpha >= self.settings.alpha_cutoff)
        if c[25]:
            going = going & (c[21] + c[22] * x + c[23] * y < 0)
            going = going & (stretch > c[24] * self.lengths)
        alpha = np.where(going, alpha, 0.0)
        return Hit(place, c, x, y, alpha, distance, stretch, self.transmittance)


def splat_composite(
    coefficients: Array,
    entries: Array,
    ranges: Array,
    meta: Array,
    *,
    width: int,
    height: int,
    tile_size: int,
    alpha_cutoff: float,
    max_splat_steps: int,
    transmittance_threshold: float,
) -> Array:
    screen = Screen(width, height, tile_size)
    settings = Settings(alpha_cutoff, max_splat_steps, transmittance_threshold)
    focal = Camera.of(meta, width, height).focal
    image = np.zeros((height, width, 4))
    wide = coefficients.astype(np.float64)
    for number, (start, end) in enumerate(ranges):
        tile = Tile(screen, number, settings, focal)
        for _ in tile.blend([(i, wide[entries[i]]) for i in range(start, end)]):
            pass
        at = np.ix_(tile.rows, tile.columns)
        image[at] = _shown(tile, meta)
    return image.reshape(-1).astype(coefficients.dtype)


def _light(tile: Tile, meta: Array) -> Array:
    background: Array = tile.color + tile.transmittance[..., None] * meta[12:15].astype(np.float64)
    return background


def _shown(tile: Tile, meta: Array) -> Array:
    light = np.maximum(_light(tile, meta), 0.0) ** 2.2
    return np.concatenate([light, 1.0 - tile.transmittance[..., None]], -1)


def splat_composite_backward(
    coefficients: Array,
    entries: Array,
    places: Array,
    ranges: Array,
    meta: Array,
    d_image: Array,
    *,
    width: int,
    height: int,
    tile_size: int,
    alpha_cutoff: float,
    max_splat_steps: int,
    transmittance_threshold: float,
    loss_grad_clip: float,
) -> Array:
    screen = Screen(width, height, tile_size)
    settings = Settings(alpha_cutoff, max_splat_steps, transmittance_threshold)
    focal = Camera.of(meta, width, height).focal
    clip = max(loss_grad_clip, 1e-8)
    upstream = np.clip(d_image.astype(np.float64), -clip, clip).reshape(height, width, 4)
    wide = coefficients.astype(np.float64)
    result = np.zeros((len(entries), MOMENTS))
    for number, (start, end) in enumerate(ranges):
        tile = Tile(screen, number, settings, focal)
        listed = [(int(places[i]), wide[entries[i]]) for i in range(start, end)]
        hits = list(tile.blend(listed))
        g = upstream[np.ix_(tile.rows, tile.columns)]
        light = _light(tile, meta)
        gain = g[..., :3] * np.where(light > 0, 2.2 * np.maximum(light, 0.0) ** 1.2, 0.0)
        background = gain @ meta[12:15].astype(np.float64) - g[..., 3]
        for hit in reversed(hits):
            result[hit.place], background = _sums(hit, gain, background, clip)
    return result.astype(coefficients.dtype)


def _sums(hit: Hit, gain: Array, background: Array, clip: float) -> tuple[Array, Array]:
    """Return the sums of one entry, and the share of the light from later splats."""
    blended = hit.alpha > 0
    a = hit.alpha
    own = np.where(blended, gain @ hit.coefficients[14:17], 0.0)
    d_alpha = np.where(blended, np.clip(hit.before * (own - background), -clip, clip), 0.0)
    k = d_alpha * a
    stretch = np.where(blended, hit.stretch, 1.0)
    moment = k / stretch
    x, y = hit.x, hit.y
    monomials = (np.ones_like(x), x, y, x * x, x * y, y * y)
    weights = [moment, moment * np.where(blended, hit.distance, 0.0) / stretch]
    sums = [np.sum((hit.before * a)[..., None] * gain, (0, 1)), [np.sum(k)]]
    sums += [[np.sum(weight * m) for m in monomials] for weight in weights]
    return np.concatenate(sums), a * own + (1.0 - a) * background


def splat_sum_moments(moments: Array, visits: Array, totals: Array) -> Array:
    wide = moments.astype(np.float64)
    bounded = np.minimum(visits, totals[0])
    return np.array([wide[start:end].sum(0) for start, end in bounded])


def splat_project_backward(
    moments: Array,
    coefficients: Array,
    positions: Array,
    scales: Array,
    rotations: Array,
    opacities: Array,
    colors: Array,
    sh_coeffs: Array,
    uses_colors: Array,
    meta: Array,
    *,
    width: int,
    height: int,
    radius_scale: float,
) -> tuple[Array, ...]:
    camera = Camera.of(meta, width, height)
    d_position, d_scale, d_rotation = _geometry(
        moments, coefficients, positions, scales, rotations, camera, radius_scale
    )
    d_rgb = moments[:, 0:3]
    seen = (coefficients[:, 13] > 0).reshape(-1, 1)
    where = np.where(seen, positions.astype(np.float64), camera.position)
    toward, distance = toward_camera(where, camera)
    d_colors, d_sh, d_toward = _colors(d_rgb, toward, colors, sh_coeffs, bool(uses_colors[0]))
    across = d_toward - toward * np.sum(toward * d_toward, -1, keepdims=True)
    safe = np.where(distance > 1e-8, distance, 1.0)[:, None]
    d_position = d_position - np.where(distance[:, None] > 1e-8, across / safe, 0.0)
    inside = (opacities >= 0) & (opacities <= 1) & seen[:, 0]
    d_opacity = np.where(inside, moments[:, 3] / np.where(inside, coefficients[:, 13], 1.0), 0.0)
    geometry = (np.where(seen, d, 0.0) for d in (d_position, d_scale, d_rotation))
    found = (*geometry, d_opacity, d_colors, d_sh)
    return tuple(part.astype(positions.dtype) for part in found)


def _colors(
    d_rgb: Array, toward: Array, colors: Array, sh: Array, uses_colors: bool
) -> tuple[Array, Array, Array]:
    d_sh = np.zeros(sh.shape)
    d_colors = np.where(uses_colors & (colors >= 0) & (colors <= 1), d_rgb, 0.0)
    if not uses_colors:
        d_sh[:, 0] = C0 * d_rgb
    d_toward = np.zeros_like(toward)
    for number, (axis, sign) in enumerate([(1, -1.0), (2, 1.0), (0, -1.0)], start=1):
        if number < sh.shape[1]:
            d_sh[:, number] = sign * C1 * toward[:, axis, None] * d_rgb
            d_toward[:, axis] = sign * C1 * np.sum(d_rgb * sh[:, number].astype(np.float64), -1)
    return d_colors, d_sh, d_toward


def _geometry(
    moments: Array, coefficients: Array, positions: Array, scales: Array, rotations: Array,
    camera: Camera, radius_scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the cotangents of positions, scales and rotations.

    alpha = o exp(-|n|^2 / (2 w.w)), where w is the ray, n = u x w, and u the eye, in sigmas.
    """
    sigma = radius_scale * np.exp(scales.astype(np.float64))
    m = 3.0 / np.maximum(3.0 * sigma, 1e-6)
    relative = camera.position - positions.astype(np.float64)
    turned = rotation(rotations)
    u = m * np.einsum("nij,nj->ni", turned, relative)
    rays = _rays(coefficients, camera)
    w = m[:, None] * np.einsum("nij,nkj->nki", turned, rays)
    n = np.cross(u[:, None], w)
    q0 = np.sum(w[:, 0] ** 2, -1)
    q0 = np.where(q0 > 0, q0, 1.0)[:, None, None]
    p_n = np.einsum("nij,njk->nik", _symmetric(moments[:, 4:10]) / (2.0 * q0), n)
    q_w = np.einsum("nij,njk->nik", _symmetric(moments[:, 10:16]) / q0, w)
    d_u = -2.0 * np.sum(np.cross(w, p_n), 1)
    d_w = -2.0 * np.cross(p_n, u[:, None]) + 2.0 * q_w
    d_scale = np.where(3.0 * sigma > 1e-6, -(d_u * u + np.sum(d_w * w, 1)), 0.0)
    d_turned = m[:, :, None] * (
        d_u[:, :, None] * relative[:, None, :] + np.einsum("nki,nkj->nij", d_w, rays)
    )
    d_position = -np.einsum("nij,ni->nj", turned, m * d_u)
    return d_position, d_scale, _quaternion(rotations.astype(np.float64), d_turned)


def _rays(coefficients: Array, camera: Camera) -> Array:
    """Return, in the world, the ray of the reference point, and its change per column and row."""
    x, y = (
        (coefficients[:, i].astype(np.float64) - 0.5 * size) / camera.focal
        for i, size in enumerate((camera.width, camera.height))
    )
    right, up, forward = camera.frame
    center = x[:, None] * right + y[:, None] * up + forward
    steps = np.broadcast_to(camera.frame[:2] / camera.focal, (len(x), 2, 3))
    return np.concatenate([center[:, None], steps], 1)


def _symmetric(moments: Array) -> Array:
    """Return the matrix of sums of 1, x, y, x^2, x y, y^2."""
    return moments[:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(-1, 3, 3)


def _quaternion(q: Array, d: Array) -> Array:
    """Return the cotangent of quaternions from that of their matrices."""
    w, a = q[:, 0], q[:, 1:]
    turn = np.stack([d[:, 1, 2] - d[:, 2, 1], d[:, 2, 0] - d[:, 0, 2], d[:, 0, 1] - d[:, 1, 0]], -1)
    trace = np.trace(d, axis1=1, axis2=2)[:, None]
    around = np.einsum("nij,nj->ni", d + np.swapaxes(d, 1, 2), a)
    d_a = -4.0 * a * trace + 2.0 * around + 2.0 * w[:, None] * turn
    return np.concatenate([2.0 * np.sum(turn * a, -1, keepdims=True), d_a], -1)
