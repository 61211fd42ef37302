"""A small world of known geometry, and a ray tracer of it: what `examples.splat` photographs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SKY = np.array([0.55, 0.68, 0.85])
SUN = np.array([0.5, 0.8, 0.35]) / np.linalg.norm([0.5, 0.8, 0.35])
FAR = 1e9


@dataclass(frozen=True)
class Sphere:
    center: tuple[float, float, float]
    radius: float
    color: tuple[float, float, float]

    def intersect(self, origin: Array, ray: Array) -> tuple[Array, Array]:
        """Return distances along unit rays, `FAR` for none, and normals."""
        toward = origin - np.array(self.center)
        b = np.sum(ray * toward, -1)
        square = b * b - np.sum(toward * toward, -1) + self.radius**2
        t = -b - np.sqrt(np.maximum(square, 0.0))
        t = np.where((square > 0) & (t > 1e-4), t, FAR)
        return t, (origin + t[..., None] * ray - np.array(self.center)) / self.radius

    def paint(self, point: Array) -> Array:
        return np.broadcast_to(np.array(self.color), point.shape)


@dataclass(frozen=True)
class Box:
    low: tuple[float, float, float]
    high: tuple[float, float, float]
    color: tuple[float, float, float]
    checker: tuple[float, float, float] | None = None
    squares: float = 2.0

    def intersect(self, origin: Array, ray: Array) -> tuple[Array, Array]:
        safe = np.where(np.abs(ray) < 1e-9, 1e-9, ray)
        sides = [(np.array(corner) - origin) / safe for corner in (self.low, self.high)]
        near, far = np.minimum(*sides), np.maximum(*sides)
        enter, leave = near.max(-1), far.min(-1)
        t = np.where((enter < leave) & (enter > 1e-4), enter, FAR)
        axis = near.argmax(-1)
        normal = -np.sign(safe) * np.eye(3)[axis]
        return t, normal

    def paint(self, point: Array) -> Array:
        plain = np.broadcast_to(np.array(self.color), point.shape)
        if self.checker is None:
            return plain
        cell = np.floor(point[..., 0] * self.squares) + np.floor(point[..., 2] * self.squares)
        return np.where((cell % 2 == 0)[..., None], plain, np.array(self.checker))


WORLD = (
    Box((-1.8, -0.2, -1.8), (1.8, 0.0, 1.8), (0.82, 0.78, 0.7), (0.35, 0.42, 0.5)),
    Sphere((-0.7, 0.5, 0.3), 0.5, (0.85, 0.25, 0.2)),
    Sphere((0.75, 0.35, 0.75), 0.35, (0.2, 0.6, 0.3)),
    Sphere((0.2, 0.22, -1.1), 0.22, (0.9, 0.75, 0.2)),
    Box((0.3, 0.0, -0.7), (0.9, 1.1, -0.1), (0.3, 0.35, 0.8)),
    Box((-1.4, 0.0, -1.2), (-0.8, 0.4, -0.6), (0.7, 0.45, 0.75)),
)


def orbit(count: int, radius: float = 4.4) -> Array:
    """Return positions around the world, at three heights in turn."""
    angle = 2.0 * np.pi * np.arange(count) / count
    height = np.array([1.1, 1.9, 2.7])[np.arange(count) % 3]
    flat = np.sqrt(radius**2 - height**2)
    return np.stack([flat * np.cos(angle), height, flat * np.sin(angle)], -1)


TARGET = np.array([0.0, 0.25, 0.0])


def photograph(position: Array, width: int, height: int, fov: float, samples: int = 2) -> Array:
    """Return what a camera sees, as displays show it: `[height, width, 3]` between 0 and 1."""
    forward = (TARGET - position) / np.linalg.norm(TARGET - position)
    right = np.cross(forward, [0.0, 1.0, 0.0])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    focal = 0.5 * height * samples / np.tan(0.5 * np.deg2rad(fov))
    x = np.arange(width * samples) + 0.5 - 0.5 * width * samples
    y = np.arange(height * samples) + 0.5 - 0.5 * height * samples
    ray = forward + x[None, :, None] / focal * right + y[:, None, None] / focal * down
    ray /= np.linalg.norm(ray, axis=-1, keepdims=True)
    fine = shade(np.broadcast_to(position, ray.shape), ray)
    image: Array = fine.reshape(height, samples, width, samples, 3).mean((1, 3))
    return image


def shade(origin: Array, ray: Array) -> Array:
    """Return the light of rays: sun with shadows, and a sky that reaches everywhere."""
    distance, color = np.full(ray.shape[:-1], FAR), np.broadcast_to(SKY, ray.shape)
    for thing in WORLD:
        t, normal = thing.intersect(origin, ray)
        closer = t < distance
        point = origin + np.where(closer, t, 0.0)[..., None] * ray
        start = point + 1e-3 * normal
        toward_sun = np.broadcast_to(SUN, ray.shape)
        lit = np.ones(t.shape, bool)
        for other in WORLD:
            lit &= other.intersect(start, toward_sun)[0] >= FAR
        light = (
            0.45 + 0.1 * normal[..., 1] + 0.45 * np.where(lit, np.maximum(normal @ SUN, 0.0), 0.0)
        )
        color = np.where(closer[..., None], thing.paint(point) * light[..., None], color)
        distance = np.where(closer, t, distance)
    shown: Array = np.clip(color, 0.0, 1.0)
    return shown
