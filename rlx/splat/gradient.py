"""From the sums of each splat to the cotangents of its parameters.

alpha = o exp(-|n|^2 / (2 w.w)), where w = m M r is the ray r of a pixel in the frame of the
splat, in sigmas, n = u x w, and u the camera there. The moments are sums over pixels of the
derivatives by n and by w, which are linear in the pixel's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlx.splat.arithmetic import (
    C0,
    C1,
    HARMONICS,
    Camera,
    Matrix,
    Names,
    Number,
    Operand,
    Vector,
    cross,
    dot,
    function,
    maximum,
    minus,
    named,
    plus,
    product,
    quaternion,
    root,
    rotation,
    scaled,
    select,
    times,
    transposed,
    vector,
)
from rlx.splat.each_splat import EachSplat, Splat
from rlx.splat.layout import MOMENT_NAMES, POWERS

_RAYS = ("ray_0", "ray_column", "ray_row")
"""Rays in the frame of a splat: of the reference point, and their change per column and row."""


def _project_backward(
    k: Names, splat: Splat, *, radius_scale: float
) -> Iterator[tuple[str, Sequence[Number]]]:
    camera, coefficients, fallback = splat.camera, splat["coefficients"], splat.flags["uses_colors"]
    sums = [splat["moments"].number(m, f"sum_{name}") for m, name in enumerate(MOMENT_NAMES)]
    shown = coefficients.number(13, "shown")
    drawn = k.let("drawn", shown > 0.0)
    at = [coefficients.number(c, f"at_{'xy'[c]}") for c in range(2)]
    offset = minus(camera.position, vector(splat["positions"], "position"))
    relative = named(k, "relative", [select(drawn, part, 1.0) for part in offset])
    log_scale = vector(splat["scales"], "log_scale")
    q = quaternion(splat["rotations"])
    shape = _Shape.of(k, camera, at, relative, log_scale, q, radius_scale)
    d_position, d_scale, d_q = shape.pull_back(k, sums)
    color = _Color.of(k, relative, splat["sh_coeffs"])
    d_toward = [0.0, 0.0, 0.0]
    for number, harmonic in enumerate(color.sh):
        factor, where = color.factor(k, number), drawn if number else drawn & ~fallback
        yield "d_sh_coeffs", _where(where, [factor * d for d in sums[:3]])
        if 0 < number <= len(HARMONICS):
            axis, sign = HARMONICS[number - 1]
            d_toward[axis] = sign * C1 * dot(sums[:3], harmonic)
    if len(color.sh) > 1:
        d_position = minus(d_position, color.turned(k, named(k, "d_toward", d_toward)))
    yield "d_positions", _where(drawn, d_position)
    yield "d_scales", _where(drawn, d_scale)
    yield "d_rotations", _where(drawn, d_q)
    opacity = splat["opacities"].number(0, "opacity")
    inside = drawn & (opacity >= 0.0) & (opacity <= 1.0)
    yield "d_opacities", _where(inside, [sums[3] / shown])
    for channel in range(3):
        plain = splat["colors"].number(channel, "plain")
        takes = fallback & (plain >= 0.0) & (plain <= 1.0)
        yield "d_colors", _where(takes, [sums[channel]])


def _where(condition: Number, values: Sequence[Number]) -> list[Number]:
    return [select(condition, value, 0.0) for value in values]


PROJECT_BACKWARD = EachSplat(
    _project_backward,
    (
        *("moments", "coefficients", "positions", "scales", "rotations", "opacities", "colors"),
        *("sh_coeffs", "uses_colors", "meta"),
    ),
    ("d_positions", "d_scales", "d_rotations", "d_opacities", "d_colors", "d_sh_coeffs"),
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The camera and its rays in the frame of a splat."""

    relative: Vector
    turned: Matrix
    m: Vector
    fixed: tuple[Number, Number, Number]
    """Whether each scale is so small that it does not count."""
    u: Vector
    rays: Sequence[Vector]
    """In the world: the ray of the reference point, and its change per column and row."""
    w: Sequence[Vector]
    q: Sequence[Number]

    @classmethod
    def of(
        cls, k: Names, camera: Camera, at: Sequence[Number], relative: Vector,
        log_scale: Vector, q: Sequence[Number], radius_scale: float,
    ) -> _Shape:  # fmt: skip
        sigma = named(k, "sigma", [radius_scale * function("exp", s) for s in log_scale])
        m = named(k, "m", [3.0 / maximum(1e-6, 3.0 * s) for s in sigma])
        fixed = tuple(
            k.let(f"fixed_{axis}", 3.0 * s <= 1e-6) for axis, s in zip("xyz", sigma, strict=True)
        )
        turned = rotation(k, q)
        u = named(k, "u", product(m, times(turned, relative)))
        right, up, forward = camera.frame
        inverse = k.let("per_pixel", 1.0 / camera.focal)
        x, y = (at[0] - 0.5 * camera.width) * inverse, (at[1] - 0.5 * camera.height) * inverse
        center = named(k, "ray", plus(plus(scaled(right, x), scaled(up, y)), forward))
        rays = [center, scaled(right, inverse), scaled(up, inverse)]
        w = [
            named(k, name, product(m, times(turned, ray)))
            for name, ray in zip(_RAYS, rays, strict=True)
        ]
        return cls(relative, turned, m, (fixed[0], fixed[1], fixed[2]), u, rays, w, q)

    def pull_back(
        self, k: Names, sums: Sequence[Number]
    ) -> tuple[Vector, Vector, Sequence[Number]]:
        """Return the cotangents of position, logarithms of scales, and rotation."""
        q0 = k.let("q0", dot(self.w[0], self.w[0]))
        inverse = k.let("inverse", 1.0 / select(q0 > 0.0, q0, 1.0))
        n = [
            named(k, f"u_cross_{name}", cross(self.u, w))
            for name, w in zip(_RAYS, self.w, strict=True)
        ]
        p_n = _combined(k, "distance", [0.5 * inverse * s for s in sums[4:10]], n)
        q_w = _combined(k, "span", [inverse * s for s in sums[10:16]], self.w)
        turns = [cross(w, p) for w, p in zip(self.w, p_n, strict=True)]
        d_u = named(k, "d_u", scaled(plus(plus(turns[0], turns[1]), turns[2]), -2.0))
        d_w = [
            named(k, f"d_{name}", plus(scaled(cross(p, self.u), -2.0), scaled(q, 2.0)))
            for name, p, q in zip(_RAYS, p_n, q_w, strict=True)
        ]
        moved = product(d_u, self.u)
        for d, w in zip(d_w, self.w, strict=True):
            moved = plus(moved, product(d, w))
        d_scale = [select(fixed, 0.0, -part) for fixed, part in zip(self.fixed, moved, strict=True)]
        weighted = named(k, "m_d_u", product(self.m, d_u))
        d_relative = times(transposed(self.turned), weighted)
        d_position = scaled(d_relative, -1.0)
        return d_position, (d_scale[0], d_scale[1], d_scale[2]), self._turn(k, weighted, d_w)

    def _turn(self, k: Names, d_u: Vector, d_w: Sequence[Vector]) -> Sequence[Number]:
        """Return the cotangent of the quaternion from that of its matrix."""
        pulled = [
            named(k, f"m_d_{name}", product(self.m, d)) for name, d in zip(_RAYS, d_w, strict=True)
        ]
        d = [
            [
                k.let(f"d_m{row}_{'xyz'[column]}", d_u[row] * self.relative[column] + dot(
                    [p[row] for p in pulled], [ray[column] for ray in self.rays]))
                for column in range(3)
            ]
            for row in range(3)
        ]  # fmt: skip
        w, *a = self.q
        turn = [k.let(f"turn_{'xyz'[c]}", d[(c + 1) % 3][(c + 2) % 3] - d[(c + 2) % 3][(c + 1) % 3])
                for c in range(3)]  # fmt: skip
        trace = k.let("trace", d[0][0] + d[1][1] + d[2][2])
        around = [dot([d[r][c] + d[c][r] for c in range(3)], a) for r in range(3)]
        d_a = [2.0 * around[c] - 4.0 * a[c] * trace + 2.0 * w * turn[c] for c in range(3)]
        return [2.0 * dot(turn, a), *d_a]


