"""Gaussian splatting, splat by splat: how the camera sees each, and what its alpha is made of."""

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
    Vector,
    ceil,
    clamped,
    cross,
    dot,
    floor,
    function,
    is_finite,
    maximum,
    minimum,
    minus,
    named,
    plus,
    product,
    quaternion,
    root,
    rotation,
    rounded,
    scaled,
    select,
    times,
    vector,
)
from rlx.splat.each_splat import EachSplat, Splat
from rlx.splat.layout import COEFFICIENTS

_FAR = 3.4028234663852886e38
NOTHING, ELLIPSE, EVERYWHERE = 0.0, 1.0, 2.0
"""Kinds of outline."""
SLACK = 1e-6


def _project(
    k: Names, splat: Splat, *, radius_scale: float, alpha_cutoff: float
) -> Iterator[tuple[str, Sequence[Number]]]:
    camera = splat.camera
    position = vector(splat["positions"], "position")
    relative = named(k, "relative", minus(camera.position, position))
    distance = k.let("distance", root(dot(relative, relative)))
    rgb = _color(k, splat, _direction(k, relative, distance))
    opacity = splat["opacities"].number(0, "opacity")
    yield "color_alpha", [*rgb, opacity]
    log_scale = vector(splat["scales"], "log_scale")
    sigma = named(k, "sigma", [radius_scale * function("exp", s) for s in log_scale])
    inverse = named(k, "inverse", [1.0 / maximum(1e-6, 3.0 * s) for s in sigma])
    q = quaternion(splat["rotations"])
    turned = rotation(k, q)
    local = named(k, "local", times(turned, relative))
    yield "pos_local", product(local, inverse)
    yield "inv_scale", inverse
    shown = k.let("shown", clamped(opacity, 0.0, 1.0))
    depth = k.let("depth", -dot(camera.frame[2], relative))
    numbers = [*position, *log_scale, *q, opacity]
    sound = is_finite(numbers[0])
    for number in numbers[1:]:
        sound = sound & is_finite(number)
    sound = k.let("sound", sound & (shown >= alpha_cutoff) & (depth > 1e-4))
    safe = select(sound, shown, 1.0)
    support = k.let("support", root(-2.0 * function("log", alpha_cutoff / safe)))
    axes = named(k, "axis", [maximum(s * support, 1e-6) for s in sigma])
    outline = _Outline.of(k, camera, local, axes, turned, relative)
    inside = k.let("valid", sound & outline.inside)
    yield "valid", [inside]
    yield "outlines", [select(inside, number, 0.0) for number in outline.numbers]
    drawn = inside & (outline.numbers[7] > NOTHING)
    yield "distances", [select(drawn, distance, _FAR)]


PROJECT = EachSplat(
    _project,
    (
        *("positions", "scales", "rotations", "opacities", "colors", "sh_coeffs"),
        *("uses_colors", "meta"),
    ),
    ("color_alpha", "valid", "pos_local", "inv_scale", "outlines", "distances"),
    wide=("outlines",),
)


def _direction(k: Names, relative: Vector, distance: Number) -> Vector:
    """Return the unit vector towards the camera, 0 where it is at the splat."""
    apart = k.let("apart", distance > 1e-8)
    divisor = k.let("divisor", select(apart, distance, 1.0))
    return named(k, "toward", [select(apart, part / divisor, 0.0) for part in relative])


def _color(k: Names, splat: Splat, toward: Vector) -> list[Number]:
    colors, sh, fallback = splat["colors"], splat["sh_coeffs"], splat.flags["uses_colors"]
    rgb = []
    for channel in range(3):
        first = sh.number(channel, "first")
        plain = clamped(colors.number(channel, "plain"), 0.0, 1.0)
        value = 0.5 + select(fallback, plain - 0.5, C0 * first)
        for number, (axis, sign) in enumerate(HARMONICS, start=1):
            if 3 * number < sh.width:
                harmonic = sh.number(3 * number + channel, "harmonic")
                value = value + sign * C1 * toward[axis] * harmonic
        rgb.append(k.let("rgb", value))
    return rgb


