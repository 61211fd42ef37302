"""The camera of Gaussian splatting: its frame, and the rays of pixels, as formulas."""

from __future__ import annotations

import math

from rlx.custom import TensorType, Value, ops


def pixel_rays(meta: Value, width: int, height: int) -> Value:
    """Return the unit ray of every pixel in the world, `[height, width, 3]`."""
    right, up, forward, focal = camera_frame(meta, height)
    columns, rows = (
        meta.graph.iota(type=TensorType(meta.dtype, (height, width, 1)), axis=axis)
        for axis in (1, 0)
    )
    x = (columns + (0.5 - 0.5 * width)) / focal
    y = (rows + (0.5 - 0.5 * height)) / focal
    ray = x * right + y * up + forward
    return ray / ops.sqrt(_summed(ray * ray))


def camera_frame(meta: Value, height: int) -> tuple[Value, Value, Value, Value]:
    """Return the camera's right, up and forward, and its focal length in pixels."""
    position, target, up = (ops.narrow(meta, axis=0, start=3 * i, length=3) for i in range(3))
    forward = _unit(target - position)
    right = _unit(_cross(_unit(up), forward))
    degrees = ops.narrow(meta, axis=0, start=9, length=1)
    focal = (0.5 * height) / ops.tan(degrees * (math.pi / 360.0))
    return right, _unit(_cross(forward, right)), forward, focal


def _unit(v: Value) -> Value:
    """Return `v` at length 1, or (0, 0, 1) for what has no direction."""
    length = ops.sqrt(_summed(v * v))
    wide = ops.expand(length, shape=v.shape)
    ahead = v.graph.iota(type=TensorType(v.dtype, v.shape), axis=0) * 0.5
    ahead = ops.where(ops.gt(ahead, 0.75), 1.0, 0.0)
    return ops.where(ops.gt(wide, 1e-8), v / ops.where(ops.gt(wide, 1e-8), wide, 1.0), ahead)


def _cross(a: Value, b: Value) -> Value:
    (ax, ay, az), (bx, by, bz) = _components(a), _components(b)
    return ops.concat(ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx, axis=0)


def _components(v: Value) -> list[Value]:
    return [ops.narrow(v, axis=0, start=i, length=1) for i in range(3)]


def _summed(v: Value) -> Value:
    """Return the sum over the last axis, which stays."""
    summed = ops.reduce_sum(v, axes=(v.rank - 1,), keepdims=True)
    return ops.reshape(summed, shape=(*v.shape[:-1], 1))
