"""Arithmetic of splats in f64, on expressions of kernels and on NumPy arrays.

One formula is that of a kernel, in lanes over splats, and that of the reference, over arrays with
an element for each splat. Sums and products of either are written with operators; what they have
under other names is here, and vectors of three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from rlx.custom import kernels
from rlx.custom.kernels import E, Prim, UnaryOp, build_function, call, const

Number: TypeAlias = Any
"""An expression, or an array with an element for each splat."""
Vector: TypeAlias = tuple[Number, Number, Number]
Matrix: TypeAlias = tuple[Vector, Vector, Vector]

C0, C1 = 0.28209479177387814, 0.4886025119029199
HARMONICS = ((1, -1.0), (2, 1.0), (0, -1.0))
"""Axis and sign of the direction that coefficients 1, 2 and 3 are multiplied with."""


class Names(Protocol):
    """Where intermediate results are named: a kernel under construction, or nowhere."""

    def let(self, name: str, value: Number) -> Number:
        """Return a value that is computed once."""
        ...


class Operand(Protocol):
    """The row of an operand that belongs to a splat, or such rows of all splats."""

    @property
    def width(self) -> int:
        """Numbers of a row."""
        ...

    def number(self, column: int, name: str) -> Number:
        """Return a number of the row as f64."""
        ...


def vector(operand: Operand, name: str, first: int = 0) -> Vector:
    """Return three consecutive numbers."""
    x, y, z = (operand.number(first + c, f"{name}_{axis}") for c, axis in enumerate("xyz"))
    return x, y, z


def quaternion(operand: Operand) -> list[Number]:
    """Return w, x, y and z."""
    return [operand.number(c, f"q_{name}") for c, name in enumerate("wxyz")]


# Numbers


def select(condition: Number, a: Number, b: Number) -> Number:
    if not isinstance(condition, E):
        return np.where(condition, a, b)
    return kernels.select(condition, const(a, Prim.F64) if isinstance(a, float) else a, b)


def maximum(a: Number, b: Number) -> Number:
    """`a > b ? a : b`."""
    if isinstance(a, E) or isinstance(b, E):
        return kernels.maximum(a, b)
    return np.where(a > b, a, b)


def minimum(a: Number, b: Number) -> Number:
    """`a < b ? a : b`."""
    if isinstance(a, E) or isinstance(b, E):
        return kernels.minimum(a, b)
    return np.where(a < b, a, b)


def clamped(x: Number, low: float, high: float) -> Number:
    """Return `x` within bounds; NaN stays."""
    return maximum(low, minimum(high, x))


def function(name: str, x: Number) -> Number:
    """Return a function of NumPy's by its name."""
    return call(build_function(name, x.type.prim), x) if isinstance(x, E) else getattr(np, name)(x)


def root(x: Number) -> Number:
    return x.unary(UnaryOp.SQRT) if isinstance(x, E) else np.sqrt(x)


def floor(x: Number) -> Number:
    return x.unary(UnaryOp.FLOOR) if isinstance(x, E) else np.floor(x)


def ceil(x: Number) -> Number:
    return x.unary(UnaryOp.CEIL) if isinstance(x, E) else np.ceil(x)


def rounded(x: Number) -> Number:
    """Return the nearest f32."""
    if isinstance(x, E):
        return x.cast(Prim.F32).cast(Prim.F64)
    return x.astype(np.float32).astype(np.float64)


def is_finite(x: Number) -> Number:
    return (x - x).eq(0.0) if isinstance(x, E) else np.isfinite(x)


# Vectors


def named(k: Names, name: str, v: Sequence[Number]) -> Vector:
    """Bind the components of a vector to names; literals need none."""
    x, y, z = (
        part if isinstance(part, float) else k.let(f"{name}_{axis}", part)
        for axis, part in zip("xyz", v, strict=True)
    )
    return x, y, z


def dot(a: Sequence[Number], b: Sequence[Number]) -> Number:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def plus(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scaled(a: Vector, factor: Number) -> Vector:
    return a[0] * factor, a[1] * factor, a[2] * factor


def product(a: Vector, b: Vector) -> Vector:
    """Multiply component by component."""
    return a[0] * b[0], a[1] * b[1], a[2] * b[2]


def times(m: Matrix, v: Vector) -> Vector:
    return dot(m[0], v), dot(m[1], v), dot(m[2], v)


def transposed(m: Matrix) -> Matrix:
    (a, b, c), (d, e, f), (g, h, i) = m
    return (a, d, g), (b, e, h), (c, f, i)


def unit(k: Names, v: Vector, name: str) -> Vector:
    """Return `v` at length 1, or (0, 0, 1) for what has no direction."""
    length = k.let(f"{name}_length", root(dot(v, v)))
    has = k.let(f"{name}_known", length > 1e-8)
    safe = k.let(f"{name}_divisor", select(has, length, 1.0))
    ahead = (0.0, 0.0, 1.0)
    return named(k, name, [select(has, c / safe, a) for c, a in zip(v, ahead, strict=True)])


def rotation(k: Names, q: Sequence[Number]) -> Matrix:
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
    focal: Number
    width: int
    height: int

    @classmethod
    def of(cls, k: Names, meta: Operand, width: int, height: int) -> Camera:
        position = vector(meta, "camera")
        forward = unit(k, minus(vector(meta, "target", 3), position), "forward")
        right = unit(k, cross(unit(k, vector(meta, "up", 6), "sky"), forward), "right")
        up = unit(k, cross(forward, right), "upward")
        half_view = meta.number(9, "degrees") * (0.5 * math.pi / 180.0)
        focal = k.let("focal", (0.5 * height) / function("tan", half_view))
        return cls(position, (right, up, forward), focal, width, height)
