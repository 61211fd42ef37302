"""Wrong uses of `rlx.splat`: typed errors with a remedy, and no picture of something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, FormatError, GraphError, InputError, RlxError, ShapeError
from rlx.splat import Scene, camera, linear_to_display, read_ply, render, write_ply
from tests.splat_scenes import random_scene

SIZE: dict[str, Any] = {"width": 12, "height": 10}
VIEW = camera((0, 0, 4), (0, 0, 0))
SCENE = Scene(*random_scene(1, 6, size=0.3).arrays[:6])
EMPTY = Scene(*(np.zeros(s, "f4") for s in [(0, 3), (0, 3), (0, 4), (0,), (0, 3), (0, 1, 3)]))
NAN = float("nan")


def drawn(**changed: Any) -> Any:
    """Draw with arrays of the scene, the view or settings changed."""
    parts = {name: changed.pop(name) for name in list(changed) if hasattr(SCENE, name)}
    view = changed.pop("view", VIEW)
    return render(replace(SCENE, **parts), view, **{**SIZE, **changed})


def seen(**changed: Any) -> Any:
    return camera(**{"position": (0, 0, 4), "target": (0, 0, 0), **changed})


CALLS: dict[str, tuple[type[RlxError], str, Callable[[], Any]]] = {
    "no scene": (InputError, "the scene is a NoneType", lambda: render(None, VIEW, **SIZE)),  # type: ignore[arg-type]
    "a path": (InputError, "the scene is a str", lambda: render("a.ply", VIEW, **SIZE)),  # type: ignore[arg-type]
    "axes in another order": (
        ShapeError, r"positions has shape \[3, 6\]; it must be \[3, 3\]",
        lambda: drawn(positions=SCENE.positions.T)),
    "flat": (
        ShapeError, r"positions has shape \[18\]",
        lambda: drawn(positions=SCENE.positions.ravel())),
    "a column": (
        ShapeError, r"opacities has shape \[6, 1\]; it must be \[6\]",
        lambda: drawn(opacities=SCENE.opacities[:, None])),
    "another number of splats": (
        ShapeError, r"scales has shape \[5, 3\]; it must be \[6, 3\]",
        lambda: drawn(scales=SCENE.scales[1:])),
    "harmonics without coefficients": (
        ShapeError, r"harmonics has shape \[6, 3\]; it must be \[6, K, 3\]",
        lambda: drawn(harmonics=SCENE.colors)),
    "harmonics by channel": (
        ShapeError, r"harmonics has shape \[6, 3, 1\]",
        lambda: drawn(harmonics=SCENE.colors[..., None])),
    "several views": (
        ShapeError, r"view has shape \[2, 23\]; it must be one camera",
        lambda: drawn(view=np.stack([VIEW, VIEW]))),
    "a short view": (ShapeError, "meta has 3 elements", lambda: drawn(view=VIEW[:3])),
    "f64": (DTypeError, "view has dtype float64", lambda: drawn(view=VIEW.astype("f8"))),
    "complex": (
        DTypeError, "colors has dtype complex64", lambda: drawn(colors=SCENE.colors.astype("c8"))),
    "no width": (GraphError, "width is 0", lambda: drawn(width=0)),
    "part of a pixel": (GraphError, "attribute width is 1.5", lambda: drawn(width=1.5)),
    "infinite radius": (GraphError, "radius_scale is inf", lambda: drawn(radius_scale=np.inf)),
    "steps": (GraphError, "max_splat_steps is -1", lambda: drawn(max_splat_steps=-1)),
    "NaN for a threshold": (
        GraphError, "transmittance_threshold is nan", lambda: drawn(transmittance_threshold=NAN)),
    "a threshold": (
        GraphError, "transmittance_threshold is 2", lambda: drawn(transmittance_threshold=2)),
    "fov of 0": (InputError, "fov is 0; it must be above 0", lambda: seen(fov=0)),
    "fov of 180": (InputError, "fov is 180", lambda: seen(fov=180)),
    "fov of NaN": (InputError, "fov is nan", lambda: seen(fov=NAN)),
    "fov of text": (InputError, "fov is '60'", lambda: seen(fov="60")),
    "a colour by name": (InputError, "background is 'white'", lambda: seen(background="white")),
    "an alpha": (InputError, r"background has shape \[4\]", lambda: seen(background=(0, 0, 0, 1))),
    "NaN for a place": (
        InputError, r"position is \[0.0, 0.0, nan\]", lambda: seen(position=(0, 0, NAN))),
    "no file": (FormatError, "cannot be read: No such file", lambda: read_ply("missing.ply")),
    "a folder": (FormatError, "is a directory, not a file", lambda: read_ply(".")),
    "nothing to write": (InputError, "the scene is a NoneType", lambda: write_ply("a", None)),  # type: ignore[arg-type]
    "ragged": (
        ShapeError, r"scales has shape \[5, 3\]",
        lambda: write_ply("a", replace(SCENE, scales=SCENE.scales[1:]))),
    "words": (
        InputError, "colors are no numbers", lambda: write_ply("a", replace(SCENE, colors="red"))),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_a_typed_error_with_a_remedy(name: str) -> None:
    kind, message, call = CALLS[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert caught.value.remedy


def test_a_scene_of_nothing_is_drawn_written_and_read(tmp_path: Path) -> None:
    view = camera((0, 0, 4), (0, 0, 0), background=(0.5, 0.5, 0.5))
    image = np.asarray(render(EMPTY, view, **SIZE))
    np.testing.assert_allclose(image[..., :3], 0.5**2.2, rtol=1e-6)
    assert not image[..., 3].any()
    write_ply(tmp_path / "empty.ply", EMPTY)
    assert len(read_ply(tmp_path / "empty.ply")) == 0


def test_darkness_on_a_display_has_a_slope_of_zero() -> None:
    """A root at 0 has an infinite one, of which a fit with a black background made NaN."""

    def loss(scene: Scene) -> Any:
        return rnp.mean(linear_to_display(render(scene, VIEW, **SIZE)[..., :3]) ** 2)

    slopes = rlx.grad(loss)(SCENE)
    for name in Scene.__dataclass_fields__:
        assert np.isfinite(getattr(slopes, name)).all()
    assert np.abs(slopes.positions).max() > 0
    light = np.array([-1, 0, 0.25, 1, 2, NAN], np.float32)
    np.testing.assert_allclose(
        linear_to_display(light), [0, 0, 0.25 ** (1 / 2.2), 1, 1, NAN], rtol=1e-6
    )


NAMES = [
    *("x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2"),
    *("rot_0", "rot_1", "rot_2", "rot_3"),
]


def header(count: Any = 2, more: str = "", end: str = "\n") -> bytes:
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {count}"]
    lines += [f"property float {name}" for name in NAMES]
    return (end.join([*lines, *more.splitlines(), "end_header"]) + end).encode()


def body(value: float) -> bytes:
    return np.full((2, len(NAMES)), value, "<f4").tobytes()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (header("many"), "the number of vertices is many"),
        (header("-2"), "the number of vertices is -2"),
        (header(""), "the number of vertices is missing"),
        (header(10**30), "splats take"),
        (header(more="property float x"), "property x is declared twice"),
        (header(more="property float"), "'property float' declares no number"),
        (header(more="property"), "'property' declares no number"),
        (header(more="\n".join(f"property float f_rest_{i}" for i in range(8))) + 200 * b" ",
         "there are 8 properties f_rest"),
        (header().replace(b"format binary_little_endian 1.0", b"format"), "format .none. is not"),
        (header().replace(b"element vertex 2", b"element"), "its first element is not `vertex`"),
        (header(), "0 bytes follow the header; 2 splats take 112"),
    ],
)  # fmt: skip
def test_a_damaged_head_is_reported(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "scene.ply"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=says):
        read_ply(path)


@pytest.mark.parametrize(
    "head",
    [
        header(end="\r\n"),
        header().replace(b"ply\n", b"ply\ncomment no end_header yet\n"),
        header(more="\nelement face 0\nproperty list uchar int vertex_indices"),
    ],
    ids=["carriage-returns", "comment", "faces"],
)
def test_heads_of_other_tools_are_read(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "scene.ply"
    path.write_bytes(head + body(0.5))
    found = read_ply(path)
    np.testing.assert_array_equal(found.positions, np.full((2, 3), 0.5))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("logit", "opacity"), [(1e30, 1.0), (-1e30, 0.0)])
def test_logits_far_from_zero_are_certain(tmp_path: Path, logit: float, opacity: float) -> None:
    path = tmp_path / "scene.ply"
    columns = np.zeros((2, len(NAMES)), "<f4")
    columns[:, NAMES.index("opacity")] = logit
    path.write_bytes(header() + columns.tobytes())
    assert read_ply(path).opacities.tolist() == [opacity, opacity]


def test_an_array_of_one_number_is_a_field_of_view() -> None:
    np.testing.assert_array_equal(seen(fov=np.array(50.0)), seen(fov=50))
