"""Gaussian splatting: the numbers of the specification, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import DTypeError, GraphError, RlxError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.splat_layout import (
    gaussian_splat_packed_grad_len,
    gaussian_splat_prep_packed_len,
    gaussian_splat_tile_count,
)
from rlx.ir.reference import evaluate
from tests.splat_scenes import NAMES, Array, Scene, camera, one_splat, parity_scene, tilted_splat

TINY: dict[str, Any] = {
    "tile_size": 8, "max_splat_steps": 32768, "transmittance_threshold": 1e-4,
    "max_list_entries": 131072,
}  # fmt: skip
SMALL: dict[str, Any] = {"width": 8, "height": 8, "tile_size": 8, "radius_scale": 1.0}
PIXEL: dict[str, Any] = {
    "width": 1, "height": 1, "tile_size": 1, "radius_scale": 1.0, "max_list_entries": 4,
}  # fmt: skip
HARMONICS = np.reshape([0.5, -0.2, 0.1, 0.3, 0.1, -0.2, -0.4, 0.2, 0.6, 0.2, -0.5, 0.1], (1, 4, 3))


def inputs(graph: Graph, scene: Scene) -> list[Value]:
    pairs = zip(NAMES, scene.arrays, strict=True)
    return [graph.input(name, array.shape, "f32") for name, array in pairs]


def drawn(scene: Scene, width: int = 64, height: int = 64, **settings: Any) -> Array:
    graph = Graph("render")
    given = inputs(graph, scene)
    graph.set_outputs([graph.gaussian_splat_render(*given, width=width, height=height, **settings)])
    (image,) = evaluate(graph, scene.feeds)
    return image.reshape(height, width, 4)


def gradient(scene: Scene, upstream: Array, **settings: Any) -> dict[str, Array]:
    graph = Graph("backward")
    given = inputs(graph, scene)
    seed = graph.input("upstream", (upstream.size,), "f32")
    settings["loss_grad_clip"] = settings.get("loss_grad_clip", np.inf)
    packed = ops.gaussian_splat_render_backward(*given, seed, **settings)
    graph.set_outputs([packed])
    flat = upstream.reshape(-1).astype(np.float32)
    (result,) = evaluate(graph, {**scene.feeds, "upstream": flat})
    n = len(scene.positions)
    bounds = np.cumsum([3 * n, 3 * n, 4 * n, n, 3 * n])
    return dict(zip(NAMES, np.split(result.astype(np.float64), bounds), strict=False))


def prepared(scene: Scene, **settings: Any) -> Array:
    graph = Graph("prepare")
    graph.set_outputs([graph.gaussian_splat_prepare(*inputs(graph, scene), **settings)])
    (buffer,) = evaluate(graph, scene.feeds)
    return buffer


def near(found: Any, expected: Any, tolerance: float = 3e-6) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("settings", [{}, TINY], ids=["defaults", "parity-tiny"])
def test_the_parity_scene_is_drawn_as_specified(settings: dict[str, Any]) -> None:
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


def sections(buffer: Array, n: int, entries: int, tiles: int, pixels: int) -> list[Array]:
    lengths = [4 * n, n, 3 * n, 3 * n, 4 * n, entries, 2 * tiles, 3 * pixels]
    return np.split(buffer, np.cumsum(lengths))


def test_the_parity_scene_is_prepared_as_specified() -> None:
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


def test_gradients_of_the_parity_scene_are_as_specified() -> None:
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


def test_gradients_without_the_alpha_channel_are_as_specified() -> None:
    found = gradient(parity_scene(), np.tile([1.0, 1.0, 1.0, 0.0], 64 * 64))
    near(found["positions"].sum(), 13.1481485, 2e-5)
    near(np.linalg.norm(found["positions"]), 4.7954056, 1e-5)
    near(np.linalg.norm(found["scales"]), 9.1450467, 1e-5)
    near(np.linalg.norm(found["opacities"]), 14.2159263, 1e-5)
    near(np.linalg.norm(found["colors"]), 13.6635946, 1e-5)


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


def test_a_tilted_splat_is_drawn_as_specified() -> None:
    image = drawn(tilted_splat(), **SMALL)
    near(image[3, 3], [0.044140507, 0.017472879, 0.023626258, 0.177640450])
    near(image.sum((0, 1)), [0.729253399, 0.997717328, 1.825886304, 1.028006961])
    buffer = prepared(tilted_splat(), **SMALL, max_list_entries=4)
    *_, pos_local, inv_scale, _, _, _, rays, _ = sections(buffer, 1, 4, 1, 64)
    near(pos_local, [3.422222222, 0.166666667, 1.706666667])
    near(inv_scale, [1.111111111, 1.666666667, 0.666666667])
    near(rays.reshape(8, 8, 3)[3, 3], [0.071795816, -0.071795816, -0.994832007])


def test_gradients_of_a_tilted_splat_are_as_specified() -> None:
    found = gradient(tilted_splat(), np.ones(256), **SMALL)
    near(found["positions"], [-0.179038394, 0.440586579, 0.598756794])
    near(found["scales"], [0.243696240, 1.091610030, 1.051469928])
    near(found["rotations"], [-1.648461127, 0.263046623, 0.031239668, -0.748071644])
    near(found["opacities"], [2.619403680])
    near(found["colors"], [0.696032861, 0.263598156, 0.263709501])


def test_harmonics_are_drawn_and_differentiated_as_specified() -> None:
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


def test_lengths_are_as_specified() -> None:
    assert gaussian_splat_prep_packed_len(2, 64, 32, 24, 16) == 2417
    assert gaussian_splat_packed_grad_len(18, 1) == 306
    assert gaussian_splat_packed_grad_len(1, 4) == 26
    assert gaussian_splat_tile_count(33, 16, 16) == 3


# What section 7 of the specification lifts


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


def test_alpha_of_a_bare_pixel_does_not_depend_on_the_tiles() -> None:
    image = drawn(one_splat(), width=48, height=16, tile_size=16, radius_scale=1.0)
    assert image[0, 0, 3] == image[0, 47, 3] == 0.0


def test_dropped_entries_are_counted() -> None:
    buffer = prepared(parity_scene(), max_list_entries=20)
    assert buffer[-1] == 8.0


def test_the_limit_of_steps_holds_in_the_image_too() -> None:
    stack = one_splat(
        positions=np.array([[0, 0, 0.1], [0, 0, 0], [0, 0, -0.1]]),
        scales=np.full((3, 3), np.log(0.3)), rotations=np.tile([1.0, 0, 0, 0], (3, 1)),
        opacities=np.full(3, 0.5), colors=np.full((3, 3), 0.5),
    )  # fmt: skip
    for steps, alpha in ((1, 0.5), (2, 0.75), (0, 0.875)):
        image = drawn(stack, **PIXEL, max_splat_steps=steps)
        near(image[0, 0, 3], alpha, 1e-3)


def build(**changed: Any) -> Value:
    """Build a rendering of three splats with operands or settings changed."""
    graph = Graph("render")
    shapes = {"positions": 9, "scales": 9, "rotations": 12, "opacities": 3, "colors": 9,
              "sh_coeffs": 9, "meta": 23}  # fmt: skip
    dtype = changed.pop("dtype", "f32")
    lengths = {name: changed.pop(name, length) for name, length in shapes.items()}
    given = [graph.input(name, (length,), dtype) for name, length in lengths.items()]
    return graph.gaussian_splat_render(*given, **changed)


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"width": 0}, GraphError, "width is 0; it must be at least 1"),
        ({"tile_size": 0}, GraphError, "tile_size is 0"),
        ({"alpha_cutoff": 0.0}, GraphError, "alpha_cutoff is 0.0; it must be between 0 and 1"),
        ({"alpha_cutoff": 1.0}, GraphError, "alpha_cutoff is 1.0"),
        ({"radius_scale": 0.0}, GraphError, "radius_scale is 0.0; it must be positive"),
        ({"max_list_entries": 0}, GraphError, "max_list_entries is 0"),
        ({"max_list_entries": (1 << 24) + 1}, GraphError, "max_list_entries is 16777217"),
        ({"scales": 8}, ShapeError, "scales has 8 elements; it must have 9"),
        ({"rotations": 9}, ShapeError, "rotations has 9 elements; it must have 12"),
        ({"positions": 10}, ShapeError, "positions has 10 elements"),
        ({"sh_coeffs": 10}, ShapeError, "sh_coeffs has 10 elements; it must have a multiple of 9"),
        ({"meta": 22}, ShapeError, "meta has 22 elements; it must have at least 23"),
        ({"dtype": "f64"}, DTypeError, "positions has dtype f64"),
        ({"positions": 3 * ((1 << 24) + 1)}, ShapeError, "at most 16777216 splats"),
    ],
)
def test_what_does_not_fit_is_refused(
    changed: dict[str, Any], error: type[RlxError], says: str
) -> None:
    with pytest.raises(error, match=says.replace("(", r"\(")):
        build(**changed)


def test_a_longer_meta_is_accepted() -> None:
    assert build(meta=30).shape == (4 * 64 * 64,)


def test_rasterize_finds_out_how_many_splats_there_are() -> None:
    graph = Graph("rasterize")
    meta = graph.input("meta", (23,), "f32")
    settings: dict[str, Any] = {"width": 32, "height": 24, "max_list_entries": 64}
    graph.gaussian_splat_rasterize(graph.input("two", (2417,), "f32"), meta, **settings)
    with pytest.raises(ShapeError, match="the others must be 15 for each splat"):
        graph.gaussian_splat_rasterize(graph.input("odd", (2418,), "f32"), meta, **settings)
