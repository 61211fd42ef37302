"""The gradient of compositing: each tile is replayed from its last splat to its first.

A first pass blends the tile's list as the forward pass does and keeps the transmittance of its
pixels in front of every chunk of splats. From the last chunk to the first, the chunk is then
blended again, now keeping alpha and transmittance of each of its splats, and walked backwards.
Nothing is kept per pixel and splat but for one chunk, and nothing is divided by `1 - alpha`.

Every list entry has its own sums over the pixels of its tile, so that no two threads add to one
place; they are added up by splat afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlx.custom import TensorType
from rlx.custom.kernels import (
    BinaryOp,
    Buffer,
    E,
    KernelBuilder,
    LoopKind,
    Mutable,
    Prim,
    Reader,
    Scope,
    Writer,
    blocks,
    const,
    fma,
    given,
    maximum,
    minimum,
    result,
    row_count,
    select,
    upper,
)
from rlx.errors import InternalError
from rlx.splat.each_splat import camera_in
from rlx.splat.kernels.pixels import (
    CHANNELS,
    LANES,
    Place,
    Row,
    Settings,
    Splat,
    Tile,
    fifth_root,
)
from rlx.splat.layout import MOMENT_NAMES, MOMENTS, Screen

_BLOCKS = 16
"""Groups of tiles that threads share: each has scratch for one tile."""
_CHUNK = 32
"""Splats whose alphas are kept at a time."""
_MOST_CHUNKS = 4096


@dataclass(frozen=True, slots=True)
class _ScratchMap:
    """The scratch of one block: alphas and transmittances of a chunk, then its checkpoints."""

    chunk: int
    chunks: int
    pixels: int
    blocks: int
    counts_steps: bool

    @classmethod
    def of(cls, splats: int, entries: int, screen: Screen, steps: int) -> _ScratchMap:
        longest = max(1, min(splats, entries))
        chunk = max(_CHUNK, -(-longest // _MOST_CHUNKS))
        pixels = screen.tile_size * (-(-screen.tile_size // LANES) * LANES)
        return cls(chunk, -(-longest // chunk), pixels, min(screen.tiles, _BLOCKS), steps > 0)

    @property
    def earlier(self) -> int:
        return self.chunk * self.pixels

    @property
    def checkpoints(self) -> int:
        return 2 * self.chunk * self.pixels

    @property
    def checkpoint(self) -> int:
        """Numbers kept in front of a chunk: transmittance, and steps if these are counted."""
        return self.pixels * (2 if self.counts_steps else 1)

    @property
    def size(self) -> int:
        return self.checkpoints + self.chunks * self.checkpoint


def backward_scratch(
    operands: list[TensorType], results: list[TensorType], *, width: int, height: int,
    tile_size: int, max_splat_steps: int, **_: object,
) -> int:  # fmt: skip
    del results
    screen = Screen(width, height, tile_size)
    splats, entries = (upper(operand.shape[0]) for operand in operands[:2])
    scratch_map = _ScratchMap.of(splats, entries, screen, max_splat_steps)
    return 4 * scratch_map.blocks * scratch_map.size


def splat_composite_backward(
    scope: Scope,
    coefficients: Reader,
    entries: Reader,
    places: Reader,
    ranges: Reader,
    meta: Reader,
    d_image: Reader,
    moments: Writer,
    *,
    width: int,
    height: int,
    tile_size: int,
    alpha_cutoff: float,
    max_splat_steps: int,
    transmittance_threshold: float,
    loss_grad_clip: float,
) -> None:
    k, screen = scope.k, Screen(width, height, tile_size)
    if scope.scratch is None:
        raise InternalError("splat_composite_backward needs scratch")
    scratch_map = _ScratchMap.of(
        row_count(coefficients), row_count(entries), screen, max_splat_steps
    )
    settings = Settings(alpha_cutoff, max_splat_steps, transmittance_threshold)
    camera = camera_in(k, given(meta), width, height)
    with k.loop("block", scratch_map.blocks, kind=LoopKind.PARALLEL) as block:
        _clear_unused(k, block, scratch_map.blocks, given(ranges), result(moments), screen, entries)
        base = k.let("scratch_at", block * scratch_map.size)
        k.comment("A block takes every so many tiles; it has scratch for one at a time.")
        with k.loop("round", -(-screen.tiles // scratch_map.blocks)) as turn:
            number = k.let("number", turn * scratch_map.blocks + block)
            with k.if_(number < screen.tiles):
                tile = Tile(k, screen, settings, camera, number)
                replay = _Replay(
                    tile, scratch_map, scope.scratch, base, given(coefficients), given(entries),
                    given(places), result(moments), max(loss_grad_clip, 1e-8),
                    k.local("behind", Prim.F32, scratch_map.pixels),
                )  # fmt: skip
                replay.run(number, given(ranges), given(meta), given(d_image))


def _clear_unused(
    k: KernelBuilder, block: E, count: int, ranges: Buffer, moments: Buffer, screen: Screen,
    entries: Reader,
) -> None:  # fmt: skip
    """Clear the rows after the last list, a share for each block."""
    k.comment("Rows that no list entry has are zero: each block clears a share.")
    used = k.let("used", k.load(ranges, 2 * screen.tiles - 1).cast(Prim.I64))
    unused = k.let("unused", row_count(entries) - used)
    first, last = used + unused * block / count, used + unused * (block + 1) / count
    _clear(k, moments, first, last)


def _clear(k: KernelBuilder, moments: Buffer, first: E, last: E) -> None:
    with k.loop("m", last * MOMENTS, start=first * MOMENTS, kind=LoopKind.SIMD) as m:
        k.store(moments, m, 0.0)


@dataclass(frozen=True, slots=True)
class _Replay:
    """One tile, forward and back."""

    tile: Tile
    scratch_map: _ScratchMap
    scratch: Buffer
    base: E
    coefficients: Buffer
    entries: Buffer
    places: Buffer
    moments: Buffer
    clip: float
    behind: Buffer
    """Per pixel: the weight of the light after the current splat."""

    @property
    def k(self) -> KernelBuilder:
        return self.tile.k

    def run(self, number: E, ranges: Buffer, meta: Buffer, d_image: Buffer) -> None:
        k, chunk = self.k, self.scratch_map.chunk
        start = k.let("start", k.load(ranges, number * 2).cast(Prim.I64))
        stop = k.let("stop", k.load(ranges, number * 2 + 1).cast(Prim.I64))
        self.tile.start()
        k.comment("Forward, as the image was drawn; transmittance is kept in front of each chunk.")
        end = self._forward(start, stop)
        self._clear_passed_over(end, stop)
        k.comment("What a change of the light of each pixel, and of that behind it, counts for.")
        self._upstream(meta, d_image)
        k.comment("Back, from the last chunk to the first.")
        chunks = k.let("chunks", (end - start + (chunk - 1)) / chunk)
        with k.loop("c", chunks) as c:
            index = k.let("index", chunks - 1 - c)
            first = k.let("first", start + index * chunk)
            last = k.let("last", minimum(first + chunk, end))
            self._restore(index)
            k.comment("The chunk again; alpha, and what it was blended with, are kept.")
            self._again(first, last)
            k.comment("From its last splat to its first.")
            self._back(first, last)

    def _splat(self, entry: E) -> Splat:
        return Splat.at(self.k, self.coefficients, self.k.load(self.entries, entry).cast(Prim.I64))

    def _forward(self, start: E, stop: E) -> E:
        """Blend until the tile is done, with checkpoints; return the first entry not blended."""
        k, tile, chunk = self.k, self.tile, self.scratch_map.chunk
        following = k.mutable("next", start + 0)
        end = k.mutable("end", start + 0)
        with k.while_(following < stop):
            self._keep((following - start) / chunk)
            last = k.let("last", minimum(following + chunk, stop))
            with k.loop("entry", last, start=following) as entry:
                splat = self._splat(entry)
                color = splat.color()
                with tile.rows(splat) as row, row.vectors() as place:
                    tile.blend(place.at, row.alpha(place), color)
            end.set(last)
            following.set(select(tile.is_busy(), last, stop))
        return k.let("blended_end", end)

    def _clear_passed_over(self, end: E, stop: E) -> None:
        k = self.k
        with k.loop("entry", stop, start=end) as entry:
            place = k.load(self.places, entry).cast(Prim.I64)
            _clear(k, self.moments, place, place + 1)

    def _kept(self) -> list[Buffer]:
        steps = self.tile.steps
        return [self.tile.transmittance, *([] if steps is None else [steps])]

    def _keep(self, index: E) -> None:
        k, scratch_map = self.k, self.scratch_map
        start = k.let("kept", self.base + scratch_map.checkpoints + index * scratch_map.checkpoint)
        for number, buffer in enumerate(self._kept()):
            with k.loop("p", scratch_map.pixels, kind=LoopKind.SIMD) as p:
                k.store(self.scratch, start + number * scratch_map.pixels + p, k.load(buffer, p))

    def _restore(self, index: E) -> None:
        k, scratch_map = self.k, self.scratch_map
        start = k.let("kept", self.base + scratch_map.checkpoints + index * scratch_map.checkpoint)
        for number, buffer in enumerate(self._kept()):
            with k.loop("p", scratch_map.pixels, kind=LoopKind.SIMD) as p:
                k.store(buffer, p, k.load(self.scratch, start + number * scratch_map.pixels + p))

    def _upstream(self, meta: Buffer, d_image: Buffer) -> None:
        """Turn the light of each pixel into what a change of it counts for."""
        k, tile = self.k, self.tile
        with k.loop("r", tile.height) as r, k.loop("v", tile.vectors) as v:
            at = k.let("at", r * tile.stride + v * LANES)
            given = self._read(d_image, r, v)
            behind = -given[3]
            for c, light in enumerate(tile.behind(meta, at)):
                lit = k.let(f"lit_{CHANNELS[c]}", maximum(light, 0.0))
                gain = k.let(f"d_{CHANNELS[c]}", given[c] * (2.2 * lit * fifth_root(lit)))
                behind = fma(gain, k.load(meta, 12 + c), behind)
                k.store(tile.light[c], at, gain)
            k.store(self.behind, at, behind)

    def _read(self, d_image: Buffer, r: E, v: E) -> list[E]:
        """Read the upstream cotangents of a vector of pixels; 0 beyond the image."""
        k, tile = self.k, self.tile
        rows = [k.local(name, Prim.F32, LANES) for name in ("d_r", "d_g", "d_b", "d_a")]
        with k.loop("j", LANES) as j:
            column = k.let("column", v * LANES + j)
            inside = column < tile.width
            x = tile.left + minimum(column, tile.width - 1)
            at = k.let("pixel", ((tile.top + r) * tile.screen.width + x) * 4)
            for c, row in enumerate(rows):
                value = k.load(d_image, at + c)
                if not math.isinf(self.clip):
                    value = maximum(-self.clip, minimum(self.clip, value))
                k.store(row, j, select(inside, value, 0.0))
        names = (*CHANNELS, "alpha")
        return [k.let(f"d_seen_{n}", k.load(r, 0, LANES)) for n, r in zip(names, rows, strict=True)]

    def _again(self, first: E, last: E) -> None:
        """Blend a chunk again; keep the alphas of its splats and what they were blended with."""
        k, scratch_map = self.k, self.scratch_map
        with k.loop("entry", last, start=first) as entry:
            base = k.let("kept_at", self.base + (entry - first) * scratch_map.pixels)
            with self.tile.rows(self._splat(entry)) as row, row.vectors() as place:
                alpha = row.alpha(place)
                k.store(self.scratch, base + place.at, alpha)
                before = self.tile.dim(place.at, alpha)
                k.store(self.scratch, base + scratch_map.earlier + place.at, before)

    def _back(self, first: E, last: E) -> None:
        """Walk a chunk from its last splat to its first."""
        k = self.k
        with k.loop("n", last - first) as n:
            entry = k.let("entry", last - 1 - n)
            kept = k.let("kept_at", self.base + (entry - first) * self.scratch_map.pixels)
            splat = self._splat(entry)
            color = splat.color()
            sums = [_zero(k, f"sum_{name}") for name in MOMENT_NAMES]
            with self.tile.rows(splat) as row:
                k.comment("Sums along a row, where y is the same: of 1, x and x * x.")
                parts = [_zero(k, f"row_{name}") for name in MOMENT_NAMES[4:] if "y" not in name]
                with row.vectors() as place:
                    self._add(row, place, kept, color, sums, parts)
                _add_row(sums[4:], parts, row.y)
            k.comment("Each entry has a place of its own: no two threads add to one number.")
            base = k.let("sums_at", k.load(self.places, entry).cast(Prim.I64) * MOMENTS)
            for number, total in enumerate(sums):
                k.store(self.moments, base + number, total.fold(BinaryOp.ADD))

    def _add(
        self, row: Row, place: Place, kept: E, color: list[E], sums: list[Mutable],
        parts: list[Mutable],
    ) -> None:  # fmt: skip
        """Add what a vector of pixels contributes; `parts` are the sums along the row."""
        k, scratch_map = self.k, self.scratch_map
        alpha = k.let("alpha", k.load(self.scratch, kept + place.at, LANES))
        before = k.let("before", k.load(self.scratch, kept + scratch_map.earlier + place.at, LANES))
        blended = k.let("blended", alpha > 0.0)
        gains = [
            k.let(f"d_{name}", k.load(light, place.at, LANES))
            for name, light in zip(CHANNELS, self.tile.light, strict=True)
        ]
        own = gains[0] * color[0]
        for gain, part in zip(gains[1:], color[1:], strict=True):
            own = fma(gain, part, own)
        behind = k.let("behind", k.load(self.behind, place.at, LANES))
        more = k.let("more", select(blended, own - behind, 0.0))
        k.store(self.behind, place.at, fma(alpha, more, behind))
        d_alpha = before * more
        if not math.isinf(self.clip):
            d_alpha = maximum(-self.clip, minimum(self.clip, d_alpha))
        weight = k.let("weight", before * alpha)
        for total, gain in zip(sums[:3], gains, strict=True):
            total.set(fma(weight, gain, total))
        change = k.let("change", d_alpha * alpha)
        sums[3].set(sums[3] + change)
        passing = row.passing(place)
        inverse = k.let("inverse", 1.0 / select(blended, passing.stretch, 1.0))
        distance = select(blended, passing.distance, 0.0)
        d_distance = k.let("d_distance", change * inverse)
        d_span = k.let("d_span", d_distance * distance * inverse)
        for name, group, value in (
            ("d_distance_x", parts[:3], d_distance), ("d_span_x", parts[3:], d_span),
        ):  # fmt: skip
            by_x = k.let(name, value * passing.x)
            group[0].set(group[0] + value)
            group[1].set(group[1] + by_x)
            group[2].set(fma(by_x, passing.x, group[2]))


def _add_row(sums: list[Mutable], parts: list[Mutable], y: E) -> None:
    """Add the sums of a row to the moments 1, x, y, x^2, x y, y^2 of either weight."""
    for first in (0, 1):
        one, x, xx = parts[3 * first : 3 * first + 3]
        s1, sx, sy, sxx, sxy, syy = sums[6 * first : 6 * first + 6]
        s1.set(s1 + one)
        sx.set(sx + x)
        sy.set(fma(one, y, sy))
        sxx.set(sxx + xx)
        sxy.set(fma(x, y, sxy))
        syy.set(fma(one, y * y, syy))


def _zero(k: KernelBuilder, name: str) -> Mutable:
    return k.mutable(name, const(0.0, Prim.F32, LANES))


def splat_sum_moments(
    scope: Scope, moments: Reader, visits: Reader, totals: Reader, sums: Writer
) -> None:
    k, rows = scope.k, row_count(visits)
    stored = k.let("stored", k.load(given(totals), 0))
    with (
        blocks(k, const(rows, Prim.I64), rows * MOMENTS * 8, size=512) as (start, stop),
        k.loop("i", stop, start=start) as i,
    ):
        first = k.let("first", k.load(given(visits), i * 2))
        last = k.let("last", minimum(k.load(given(visits), i * 2 + 1), stored))
        row = k.let("row", i * MOMENTS)
        with k.loop("m", MOMENTS, kind=LoopKind.SIMD) as m:
            k.store(result(sums), row + m, 0.0)
        with (
            k.loop("entry", last, start=first) as entry,
            k.loop("m", MOMENTS, kind=LoopKind.SIMD) as m,
        ):
            value = k.load(given(moments), entry * MOMENTS + m).cast(Prim.F64)
            k.store(result(sums), row + m, k.load(result(sums), row + m) + value)
