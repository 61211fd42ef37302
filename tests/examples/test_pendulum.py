"""The double pendulum's parameters are found from its recording, by gradients of long scans."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from examples import pendulum
from examples.pendulum import State
from tests.aot.building import needs_compiler
from tests.examples import artifacts
from tests.examples.with_jax import with_jax

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def angles() -> Array:
    return pendulum.record()[0]


def energy(params: pendulum.Params, states: State) -> Array:
    """Return the energy per total mass, written down without the equations of motion."""
    first, second, share = params["length_1"], params["length_2"], params["mass_share"]
    lower_x = first * np.cos(states.angle_1) * states.speed_1 + second * (
        np.cos(states.angle_2) * states.speed_2
    )
    lower_y = first * np.sin(states.angle_1) * states.speed_1 + second * (
        np.sin(states.angle_2) * states.speed_2
    )
    upper = (1 - share) * (first * states.speed_1) ** 2 / 2
    lower = share * (lower_x**2 + lower_y**2) / 2
    height = -first * np.cos(states.angle_1) - share * second * np.cos(states.angle_2)
    return np.asarray(upper + lower + pendulum.GRAVITY * height)


def test_energy_is_kept_without_friction() -> None:
    params = {**pendulum.TRUTH, "friction": 0.0}
    states = rlx.jit(lambda p, s: pendulum.simulate(p, s, 4000))(params, pendulum.START)
    kept = energy(params, states)
    np.testing.assert_allclose(kept, energy(params, pendulum.START), atol=1e-6)
    assert np.ptp(pendulum.GRAVITY * np.cos(states.angle_1)) > 10


@pytest.mark.slow
def test_the_fit_finds_the_parameters_that_made_the_recording(angles: Array) -> None:
    shots = pendulum.fit(angles, windows=(250, 1000), iterations=300)
    assert shots.starts.angle_1.shape == (4,)
    for name, true in pendulum.TRUTH.items():
        assert shots.params[name] == pytest.approx(true, abs=5e-3), name


@pytest.mark.slow
def test_the_gradient_through_a_thousand_steps_is_the_slope_of_the_misfit(angles: Array) -> None:
    shots, windows = pendulum.first_shots(angles, 1000), angles.reshape(2, -1, 1000)
    gradient = rlx.jit(rlx.grad(pendulum.misfit))(shots, windows)
    misfit = rlx.jit(pendulum.misfit)
    random = np.random.default_rng(2)
    for _ in range(3):
        direction = rlx.tree_map(lambda x: random.standard_normal(np.shape(x)), shots)
        above, below = (
            misfit(rlx.tree_map(lambda x, dx, s=step: x + s * dx, shots, direction), windows)
            for step in (1e-6, -1e-6)
        )
        products = rlx.tree_map(lambda g, dx: np.sum(g * dx), gradient, direction)
        assert sum(rlx.tree_leaves(products)) == pytest.approx((above - below) / 2e-6, rel=1e-5)


@pytest.mark.slow
def test_jax_runs_the_same_program_to_the_same_numbers(angles: Array) -> None:
    other, windows = with_jax(pendulum), angles.reshape(2, -1, 250)
    shots = pendulum.first_shots(angles, 250)
    value, gradient = rlx.jit(rlx.value_and_grad(pendulum.misfit))(shots, windows)
    theirs = other.Shots(shots.params, other.State(*shots.starts))
    expected, slopes = other.rlx.jit(other.rlx.value_and_grad(other.misfit))(theirs, windows)
    assert value == pytest.approx(float(expected), rel=1e-10)
    for name, slope in slopes.params.items():
        assert gradient.params[name] == pytest.approx(float(slope), rel=1e-8), name
    np.testing.assert_allclose(gradient.starts, slopes.starts, rtol=1e-8, atol=1e-12)


@pytest.mark.slow
@needs_compiler
def test_the_exported_c_computes_value_and_gradient_in_less_memory_with_checkpoints(
    tmp_path: Path, angles: Array
) -> None:
    shots, windows = pendulum.first_shots(angles, 250), angles.reshape(2, -1, 250)[:, :4]
    shots = shots._replace(starts=State(*(x[:4] for x in shots.starts)))
    value, gradient = rlx.jit(rlx.value_and_grad(pendulum.misfit))(shots, windows)
    sizes = []
    for checkpoints in (None, 10):
        artifact = pendulum.export(tmp_path / str(checkpoints), shots, windows, checkpoints)
        found = artifacts.call(artifacts.load(artifact), *rlx.tree_leaves(shots), windows)
        expected = rlx.tree_leaves((value, gradient))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
        sizes.append(artifact.arena_bytes)
    assert sizes[1] < sizes[0] / 2


@pytest.mark.slow
def test_the_program_saves_its_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn with the extra `demo`")
    monkeypatch.setattr(pendulum, "WINDOWS", (250,))
    pendulum.main(["--output", str(tmp_path), "--iterations", "2"])
    assert (tmp_path / "pendulum.png").stat().st_size > 10_000
    assert "16 windows of  250 steps" in capsys.readouterr().out
