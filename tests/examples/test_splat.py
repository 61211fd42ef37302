"""The example of Gaussian splatting: the world is what it is, and fitting finds it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence

import rlx
from examples import splat, splat_in_c
from examples.splat_in_c.export import export
from examples.splat_world import SKY, TARGET, orbit, photograph
from rlx.runtime.toolchain import has_toolchain
from tests.examples.artifacts import call, load
from tests.splat_scenes import random_scene


def test_a_photograph_shows_the_sky_above_and_the_world_below() -> None:
    image = photograph(orbit(1)[0] * [1, 0.2, 1], 24, 18, 45.0, samples=1)
    np.testing.assert_allclose(image[0], np.broadcast_to(SKY, (24, 3)))
    assert not np.allclose(image[11, 12], SKY)
    assert np.linalg.norm(TARGET) < 1


@pytest.mark.slow
def test_fitting_finds_the_views_held_out() -> None:
    train, test = splat.take_photographs()
    found = splat.fit(train, test, splats=1000, steps=600, quiet=True)
    assert np.mean(found.psnr) > 22.0
    assert np.mean(found.losses[-50:]) < 0.35 * np.mean(found.losses[:50])


@pytest.mark.slow
@pytest.mark.skipif(not has_toolchain(), reason="needs a C compiler")
def test_the_program_in_c_draws_what_python_draws(tmp_path: Path) -> None:
    *arrays, _ = random_scene(1, 40, 1, size=0.1).arrays
    scene = rlx.splat.Scene(*arrays)
    rlx.splat.write_ply(tmp_path / "scene.ply", scene)
    export(tmp_path / "c", splats=64, width=48, height=32)
    program = Path(splat_in_c.__file__).with_name("render.c")
    sources = [str(path) for path in (*(tmp_path / "c").glob("*.c"), program)]
    command = ["cc", "-std=c11", "-O1", *sources, f"-I{tmp_path / 'c'}", "-lm", "-o", "render"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=600)
    place = ["0", "0.5", "4", "0", "0", "0", "45"]
    subprocess.run(
        ["./render", "scene.ply", "image.ppm", *place], cwd=tmp_path, check=True, timeout=600
    )
    header, body = b"P6\n48 32\n255\n", (tmp_path / "image.ppm").read_bytes()
    assert body.startswith(header)
    found = np.frombuffer(body, np.uint8, offset=len(header)).reshape(32, 48, 3)
    view = rlx.splat.camera((0, 0.5, 4), (0, 0, 0), fov=45)
    image = rlx.splat.render(rlx.splat.read_ply(tmp_path / "scene.ply"), view, width=48, height=32)
    expected = 255.0 * np.asarray(rlx.splat.linear_to_display(image[:, :, :3]))
    assert np.abs(found - expected).max() < 1.01
    assert found.max() > 50


@pytest.mark.slow
def test_somebodys_own_scene_is_drawn_as_a_turntable(tmp_path: Path) -> None:
    *arrays, _ = random_scene(1, 30, 1, size=0.1).arrays
    rlx.splat.write_ply(tmp_path / "scene.ply", rlx.splat.Scene(*arrays))
    splat.draw_file(tmp_path / "scene.ply", tmp_path, views=3)
    with Image.open(tmp_path / "turntable.gif") as turntable:
        assert len(list(ImageSequence.Iterator(turntable))) == 3
        turntable.seek(0)
        assert turntable.size == (2 * splat.SIZE["width"], 2 * splat.SIZE["height"])
        frame = np.asarray(turntable.convert("RGB"))
    assert 0.01 < np.mean(frame.max(-1) > 30) < 0.9


@pytest.mark.slow
def test_pictures_of_a_fit_are_photograph_fit_and_difference(tmp_path: Path) -> None:
    *arrays, _ = random_scene(1, 30, 1, size=0.1).arrays
    _, test = splat.take_photographs(5)
    splat.save_pictures(tmp_path, rlx.splat.Scene(*arrays), test, views=2)
    with Image.open(tmp_path / "held_out.png") as picture:
        rows = np.asarray(picture).astype(int)
    photo, found, apart = np.split(rows, 3, axis=1)
    assert np.array_equal(apart, np.minimum(4 * np.abs(photo - found), 255))


def tensors(tree: Any, name: str) -> dict[str, Any]:
    """Return the leaves of a state by the names that C has for them."""
    if isinstance(tree, dict):
        parts = list(tree.items())
    elif hasattr(tree, "_asdict"):
        parts = list(tree._asdict().items())
    elif isinstance(tree, tuple | list):
        parts = list(enumerate(tree))
    else:
        return {name: np.asarray(tree)}
    return {k: v for key, part in parts for k, v in tensors(part, f"{name}_{key}").items()}


@pytest.mark.slow
@pytest.mark.skipif(not has_toolchain(), reason="needs a C compiler")
def test_the_fitting_step_in_c_does_what_that_in_python_does(tmp_path: Path) -> None:
    """At -O1, where GCC 12 once met a select that it could not compile."""
    artifact = splat.export(tmp_path, splats=16, emit_only=True)
    command = ["cc", "-std=c11", "-O1", "-fPIC", "-shared", "splat_step.c", "-lm", "-o", "step.so"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=600)
    step, first_state = splat.make_step(splat.STEPS, "reference")
    params, need = splat.first_guess(16), np.zeros(16, np.float32)
    random = np.random.default_rng(0)
    for name in ("scales", "rotations"):  # spheres would look alike from all sides
        params[name] += random.uniform(-0.3, 0.3, params[name].shape).astype(np.float32)
    start, state = params["positions"].copy(), first_state(params)
    given = tensors(params, "params") | tensors(state, "state") | {"need": need}
    assert artifact.weights is not None
    artifact.write_weights(artifact.weights, given)
    native = load(artifact, tmp_path / "step.so")
    view = rlx.splat.camera((0, 1, 4), TARGET, fov=splat.FOV, background=SKY)
    target = random.uniform(0, 1, (96, 128, 3)).astype(np.float32)
    (found,) = call(native, view, target)
    params, state, need, loss = step(params, state, need, view, target)
    assert found == pytest.approx(float(loss), rel=1e-5)
    after = tensors(params, "params") | tensors(state, "state") | {"need": np.asarray(need)}
    assert sorted(after) == sorted(each["name"] for each in artifact.manifest["params"])
    assert np.abs(after["state_rotations_0_mu"]).max() > 1e-6
    for name, expected in after.items():
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            native.view("params", name), expected.ravel(), rtol=1e-4, atol=1e-5 * scale,
            err_msg=name,
        )  # fmt: skip
    assert np.abs(after["params_positions"] - start).max() > 1e-3
