"""Gaussian splatting: ellipsoids of light, seen exactly along the ray of every pixel.

A scene is six arrays of N splats: positions `[N, 3]`, logarithms of scales `[N, 3]`, quaternions
(w, x, y, z) `[N, 4]` used as they are, opacities `[N]`, colours `[N, 3]`, and coefficients of
spherical harmonics `[N, K, 3]`; any shapes of these sizes, in f32. `meta` holds the camera and the
background. An image is `[height * width * 4]`: red, green, blue and alpha of each pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rlx.custom import (
    DType,
    NoDerivativeError,
    Pullback,
    TensorType,
    Value,
    define_composite,
    ops,
    require_dtype,
)
from rlx.errors import ShapeError
from rlx.splat.layout import (
    PARAMS_LENGTH,
    VERSION,
    RenderAttributes,
    RenderBackwardAttributes,
    SceneShape,
    Screen,
    count,
    gaussian_splat_packed_grad_len,
    list_entries,
    require_blending,
    require_count,
    require_meta,
    require_settings,
    scene_shape,
)
from rlx.splat.rays import pixel_rays
from rlx.splat.stages import (
    splat_coefficients,
    splat_composite,
    splat_composite_backward,
    splat_project,
    splat_project_backward,
    splat_sum_moments,
    splat_tile_counts,
)
from rlx.splat.tile_lists import TileLists, tile_lists

_EMPTY_TILE = 4294967295.0
_ALL_HARMONICS = 16


def _refused(message: str, remedy: str) -> Callable[..., NoReturn]:
    def rule(*_: object, **__: object) -> NoReturn:
        raise NoDerivativeError(message, remedy=remedy)

    return rule


_of_one_stage = _refused(
    "gaussian_splat_prepare and gaussian_splat_rasterize must be fused before "
    "differentiation, and one of them is there without the other",
    "rasterize what was prepared in the same graph, or use gaussian_splat_render",
)
_second = _refused(
    "Gaussian splatting has no second derivative",
    "stop_gradient one of the two, or use a loss of first derivatives",
)
_forward = _refused(
    "Gaussian splatting has no forward-mode derivative",
    "use reverse mode: rlx.grad or rlx.vjp",
)


def _pull_back(at: Pullback, *operands: Value, **attributes: Any) -> list[Value]:
    """Draw the scene again, in one op; the camera's cotangent is zero."""
    packed = gaussian_splat_render_backward(
        *operands, at.cotangent, **attributes, loss_grad_clip=float("inf")
    )
    shape = scene_shape(*(operand.type for operand in operands))
    parts = unpack_gaussian_splat_packed_grads(packed, shape.splats, shape.coefficients)
    cotangents = [
        ops.reshape(part, shape=operand.shape)
        if operand.type.elements == part.type.elements
        else _zeros(operand)  # no harmonics, so none of theirs
        for operand, part in zip(operands[:6], parts, strict=True)
    ]
    return [*cotangents, _zeros(operands[6])]


def _zeros(like: Value) -> Value:
    zero: Value = ops.expand(like.graph.constant(np.zeros((), np.float32)), shape=like.shape)
    return zero


_declare = partial(
    define_composite,
    jvp=_forward,
    one_by_one="an image is far more work than an op costs, and its lists differ from all others",
    version=VERSION,
)


@partial(_declare, attributes=RenderAttributes, vjp=_of_one_stage)
def gaussian_splat_prepare(
    positions: Value,
    scales: Value,
    rotations: Value,
    opacities: Value,
    colors: Value,
    sh_coeffs: Value,
    meta: Value,
    settings: RenderAttributes,
) -> Value:
    """Everything before compositing, in one buffer of f32: projected splats, lists, rays.

    Its last two numbers are `max_splat_steps` and how many list entries found no room.
    """
    scene = _Scene.of(positions, scales, rotations, opacities, colors, sh_coeffs, meta)
    view = _View.of(scene, settings)
    parts = [view.color_alpha, view.valid, view.pos_local, view.inv_scale, scene.rotations]
    if scene.shape.splats == 0:
        parts = [part * 0.0 for part in parts]
    parts += [
        view.listed(), view.tile_ranges(),
        pixel_rays(scene.meta, settings.width, settings.height),
        _params(scene.meta, settings, view.dropped()),
    ]  # fmt: skip
    return ops.concat(*(_flat(part) for part in parts), axis=0)