@dataclass(frozen=True, slots=True)
class _Outline:
    """Where alpha is at least the cutoff: an ellipse on the screen, or all of it."""

    inside: Number
    numbers: Sequence[Number]
    """Centre, conic, half extents, kind."""

    @classmethod
    def of(
        cls, k: Names, camera: Camera, local: Vector, axes: Vector, turned: Matrix,
        relative: Vector,
    ) -> _Outline:  # fmt: skip
        inverse = named(k, "inverse_axis", [1.0 / a for a in axes])
        eye = named(k, "eye", product(local, inverse))
        to_sphere = [product(times(turned, axis), inverse) for axis in camera.frame]
        right, up, forward = (
            named(k, name, v)
            for name, v in zip(("along_x", "along_y", "along_z"), to_sphere, strict=True)
        )
        reach = k.let("reach", dot(eye, eye))
        turns = [named(k, "turn", cross(eye, v)) for v in (right, up, forward)]
        sides = (right, up, forward)

        def form(a: int, b: int) -> Number:
            return k.let("form", dot(turns[a], turns[b]) - dot(sides[a], sides[b]))

        k00, k01, k11 = form(0, 0), form(0, 1), form(1, 1)
        k02, k12, k22 = form(0, 2), form(1, 2), form(2, 2)
        det, trace = k.let("det", k00 * k11 - k01 * k01), k00 + k11
        definite = (k00 > 0.0) & (k11 > 0.0) & (det > 1e-12 * trace * trace)
        ellipse = k.let("ellipse", (root(reach) > 1.0 + SLACK) & definite)
        safe = k.let("safe_det", select(ellipse, det, 1.0))
        x = k.let("at_x", -(k11 * k02 - k01 * k12) / safe)
        y = k.let("at_y", -(k00 * k12 - k01 * k02) / safe)
        g = k.let("g", k22 + k02 * x + k12 * y)
        conic = _conic(k, camera, x, y, (k00, k01, k11), select(g < 0.0, g, -1.0))
        on_screen, thick = _visible(k, camera, conic)
        covers = _sphere_touches(k, camera, relative, maximum(maximum(*axes[:2]), axes[2]))
        inside = select(ellipse, (g < 0.0) & on_screen, covers)
        numbers = [select(ellipse, number, 0.0) for number in conic]
        kind = select(ellipse, select(thick, ELLIPSE, NOTHING), EVERYWHERE)
        return cls(inside, [*numbers, k.let("kind", kind)])


def _conic(
    k: Names, camera: Camera, x: Number, y: Number, form: Sequence[Number], g: Number
) -> Sequence[Number]:
    focal = camera.focal
    q00, q01, q11 = (k.let("conic", part / -g / (focal * focal)) for part in form)
    det = k.let("conic_det", q00 * q11 - q01 * q01)
    cx = k.let("center_x", focal * x + 0.5 * camera.width)
    cy = k.let("center_y", focal * y + 0.5 * camera.height)
    return [cx, cy, q00, q01, q11, k.let("ex", root(q11 / det)), k.let("ey", root(q00 / det))]


def _visible(k: Names, camera: Camera, conic: Sequence[Number]) -> tuple[Number, Number]:
    """Return whether an ellipse touches the screen, and is thick enough to be drawn."""
    cx, cy, q00, q01, q11, ex, ey = conic
    across = (cx + ex >= 0.0) & (cx - ex < float(camera.width))
    along = (cy + ey >= 0.0) & (cy - ey < float(camera.height))
    half = 0.5 * (q00 - q11)
    largest = k.let("largest", 0.5 * (q00 + q11) + root(half * half + q01 * q01))
    return across & along, 1.0 / root(largest) >= 0.125


def _sphere_touches(k: Names, camera: Camera, relative: Vector, radius: Number) -> Number:
    """Return whether the sphere around a splat is not outside one of the screen's planes."""
    x, y, z = (k.let("in_camera", -dot(axis, relative)) for axis in camera.frame)
    touches = None
    for side, half in ((x, 0.5 * camera.width), (y, 0.5 * camera.height)):
        slope = k.let("slope", root(camera.focal * camera.focal + half * half))
        for sign in (1.0, -1.0):
            inside = ~(sign * camera.focal * side + half * z < -radius * slope)
            touches = inside if touches is None else touches & inside
    assert touches is not None  # there are four sides
    return k.let("touches", touches)


