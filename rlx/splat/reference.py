"""Gaussian splatting in NumPy: projection, tile lists, and what alpha is computed from.

Everything is computed in f64 and rounded once, where a stage stores its results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.splat.layout import COEFFICIENTS, OUTLINE, Screen

Array: TypeAlias = NDArray[Any]
C0, C1 = 0.28209479177387814, 0.4886025119029199
FAR = np.float32(np.finfo(np.float32).max)
"""The distance of what is not drawn."""
NOTHING, ELLIPSE, EVERYWHERE = 0.0, 1.0, 2.0
"""Kinds of outline."""
SLACK = 1e-6


@dataclass(frozen=True)
class Camera:
    """A pinhole: rows of `frame` are right, up and forward in the world."""

    position: Array
    frame: Array
    focal: float
    width: int
    height: int

    @classmethod
    def of(cls, meta: Array, width: int, height: int) -> Camera:
        meta = meta.astype(np.float64)
        position = meta[0:3]
        forward = unit(meta[3:6] - position)
        right = unit(np.cross(unit(meta[6:9]), forward))
        frame = np.stack([right, unit(np.cross(forward, right)), forward])
        focal = 0.5 * height / np.tan(0.5 * meta[9] * np.pi / 180.0)
        return cls(position, frame, float(focal), width, height)


def unit(v: Array) -> Array:
    length = np.linalg.norm(v)
    ahead: Array = np.array([0.0, 0.0, 1.0])
    return v / length if length > 1e-8 else ahead


def rotation(q: Array) -> Array:
    """Return matrices `[n, 3, 3]` that turn world vectors into the frames of quaternions."""
    w, x, y, z = np.moveaxis(q.astype(np.float64), -1, 0)
    a = np.stack([x, y, z], -1)
    zero = np.zeros_like(w)
    turn = np.stack(
        [np.stack([zero, z, -y], -1), np.stack([-z, zero, x], -1), np.stack([y, -x, zero], -1)], -2
    )
    scale = (1.0 - 2.0 * np.sum(a * a, -1))[..., None, None]
    outer: Array = a[..., :, None] * a[..., None, :]
    return scale * np.eye(3) + 2.0 * outer + 2.0 * w[..., None, None] * turn


def color(toward: Array, colors: Array, sh: Array, uses_colors: bool) -> Array:
    """Return the colour of splats seen along the unit vectors `toward` the camera."""
    first = np.clip(colors.astype(np.float64), 0.0, 1.0) - 0.5
    rgb = 0.5 + (first if uses_colors else C0 * sh[:, 0].astype(np.float64))
    for number, (axis, sign) in enumerate([(1, -1.0), (2, 1.0), (0, -1.0)], start=1):
        if number < sh.shape[1]:
            rgb = rgb + sign * C1 * toward[:, axis, None] * sh[:, number].astype(np.float64)
    return rgb


def toward_camera(positions: Array, camera: Camera) -> tuple[Array, Array]:
    """Return unit vectors from splats to the camera, zero where it is at the splat, and lengths."""
    relative = camera.position - positions
    distance = np.linalg.norm(relative, axis=-1)
    safe = np.where(distance > 1e-8, distance, 1.0)
    return np.where(distance[:, None] > 1e-8, relative / safe[:, None], 0.0), distance


def splat_project(
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
    alpha_cutoff: float,
) -> tuple[Array, ...]:
    camera = Camera.of(meta, width, height)
    where = positions.astype(np.float64)
    toward, distance = toward_camera(where, camera)
    rgb = color(toward, colors, sh_coeffs, bool(uses_colors[0]))
    sigma = radius_scale * np.exp(scales.astype(np.float64))
    inverse = 1.0 / np.maximum(3.0 * sigma, 1e-6)
    local = np.einsum("nij,nj->ni", rotation(rotations), camera.position - where)
    finite = np.isfinite(np.concatenate([positions, scales, rotations, opacities[:, None]], 1))
    opacity = np.clip(opacities.astype(np.float64), 0.0, 1.0)
    depth = (where - camera.position) @ camera.frame[2]
    sound = finite.all(1) & (opacity >= alpha_cutoff) & (depth > 1e-4)
    support = np.sqrt(-2.0 * np.log(alpha_cutoff / np.where(sound, opacity, 1.0)))
    axes = np.maximum(sigma * np.where(sound, support, 1.0)[:, None], 1e-6)
    outlines, inside = _outlines(local, axes, rotation(rotations), where, camera)
    valid = sound & inside
    outlines = np.where(valid[:, None], outlines, 0.0)
    drawn = valid & (outlines[:, 7] > NOTHING)
    single = positions.dtype  # f32 in graphs; tests of derivatives compute in f64
    return (
        np.concatenate([rgb, opacities[:, None]], 1).astype(single),
        valid.astype(single),
        (local * inverse).astype(single),
        inverse.astype(single),
        outlines,
        np.where(drawn, distance, FAR).astype(single),
    )


def _outlines(
    local: Array, axes: Array, turned: Array, where: Array, camera: Camera
) -> tuple[Array, Array]:
    """Return outlines, and whether they touch the screen."""
    to_sphere = np.einsum("nij,kj->nik", turned, camera.frame) / axes[:, :, None]
    eye = local / axes
    reach = np.sum(eye * eye, -1)
    turns = np.cross(eye[:, None, :], np.swapaxes(to_sphere, 1, 2))
    form = np.einsum("nji,nki->njk", turns, turns)
    form = form - np.einsum("nij,nik->njk", to_sphere, to_sphere)
    k00, k01, k11 = form[:, 0, 0], form[:, 0, 1], form[:, 1, 1]
    det, trace = k00 * k11 - k01 * k01, k00 + k11
    definite = (k00 > 0) & (k11 > 0) & (det > 1e-12 * trace * trace)
    ellipse = (np.sqrt(reach) > 1.0 + SLACK) & definite
    safe = np.where(ellipse, det, 1.0)
    x = -(k11 * form[:, 0, 2] - k01 * form[:, 1, 2]) / safe
    y = -(k00 * form[:, 1, 2] - k01 * form[:, 0, 2]) / safe
    g = form[:, 2, 2] + form[:, 0, 2] * x + form[:, 1, 2] * y
    conics = _conics(x, y, (k00, k01, k11), np.where(g < 0, g, -1.0), camera)
    on_screen, thick = _seen(conics, camera)
    kind = np.where(thick, ELLIPSE, NOTHING)
    covered = np.zeros((len(local), OUTLINE))
    covered[:, 7] = EVERYWHERE
    outlines = np.where(ellipse[:, None], np.concatenate([conics, kind[:, None]], 1), covered)
    inside = np.where(ellipse, (g < 0) & on_screen, _sphere_touches(where, axes, camera))
    return outlines, inside


def _conics(x: Array, y: Array, k: tuple[Array, ...], g: Array, camera: Camera) -> Array:
    q00, q01, q11 = (part / (-g) / camera.focal**2 for part in k)
    det = q00 * q11 - q01 * q01
    center = (camera.focal * x + 0.5 * camera.width, camera.focal * y + 0.5 * camera.height)
    return np.stack([*center, q00, q01, q11, np.sqrt(q11 / det), np.sqrt(q00 / det)], -1)


def _seen(conics: Array, camera: Camera) -> tuple[Array, Array]:
    """Return whether ellipses touch the screen, and whether they are thick enough to be drawn."""
    cx, cy, q00, q01, q11, ex, ey = conics.T
    across = (cx + ex >= 0) & (cx - ex < camera.width)
    along = (cy + ey >= 0) & (cy - ey < camera.height)
    largest = 0.5 * (q00 + q11) + np.sqrt(0.25 * (q00 - q11) ** 2 + q01 * q01)
    return across & along, 1.0 / np.sqrt(largest) >= 0.125


def _sphere_touches(where: Array, axes: Array, camera: Camera) -> Array:
    """Return whether the sphere around each splat is not outside one of the screen's planes."""
    seen = (where - camera.position) @ camera.frame.T
    radius = axes.max(-1)
    touches = np.ones(len(where), bool)
    for plane in screen_planes(camera.focal, camera.width, camera.height):
        touches &= ~(seen @ np.array(plane) < -radius * np.linalg.norm(plane))
    return touches