@partial(_declare, vjp=_of_one_stage)
def gaussian_splat_rasterize(
    prep: Value,
    meta: Value,
    *,
    width: int = 64,
    height: int = 64,
    tile_size: int = 16,
    alpha_cutoff: float = 1 / 255,
    max_splat_steps: int = 32,
    transmittance_threshold: float = 0.01,
    max_list_entries: int,
) -> Value:
    """Composite what `gaussian_splat_prepare` made, with the camera and background of `meta`."""
    for name, value in (("prep", prep), ("meta", meta)):
        require_dtype(value.type, "f32", name)
    require_settings(alpha_cutoff)
    require_blending(max_splat_steps, transmittance_threshold)
    screen = Screen(width, height, tile_size)
    require_meta(meta.type)
    entries = list_entries(1, screen, max_list_entries)
    rows = _prepared_splats(prep.type, screen, entries)
    lengths = (4 * rows, rows, 3 * rows, 3 * rows, 4 * rows, entries, 2 * screen.tiles)
    color_alpha, valid, pos_local, inv_scale, rotations, listed, ranges = sections(prep, lengths)
    camera = ops.reshape(meta, shape=(meta.type.elements,))
    coefficients = splat_coefficients(
        ops.reshape(color_alpha, shape=(rows, 4)), valid, ops.reshape(pos_local, shape=(rows, 3)),
        ops.reshape(inv_scale, shape=(rows, 3)), ops.reshape(rotations, shape=(rows, 4)), camera,
        width=width, height=height, alpha_cutoff=alpha_cutoff,
    )  # fmt: skip
    return splat_composite(
        coefficients, _within(listed, rows - 1),
        _within(ops.reshape(ranges, shape=(screen.tiles, 2)), entries, below=_EMPTY_TILE), camera,
        width=width, height=height, tile_size=tile_size, alpha_cutoff=alpha_cutoff,
        max_splat_steps=max_splat_steps, transmittance_threshold=transmittance_threshold,
    )  # fmt: skip


def gaussian_splat_render_decomposed(
    positions: Value,
    scales: Value,
    rotations: Value,
    opacities: Value,
    colors: Value,
    sh_coeffs: Value,
    meta: Value,
    *,
    width: int = 64,
    height: int = 64,
    tile_size: int = 16,
    radius_scale: float = 1.6,
    alpha_cutoff: float = 1 / 255,
    max_splat_steps: int = 32,
    transmittance_threshold: float = 0.01,
    max_list_entries: int | None = None,
) -> Value:
    """Draw a scene as two ops, `gaussian_splat_prepare` and `gaussian_splat_rasterize`.

    The same bits as `gaussian_splat_render`, which autodiff turns the two into.
    """
    splats = count(positions.type, "positions") // 3
    room = list_entries(splats, Screen(width, height, tile_size), max_list_entries)
    prepared = gaussian_splat_prepare(
        positions, scales, rotations, opacities, colors, sh_coeffs, meta,
        width=width, height=height, tile_size=tile_size, radius_scale=radius_scale,
        alpha_cutoff=alpha_cutoff, max_splat_steps=max_splat_steps,
        transmittance_threshold=transmittance_threshold, max_list_entries=room,
    )  # fmt: skip
    return gaussian_splat_rasterize(
        prepared, meta, width=width, height=height, tile_size=tile_size,
        alpha_cutoff=alpha_cutoff, max_splat_steps=max_splat_steps,
        transmittance_threshold=transmittance_threshold, max_list_entries=room,
    )  # fmt: skip


