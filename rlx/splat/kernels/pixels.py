"""Compositing Gaussian splats: tiles shared by threads, the pixels of a row in lanes.

A tile keeps the transmittance and the light of its pixels while the splats of its list pass by.
Each touches the rows and vectors of pixels within its box only; a tile whose pixels let no more
light through ends early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rlx.custom.kernels import (
    BinaryOp,
    Buffer,
    E,
    KernelBuilder,
    LoopKind,
    Prim,
    Reader,
    Scope,
    Writer,
    build_function,
    call,
    const,
    fma,
    given,
    maximum,
    minimum,
    result,
    select,
)
from rlx.splat.arithmetic import Camera
from rlx.splat.each_splat import camera_in
from rlx.splat.layout import COEFFICIENTS, Screen

LANES = 8
"""Pixels of a vector, on every target: results do not depend on the machine."""
CHANNELS = ("red", "green", "blue")
CHUNK = 16
"""Splats that pass between two looks at whether a tile is done."""


AHEAD = 4
"""Splats between asking for the numbers of one and blending it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """When a pixel takes no further splats."""

    alpha_cutoff: float
    max_splat_steps: int
    transmittance_threshold: float

    @property
    def threshold(self) -> float:
        """A fresh pixel takes a splat in any case."""
        return min(self.transmittance_threshold, 1.0)


@dataclass(frozen=True, slots=True)
class Splat:
    """The coefficients of one splat, as scalars."""

    k: KernelBuilder
    memory: Buffer
    base: E

    @classmethod
    def at(cls, k: KernelBuilder, memory: Buffer, splat: E) -> Splat:
        return cls(k, memory, k.let("record", splat * COEFFICIENTS))

    def load(self, column: int, name: str) -> E:
        return self.k.let(name, self.k.load(self.memory, self.base + column))

    def color(self) -> list[E]:
        return [self.load(14 + c, name) for c, name in enumerate(("r", "g", "b"))]

    def bound(self, column: int) -> E:
        """Return a side of the box of pixels."""
        return self.k.load(self.memory, self.base + column).cast(Prim.I64)


@dataclass(frozen=True, slots=True)
class Passing:
    """How the rays of some pixels pass a splat: the terms of `splat_coefficients`."""

    distance: E
    stretch: E
    x: E


@dataclass(frozen=True, slots=True)
class Place:
    """Pixels of a tile: where they are in its arrays."""

    at: E
    """Of the first pixel, among those of the tile."""
    vector: E
    """Number of the vector in its row."""