def _combined(
    k: Names, of: str, moments: Sequence[Number], vectors: Sequence[Vector]
) -> Sequence[Vector]:
    """Multiply the matrix of the sums of 1, x, y, x^2, x y, y^2 with three vectors."""
    one, x, y, xx, xy, yy = (
        k.let(f"{of}_{power}", moment) for power, moment in zip(POWERS, moments, strict=True)
    )
    return [
        named(k, f"{of}_{name}", [dot(row, [v[axis] for v in vectors]) for axis in range(3)])
        for name, row in zip(_RAYS, ((one, x, y), (x, xx, xy), (y, xy, yy)), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Color:
    """The direction that a splat is seen from, and its harmonics."""

    toward: Vector
    distance: Number
    apart: Number
    sh: Sequence[Sequence[Number]]

    @classmethod
    def of(cls, k: Names, relative: Vector, sh: Operand) -> _Color:
        distance = k.let("distance", root(dot(relative, relative)))
        apart = k.let("apart", distance > 1e-8)
        safe = k.let("divisor", select(apart, distance, 1.0))
        toward = named(k, "toward", [select(apart, part / safe, 0.0) for part in relative])
        harmonics = [
            [sh.number(first + c, "harmonic") for c in range(3)] for first in range(0, sh.width, 3)
        ]
        return cls(toward, safe, apart, harmonics)

    def factor(self, k: Names, number: int) -> Number:
        """Return what the colour has of a harmonic."""
        if number == 0:
            return C0
        if number > len(HARMONICS):
            return 0.0
        axis, sign = HARMONICS[number - 1]
        return k.let("factor", sign * C1 * self.toward[axis])

    def turned(self, k: Names, d: Vector) -> Vector:
        """Return the cotangent of the vector to the camera from that of its direction."""
        along = k.let("along", dot(self.toward, d))
        across = minus(d, scaled(self.toward, along))
        return named(
            k, "turned", [select(self.apart, part / self.distance, 0.0) for part in across]
        )