@partial(_declare, attributes=RenderBackwardAttributes, vjp=_second)
def gaussian_splat_render_backward(
    positions: Value,
    scales: Value,
    rotations: Value,
    opacities: Value,
    colors: Value,
    sh_coeffs: Value,
    meta: Value,
    d_loss_rgba: Value,
    settings: RenderBackwardAttributes,
) -> Value:
    """The cotangents of a scene from that of its image, one after the other in one array.

    The exact derivative for the splats that each pixel blended. `loss_grad_clip` bounds the
    cotangents of the image and of each alpha; `sh_band` and `max_anisotropy` have no effect.
    """
    scene = _Scene.of(positions, scales, rotations, opacities, colors, sh_coeffs, meta)
    require_dtype(d_loss_rgba.type, "f32", "d_loss_rgba")
    require_count(d_loss_rgba.type, 4 * settings.screen.pixels, "d_loss_rgba", "4 for each pixel")
    view = _View.of(scene, settings)
    moments = splat_composite_backward(
        view.coefficients, view.entries, view.places, view.ranges, scene.meta, _flat(d_loss_rgba),
        **settings.compositing(), loss_grad_clip=settings.loss_grad_clip,
    )  # fmt: skip
    gradients = splat_project_backward(
        splat_sum_moments(moments, view.visits, view.totals), view.coefficients, *scene.arrays,
        scene.uses_colors, scene.meta, width=settings.width, height=settings.height,
        radius_scale=settings.radius_scale,
    )  # fmt: skip
    if scene.shape.splats == 0:
        return _empty(scene.meta)
    return ops.concat(*(_flat(gradient) for gradient in gradients), axis=0)


@partial(
    _declare,
    attributes=RenderAttributes,
    common_body=gaussian_splat_render_decomposed,
    vjp=_pull_back,
)
def gaussian_splat_render(
    positions: Value,
    scales: Value,
    rotations: Value,
    opacities: Value,
    colors: Value,
    sh_coeffs: Value,
    meta: Value,
    settings: RenderAttributes,
) -> Value:
    """Draw a scene: project, list the splats of each tile by distance, composite.

    The same bits as `gaussian_splat_rasterize` of `gaussian_splat_prepare`.
    """
    scene = _Scene.of(positions, scales, rotations, opacities, colors, sh_coeffs, meta)
    view = _View.of(scene, settings)
    return splat_composite(
        view.coefficients, view.entries, view.ranges, scene.meta, **settings.compositing()
    )


class _Scene:
    """The operands of a scene in the shapes that kernels read."""

    def __init__(self, shape: SceneShape, arrays: list[Value], meta: Value) -> None:
        self.shape = shape
        self.arrays = arrays
        self.meta = meta
        self.rotations = arrays[2]
        self.uses_colors = self._uses_colors()

    @classmethod
    def of(cls, *given: Value) -> _Scene:
        shape = scene_shape(*(value.type for value in given))
        *arrays, meta = given
        rows, coefficients = shape.rows, max(shape.coefficients, 1)
        shapes = [(rows, 3), (rows, 3), (rows, 4), (rows,), (rows, 3), (rows, coefficients, 3)]
        shaped = [_shaped(value, wanted) for value, wanted in zip(arrays, shapes, strict=True)]
        return cls(shape, shaped, _flat(meta))

    def _uses_colors(self) -> Value:
        """True if no splat has a constant term of the harmonics: colours replace it."""
        graph = self.meta.graph
        if self.shape.coefficients == 0 or self.shape.coefficients >= _ALL_HARMONICS:
            return graph.constant(np.array([self.shape.coefficients == 0]))
        first = ops.narrow(self.arrays[5], axis=1, start=0, length=1)
        largest = ops.reduce_max(ops.abs(first), axes=(0, 1, 2))
        return ops.reshape(ops.le(largest, 1e-8), shape=(1,))


class _View:
    """A scene as a camera sees it."""

    def __init__(self, projected: tuple[Value, ...], lists: TileLists, of: Value) -> None:
        self.color_alpha, self.valid, self.pos_local, self.inv_scale, *_ = projected
        self.entries, self.places, self.ranges, self.visits, self.totals = lists
        self.coefficients = of

    @classmethod
    def of(cls, scene: _Scene, settings: RenderAttributes) -> _View:
        require_blending(settings.max_splat_steps, settings.transmittance_threshold)
        screen, alpha_cutoff = settings.screen, settings.alpha_cutoff
        require_settings(alpha_cutoff, settings.radius_scale)
        size = {"width": screen.width, "height": screen.height}
        projected = splat_project(
            *scene.arrays, scene.uses_colors, scene.meta, **size,
            radius_scale=settings.radius_scale, alpha_cutoff=alpha_cutoff,
        )  # fmt: skip
        *frame, outlines, distances = projected
        counts = splat_tile_counts(outlines, **size, tile_size=screen.tile_size)
        room = list_entries(scene.shape.splats, screen, settings.max_list_entries)
        lists = tile_lists(ops.argsort(distances), counts, outlines, screen, room)
        coefficients = splat_coefficients(
            *frame, scene.rotations, scene.meta, **size, alpha_cutoff=alpha_cutoff
        )
        return cls(projected, lists, coefficients)

    def listed(self) -> Value:
        return ops.cast(self.entries, to=DType.F32)

    def tile_ranges(self) -> Value:
        """Where each tile's list begins and ends; one that is empty begins at 2^32."""
        starts, ends = (ops.narrow(self.ranges, axis=1, start=i, length=1) for i in (0, 1))
        empty = ops.expand(ops.ge(starts, ends), shape=self.ranges.shape)
        nothing = self.ranges.graph.constant(np.array([[_EMPTY_TILE, 0.0]], np.float32))
        return ops.where(empty, nothing, ops.cast(self.ranges, to=DType.F32))

    def dropped(self) -> Value:
        return ops.cast(ops.narrow(self.totals, axis=0, start=1, length=1), to=DType.F32)