def _coefficients(
    k: Names, splat: Splat, *, alpha_cutoff: float
) -> Iterator[tuple[str, Sequence[Number]]]:
    camera, color_alpha = splat.camera, splat["color_alpha"]
    m = named(k, "m", scaled(vector(splat["inv_scale"], "inverse"), 3.0))
    u = named(k, "u", scaled(vector(splat["pos_local"], "local"), 3.0))
    q = quaternion(splat["rotations"])
    rays = _Rays.of(k, camera, rotation(k, q), m, u)
    opacity = k.let("opacity", clamped(color_alpha.number(3, "raw"), 0.0, 1.0))
    sound = (splat["valid"].number(0, "valid") > 0.0) & (opacity >= alpha_cutoff)
    half = k.let("half", function("log", select(sound, opacity, 1.0) / alpha_cutoff))
    numbers, drawn = rays.numbers(k, camera, sound, half)
    rgb = [color_alpha.number(c, "rgb") for c in range(3)]
    smallest = minimum(minimum(m[0] * m[0], m[1] * m[1]), m[2] * m[2])
    norm = k.let("norm", dot(q[1:], q[1:]) + q[0] * q[0])
    odd = (smallest <= 2e-6 * half) | (norm < 0.5) | (norm > 2.0)
    numbers[13:17] = [opacity, *rgb]
    numbers[25] = select(odd, 1.0, numbers[25])
    absent = (-1.0 if column in (18, 20) else 0.0 for column in range(len(numbers)))
    pairs = zip(numbers, absent, strict=True)
    yield "coefficients", [select(drawn, number, other) for number, other in pairs]
    yield "coefficients", [0.0] * (COEFFICIENTS - len(numbers))


COEFFICIENTS_OF = EachSplat(
    _coefficients,
    ("color_alpha", "valid", "pos_local", "inv_scale", "rotations", "meta"),
    ("coefficients",),
)


@dataclass(frozen=True, slots=True)
class _Rays:
    """Rays in the frame of a splat, in sigmas: `x * (px - cx) + y * (py - cy) + center`."""

    u: Vector
    x: Vector
    y: Vector
    center: Vector

    @classmethod
    def of(cls, k: Names, camera: Camera, turned: Matrix, m: Vector, u: Vector) -> _Rays:
        right, up, forward = (product(times(turned, axis), m) for axis in camera.frame)
        inverse = 1.0 / camera.focal
        return cls(
            u, named(k, "ray_x", scaled(right, inverse)), named(k, "ray_y", scaled(up, inverse)),
            named(k, "ray", forward),
        )  # fmt: skip

    def numbers(
        self, k: Names, camera: Camera, sound: Number, half: Number
    ) -> tuple[list[Number], Number]:
        """Return the coefficients, those of colour left open, and whether the splat is drawn."""
        x, y = self._reference_point(k, camera)
        w0 = named(k, "w", plus(plus(scaled(self.x, x), scaled(self.y, y)), self.center))
        length = k.let("ray_length", dot(w0, w0))
        drawn = k.let("drawn", sound & (half > 0.5e-20) & (length > 1e-60))
        q0 = k.let("q0", select(drawn, length, 1.0))
        shrink = k.let("shrink", 1.0 / root(2.0 * q0))
        a, b, z = (
            named(k, name, scaled(cross(self.u, v), shrink))
            for name, v in (("a", self.x), ("b", self.y), ("z", w0))
        )
        across, along = k.let("across", dot(self.x, w0) / q0), k.let("along", dot(self.y, w0) / q0)
        e00 = k.let("e00", dot(self.x, self.x) / q0)
        e01 = k.let("e01", dot(self.x, self.y) / q0)
        e11 = k.let("e11", dot(self.y, self.y) / q0)
        conic = (
            dot(a, a) - half * e00, dot(a, b) - half * e01, dot(b, b) - half * e11,
            dot(a, z) - half * across, dot(b, z) - half * along, dot(z, z) - half,
        )  # fmt: skip
        box, closed = _box(k, [k.let("conic", part) for part in conic], (x, y), camera)
        color = [0.0] * 4
        front = [dot(self.u, v) for v in (w0, self.x, self.y)]
        size = 2e-10 * half / q0
        return [
            x + 0.5 * camera.width, y + 0.5 * camera.height, *_triangular(k, a, b, z),
            2.0 * across, 2.0 * along, e00, 2.0 * e01, e11, *color, *box, *front, size,
            select(closed, 0.0, 1.0),
        ], drawn  # fmt: skip

    def _reference_point(self, k: Names, camera: Camera) -> tuple[Number, Number]:
        """Return the projected center, relative to the middle of the screen, approximately.

        Rounded so that adding half the screen gives an f32.
        """
        a, b, z = (
            named(k, name, cross(self.u, v))
            for name, v in (("by_x", self.x), ("by_y", self.y), ("by_z", self.center))
        )
        aa, ab, bb = k.let("aa", dot(a, a)), k.let("ab", dot(a, b)), k.let("bb", dot(b, b))
        az, bz = k.let("az", dot(a, z)), k.let("bz", dot(b, z))
        det = k.let("gram", aa * bb - ab * ab)
        known = k.let("known", det > 1e-12 * (aa + bb) * (aa + bb))
        safe = k.let("divisor", select(known, det, 1.0))
        found = []
        for value, size in ((ab * bz - bb * az, camera.width), (ab * az - aa * bz, camera.height)):
            at = clamped(select(known, value / safe, 0.0), -1.5 * size, 1.5 * size)
            found.append(k.let("reference", rounded(at + 0.5 * size) - 0.5 * size))
        return found[0], found[1]


