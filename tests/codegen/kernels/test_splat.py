"""Gaussian splatting through both back ends, compared with a render without lists, in f64."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rlx
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.runtime.toolchain import has_toolchain
from rlx.splat import ops as splat_ops
from rlx.splat import reference
from rlx.splat.layout import Screen
from rlx.splat.tile_lists import tile_lists
from tests.splat_oracle import render
from tests.splat_scenes import NAMES, Array, Scene, camera, mixed_scene, random_scene

stages: Any = reference


BACKENDS = ("llvm", "c") if has_toolchain() else ("llvm",)
SPLATS = 8
COMMON: dict[str, Any] = {
    "width": 37, "height": 29, "tile_size": 8, "max_splat_steps": 5,
    "transmittance_threshold": 0.01,
}  # fmt: skip
"""What several tests compile once, for this many splats."""
MANY = 600


@functools.cache
def program(backend: str, splats: int, coefficients: int, threads: int, **options: Any) -> Any:
    """Compile the image and the gradient of a scene, with its image's cotangent as last input."""
    graph = Graph("splat")
    shapes = [(splats, 3), (splats, 3), (splats, 4), (splats,), (splats, 3)]
    shapes += [(splats, coefficients, 3), (23,)]
    scene = [graph.input(name, shape, "f32") for name, shape in zip(NAMES, shapes, strict=True)]
    seed = graph.input("upstream", (4 * options["width"] * options["height"],), "f32")
    image = splat_ops.gaussian_splat_render(*scene, **options)
    scalar = graph.reduce_sum(image * seed, axes=(0,))
    graph.set_outputs([scalar, image])
    gradients = rlx.passes.grad_with_loss(graph, wrt=scene[:6])
    return rlx.compile(gradients, backend=backend, threads=threads)


def run(scene: Scene, upstream: Array, backend: str, threads: int = 1, **options: Any) -> Any:
    given = scene.arrays
    executable = program(backend, len(given[0]), given[5].shape[1], threads, **options)
    seed = {name: np.float32(1.0) for name in ("d_output",)}
    feeds = {**scene.feeds, "upstream": upstream.astype(np.float32), **seed}
    return executable.run(feeds)[1:]


def upstream_of(options: dict[str, Any], seed: int = 0) -> Array:
    shape = 4 * options["width"] * options["height"]
    drawn: Array = np.random.default_rng(seed).standard_normal(shape)
    return drawn


@pytest.mark.slow
def test_a_gradient_shares_projection_and_lists_with_its_image() -> None:
    kinds = [thunk.kind for thunk in program(BACKENDS[0], MANY, 4, 1, **COMMON).schedule.thunks]
    for kind in ("splat_project", "splat_entries", "splat_coefficients", "argsort"):
        assert kinds.count(kind) == 1


def padded(scene: Scene) -> Scene:
    """Return a scene of `MANY` splats, those added without opacity."""
    more = random_scene(0, MANY - len(scene.positions))
    more = more.with_(opacities=np.zeros(len(more.opacities)))
    pairs = {name: (getattr(scene, name), getattr(more, name)) for name in NAMES[:6]}
    return scene.with_(**{name: np.concatenate(pair) for name, pair in pairs.items()})


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", BACKENDS)
def test_native_code_agrees_with_the_reference(backend: str) -> None:
    upstream = upstream_of(COMMON)
    for scene in (padded(mixed_scene()), padded(random_scene(5, 40, size=0.15))):
        expected = run(scene, upstream, "reference", **COMMON)
        found = run(scene, upstream, backend, **COMMON)
        for ours, other in zip(found, expected, strict=True):
            scale = max(1.0, float(np.nanmax(np.abs(other))))
            np.testing.assert_allclose(ours / scale, other / scale, atol=2e-5)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_have_the_same_bits_at_one_and_two_threads(backend: str) -> None:
    scene, upstream = random_scene(6, MANY, size=0.05), upstream_of(COMMON)
    alone = run(scene, upstream, backend, **COMMON)
    together = run(scene, upstream, backend, threads=2, **COMMON)
    for one, two in zip(alone, together, strict=True):
        assert one.tobytes() == two.tobytes()