class Tile:
    """The pixels of one tile, in arrays whose rows are whole vectors."""

    def __init__(
        self, k: KernelBuilder, screen: Screen, settings: Settings, camera: Camera, number: E
    ) -> None:
        self.k, self.screen, self.settings, self.camera = k, screen, settings, camera
        size = screen.tile_size
        self.vectors = -(-size // LANES)
        self.stride = self.vectors * LANES
        row, column = number / screen.columns, number % screen.columns
        self.left = k.let("left", column * size)
        self.top = k.let("top", row * size)
        self.width = k.let("width", minimum(screen.width - self.left, size))
        self.height = k.let("height", minimum(screen.height - self.top, size))
        focal = camera.focal.cast(Prim.F32)
        self.pixel_area = k.let("pixel_area", 1.0 / (focal * focal))
        """Of a pixel on the plane at distance 1."""
        pixels = size * self.stride
        self.transmittance = k.local("transmittance", Prim.F32, pixels)
        self.light = [k.local(name, Prim.F32, pixels) for name in CHANNELS]
        self.steps = k.local("steps", Prim.F32, pixels) if settings.max_splat_steps else None
        self.columns = k.local("columns", Prim.F32, self.stride)

    def start(self) -> None:
        """Let all light through; pixels beyond the image let none through and end nothing."""
        k = self.k
        k.comment("Where the pixels of a row lie, and what they have seen: nothing yet.")
        with k.loop("v", self.vectors) as v:
            column = (v * LANES).cast(Prim.I32).ramp(LANES)
            center = (self.left.cast(Prim.I32).splat(LANES) + column).cast(Prim.F32) + 0.5
            k.store(self.columns, v * LANES, center)
        with k.loop("r", self.screen.tile_size) as r, k.loop("v", self.vectors) as v:
            at = r * self.stride + v * LANES
            column = (v * LANES).cast(Prim.I32).ramp(LANES)
            inside = column < self.width.cast(Prim.I32)
            inside = inside & (r.cast(Prim.I32) < self.height.cast(Prim.I32)).splat(LANES)
            k.store(self.transmittance, at, select(inside, _f32(1.0), -1.0))
            for channel in self.light:
                k.store(channel, at, const(0.0, Prim.F32, LANES))
            if self.steps is not None:
                k.store(self.steps, at, const(0.0, Prim.F32, LANES))

    @contextmanager
    def rows(self, splat: Splat) -> Iterator[Row]:
        """Open loops over the rows of a splat's box within the tile."""
        k = self.k
        k.comment("The part of the splat's box of pixels inside this tile.")
        first = k.let("first_row", maximum(splat.bound(19) - self.top, 0))
        last = k.let("last_row", minimum(splat.bound(20) - self.top, self.height - 1))
        low = k.let("low", maximum(splat.bound(17) - self.left, 0) / LANES)
        right = k.let("last_column", minimum(splat.bound(18) - self.left, self.width - 1))
        high = k.let("high", maximum(right + LANES, 0) / LANES)
        numbers = _Numbers.of(splat)
        with k.loop("r", last + 1, start=first) as r:
            y = k.let("y", (self.top + r).cast(Prim.F32) + 0.5 - numbers.y)
            yield Row.of(self, numbers, r, y, low, high)

    def going(self, at: E) -> E:
        """Return which of the pixels from `at` on take further splats."""
        k = self.k
        going = k.load(self.transmittance, at, LANES) >= self.settings.threshold
        if self.steps is not None:
            steps = k.load(self.steps, at, LANES)
            going = going & (steps < float(self.settings.max_splat_steps))
        return going

    def is_busy(self) -> E:
        """Return whether any pixel takes further splats."""
        k = self.k
        most = k.mutable("most", const(0.0, Prim.F32, LANES))
        with k.loop("p", self.screen.tile_size * self.stride, step=LANES) as at:
            most.set(maximum(select(self.going(at), _f32(1.0), 0.0), most))
        return most.fold(BinaryOp.MAX) > 0.0

    def blend(self, at: E, alpha: E, color: Sequence[E]) -> None:
        """Blend a splat under the ones so far; alpha 0 changes nothing."""
        k = self.k
        before = self.dim(at, alpha)
        weight, blended = k.let("weight", before * alpha), k.let("blended", alpha > 0.0)
        for channel, part in zip(self.light, color, strict=True):
            seen = k.let("seen", k.load(channel, at, LANES))
            k.store(channel, at, select(blended, fma(weight, part.splat(LANES), seen), seen))

    def dim(self, at: E, alpha: E) -> E:
        """Let a splat take its part of the light of pixels; return what was there before it."""
        k = self.k
        before = k.let("before", k.load(self.transmittance, at, LANES))
        k.store(self.transmittance, at, fma(-alpha, before, before))
        if self.steps is not None:
            blended = (alpha > 0.0).cast(Prim.F32)
            k.store(self.steps, at, k.load(self.steps, at, LANES) + blended)
        return before

    def behind(self, meta: Buffer, at: E) -> list[E]:
        """Return the light of pixels over the background."""
        k = self.k
        through = k.let("through", k.load(self.transmittance, at, LANES))
        return [
            k.let("shown", fma(through, k.load(meta, 12 + c).splat(LANES), light))
            for c, light in enumerate(k.load(channel, at, LANES) for channel in self.light)
        ]


def fifth_root(x: E) -> E:
    """Return `x^0.2` of x >= 0, by which x^2.2 and x^1.2 take half the time of `pow`."""
    logarithm = call(build_function("log", Prim.F32), x)
    return call(build_function("exp", Prim.F32), 0.2 * logarithm)


def _f32(value: float) -> E:
    return const(value, Prim.F32, LANES)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What alpha is computed from."""

    splat: Splat
    x: E
    y: E
    l: tuple[E, ...]  # noqa: E741 (the factor's usual name)
    e: tuple[E, ...]
    opacity: E
    checked: E

    @classmethod
    def of(cls, splat: Splat) -> _Numbers:
        terms = ("l00", "l10", "z0", "l11", "z1", "zz", "e1", "e2", "e00", "e01", "e11")
        loaded = tuple(splat.load(2 + i, name) for i, name in enumerate(terms))
        return cls(
            splat, splat.load(0, "at_x"), splat.load(1, "at_y"), loaded[:6], loaded[6:],
            splat.load(13, "opacity"), splat.k.let("checked", splat.load(25, "odd").ne(0.0)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A row of pixels under a splat: what is the same for all of them."""

    tile: Tile
    numbers: _Numbers
    r: E
    y: E
    low: E
    high: E
    start: E
    apart: E
    stretch: E
    slope: E

    @classmethod
    def of(cls, tile: Tile, numbers: _Numbers, r: E, y: E, low: E, high: E) -> Row:
        k = tile.k
        _, l10, z0, l11, z1, zz = numbers.l
        e1, e2, _, e01, e11 = numbers.e
        along = k.let("along", fma(l11, y, z1))
        return cls(
            tile, numbers, r, y, low, high,
            k.let("start", fma(l10, y, z0)), k.let("apart", fma(along, along, zz)),
            k.let("stretch", fma(y, fma(e11, y, e2), 1.0)), k.let("slope", fma(e01, y, e1)),
        )  # fmt: skip

    @contextmanager
    def vectors(self) -> Iterator[Place]:
        k = self.tile.k
        with k.loop("v", self.high, start=self.low) as v:
            yield Place(k.let("at", self.r * self.tile.stride + v * LANES), v)

    def passing(self, place: Place) -> Passing:
        """Return how the rays of pixels pass the splat."""
        k, n = self.tile.k, self.numbers
        columns = k.load(self.tile.columns, place.vector * LANES, LANES)
        x = k.let("x", columns - n.x.splat(LANES))
        across = k.let("across", fma(n.l[0], x, self.start))
        distance = k.let("distance", fma(across, across, self.apart))
        stretch = k.let("span", fma(x, fma(n.e[2], x, self.slope), self.stretch))
        return Passing(distance, stretch, x)

    def alpha(self, place: Place) -> E:
        """Return the splat's alpha at pixels, 0 where it is not blended."""
        tile = self.tile
        k, passing = tile.k, self.passing(place)
        falloff = call(
            build_function("exp_weight", Prim.F32), -(passing.distance / passing.stretch)
        )
        alpha = k.let("alpha", self.numbers.opacity * falloff)
        visible = (alpha >= tile.settings.alpha_cutoff) & tile.going(place.at)
        blended = k.mutable("blended", select(visible, alpha, 0.0))
        with k.if_(self.numbers.checked):
            k.comment("An odd splat: around the camera, without end, or not quite a rotation.")
            blended.set(select(self._in_front(passing), blended, 0.0))
        return blended

    def _in_front(self, passing: Passing) -> E:
        """Return where the ray passes the centre ahead, and the splat is not without end."""
        k, splat, camera = self.tile.k, self.numbers.splat, self.tile.camera
        t0, t1, t2, size = (
            splat.load(21 + i, name) for i, name in enumerate(("t", "tx", "ty", "w"))
        )
        ahead = fma(t1.splat(LANES), passing.x, (fma(t2, self.y, t0)).splat(LANES)) < 0.0
        x = k.let("from_middle", passing.x + (self.numbers.x - 0.5 * camera.width).splat(LANES))
        y = k.let("from_center", self.y + (self.numbers.y - 0.5 * camera.height))
        length = fma(x * x + (y * y).splat(LANES), self.tile.pixel_area.splat(LANES), 1.0)
        return ahead & (passing.stretch > size * length)


def splat_composite(
    scope: Scope,
    coefficients: Reader,
    entries: Reader,
    ranges: Reader,
    meta: Reader,
    image: Writer,
    *,
    width: int,
    height: int,
    tile_size: int,
    alpha_cutoff: float,
    max_splat_steps: int,
    transmittance_threshold: float,
) -> None:
    k = scope.k
    screen = Screen(width, height, tile_size)
    settings = Settings(alpha_cutoff, max_splat_steps, transmittance_threshold)
    camera = camera_in(k, given(meta), width, height)
    with k.loop("tile", screen.tiles, kind=LoopKind.PARALLEL) as number:
        tile = Tile(k, screen, settings, camera, number)
        tile.start()
        stop = k.let("stop", k.load(given(ranges), number * 2 + 1).cast(Prim.I64))
        next_entry = k.mutable("next", k.load(given(ranges), number * 2).cast(Prim.I64))
        with k.while_(next_entry < stop):
            last = k.let("last", minimum(next_entry + CHUNK, stop))
            with k.loop("entry", last, start=next_entry) as entry:
                splat = k.load(given(entries), entry).cast(Prim.I64)
                _prefetch(k, given(coefficients), given(entries), minimum(entry + AHEAD, stop - 1))
                _blend(tile, Splat.at(k, given(coefficients), splat))
            next_entry.set(select(tile.is_busy(), last, stop))
        _write(tile, given(meta), result(image))


def _prefetch(k: KernelBuilder, coefficients: Buffer, entries: Buffer, entry: E) -> None:
    """Prefetch a splat: lists visit them in an order that no processor foresees."""
    splat = k.let("ahead", k.load(entries, entry).cast(Prim.I64) * COEFFICIENTS)
    k.prefetch(coefficients, splat)
    k.prefetch(coefficients, splat + COEFFICIENTS // 2)


def _blend(tile: Tile, splat: Splat) -> None:
    color = splat.color()
    with tile.rows(splat) as row, row.vectors() as place:
        tile.blend(place.at, row.alpha(place), color)


def _write(tile: Tile, meta: Buffer, image: Buffer) -> None:
    """Turn light into numbers of the image; the background fills what it shines through."""
    k = tile.k
    with k.loop("r", tile.height) as r:
        with k.loop("v", tile.vectors) as v:
            at = k.let("at", r * tile.stride + v * LANES)
            for channel, light in zip(tile.light, tile.behind(meta, at), strict=True):
                seen = k.let("seen", maximum(0.0, light))  # this order keeps NaN
                k.store(channel, at, seen * seen * fifth_root(seen))
        with k.loop("x", tile.width) as x:
            pixel = (tile.top + r) * tile.screen.width + tile.left + x
            base = k.let("base", pixel * 4)
            at = k.let("at", r * tile.stride + x)
            for c, channel in enumerate(tile.light):
                k.store(image, base + c, k.load(channel, at))
            k.store(image, base + 3, 1.0 - k.load(tile.transmittance, at))