def _triangular(k: Names, a: Vector, b: Vector, z: Vector) -> list[Number]:
    """Return l00, l10, z0, l11, z1, zz of `|a x + b y + z|^2` by Gram and Schmidt."""
    l00 = k.let("l00", root(dot(a, a)))
    first = named(k, "first", scaled(a, 1.0 / select(l00 > 0.0, l00, 1.0)))
    l10 = k.let("l10", dot(first, b))
    rest = named(k, "rest", minus(b, scaled(first, l10)))
    l11 = k.let("l11", root(dot(rest, rest)))
    second = named(k, "second", scaled(rest, 1.0 / select(l11 > 0.0, l11, 1.0)))
    z0, z1 = k.let("z0", dot(first, z)), k.let("z1", dot(second, z))
    left = named(k, "left", minus(minus(z, scaled(first, z0)), scaled(second, z1)))
    return [l00, l10, z0, l11, z1, dot(left, left)]


def _box(
    k: Names, conic: Sequence[Number], at: tuple[Number, Number], camera: Camera
) -> tuple[list[Number], Number]:
    """Return first and last column and row of the pixels where alpha reaches the cutoff.

    Also whether these are in an ellipse: otherwise the splat crosses the camera's plane.
    """
    g00, g01, g11, g0, g1, level = conic
    det, trace = k.let("box_det", g00 * g11 - g01 * g01), g00 + g11
    closed = k.let(
        "closed", (g00 > 0.0) & (g11 > 0.0) & (det > 1e-12 * trace * trace)
    )  # fmt: skip
    safe = k.let("box_divisor", select(closed, det, 1.0))
    dx, dy = k.let("dx", (g01 * g1 - g11 * g0) / safe), k.let("dy", (g01 * g0 - g00 * g1) / safe)
    depth = k.let("depth", maximum(-(level + g0 * dx + g1 * dy), 0.0))
    sides = []
    for start, offset, over, size in (
        (at[0], dx, g11, camera.width), (at[1], dy, g00, camera.height),
    ):  # fmt: skip
        reach = k.let("reach", root(maximum(depth * over / safe, 0.0)) * 1.001 + 0.02)
        middle = k.let("middle", start + offset + (0.5 * size - 0.5))
        low = clamped(ceil(middle - reach), 0.0, float(size))
        high = clamped(floor(middle + reach), -1.0, float(size - 1))
        sides += [select(closed, low, 0.0), select(closed, high, float(size - 1))]
    return sides, closed
