"""From the sums of each splat to the cotangents of its parameters, in lanes over splats.

alpha = o exp(-|n|^2 / (2 w.w)), where w = m M r is the ray r of a pixel in the frame of the
splat, in sigmas, n = u x w, and u the camera there. The moments are sums over pixels of the
derivatives by n and by w, which are linear in the pixel's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlx.custom.kernels import (
    Buffer,
    E,
    KernelBuilder,
    Prim,
    Reader,
    Scope,
    Writer,
    const,
    given,
    maximum,
    result,
    row_count,
    select,
    upper,
)
from rlx.splat.kernels.frame import (
    C0,
    C1,
    HARMONICS,
    Camera,
    Matrix,
    Vector,
    cross,
    dot,
    each_splat,
    function,
    minus,
    named,
    plus,
    product,
    quaternion,
    root,
    rotation,
    scaled,
    times,
    transposed,
    vector,
    wide,
)
from rlx.splat.layout import COEFFICIENTS, MOMENT_NAMES, MOMENTS, POWERS

_RAYS = ("ray_0", "ray_column", "ray_row")
"""Rays in the frame of a splat: of the reference point, and their change per column and row."""


def splat_project_backward(
    scope: Scope,
    moments: Reader,
    coefficients: Reader,
    positions: Reader,
    scales: Reader,
    rotations: Reader,
    opacities: Reader,
    colors: Reader,
    sh_coeffs: Reader,
    uses_colors: Reader,
    meta: Reader,
    d_positions: Writer,
    d_scales: Writer,
    d_rotations: Writer,
    d_opacities: Writer,
    d_colors: Writer,
    d_sh_coeffs: Writer,
    *,
    width: int,
    height: int,
    radius_scale: float,
) -> None:
    k = scope.k
    camera = Camera.of(k, given(meta), width, height)
    fallback = k.let("uses_colors", k.load(given(uses_colors), 0))
    with each_splat(scope, row_count(positions)) as i:
        sums = [
            k.let(f"sum_{name}", k.load(given(moments), i * MOMENTS + m))
            for m, name in enumerate(MOMENT_NAMES)
        ]
        shown = wide(k, given(coefficients), i * COEFFICIENTS + 13, "shown")
        drawn = k.let("drawn", shown > 0.0)
        at = [wide(k, given(coefficients), i * COEFFICIENTS + c, f"at_{'xy'[c]}") for c in range(2)]
        position = vector(k, given(positions), i * 3, "position")
        offset = minus(camera.position, position)
        relative = named(k, "relative", [select(drawn, part, 1.0) for part in offset])
        log_scale = vector(k, given(scales), i * 3, "log_scale")
        q = quaternion(k, given(rotations), i * 4)
        shape = _Shape.of(k, camera, at, relative, log_scale, q, radius_scale)
        d_position, d_scale, d_q = shape.pull_back(k, sums)
        color = _Color.of(k, i, relative, given(sh_coeffs), upper(sh_coeffs.shape[1]))
        turned = color.pull_back(k, sums[:3], result(d_sh_coeffs), i, fallback, drawn)
        if turned is not None:
            d_position = minus(d_position, turned)
        _store(k, result(d_positions), i * 3, d_position, drawn)
        _store(k, result(d_scales), i * 3, d_scale, drawn)
        _store(k, result(d_rotations), i * 4, d_q, drawn)
        opacity = wide(k, given(opacities), i, "opacity")
        inside = drawn & (opacity >= 0.0) & (opacity <= 1.0)
        _store(k, result(d_opacities), i, [sums[3] / shown], inside)
        for channel in range(3):
            plain = k.load(given(colors), i * 3 + channel)
            takes = fallback & (plain >= 0.0) & (plain <= 1.0)
            _store(k, result(d_colors), i * 3 + channel, [sums[channel]], takes)


def _store(k: KernelBuilder, buffer: Buffer, at: E, values: Sequence[E], where: E) -> None:
    """Store what holds where `where`, else zero."""
    for column, value in enumerate(values):
        k.store(buffer, at + column, select(where, value, 0.0).cast(Prim.F32))


@dataclass(frozen=True, slots=True)
class _Shape:
    """The camera and its rays in the frame of a splat."""

    relative: Vector
    turned: Matrix
    m: Vector
    fixed: tuple[E, E, E]
    """Whether each scale is so small that it does not count."""
    u: Vector
    rays: Sequence[Vector]
    """In the world: the ray of the reference point, and its change per column and row."""
    w: Sequence[Vector]
    q: Sequence[E]

    @classmethod
    def of(
        cls, k: KernelBuilder, camera: Camera, at: Sequence[E], relative: Vector,
        log_scale: Vector, q: Sequence[E], radius_scale: float,
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

    def pull_back(self, k: KernelBuilder, sums: Sequence[E]) -> tuple[Vector, Vector, Sequence[E]]:
        """Return the cotangents of position, logarithms of scales, and rotation."""
        q0 = k.let("q0", dot(self.w[0], self.w[0]))
        inverse = k.let("inverse", 1.0 / select(q0 > 0.0, q0, 1.0))
        n = [
            named(k, f"u_cross_{name}", cross(self.u, w))
            for name, w in zip(_RAYS, self.w, strict=True)
        ]
        p_n = _combined(k, "distance", [0.5 * inverse * s for s in sums[4:10]], n)
        q_w = _combined(k, "span", [inverse * s for s in sums[10:16]], self.w)
        minus_two, two = const(-2.0, Prim.F64), const(2.0, Prim.F64)
        turns = [cross(w, p) for w, p in zip(self.w, p_n, strict=True)]
        d_u = named(k, "d_u", scaled(plus(plus(turns[0], turns[1]), turns[2]), minus_two))
        d_w = [
            named(k, f"d_{name}", plus(scaled(cross(p, self.u), minus_two), scaled(q, two)))
            for name, p, q in zip(_RAYS, p_n, q_w, strict=True)
        ]
        moved = product(d_u, self.u)
        for d, w in zip(d_w, self.w, strict=True):
            moved = plus(moved, product(d, w))
        d_scale = [select(fixed, 0.0, -part) for fixed, part in zip(self.fixed, moved, strict=True)]
        weighted = named(k, "m_d_u", product(self.m, d_u))
        d_relative = times(transposed(self.turned), weighted)
        d_position = scaled(d_relative, const(-1.0, Prim.F64))
        return d_position, (d_scale[0], d_scale[1], d_scale[2]), self._turn(k, weighted, d_w)

    def _turn(self, k: KernelBuilder, d_u: Vector, d_w: Sequence[Vector]) -> Sequence[E]:
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
    k: KernelBuilder, of: str, moments: Sequence[E], vectors: Sequence[Vector]
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
    distance: E
    apart: E
    sh: Sequence[Sequence[E]]

    @classmethod
    def of(cls, k: KernelBuilder, i: E, relative: Vector, sh: Buffer, count: int) -> _Color:
        distance = k.let("distance", root(dot(relative, relative)))
        apart = k.let("apart", distance > 1e-8)
        safe = k.let("divisor", select(apart, distance, 1.0))
        toward = named(k, "toward", [select(apart, part / safe, 0.0) for part in relative])
        harmonics = [
            [wide(k, sh, i * (3 * count) + (3 * number + c), "harmonic") for c in range(3)]
            for number in range(count)
        ]
        return cls(toward, safe, apart, harmonics)

    def pull_back(
        self, k: KernelBuilder, d_rgb: Sequence[E], d_sh: Buffer, i: E, fallback: E, drawn: E
    ) -> Vector | None:
        """Store the cotangents of the harmonics; return that of the vector to the camera.

        None where the colour is the same from everywhere.
        """
        count = len(self.sh)
        zero = const(0.0, Prim.F64)
        d_toward = [zero, zero, zero]
        for number, harmonic in enumerate(self.sh):
            factor = zero
            where = drawn
            if number == 0:
                factor, where = const(C0, Prim.F64), drawn & ~fallback
            elif number <= len(HARMONICS):
                axis, sign = HARMONICS[number - 1]
                factor = k.let("factor", sign * C1 * self.toward[axis])
                d_toward[axis] = sign * C1 * dot(d_rgb, harmonic)
            row = i * (3 * count) + 3 * number
            _store(k, d_sh, row, [factor * d for d in d_rgb], where)
        if count == 1:
            return None
        d = named(k, "d_toward", d_toward)
        along = k.let("along", dot(self.toward, d))
        across = minus(d, scaled(self.toward, along))
        return named(
            k, "turned", [select(self.apart, part / self.distance, 0.0) for part in across]
        )
