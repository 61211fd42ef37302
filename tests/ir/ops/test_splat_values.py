"""Gaussian splatting: known values, wrong uses, and scenes without limits on their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import GraphError, NoRuleError, ShapeError, UnsupportedError
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.autodiff.prepare import prepare_for_autodiff
from rlx.passes.lowering.kernel_dispatch import KernelDispatch, Policy, use_common_bodies
from rlx.splat import ops as splat_ops
from rlx.splat import reference
from rlx.splat.layout import (
    gaussian_splat_packed_grad_len,
    gaussian_splat_prep_packed_len,
    gaussian_splat_tile_count,
)
from tests.splat_oracle import render
from tests.splat_runs import drawn, gradient, inputs, near, prepared, sections
from tests.splat_scenes import (
    NAMES,
    Scene,
    camera,
    one_splat,
    parity_scene,
    random_scene,
    tilted_splat,
)

stages: Any = reference


TINY: dict[str, Any] = {
    "tile_size": 8, "max_splat_steps": 32768, "transmittance_threshold": 1e-4,
    "max_list_entries": 131072,
}  # fmt: skip
SMALL: dict[str, Any] = {"width": 8, "height": 8, "tile_size": 8, "radius_scale": 1.0}
PIXEL: dict[str, Any] = {
    "width": 1, "height": 1, "tile_size": 1, "radius_scale": 1.0, "max_list_entries": 4,
}  # fmt: skip
HARMONICS = np.reshape([0.5, -0.2, 0.1, 0.3, 0.1, -0.2, -0.4, 0.2, 0.6, 0.2, -0.5, 0.1], (1, 4, 3))


# Known values


@pytest.mark.parametrize("settings", [{}, TINY], ids=["defaults", "parity-tiny"])
def test_the_parity_scene_has_a_known_image(settings: dict[str, Any]) -> None:
    image = drawn(parity_scene(), **settings)
    near(image.astype(np.float64).sum((0, 1)), [37.287805, 66.088337, 124.242696, 50.127281])
    assert (image[..., 3] > 0).sum() == 244
    for (row, column), expected in {
        (0, 0): (0.006309573, 0.015395747, 0.028991187, 0),
        (35, 13): (0.447751286, 0.015406610, 0.214779615, 0.742611917),
        (40, 20): (0.180991531, 0.028634260, 0.110672585, 0.521032865),
        (43, 31): (0.102237328, 0.072435326, 0.065170338, 0.541819826),
        (38, 38): (0.028547753, 0.079661748, 0.031484058, 0.366273713),
        (32, 43): (0.009125858, 0.049789829, 0.023758238, 0.177027455),
    }.items():
        near(image[row, column], expected)


def test_the_parity_scene_has_known_preparations() -> None:
    buffer = prepared(parity_scene(), max_list_entries=576)
    assert buffer.size == gaussian_splat_prep_packed_len(18, 576, 64, 64, 16) == 13177
    color, valid, _, _, quat, listed, ranges, rays, params = sections(buffer, 18, 576, 16, 64 * 64)
    assert valid.tolist() == [1.0] * 18
    ranges = ranges.reshape(16, 2)
    counts = {t: int(e - s) for t, (s, e) in enumerate(ranges) if s < e}
    assert counts == {4: 1, 6: 2, 8: 3, 9: 11, 10: 11}
    assert ranges[0].tolist() == [4294967296.0, 0.0]
    start, end = ranges[9].astype(int)
    assert listed[start:end].tolist() == list(range(17, 6, -1))
    start, end = ranges[10].astype(int)
    assert listed[start:end].tolist() == list(range(10, -1, -1))
    assert not listed[28:].any()
    near(color.reshape(18, 4)[:, 3], parity_scene().opacities)
    assert quat.tolist() == [1.0, 0.0, 0.0, 0.0] * 18
    near(np.linalg.norm(rays.reshape(-1, 3), axis=1), 1.0)
    near(params, [64, 64, 16, 4, 1 / 255, 0.01, 0.1**2.2, 0.15**2.2, 0.2**2.2, 32, 0])


def test_a_small_tile_lists_more_entries_for_the_same_image() -> None:
    buffer = prepared(parity_scene(), tile_size=8, max_list_entries=576)
    *_, ranges, _, params = sections(buffer, 18, 576, 64, 64 * 64)
    assert max(ranges.reshape(64, 2)[:, 1]) == 50
    assert params[10] == 0


def test_gradients_of_the_parity_scene_are_known() -> None:
    ones = np.ones(4 * 64 * 64)
    found = gradient(parity_scene(), ones)
    for name, total, norm in (
        ("positions", 45.3455006, 14.1812690),
        ("scales", 128.3201003, 25.6774394),
        ("rotations", 0.0, 0.0),
        ("opacities", 131.9582766, 34.9529557),
        ("colors", 74.4934695, 13.6635946),
        ("sh_coeffs", 0.0, 0.0),
    ):
        near(found[name].sum(), total, 2e-5)
        near(np.linalg.norm(found[name]), norm, 1e-5)
    near(found["opacities"][:4], [3.796057878, 3.963571263, 4.129045107, 4.338057368])


def test_one_splat_in_one_pixel() -> None:
    near(drawn(one_splat(), **PIXEL)[0, 0], [0.515596290, 0.025897505, 0.009423207, 0.8])
    found = gradient(one_splat(), np.ones(4), **PIXEL)
    near(found["opacities"], [2.22400048])
    near(found["colors"], [1.226283067, 0.239892676, 0.138207039])
    near(found["positions"], 0.0)


def test_the_nearer_of_two_splats_is_in_front() -> None:
    scene = one_splat(
        positions=np.array([[0.0, 0, 0], [0, 0, 1]]),
        scales=np.full((2, 3), np.log(0.3)),
        rotations=np.tile([1.0, 0, 0, 0], (2, 1)),
        opacities=np.array([0.8, 0.5]),
        colors=np.array([[0.9, 0.2, 0.1], [0.1, 0.6, 0.3]]),
    )
    near(drawn(scene, **PIXEL)[0, 0], [0.148302489, 0.129572730, 0.032276204, 0.9])
    found = gradient(scene, np.ones(4), **PIXEL)
    near(found["opacities"], [0.811864213, 0.059582331])
    expected = [0.310729024, 0.288668361, 0.135252663, 0.388411280, 0.360835452, 0.169065829]
    near(found["colors"], expected)


def test_a_tilted_splat_has_a_known_image() -> None:
    image = drawn(tilted_splat(), **SMALL)
    near(image[3, 3], [0.044140507, 0.017472879, 0.023626258, 0.177640450])
    near(image.sum((0, 1)), [0.729253399, 0.997717328, 1.825886304, 1.028006961])
    buffer = prepared(tilted_splat(), **SMALL, max_list_entries=4)
    *_, pos_local, inv_scale, _, _, _, rays, _ = sections(buffer, 1, 4, 1, 64)
    near(pos_local, [3.422222222, 0.166666667, 1.706666667])
    near(inv_scale, [1.111111111, 1.666666667, 0.666666667])
    near(rays.reshape(8, 8, 3)[3, 3], [0.071795816, -0.071795816, -0.994832007])


def test_gradients_of_a_tilted_splat_are_known() -> None:
    found = gradient(tilted_splat(), np.ones(256), **SMALL)
    near(found["positions"], [-0.179038394, 0.440586579, 0.598756794])
    near(found["scales"], [0.243696240, 1.091610030, 1.051469928])
    near(found["rotations"], [-1.648461127, 0.263046623, 0.031239668, -0.748071644])
    near(found["opacities"], [2.619403680])
    near(found["colors"], [0.696032861, 0.263598156, 0.263709501])


def test_harmonics_are_have_known_images_and_gradients() -> None:
    scene = tilted_splat(sh_coeffs=HARMONICS)
    near(drawn(scene, **SMALL).sum((0, 1)), [0.493308288, 1.121228568, 2.195098181, 1.028006961])
    found = gradient(scene, np.ones(256), **SMALL)
    near(found["positions"], [-0.219632056, 0.450683855, 0.715225103])
    near(found["scales"], [0.291977993, 1.312131272, 1.255649172])
    near(found["rotations"], [-1.981316180, 0.296420821, 0.040872808, -0.912409725], 5e-6)
    near(found["opacities"], [3.047143839])
    near(
        found["sh_coeffs"],
        [0.104117233, 0.137963612, 0.219676882, 0.004501381, 0.005964687, 0.009497460,
         0.180055220, 0.238587484, 0.379898392, 0.009002761, 0.011929374, 0.018994920],
    )  # fmt: skip
    assert not found["colors"].any()


def test_a_splat_thinner_than_a_quarter_of_a_pixel_is_not_drawn() -> None:
    scene = one_splat(scales=np.full((1, 3), np.log(0.001)))
    assert not drawn(scene, radius_scale=1.0)[..., 3].any()


def test_lengths_are_known() -> None:
    assert gaussian_splat_prep_packed_len(2, 64, 32, 24, 16) == 2417
    assert gaussian_splat_packed_grad_len(18, 1) == 306
    assert gaussian_splat_packed_grad_len(1, 4) == 26
    assert gaussian_splat_tile_count(33, 16, 16) == 3


def test_outlines_of_the_parity_scene_are_known() -> None:
    *given, meta = parity_scene().arrays
    _, _, _, _, outlines, _ = stages.splat_project(
        *given, np.array([True]), meta, width=64, height=64, radius_scale=1.6, alpha_cutoff=1 / 255
    )
    for splat, center, conic in (
        (0, (43.100238, 32.0), (0.229568999, 0.0, 0.238764278)),
        (9, (31.170619, 43.270203), (0.126202203, 0.000367843, 0.121230774)),
        (17, (13.436020, 35.697155), (0.060970585, 0.001349700, 0.067478832)),
    ):
        near(outlines[splat, :2], center)
        near(outlines[splat, 2:5], conic)


def decomposed(scene: Scene, **settings: Any) -> Graph:
    graph = Graph("decomposed")
    image = splat_ops.gaussian_splat_render_decomposed(*inputs(graph, scene), **settings)
    graph.set_outputs([image])
    return graph


def kinds(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes if node.op.name.startswith("gaussian")]


FEW: dict[str, Any] = {
    "width": 8, "height": 8, "tile_size": 4, "radius_scale": 1.0, "alpha_cutoff": 0.01,
    "max_splat_steps": 8, "transmittance_threshold": 0.05, "max_list_entries": 64,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_two_stages_give_the_same_bits_as_one(backend: str) -> None:
    scene = random_scene(3, 9)
    one = Graph("one")
    one.set_outputs([splat_ops.gaussian_splat_render(*inputs(one, scene), **FEW)])
    images = [
        rlx.compile(graph, backend=backend).run(scene.feeds)[0]
        for graph in (one, decomposed(scene, **FEW))
    ]
    assert images[0].tobytes() == images[1].tobytes()


def test_two_stages_are_one_before_differentiation() -> None:
    graph = decomposed(tilted_splat(), **FEW)
    assert kinds(prepare_for_autodiff(graph)) == ["gaussian_splat_render"]
    total = graph.reduce_sum(graph.outputs[0], axes=(0,))
    graph.set_outputs([total])
    gradients = rlx.passes.grad(graph, wrt=[graph.inputs[0]])
    assert "gaussian_splat_render_backward" in kinds(gradients)


def test_a_gradient_of_nothing_is_nothing() -> None:
    ones = gradient(tilted_splat(), np.ones(256), **SMALL)
    assert all(np.isfinite(part).all() for part in ones.values())
    assert any(part.any() for part in ones.values())
    zero = gradient(tilted_splat(), np.zeros(256), **SMALL)
    assert not any(part.any() for part in zero.values())


@pytest.mark.parametrize(
    ("dispatch", "supported", "takes"),
    [
        (KernelDispatch(), [], False),
        (KernelDispatch(), ["add", "gaussian_splat_render"], False),
        (KernelDispatch(), ["add"], True),
        (KernelDispatch(Policy.FORCE_COMMON), [], True),
        (KernelDispatch(Policy.FORCE_NATIVE), ["add"], False),
        (KernelDispatch(force_common_kinds=frozenset({"gaussian_splat_render"})),
         ["gaussian_splat_render"], True),
        (KernelDispatch(Policy.FORCE_COMMON, frozenset({"gaussian_splat_render"})), [], False),
    ],
)  # fmt: skip
def test_dispatch_is_known(dispatch: KernelDispatch, supported: list[str], takes: bool) -> None:
    scene = random_scene(3, 9)
    graph = Graph("dispatch")
    graph.set_outputs([splat_ops.gaussian_splat_render(*inputs(graph, scene), **FEW)])
    found = use_common_bodies(dispatch, supported)(graph)
    stages_of = ["gaussian_splat_prepare", "gaussian_splat_rasterize"]
    assert kinds(found) == (stages_of if takes else ["gaussian_splat_render"])
    same = zip(evaluate(found, scene.feeds), evaluate(graph, scene.feeds), strict=True)
    assert all(ours.tobytes() == other.tobytes() for ours, other in same)


@pytest.mark.slow
def test_dispatch_after_autodiff_leaves_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = tilted_splat()
    graph = Graph("forced")
    image = splat_ops.gaussian_splat_render(*inputs(graph, scene), **FEW)
    graph.set_outputs([graph.reduce_sum(image, axes=(0,))])
    gradients = rlx.passes.grad_with_loss(graph, wrt=[graph.inputs[4]])
    found = use_common_bodies(KernelDispatch(Policy.FORCE_COMMON))(gradients)
    assert kinds(found).count("gaussian_splat_render_backward") == 1
    assert "gaussian_splat_render" not in kinds(found)
    feeds = {**scene.feeds, "d_output": np.float32(1)}
    monkeypatch.setenv("RLX_KERNEL_DISPATCH", "common")
    loss, colors = rlx.compile(gradients, backend="llvm").run(feeds)
    monkeypatch.setenv("RLX_KERNEL_DISPATCH", "native")
    alone = rlx.compile(gradients, backend="llvm").run(feeds)
    assert np.isfinite(colors).all()
    assert colors.any()
    assert (loss.tobytes(), colors.tobytes()) == (alone[0].tobytes(), alone[1].tobytes())


def test_dispatch_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for spelling, policy in (
        ("force_common", Policy.FORCE_COMMON), ("ForceNative", Policy.FORCE_NATIVE),
        ("anything", Policy.PREFER_NATIVE),
    ):  # fmt: skip
        monkeypatch.setenv("KERNEL_DISPATCH", spelling)
        assert KernelDispatch.from_environment().policy is policy
    with pytest.raises(UnsupportedError, match="there is no op 'gaussian'"):
        KernelDispatch(force_native_kinds=frozenset({"gaussian"}))


def reference_render(scene: Scene, meta: Any, *, width: int, height: int) -> Graph:
    graph = Graph("reference")
    given = [graph.input(name, getattr(scene, name).shape, "f32") for name in NAMES[:6]]
    given.append(graph.constant(meta, "f32"))
    image = splat_ops.gaussian_splat_render_reference(*given, width=width, height=height)
    graph.set_outputs([image])
    return graph


def test_the_reference_draws_with_the_settings_of_the_camera() -> None:
    """`render_reference` has the derivative of `render`."""
    scene = random_scene(3, 9)
    feeds = {name: scene.feeds[name] for name in NAMES[:6]}
    size = [64, 64]  # attributes decide
    settings = np.array([*size, 4, 1.0, 0.01, 2, 0.05, 0], np.float32)
    meta = np.concatenate([camera()[:15], settings])
    graph = reference_render(scene, meta, width=8, height=8)
    (found,) = evaluate(graph, feeds)
    few = {**FEW, "alpha_cutoff": float(settings[4]), "transmittance_threshold": float(settings[6])}
    expected = drawn(scene, **{**few, "max_splat_steps": 2})
    assert found.tobytes() == expected.tobytes()
    assert np.abs(expected - drawn(scene, **few)).max() > 1e-3  # two steps are fewer than eight
    meta[22] = 1.0  # room for one list entry
    (crowded,) = evaluate(reference_render(scene, meta, width=8, height=8), feeds)
    assert crowded.reshape(-1, 4)[:, 3].astype(bool).sum() < (expected[..., 3] > 0).sum()
    graph.set_outputs([graph.reduce_sum(graph.outputs[0], axes=(0,))])
    gradients = rlx.passes.grad(graph, wrt=[graph.inputs[0]])
    assert "gaussian_splat_render_backward" in kinds(gradients)


def test_the_reference_needs_settings_that_are_known() -> None:
    graph = Graph("unknown")
    given = inputs(graph, random_scene(3, 2))
    with pytest.raises(GraphError, match=r"(?s)meta is the result of input.*render_meta"):
        splat_ops.gaussian_splat_render_reference(*given, width=8, height=8)
    with pytest.raises(GraphError, match="tile_size is 0"):
        reference_render(random_scene(3, 2), camera(), width=8, height=8)  # carries no settings


def test_packed_gradients_are_split_by_name() -> None:
    graph = Graph("unpack")
    packed = graph.input("packed", (26,), "f32")
    parts = splat_ops.unpack_gaussian_splat_packed_grads(packed, 1, 4)
    assert [part.shape for part in parts] == [(3,), (3,), (4,), (1,), (3,), (12,)]
    graph.set_outputs(list(parts))
    found = evaluate(graph, {"packed": np.arange(26, dtype=np.float32)})
    assert np.concatenate(found).tolist() == list(range(26))
    with pytest.raises(ShapeError, match="packed has 26 elements; it must have 34"):
        splat_ops.unpack_gaussian_splat_packed_grads(packed, 2, 0)


# Scenes of any size


def test_alpha_of_a_bare_pixel_does_not_depend_on_the_tiles() -> None:
    image = drawn(one_splat(), width=48, height=16, tile_size=16, radius_scale=1.0)
    assert image[0, 0, 3] == image[0, 47, 3] == 0.0


def empty_scene() -> Scene:
    flat = np.zeros((0, 3))
    return Scene(flat, flat, np.zeros((0, 4)), np.zeros(0), flat, np.zeros(0), camera())


def test_an_empty_scene_is_background_and_has_empty_gradients() -> None:
    image = drawn(empty_scene(), width=5, height=4)
    near(image, np.broadcast_to([0.006309573, 0.015395747, 0.028991187, 0], (4, 5, 4)))
    assert all(
        not part.size for part in gradient(empty_scene(), np.ones(80), width=5, height=4).values()
    )
    buffer = prepared(empty_scene(), width=5, height=4, max_list_entries=3)
    assert buffer.size == gaussian_splat_prep_packed_len(0, 3, 5, 4, 16)
    assert not buffer[:18].any()


@pytest.mark.parametrize(
    ("sigma", "degrees", "total"),
    [((0.6, 0.1, 0.1), np.rad2deg(0.3), 57.767384), ((0.6, 0.01, 0.01), 10.0, 5.762421722)],
)
def test_a_long_splat_is_drawn_whole(sigma: Any, degrees: float, total: float) -> None:
    half = 0.5 * np.deg2rad(degrees)
    turn = np.array([[np.cos(half), 0, 0, np.sin(half)]])
    image = drawn(one_splat(scales=np.log([sigma]), rotations=turn), radius_scale=1.0)
    near(image[..., 3].astype(np.float64).sum(), total, 1e-5)
    if sigma[1] == 0.1:
        near(image[32, 32], [0.424716245, 0.024741859, 0.010824208, 0.721962235])


@pytest.mark.parametrize(
    ("position", "sigma"), [((0, 0, 0), 3.0), ((0, 0, 3.9), 0.5)], ids=["huge", "around"]
)
def test_a_splat_larger_than_the_screen_is_drawn(position: Any, sigma: float) -> None:
    """On an image of 1000 pixels across its outline covers more than 1e6 of them."""
    scene = one_splat(positions=np.array([position]), scales=np.full((1, 3), np.log(sigma)))
    image = drawn(scene, width=2, height=1000, tile_size=512)
    near(image, render(scene, 2, 1000), 2e-5)
    assert image[..., 3].min() > 0.0


def test_the_limit_of_steps_holds_in_the_image_too() -> None:
    stack = one_splat(
        positions=np.array([[0, 0, 0.1], [0, 0, 0], [0, 0, -0.1]]),
        scales=np.full((3, 3), np.log(0.3)), rotations=np.tile([1.0, 0, 0, 0], (3, 1)),
        opacities=np.full(3, 0.5), colors=np.full((3, 3), 0.5),
    )  # fmt: skip
    for steps, alpha in ((1, 0.5), (2, 0.75), (0, 0.875)):
        image = drawn(stack, **PIXEL, max_splat_steps=steps)
        near(image[0, 0, 3], alpha, 1e-3)


def test_dropped_entries_are_counted_and_are_the_farthest() -> None:
    buffer = prepared(parity_scene(), max_list_entries=20)
    assert buffer[-1] == 8.0
    *_, listed, ranges, _, _ = sections(buffer, 18, 20, 16, 64 * 64)
    assert ranges.reshape(16, 2)[:, 1].max() == 20.0
    assert min(listed) == 6.0  # the camera is nearest to splat 17
    assert prepared(parity_scene())[-1] == 0.0


def test_there_is_room_for_lists_by_default() -> None:
    for splats, tiles, room in ((18, 16, 288), (1000, 16, 16000), (1000, 1024, 64000)):
        side = 16 * int(np.sqrt(tiles))
        graph = Graph("room")
        shapes = [(splats, 3), (splats, 3), (splats, 4), (splats,), (splats, 3), (0,), (23,)]
        pairs = zip(NAMES, shapes, strict=True)
        given = [graph.input(name, shape, "f32") for name, shape in pairs]
        buffer = splat_ops.gaussian_splat_prepare(*given, width=side, height=side)
        length = gaussian_splat_prep_packed_len(splats, room, side, side, 16)
        assert buffer.shape == (length,)


def test_rasterize_needs_no_producer() -> None:
    scene = random_scene(3, 9)
    buffer = prepared(scene, **FEW)
    graph = Graph("rasterize")
    prep, meta = graph.input("prep", buffer.shape, "f32"), graph.input("meta", (23,), "f32")
    settings = {name: value for name, value in FEW.items() if name != "radius_scale"}
    graph.set_outputs([splat_ops.gaussian_splat_rasterize(prep, meta, **settings)])
    (found,) = evaluate(graph, {"prep": buffer, "meta": scene.arrays[6]})
    assert found.tobytes() == drawn(scene, **FEW).tobytes()
    with pytest.raises(ShapeError, match="the others must be 15 for each splat"):
        splat_ops.gaussian_splat_rasterize(graph.input("odd", (buffer.size + 1,)), meta, **settings)


def test_near_and_far_cull_nothing() -> None:
    meta = camera()
    meta[10:12] = 5.0, 6.0  # beyond all splats
    assert np.array_equal(drawn(one_splat(meta=meta), **SMALL), drawn(one_splat(), **SMALL))


def differences(scene: Scene, name: str, upstream: Any, **settings: Any) -> Any:
    """Return central differences of the independent render by the elements of one array."""
    value = np.float64(getattr(scene, name))
    found = np.zeros(value.size)
    for i in range(value.size):
        ends = []
        for step in (1e-5, -1e-5):
            moved = value.copy()
            moved.flat[i] += step
            image = render(scene.with_(**{name: moved}), 8, 8, everything=True, **settings)
            ends.append(np.sum(image.reshape(-1) * upstream))
        found[i] = (ends[0] - ends[1]) / 2e-5
    return found


SMOOTH: dict[str, Any] = {
    "alpha_cutoff": 1e-9, "transmittance_threshold": 0.0, "max_splat_steps": 0, "radius_scale": 1.0,
}  # fmt: skip


def test_opaque_splats_have_exact_gradients() -> None:
    scene = random_scene(11, 3, 1, size=0.3).with_(opacities=np.array([1.0, 0.5, 0.999]))
    found = gradient(scene, np.ones(256), width=8, height=8, tile_size=8, **SMOOTH)
    expected = differences(scene, "colors", np.ones(256), **SMOOTH)
    near(found["colors"], expected, 2e-5)
    assert all(np.isfinite(part).all() for part in found.values())


def test_gradients_do_not_depend_on_the_tiles() -> None:
    whole = gradient(parity_scene(), np.ones(4 * 64 * 64), tile_size=64)
    for size in (5, 16):
        parts = gradient(parity_scene(), np.ones(4 * 64 * 64), tile_size=size)
        for name in NAMES[:6]:
            near(parts[name], whole[name], 2e-5)


def test_without_constant_terms_colours_have_the_gradient() -> None:
    flat = one_splat(sh_coeffs=np.zeros((1, 4, 3)))
    found = gradient(flat, np.ones(256), **SMALL)
    assert found["colors"].all()
    assert not found["sh_coeffs"][:3].any()
    assert gradient(tilted_splat(sh_coeffs=HARMONICS), np.ones(256), **SMALL)["sh_coeffs"].all()


def gradient_graph(scene: Scene, factor: float = 1.0, **settings: Any) -> Graph:
    graph = Graph("loss")
    given = inputs(graph, scene)
    image = splat_ops.gaussian_splat_render(*given, **settings)
    graph.set_outputs([graph.reduce_sum(image, axes=(0,)) * factor])
    return rlx.passes.grad(graph, wrt=given[:6])


def test_autodiff_clips_nothing() -> None:
    scene = tilted_splat(sh_coeffs=HARMONICS)
    feeds = {**scene.feeds, "d_output": np.ones((), np.float32)}
    small, large = (
        evaluate(gradient_graph(scene, factor, **SMALL), feeds) for factor in (1.0, 1024.0)
    )
    for one, other in zip(small, large, strict=True):
        np.testing.assert_array_equal(1024.0 * one, other)
    clipped = gradient(scene, np.full(256, 8.0), **SMALL, loss_grad_clip=1.0)
    assert np.abs(clipped["opacities"]).max() < 8.0 * np.abs(small[3]).max()


def test_nothing_is_kept_from_an_earlier_scene() -> None:
    first, second = tilted_splat(sh_coeffs=HARMONICS), one_splat(sh_coeffs=HARMONICS)
    program = rlx.compile(gradient_graph(first, **SMALL))
    one = {"d_output": np.float32(1)}
    expected = [g.copy() for g in program.run({**second.feeds, **one})]
    program.run({**first.feeds, **one})
    for again, before in zip(program.run({**second.feeds, **one}), expected, strict=True):
        assert again.tobytes() == before.tobytes()


def test_second_and_forward_derivatives_are_refused_and_scenes_are_batched() -> None:
    scene = tilted_splat(sh_coeffs=HARMONICS)
    gradients = gradient_graph(scene, **SMALL)
    gradients.set_outputs([gradients.reduce_sum(gradients.outputs[0], axes=(0, 1))])
    with pytest.raises(NoRuleError, match="Gaussian splatting has no second derivative"):
        rlx.passes.grad(gradients, wrt=[gradients.inputs[0]])
    graph = decomposed(scene, **SMALL)
    with pytest.raises(NoRuleError, match="no forward-mode derivative"):
        rlx.passes.jvp(graph, ["positions"])
    cameras = np.stack([camera(), camera((0.5, 0.2, 3.5))])
    batched = rlx.passes.vmap(graph, in_axes={"meta": 0}, size=2)
    (images,) = evaluate(batched, {**scene.feeds, "meta": cameras})
    for image, view in zip(images, cameras, strict=True):
        assert image.tobytes() == drawn(scene.with_(meta=view), **SMALL).tobytes()


def two_pictures(**changed: Any) -> tuple[Graph, list[Value]]:
    """Rasterize one prepared scene twice."""
    graph = Graph("twice")
    given = inputs(graph, tilted_splat())
    settings = {name: value for name, value in FEW.items() if name != "radius_scale"}
    prep = splat_ops.gaussian_splat_prepare(*given, **FEW)
    first = splat_ops.gaussian_splat_rasterize(prep, given[6], **settings)
    meta = graph.input("other", (23,), "f32") if "meta" in changed else given[6]
    changed.pop("meta", None)
    second = splat_ops.gaussian_splat_rasterize(prep, meta, **{**settings, **changed})
    graph.set_outputs([graph.reduce_sum(first * second, axes=(0,))])
    return graph, given


def test_one_preparation_serves_any_number_of_pictures() -> None:
    graph, _ = two_pictures(max_splat_steps=4)
    assert kinds(prepare_for_autodiff(graph)) == ["gaussian_splat_render"] * 2


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"meta": True}, "has another meta than its gaussian_splat_prepare"),
        ({"alpha_cutoff": 0.02}, "has alpha_cutoff = 0.02 and its gaussian_splat_prepare 0.01"),
    ],
)
def test_stages_that_differ_are_refused(changed: dict[str, Any], says: str) -> None:
    graph, given = two_pictures(**changed)
    with pytest.raises(GraphError, match=says):
        rlx.passes.grad(graph, wrt=given[:1])


def test_bodies_at_all_places_draw_the_same_picture() -> None:
    """Nodes after an expanded one read its results."""
    graph = Graph("two")
    scene = tilted_splat()
    given = inputs(graph, scene)
    first = splat_ops.gaussian_splat_render(*given, **FEW)
    moved = given[0] + graph.reduce_sum(first, axes=(0,)) * 0.001
    second = splat_ops.gaussian_splat_render(moved, *given[1:], **FEW)
    graph.set_outputs([first, second])
    found = use_common_bodies(KernelDispatch(Policy.FORCE_COMMON))(graph)
    assert kinds(found) == ["gaussian_splat_prepare", "gaussian_splat_rasterize"] * 2
    same = zip(evaluate(found, scene.feeds), evaluate(graph, scene.feeds), strict=True)
    assert all(ours.tobytes() == other.tobytes() for ours, other in same)