def screen_planes(focal: float, width: int, height: int) -> list[tuple[float, float, float]]:
    """Return normals, pointing inwards, of the planes through the camera and the screen's sides."""
    x, y = 0.5 * width, 0.5 * height
    return [(focal, 0.0, x), (-focal, 0.0, width - x), (0.0, focal, y), (0.0, -focal, height - y)]


def touched_tiles(outline: Array, screen: Screen) -> Array:
    """Return the tiles that an outline touches, row by row."""
    if outline[7] != ELLIPSE:
        everything: Array = np.arange(screen.tiles if outline[7] == EVERYWHERE else 0)
        return everything
    cx, cy, q00, q01, q11 = outline[:5]
    size = float(screen.tile_size)
    x0 = (np.arange(screen.columns) * size - cx)[None, :]
    y0 = (np.arange(screen.rows) * size - cy)[:, None]
    x1, y1 = x0 + size, y0 + size

    def form(x: Array, y: Array) -> Array:
        value: Array = q00 * x * x + 2.0 * q01 * x * y + q11 * y * y
        return value

    corners = [form(x, y) for x in (x0, x1) for y in (y0, y1)]
    upright = [form(x, np.clip(-q01 * x / q11, y0, y1)) for x in (x0, x1)]
    level = [form(np.clip(-q01 * y / q00, x0, x1), y) for y in (y0, y1)]
    least = np.minimum.reduce([*corners, *upright, *level])
    least = np.where((x0 <= 0) & (x1 >= 0) & (y0 <= 0) & (y1 >= 0), 0.0, least)
    touched: Array = np.flatnonzero(least <= 1.0 + SLACK)
    return touched


