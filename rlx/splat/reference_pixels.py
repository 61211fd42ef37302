"""Gaussian splatting in NumPy: compositing tiles, and its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlx.splat.each_splat import camera_of
from rlx.splat.gradient import PROJECT_BACKWARD
from rlx.splat.layout import MOMENTS, Screen
from rlx.splat.reference import Array

splat_project_backward = PROJECT_BACKWARD.reference


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
    focal = camera_of(meta, width, height).focal
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
    focal = camera_of(meta, width, height).focal
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