@functools.cache
def outlines_of_many() -> dict[str, Array]:
    """What lists are made of, for splats enough for several blocks."""
    *scene, meta = random_scene(9, 2000, 1, size=0.03).arrays
    view: dict[str, Any] = {"width": 70, "height": 50}
    *_, outlines, distances = stages.splat_project(
        *scene, np.array([False]), meta, **view, radius_scale=1.6, alpha_cutoff=1 / 255
    )
    counts = stages.splat_tile_counts(outlines, **view, tile_size=8)
    order = np.argsort(distances, kind="stable")
    return {"order": order, "counts": counts, "outlines": outlines}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("room", [20_000, 2_500], ids=["all", "dropping"])
def test_lists_built_by_several_threads_are_those_of_one(backend: str, room: int) -> None:
    """Without room for all entries, the last blocks drop theirs."""
    graph, feeds = Graph("lists"), outlines_of_many()
    order, counts, outlines = (
        graph.input(name, feeds[name].shape, dtype)
        for name, dtype in (("order", "i64"), ("counts", "i32"), ("outlines", "f64"))
    )
    lists = tile_lists(order, counts, outlines, Screen(70, 50, 8), room)
    graph.set_outputs(list(lists))
    expected = evaluate(graph, feeds)
    for threads in (1, 2, 3):
        found = rlx.compile(graph, backend=backend, threads=threads).run(feeds)
        assert [one.tobytes() for one in found] == [other.tobytes() for other in expected]
    assert (expected[-1][1] > 0) == (room == 2_500)


def finite(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Splats: ordinary, thin, huge, of negative depth, around the camera, on top of others."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    scene = random_scene(int(rng.integers(2**31)), SPLATS)
    positions, scales = scene.positions.copy(), scene.scales.copy()
    opacities = scene.opacities.copy()
    for i in range(SPLATS):
        kind = draw(
            st.sampled_from(["plain", "thin", "huge", "behind", "around", "same", "opaque"])
        )
        if kind == "thin":
            scales[i, int(rng.integers(3))] = np.log(draw(finite(0.002, 0.05)))
        elif kind == "huge":
            scales[i] = np.log(draw(finite(2.0, 30.0)))
        elif kind == "behind":
            positions[i, 2] = draw(finite(4.0, 8.0))
        elif kind == "around":
            positions[i] = [*rng.uniform(-0.2, 0.2, 2), draw(finite(3.0, 3.99))]
        elif kind == "same":
            positions[i] = positions[0]
        elif kind == "opaque":
            opacities[i] = draw(finite(0.99, 1.5))
    view = camera(up=(0, 1, draw(finite(-0.5, 0.5))), fov=draw(finite(20.0, 90.0)))
    return scene.with_(positions=positions, scales=scales, opacities=opacities, meta=view)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS[:1])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(scene=scenes(), step_limit=st.sampled_from([0, 3]))
def test_images_are_those_of_compositing_everything(
    backend: str, scene: Scene, step_limit: int
) -> None:
    """Pixels differ by rounding, but where a splat's alpha is the cutoff, which few may be."""
    options: dict[str, Any] = {
        "width": 21, "height": 17, "tile_size": 8, "transmittance_threshold": 1e-4,
    }  # fmt: skip
    rounded = Scene(*[array.astype(np.float64) for array in scene.arrays])
    expected = render(rounded, 21, 17, max_splat_steps=step_limit, transmittance_threshold=1e-4)
    (found, *_) = run(scene, np.zeros(4 * 21 * 17), backend, **options, max_splat_steps=step_limit)
    error = np.abs(found.reshape(17, 21, 4) - expected).max(-1)
    assert np.sum(error > 2e-4) <= 2
    assert error.max() < 0.03


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_broken_splat_spoils_nothing_but_what_it_covers(backend: str) -> None:
    """NaN in geometry hides a splat; NaN in a colour shows where the splat is."""
    scene = padded(random_scene(8, 6, size=0.1))
    positions, colors = scene.positions.copy(), scene.sh_coeffs.copy()
    positions[0] = np.nan
    upstream = upstream_of(COMMON)
    image, *gradients = run(scene.with_(positions=positions), upstream, backend, **COMMON)
    assert np.isfinite(image).all()
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert not gradients[0][0].any()
    colors[1, 0, 0] = np.nan
    spoiled = run(scene.with_(sh_coeffs=colors), upstream, backend, **COMMON)[0]
    whole = run(scene, upstream, backend, **COMMON)[0]
    red = spoiled.reshape(-1, 4)[:, 0]
    assert 0 < np.isnan(red).sum() < red.size
    np.testing.assert_array_equal(spoiled[~np.isnan(spoiled)], whole[~np.isnan(spoiled)])