def splat_tile_counts(outlines: Array, *, width: int, height: int, tile_size: int) -> Array:
    screen = Screen(width, height, tile_size)
    return np.array([len(touched_tiles(o, screen)) for o in outlines], np.int32)


def splat_visits(order: Array, counts: Array, *, max_list_entries: int) -> tuple[Array, Array]:
    visits = np.zeros((len(counts), 2), np.int64)
    after = np.cumsum(counts[order], dtype=np.int64)
    visits[order, 0], visits[order, 1] = after - counts[order], after
    total = int(after[-1])
    stored = min(total, max_list_entries)
    return visits, np.array([stored, total - stored])


def _entries_in_order(
    order: Array, visits: Array, outlines: Array, screen: Screen, room: int
) -> tuple[Array, Array]:
    """Return the rank of the splat of each entry, and its tile, as they are visited."""
    listed = [(rank, splat) for rank, splat in enumerate(order) if np.diff(visits[splat])[0]]
    tiles = [touched_tiles(outlines[splat], screen) for _, splat in listed]
    ranks = [np.full(len(t), rank) for (rank, _), t in zip(listed, tiles, strict=True)]
    none = [np.zeros(0, np.int64)]
    return np.concatenate(ranks or none)[:room], np.concatenate(tiles or none)[:room]


def _block_of(length: int, blocks: int) -> Array:
    """Return the block of each of `length` splats."""
    bounds = np.arange(1, blocks + 1) * length // blocks
    return np.searchsorted(bounds, np.arange(length), side="right")


def _places_from(starts: Array, bins: Array) -> Array:
    """Return a place for each entry: one after the other from where its bin starts."""
    order = np.argsort(bins, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(bins))
    places: Array = starts.reshape(-1)[bins] + rank - np.searchsorted(bins[order], bins)
    return places


