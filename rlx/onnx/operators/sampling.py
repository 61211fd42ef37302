"""Images read between their elements: Resize, GridSample, RoiAlign."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError, UnsupportedError
from rlx.ir import ops
from rlx.ir.shape import Extent, floor_divide, format_shape, normalize_axis
from rlx.onnx.operators.shape import integers, listable
from rlx.onnx.registry import Static, operator
from rlx.tracing.apply import emit

Array = np.ndarray[Any, Any]


def bilinear(x: Any, rows: Any, columns: Any) -> Any:
    """Read images `[N, C, H, W]` at `[N, h, w]` places, with zeros outside."""
    _, _, height, width = x.shape
    top, left = rnp.floor(rows), rnp.floor(columns)
    total: Any = 0
    for below in (0, 1):
        for right in (0, 1):
            row, column = top + below, left + right
            weight = (1 - rnp.abs(rows - row)) * (1 - rnp.abs(columns - column))
            total = total + _at(x, row, column, height, width) * rnp.expand_dims(weight, 1)
    return total


def _at(x: Any, rows: Any, columns: Any, height: int, width: int) -> Any:
    """Return the elements at integral places `[N, h, w]`, zeros outside."""
    inside = rnp.logical_and(
        rnp.logical_and(rows >= 0, rows < height), rnp.logical_and(columns >= 0, columns < width)
    )
    taken = element_at(x, rnp.clip(rows, 0, height - 1), rnp.clip(columns, 0, width - 1))
    return rnp.where(rnp.expand_dims(inside, 1), taken, 0)


def element_at(x: Any, *places: Any) -> Any:
    """Return the elements of `[N, C, *spatial]` at `[N, *out]` places inside."""
    n, channels, *spatial = x.shape
    flat: Any = 0
    for place, extent in zip(places, spatial, strict=True):
        flat = flat * extent + rnp.astype(place, "i64")
    shape = flat.shape
    image = rnp.reshape(flat, (n, 1, -1))
    rows = rnp.reshape(x, (n, channels, -1))
    index = rnp.broadcast_to(image, (n, channels, image.shape[-1]))
    return rnp.reshape(rnp.take_along_axis(rows, index, 2), (n, channels, *shape[1:]))


# Resize


@operator("Resize", since=11)
def resize(
    x: Any,
    roi: Static = None,
    scales: Static = None,
    sizes: Static = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Any = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Any:
    """Leading axes that keep their extents are left out."""
    named = [normalize_axis(a, x.ndim) for a in axes] if axes else list(range(x.ndim))
    extents = [x.shape[axis] for axis in named]
    by_sizes = sizes is not None and sizes.size
    if by_sizes:
        wanted, factors = _by_sizes(integers(sizes), extents, keep_aspect_ratio_policy)
    else:
        factors = _factors(scales, len(named))
        wanted = [scaled(e, f) for e, f in zip(extents, factors, strict=True)]
    for extent in wanted:
        if isinstance(extent, int):
            listable(extent, "a resized axis")
    regions = _regions(roi, len(named))
    rows = {a: r for a, *r in zip(named, wanted, factors, regions, strict=True)}
    rest = [rows.get(axis, [extent, 1.0, (0.0, 1.0)]) for axis, extent in enumerate(x.shape)]
    first = 0
    while first < x.ndim - 1 and rest[first] == [x.shape[first], 1.0, (0.0, 1.0)]:
        first += 1
    size, scale, region = zip(*rest[first:], strict=True)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    quotients = by_sizes and keep_aspect_ratio_policy == "stretch"
    return emit(
        ops.resize, x, size=size, scale=() if quotients else scale, mode=_MODES.get(mode, mode),
        coordinates=coordinate_transformation_mode, rounding=nearest_mode,
        region=region if crops else (), cubic_coefficient=cubic_coeff_a,
        exclude_outside=bool(exclude_outside), extrapolation=extrapolation_value,
        antialias=bool(antialias),
    )  # fmt: skip


_MODES = {"bilinear": "linear"}
_LARGEST_DENOMINATOR = 1024
_CHECK = "check the scales and sizes of the model: export it again"


def _factors(scales: Any, count: int) -> list[float]:
    """Return the scales of `count` axes, which are positive and finite."""
    if scales is None:
        raise FormatError("it has neither scales nor sizes", remedy=_CHECK)
    factors = [float(scale) for scale in np.atleast_1d(scales)]
    if len(factors) != count or not all(0 < factor < math.inf for factor in factors):
        raise FormatError(
            f"its scales are {factors}; {count} axes have one positive number each", remedy=_CHECK
        )
    return factors


def scaled(extent: Extent, factor: float) -> Extent:
    """Return an extent times a factor of f32, rounded to f32 and then down, as ONNX Runtime does.

    A symbolic extent is multiplied by the simplest fraction that f32 rounds to the factor.
    """
    if isinstance(extent, int):
        with np.errstate(over="ignore"):
            product = np.float32(extent) * np.float32(factor)
        return extent_of(float(product), f"extent {extent} times {factor}")
    exact = Fraction(factor)
    simple = exact.limit_denominator(_LARGEST_DENOMINATOR)
    chosen = simple if np.float32(float(simple)) == np.float32(factor) else exact
    return floor_divide(extent * chosen.numerator, chosen.denominator)


def extent_of(number: float, what: str) -> int:
    """Return a computed number rounded down to an extent; FormatError for NaN and infinities."""
    if not math.isfinite(number) or number < 0:
        raise FormatError(f"{what} is {number}, which is not an extent", remedy=_CHECK)
    return math.floor(number)


@operator("Upsample")
def upsample_1(x: Any, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Any:
    return upsample(x, np.asarray([1, 1, height_scale, width_scale], np.float32), mode=mode)


@operator("Upsample", since=7)
def upsample(x: Any, scales: Static, *, mode: str = "nearest") -> Any:
    return resize(x, None, scales, mode=mode, nearest_mode="floor",
                  coordinate_transformation_mode="asymmetric")  # fmt: skip


@operator("Resize", since=10)
def resize_10(x: Any, scales: Static, *, mode: str = "nearest") -> Any:
    """The nearest element is the next one where an axis becomes smaller, else the one before."""
    if mode != "nearest":
        return upsample(x, scales, mode=mode)
    smaller = resize(x, None, np.minimum(scales, 1), mode=mode, nearest_mode="ceil",
                     coordinate_transformation_mode="asymmetric")  # fmt: skip
    return upsample(smaller, np.maximum(scales, 1), mode=mode)


def _by_sizes(
    sizes: tuple[Extent, ...], extents: list[Extent], policy: str
) -> tuple[list[Extent], list[float]]:
    """Return the extents wanted, and the factors; with the policy "stretch" those of axes kept."""
    if policy == "stretch":
        pairs = zip(sizes, extents, strict=True)
        return list(sizes), [1.0 if size == extent else math.nan for size, extent in pairs]
    pairs = zip(sizes, extents, strict=True)
    known = [(s, e) for s, e in pairs if isinstance(s, int) and isinstance(e, int)]
    if len(known) < len(extents):
        raise UnsupportedError(
            f"axes of extents {format_shape(tuple(extents))} keep their ratio, {policy}, which "
            "runs would decide",
            remedy="give numbers for the extents in dims=",
        )
    if not known or 0 in extents:
        raise FormatError(
            f"axes of extents {format_shape(tuple(extents))} have no ratio to keep", remedy=_CHECK
        )
    one = (min if policy == "not_larger" else max)(size / extent for size, extent in known)
    wanted = [extent_of(one * extent + 0.5, "an extent") for _, extent in known]
    return list[Extent](wanted), [one] * len(extents)


def _regions(roi: Any, count: int) -> list[tuple[float, float]]:
    if roi is None or not roi.size:
        return [(0.0, 1.0)] * count
    values = [float(v) for v in roi]
    return list(zip(values[:count], values[count:], strict=True))


# GridSample


@operator("GridSample")
def grid_sample(
    x: Any,
    grid: Any,
    *,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: int = 0,
) -> Any:
    """Read images at places in [-1, 1], the last axis of `grid` being x, y, (z)."""
    spatial = x.shape[2:]
    places = []
    for axis, extent in enumerate(spatial):
        at = grid[..., len(spatial) - 1 - axis]
        span = (extent - 1) / 2 if align_corners else extent / 2
        places.append(rnp.add(rnp.multiply(rnp.add(at, 1), span), 0.0 if align_corners else -0.5))
    corners = bool(align_corners)
    if mode == "nearest":
        return _sampled(x, [rnp.rint(p) for p in places], padding_mode, corners)
    reach = 1 if mode in ("linear", "bilinear") else 2
    return _sampled_between(x, places, reach, padding_mode, corners)


def _sampled_between(
    x: Any, places: list[Any], reach: int, padding_mode: str, corners: bool
) -> Any:
    """Sum over the elements around each place, weighed by their distance on every axis."""
    if padding_mode != "zeros" and reach == 1:
        places = [_reflected(p, e, padding_mode, corners) for p, e in
                  zip(places, x.shape[2:], strict=True)]  # fmt: skip
    bases = [rnp.floor(p) for p in places]
    fractions = [p - base for p, base in zip(places, bases, strict=True)]
    total: Any = 0
    steps = range(1 - reach, reach + 1)
    for offsets in np.ndindex(*(len(steps),) * len(places)):
        taps = [base + steps[o] for base, o in zip(bases, offsets, strict=True)]
        weight: Any = 1
        for fraction, offset in zip(fractions, offsets, strict=True):
            distance = rnp.abs(fraction - steps[offset])  # a far tap is rounded, this is not
            weight = weight * (1 - distance if reach == 1 else _traced_cubic(distance))
        total = total + _sampled(x, taps, padding_mode, corners) * rnp.expand_dims(weight, 1)
    return total


def _traced_cubic(d: Any, a: float = -0.75) -> Any:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return rnp.where(d <= 1, near, rnp.where(d < 2, far, 0))


def _sampled(x: Any, taps: list[Any], padding_mode: str, corners: bool) -> Any:
    """Return the elements at integral places; what is outside is as `padding_mode` says."""
    extents = x.shape[2:]
    if padding_mode == "zeros":
        inside: Any = True
        for tap, extent in zip(taps, extents, strict=True):
            inside = rnp.logical_and(inside, rnp.logical_and(tap >= 0, tap <= extent - 1))
        held = [rnp.clip(t, 0, e - 1) for t, e in zip(taps, extents, strict=True)]
        return rnp.where(rnp.expand_dims(inside, 1), element_at(x, *held), 0)
    pairs = zip(taps, extents, strict=True)
    held = [rnp.clip(_reflected(t, e, padding_mode, corners), 0, e - 1) for t, e in pairs]
    return element_at(x, *held)


def _reflected(at: Any, extent: int, padding_mode: str, corners: bool) -> Any:
    if padding_mode == "border":
        return rnp.clip(at, 0, extent - 1)
    low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
    span = high - low
    if span == 0:
        return rnp.zeros_like(at)
    distance = rnp.remainder(rnp.abs(at - low), 2 * span)
    return rnp.where(distance > span, 2 * span - distance, distance) + low


# RoiAlign


@operator("RoiAlign")
def roi_align(
    x: Any,
    rois: Static,
    images: Static,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "half_pixel",
    node: Any,
) -> Any:
    """Regions of images, of which each cell is the mean or maximum of samples in it."""
    half = coordinate_transformation_mode == "half_pixel" and node.opset >= 16
    cells = []
    for region, image in zip(np.asarray(rois), images, strict=True):
        picked = x[int(image) : int(image) + 1]
        cells.append(_region(picked, region * spatial_scale, half, (output_height, output_width),
                             sampling_ratio, mode))  # fmt: skip
    return rnp.concatenate(cells, 0)


def _region(x: Any, region: Array, half: bool, size: tuple[int, int], ratio: int, mode: str) -> Any:
    left, top, right, bottom = (float(v) - (0.5 if half else 0.0) for v in region)
    height, width = bottom - top, right - left
    if not half:
        height, width = max(height, 1.0), max(width, 1.0)
    rows = _samples(top, height, size[0], ratio, x.shape[2])
    columns = _samples(left, width, size[1], ratio, x.shape[3])
    weights = [(r[1][:, None] * c[1][None, :]) for r in rows for c in columns]
    taken = [_grid(x, r[0], c[0]) * w.astype(x.dtype) for (r, c), w in
             zip(((r, c) for r in rows for c in columns), weights, strict=True)]  # fmt: skip
    counts = rows[0][0].size // size[0], columns[0][0].size // size[1]
    if mode == "avg":
        total: Any = sum(taken[1:], taken[0])
        return rnp.mean(_cells(total, size, counts), (3, 5))
    best = taken[0]
    for each in taken[1:]:
        best = rnp.maximum(best, each)
    return rnp.max(_cells(best, size, counts), (3, 5))


def _cells(x: Any, size: tuple[int, int], counts: tuple[int, int]) -> Any:
    return rnp.reshape(x, (*x.shape[:2], size[0], counts[0], size[1], counts[1]))


def _samples(
    first: float, span: float, cells: int, ratio: int, extent: int
) -> list[tuple[Array, Array]]:
    """Return the two elements around each sample of an axis, and their weights."""
    count = ratio or max(math.ceil(span / cells), 1)
    at = first + (np.arange(cells * count) + 0.5) * span / (cells * count)
    inside = (at >= -1) & (at <= extent)
    at = np.clip(at, 0, extent - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, extent - 1)
    part = at - low
    return [(low, (1 - part) * inside), (high, part * inside)]


def _grid(x: Any, rows: Array, columns: Array) -> Any:
    return emit(ops.gather, emit(ops.gather, x, rows, axis=2), columns, axis=3)
