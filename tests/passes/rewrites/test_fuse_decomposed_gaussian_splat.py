"""What was prepared and rasterized is one rendering again."""

from __future__ import annotations

from typing import Any

import pytest

from rlx.errors import GraphError
from rlx.ir.graph import Graph
from rlx.splat import ops as splat_ops
from rlx.splat.fusion import fuse_decomposed_gaussian_splat
from tests.splat_runs import inputs
from tests.splat_scenes import camera, one_splat

SIZE: dict[str, Any] = {"width": 8, "height": 8}


def kinds(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes if node.op.name.startswith("gaussian")]


def test_two_stages_become_one_render_of_their_settings() -> None:
    graph = Graph("stages")
    settings: dict[str, Any] = {**SIZE, "radius_scale": 1.25, "max_list_entries": 7}
    settings["max_splat_steps"] = 5
    image = splat_ops.gaussian_splat_render_decomposed(*inputs(graph, one_splat()), **settings)
    graph.set_outputs([image])
    fused = fuse_decomposed_gaussian_splat(graph)
    attributes = fused.outputs[0].node.attrs.as_dict()
    assert kinds(fused) == ["gaussian_splat_render"]
    assert settings.items() <= attributes.items()


def test_equal_constants_are_the_same_camera() -> None:
    graph = Graph("cameras")
    scene = inputs(graph, one_splat())[:6]
    metas = [graph.constant(camera()) for _ in range(2)]
    prep = splat_ops.gaussian_splat_prepare(*[*scene, metas[0]], **SIZE, max_list_entries=4)
    image = splat_ops.gaussian_splat_rasterize(prep, metas[1], **SIZE, max_list_entries=4)
    graph.set_outputs([image])
    assert kinds(fuse_decomposed_gaussian_splat(graph)) == ["gaussian_splat_render"]


def test_a_buffer_from_elsewhere_is_left_alone() -> None:
    graph = Graph("alone")
    prep = graph.input("prep", (15 + 4 + 2 + 3 * 64 + 11,), "f32")
    meta = graph.input("meta", (23,), "f32")
    graph.set_outputs([splat_ops.gaussian_splat_rasterize(prep, meta, **SIZE, max_list_entries=4)])
    assert kinds(fuse_decomposed_gaussian_splat(graph)) == ["gaussian_splat_rasterize"]


def test_room_for_lists_must_be_the_same() -> None:
    graph = Graph("rooms")
    given = inputs(graph, one_splat())
    prep = splat_ops.gaussian_splat_prepare(*given, **SIZE, max_list_entries=19)
    image = splat_ops.gaussian_splat_rasterize(
        prep, given[6], **SIZE, max_list_entries=4
    )  # and 2 splats
    graph.set_outputs([image])
    with pytest.raises(GraphError, match=r"has max_list_entries = 4 and its .* 19"):
        fuse_decomposed_gaussian_splat(graph)
