"""Gaussian splatting: what its ops refuse, and how they are built."""

from __future__ import annotations

from typing import Any

import pytest

from rlx.errors import DTypeError, GraphError, RlxError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.splat import ops as splat_ops
from tests.splat_runs import near


def build(**changed: Any) -> Value:
    """Build a rendering of three splats with operands or settings changed."""
    graph = Graph("render")
    shapes = {"positions": 9, "scales": 9, "rotations": 12, "opacities": 3, "colors": 9,
              "sh_coeffs": 9, "meta": 23}  # fmt: skip
    dtype = changed.pop("dtype", "f32")
    lengths = {name: changed.pop(name, length) for name, length in shapes.items()}
    given = [graph.input(name, (length,), dtype) for name, length in lengths.items()]
    image: Value = splat_ops.gaussian_splat_render(*given, **changed)
    return image


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


def test_a_camera_is_a_constant_of_23_numbers() -> None:
    graph = Graph("meta")
    meta = splat_ops.gaussian_splat_render_meta(
        graph, (0, 0, 4), (0, 0, 0), (0, 1, 0), 60.0, 0.1, 20.0, (0.1, 0.15, 0.2),
        max_list_entries=576,
    )  # fmt: skip
    graph.set_outputs([meta])
    (found,) = evaluate(graph, {})
    settings = [64, 64, 16, 1.6, 1 / 255, 32, 0.01, 576]
    near(found, [0, 0, 4, 0, 0, 0, 0, 1, 0, 60, 0.1, 20, 0.1, 0.15, 0.2, *settings], 1e-7)
    with pytest.raises(ShapeError, match=r"up has shape \[2\]; it must be \[3\]"):
        splat_ops.gaussian_splat_render_meta(graph, (0, 0, 4), (0, 0, 0), (0, 1), 60.0)