def splat_entry_counts(
    order: Array, visits: Array, outlines: Array, *, width: int, height: int, tile_size: int,
    max_list_entries: int, blocks: int,
) -> Array:  # fmt: skip
    screen = Screen(width, height, tile_size)
    ranks, tiles = _entries_in_order(order, visits, outlines, screen, max_list_entries)
    bins = _block_of(len(order), blocks)[ranks] * screen.tiles + tiles
    counts = np.bincount(bins, minlength=blocks * screen.tiles)
    return counts.reshape(blocks, screen.tiles).astype(np.int32)


def splat_entries(
    order: Array, visits: Array, outlines: Array, starts: Array, totals: Array, *, width: int,
    height: int, tile_size: int, max_list_entries: int,
) -> tuple[Array, Array]:  # fmt: skip
    del totals
    screen = Screen(width, height, tile_size)
    ranks, tiles = _entries_in_order(order, visits, outlines, screen, max_list_entries)
    bins = _block_of(len(order), len(starts))[ranks] * screen.tiles + tiles
    places = _places_from(starts, bins)
    entries, visited = np.zeros((2, max_list_entries), np.int32)
    entries[places], visited[places] = order[ranks], np.arange(len(ranks))
    return entries, visited


def splat_coefficients(
    color_alpha: Array,
    valid: Array,
    pos_local: Array,
    inv_scale: Array,
    rotations: Array,
    meta: Array,
    *,
    width: int,
    height: int,
    alpha_cutoff: float,
) -> Array:
    camera = Camera.of(meta, width, height)
    rays = Rays.of(pos_local, inv_scale, rotations, camera)
    x, y = rays.reference_point(width, height)
    w0 = rays.x * x[:, None] + rays.y * y[:, None] + rays.center
    q0 = np.sum(w0 * w0, -1)
    opacity = np.clip(color_alpha[:, 3].astype(np.float64), 0.0, 1.0)
    half = np.log(np.where(valid > 0, opacity, 1.0) / alpha_cutoff)
    drawn = (valid > 0) & (opacity >= alpha_cutoff) & (half > 0.5e-20) & (q0 > 1e-60)
    q0 = np.where(drawn, q0, 1.0)
    a, b, z = (np.cross(rays.eye, v) / np.sqrt(2.0 * q0)[:, None] for v in (rays.x, rays.y, w0))
    numerator = _triangular(a, b, z)
    across, along = _dot(rays.x, w0) / q0, _dot(rays.y, w0) / q0
    e00, e01, e11 = (
        _dot(u, v) / q0 for u, v in ((rays.x, rays.x), (rays.x, rays.y), (rays.y, rays.y))
    )
    box, closed = _box(a, b, z, (across, along, e00, e01, e11), half, x, y, camera)
    support = 2.0 * half
    smallest = np.min(rays.m, -1) ** 2
    size = np.sum(rotations.astype(np.float64) ** 2, -1)
    checked = (smallest <= 1e-6 * support) | (size < 0.5) | (size > 2.0) | ~closed
    result = np.zeros((len(valid), COEFFICIENTS))
    result[:, 0:2] = np.stack([x + 0.5 * width, y + 0.5 * height], -1)
    result[:, 2:8] = numerator
    result[:, 8:13] = np.stack([2 * across, 2 * along, e00, 2 * e01, e11], -1)
    result[:, 13] = opacity
    result[:, 14:17] = color_alpha[:, :3]
    result[:, 17:21] = box
    result[:, 21:24] = np.stack([_dot(rays.eye, v) for v in (w0, rays.x, rays.y)], -1)
    result[:, 24] = 1e-10 * support / q0
    result[:, 25] = checked
    result[~drawn] = 0.0
    result[~drawn, 18] = result[~drawn, 20] = -1.0
    return result.astype(color_alpha.dtype)


def _dot(a: Array, b: Array) -> Array:
    total: Array = np.sum(a * b, -1)
    return total


