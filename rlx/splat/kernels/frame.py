"""Vectors of three in kernels, and what the Gaussian splatting kernels share.

Splats are computed in f64, in lanes; what is stored as f32 is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from rlx.custom.kernels import (
    Buffer,
    E,
    KernelBuilder,
    LoopKind,
    Prim,
    Scope,
    UnaryOp,
    blocks,
    build_function,
    call,
    const,
    maximum,
    minimum,
    select,
    vectorize,
)

Vector: TypeAlias = tuple[E, E, E]
Matrix: TypeAlias = tuple[Vector, Vector, Vector]

C0, C1 = 0.28209479177387814, 0.4886025119029199
HARMONICS = ((1, -1.0), (2, 1.0), (0, -1.0))
"""Axis and sign of the direction that coefficients 1, 2 and 3 are multiplied with."""
_WORK_PER_SPLAT = 256
"""Elements of plain loops that projecting one splat costs as much as."""


_VECTOR_BYTES = 32
"""Four splats at a time: compilers of C do not find vectors in loops as long as these."""


@contextmanager
def each_splat(scope: Scope, rows: int) -> Iterator[E]:
    """Open the loops over splats: blocks for threads, in lanes."""
    k = scope.k
    count = const(rows, Prim.I64)
    vector_bytes = _VECTOR_BYTES if scope.target.has_vectors else 0
    scope.passes.append(partial(vectorize, vector_bytes=vector_bytes))
    with (
        blocks(k, count, rows * _WORK_PER_SPLAT, size=512) as (start, stop),
        k.loop("i", stop, start=start, kind=LoopKind.SIMD) as i,
    ):
        yield i


# Arithmetic


def wide(k: KernelBuilder, buffer: Buffer, at: E, name: str) -> E:
    """Load an f32 as f64."""
    return k.let(name, k.load(buffer, at).cast(Prim.F64))


def vector(k: KernelBuilder, buffer: Buffer, at: E, name: str) -> Vector:
    """Load three consecutive numbers as f64."""
    x, y, z = (wide(k, buffer, at + axis, f"{name}_{'xyz'[axis]}") for axis in range(3))
    return x, y, z


def quaternion(k: KernelBuilder, buffer: Buffer, at: E) -> list[E]:
    """Load w, x, y and z as f64."""
    return [wide(k, buffer, at + c, f"q_{name}") for c, name in enumerate("wxyz")]


def named(k: KernelBuilder, name: str, v: Sequence[E]) -> Vector:
    """Bind the components of a vector to names."""
    x, y, z = (k.let(f"{name}_{axis}", part) for axis, part in zip("xyz", v, strict=True))
    return x, y, z


def dot(a: Sequence[E], b: Sequence[E]) -> E:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def plus(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scaled(a: Vector, factor: E) -> Vector:
    return a[0] * factor, a[1] * factor, a[2] * factor


def product(a: Vector, b: Vector) -> Vector:
    """Multiply component by component."""
    return a[0] * b[0], a[1] * b[1], a[2] * b[2]


def times(m: Matrix, v: Vector) -> Vector:
    return dot(m[0], v), dot(m[1], v), dot(m[2], v)


def transposed(m: Matrix) -> Matrix:
    (a, b, c), (d, e, f), (g, h, i) = m
    return (a, d, g), (b, e, h), (c, f, i)


def root(x: E) -> E:
    return x.unary(UnaryOp.SQRT)


def function(name: str, x: E) -> E:
    return call(build_function(name, x.type.prim), x)


def clamped(x: E, low: float, high: float) -> E:
    """Return `x` within bounds; NaN stays."""
    return maximum(low, minimum(high, x))


def is_finite(x: E) -> E:
    return (x - x).eq(0.0)


def unit(k: KernelBuilder, v: Vector, name: str) -> Vector:
    """Return `v` at length 1, or (0, 0, 1) for what has no direction."""
    length = k.let(f"{name}_length", root(dot(v, v)))
    has = k.let(f"{name}_known", length > 1e-8)
    safe = k.let(f"{name}_divisor", select(has, length, 1.0))
    ahead = (0.0, 0.0, 1.0)
    return named(k, name, [select(has, c / safe, a) for c, a in zip(v, ahead, strict=True)])


def rotation(k: KernelBuilder, q: Sequence[E]) -> Matrix:
    """Return the matrix that turns world vectors into the frame of a quaternion (w, x, y, z)."""
    w, x, y, z = q
    scale = k.let("keep", 1.0 - 2.0 * (x * x + y * y + z * z))
    xy, xz, yz = 2.0 * x * y, 2.0 * x * z, 2.0 * y * z
    wx, wy, wz = 2.0 * w * x, 2.0 * w * y, 2.0 * w * z
    return (
        named(k, "m0", (scale + 2.0 * x * x, xy + wz, xz - wy)),
        named(k, "m1", (xy - wz, scale + 2.0 * y * y, yz + wx)),
        named(k, "m2", (xz + wy, yz - wx, scale + 2.0 * z * z)),
    )


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole: rows of `frame` are right, up and forward in the world."""

    position: Vector
    frame: Matrix
    focal: E
    width: int
    height: int

    @classmethod
    def of(cls, k: KernelBuilder, meta: Buffer, width: int, height: int) -> Camera:
        def at(first: int, name: str) -> Vector:
            return vector(k, meta, const(first, Prim.I64), name)

        position = at(0, "camera")
        forward = unit(k, minus(at(3, "target"), position), "forward")
        right = unit(k, cross(unit(k, at(6, "up"), "sky"), forward), "right")
        up = unit(k, cross(forward, right), "upward")
        degrees = wide(k, meta, const(9, Prim.I64), "degrees")
        half_view = degrees * (0.5 * math.pi / 180.0)
        focal = k.let("focal", (0.5 * height) / function("tan", half_view))
        return cls(position, (right, up, forward), focal, width, height)