def _params(meta: Value, settings: RenderAttributes, dropped: Value) -> Value:
    screen = settings.screen
    sizes = [screen.width, screen.height, screen.tile_size, screen.columns]
    cutoffs = [settings.alpha_cutoff, settings.transmittance_threshold]
    before = meta.graph.constant(np.array([*sizes, *cutoffs], np.float32))
    background = ops.pow(ops.maximum(ops.narrow(meta, axis=0, start=12, length=3), 0.0), 2.2)
    after = meta.graph.constant(np.array([settings.max_splat_steps], np.float32))
    return ops.concat(before, background, after, dropped, axis=0)


def _prepared_splats(prep: TensorType, screen: Screen, entries: int) -> int:
    """Return how many rows of splats a prepare buffer holds."""
    fixed = entries + 2 * screen.tiles + 3 * screen.pixels + PARAMS_LENGTH
    rows, rest = divmod(count(prep, "prep") - fixed, 15)
    if rest or rows < 1:
        raise ShapeError(
            f"prep has {count(prep, 'prep')} elements; {fixed} are lists, rays and settings, and "
            "the others must be 15 for each splat",
            remedy="give width, height, tile_size and max_list_entries as to the prepare op",
        )
    return rows


def sections(packed: Value, lengths: Sequence[int]) -> list[Value]:
    """Split an array into parts of these lengths, one after the other."""
    flat, start, parts = _flat(packed), 0, list[Value]()
    for length in lengths:
        parts.append(ops.narrow(flat, axis=0, start=start, length=length))
        start += length
    return parts


def _within(values: Value, largest: int, below: float | None = None) -> Value:
    """Return numbers as integers in `0 .. largest`; those from `below` on, and NaN, are 0."""
    bound = float(largest) + 1.0 if below is None else below
    sound = ops.where(ops.lt(values, bound), values, 0.0)
    return ops.cast(ops.minimum(ops.maximum(sound, 0.0), float(largest)), to=DType.I32)


def _shaped(value: Value, shape: tuple[int, ...]) -> Value:
    """Return `value` in `shape`; what has no elements is zeros."""
    if value.type.elements == 0:
        return value.graph.constant(np.zeros(shape, np.float32))
    return ops.reshape(value, shape=shape)


def _flat(value: Value) -> Value:
    return ops.reshape(value, shape=(value.type.elements,))


def _empty(like: Value) -> Value:
    return ops.narrow(like, axis=0, start=0, length=0)


class SplatGradients(NamedTuple):
    """The cotangents of a scene's six arrays, flat."""

    positions: Value
    scales: Value
    rotations: Value
    opacities: Value
    colors: Value
    sh_coeffs: Value


def unpack_gaussian_splat_packed_grads(
    packed: Value, splats: int, coefficients: int
) -> SplatGradients:
    """Split what `gaussian_splat_render_backward` returns into its six parts.

    A scene without harmonics has three zeros for each splat in their place.
    """
    total = gaussian_splat_packed_grad_len(splats, coefficients)
    require_count(
        packed.type, total, "packed", f"14 and 3 for each coefficient, of {splats} splats"
    )
    lengths = (3, 3, 4, 1, 3, 3 * max(coefficients, 1))
    return SplatGradients(*sections(packed, [splats * length for length in lengths]))