@dataclass(frozen=True)
class Rays:
    """Rays in the frames of splats, in sigmas: `x * (px - cx) + y * (py - cy) + center`."""

    eye: Array
    x: Array
    y: Array
    center: Array
    m: Array

    @classmethod
    def of(cls, pos_local: Array, inv_scale: Array, rotations: Array, camera: Camera) -> Rays:
        m = 3.0 * inv_scale.astype(np.float64)
        turned = np.einsum("nij,kj->nik", rotation(rotations), camera.frame) * m[:, :, None]
        eye = 3.0 * pos_local.astype(np.float64)
        x, y = turned[:, :, 0] / camera.focal, turned[:, :, 1] / camera.focal
        return cls(eye, x, y, turned[:, :, 2], m)

    def reference_point(self, width: int, height: int) -> tuple[Array, Array]:
        """Return where the centre is seen, from the middle of the screen, or near it.

        Rounded so that adding half the screen gives an f32.
        """
        a, b, z = (np.cross(self.eye, v) for v in (self.x, self.y, self.center))
        aa, ab, bb, az, bz = _dot(a, a), _dot(a, b), _dot(b, b), _dot(a, z), _dot(b, z)
        det = aa * bb - ab * ab
        known = det > 1e-12 * (aa + bb) ** 2
        safe = np.where(known, det, 1.0)
        x = np.where(known, -(bb * az - ab * bz) / safe, 0.0)
        y = np.where(known, -(aa * bz - ab * az) / safe, 0.0)
        x, y = np.clip(x, -1.5 * width, 1.5 * width), np.clip(y, -1.5 * height, 1.5 * height)
        x, y = ((v + 0.5 * n).astype(np.float32) for v, n in ((x, width), (y, height)))
        return x - 0.5 * width, y - 0.5 * height


def _triangular(a: Array, b: Array, z: Array) -> Array:
    """Return l00, l10, z0, l11, z1, zz of `|a x + b y + z|^2` by Gram and Schmidt."""
    l00 = np.sqrt(_dot(a, a))
    first = a / np.where(l00 > 0, l00, 1.0)[:, None]
    l10 = _dot(first, b)
    rest = b - l10[:, None] * first
    l11 = np.sqrt(_dot(rest, rest))
    second = rest / np.where(l11 > 0, l11, 1.0)[:, None]
    z0, z1 = _dot(first, z), _dot(second, z)
    left = z - z0[:, None] * first - z1[:, None] * second
    return np.stack([l00, l10, z0, l11, z1, _dot(left, left)], -1)


def _box(
    a: Array, b: Array, z: Array, e: tuple[Array, ...], half: Array, x: Array, y: Array,
    camera: Camera,
) -> tuple[Array, Array]:  # fmt: skip
    """Return first and last column and row of the pixels where alpha reaches the cutoff.

    Also whether these are in an ellipse: otherwise the splat crosses the camera's plane.
    """
    across, along, e00, e01, e11 = e
    g00, g01, g11 = (
        _dot(u, v) - half * part for u, v, part in ((a, a, e00), (a, b, e01), (b, b, e11))
    )
    g0, g1 = _dot(a, z) - half * across, _dot(b, z) - half * along
    det = g00 * g11 - g01 * g01
    closed = (g00 > 0) & (g11 > 0) & (det > 1e-12 * (g00 + g11) ** 2)
    safe = np.where(closed, det, 1.0)
    dx, dy = -(g11 * g0 - g01 * g1) / safe, -(g00 * g1 - g01 * g0) / safe
    height = np.maximum(-(_dot(z, z) - half + g0 * dx + g1 * dy), 0.0)
    sides = []
    for at, over, size in (
        (x + dx, g11, camera.width),
        (y + dy, g00, camera.height),
    ):
        reach = np.sqrt(np.maximum(height * over / safe, 0.0)) * 1.001 + 0.02
        middle = at + 0.5 * size - 0.5
        low = np.where(closed, np.clip(np.ceil(middle - reach), 0, size), 0)
        high = np.where(closed, np.clip(np.floor(middle + reach), -1, size - 1), size - 1)
        sides += [low, high]
    return np.stack(sides, -1), closed
