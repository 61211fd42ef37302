"""Scenes to files and back, and files that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlx.errors import FormatError
from rlx.splat import Scene, read_ply, write_ply
from tests.splat_scenes import random_scene


def scene(coefficients: int = 4) -> Scene:
    drawn = random_scene(1, 5, coefficients)
    *arrays, _ = drawn.arrays
    unit = arrays[2] / np.linalg.norm(arrays[2], axis=1, keepdims=True)
    return Scene(arrays[0], arrays[1], unit, *arrays[3:])


@pytest.mark.parametrize("coefficients", [1, 4, 16])
def test_a_scene_comes_back_as_it_was(tmp_path: Path, coefficients: int) -> None:
    given = scene(coefficients)
    write_ply(tmp_path / "scene.ply", given)
    found = read_ply(tmp_path / "scene.ply")
    for name in ("positions", "scales", "rotations", "opacities", "harmonics"):
        np.testing.assert_allclose(getattr(found, name), getattr(given, name), atol=2e-6)


def test_the_layout_is_that_of_other_tools(tmp_path: Path) -> None:
    given = scene(4)
    write_ply(tmp_path / "scene.ply", given)
    header, _, body = (tmp_path / "scene.ply").read_bytes().partition(b"end_header\n")
    names = [line.split()[-1] for line in header.decode().splitlines() if "property" in line]
    rest = [f"f_rest_{i}" for i in range(9)]
    assert names == ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", *rest,
                     "opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2",
                     "rot_3"]  # fmt: skip
    table = np.frombuffer(body, "<f4").reshape(5, len(names))
    logit = np.log(given.opacities / (1 - given.opacities))
    np.testing.assert_allclose(table[:, names.index("opacity")], logit, rtol=1e-5)
    red = table[:, names.index("f_rest_0")]  # red's own three coefficients come first
    np.testing.assert_allclose(red, -given.harmonics[:, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(table[:, names.index("f_rest_3")], -given.harmonics[:, 1, 1])


def test_colors_are_written_where_there_are_no_harmonics(tmp_path: Path) -> None:
    given = scene(1)
    plain = replace(given, harmonics=np.zeros((5, 1, 3), np.float32))
    write_ply(tmp_path / "scene.ply", plain)
    found = read_ply(tmp_path / "scene.ply")
    np.testing.assert_allclose(found.colors, plain.colors, atol=1e-6)


HEADER = "ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty float x\nend_header\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"solid\n", "this is no .ply file"),
        (b"ply\nformat ascii 1.0\nelement vertex 0\nend_header\n", "format ascii is not read"),
        (HEADER.encode() + b"1234", "4 bytes follow the header; 2 splats take 8"),
        (HEADER.encode() + b"12345678", "there is no property f_dc_0"),
        (HEADER.replace("float x", "list uchar int x").encode(), "declares no number of a splat"),
        (HEADER.replace("vertex", "face").encode(), "its first element is not `vertex`"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "scene.ply"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=says):
        read_ply(path)
