"""The recurrent network learns real digits, and its training step is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.packaged import is_installed

if not is_installed("sklearn"):
    pytest.skip("the digits ship in the extra `demo`", allow_module_level=True)

import rlx
from examples import sequence
from examples.sequence import Digits
from tests.aot.building import needs_compiler
from tests.examples import artifacts
from tests.examples.with_jax import with_jax

BATCH = sequence.BATCH


@pytest.fixture(scope="module")
def batch() -> Digits:
    train_set, _ = sequence.load_data()
    return Digits(train_set.pixels[:BATCH], train_set.labels[:BATCH])


@pytest.mark.slow
def test_most_digits_are_recognized_after_a_short_training() -> None:
    _, course = sequence.train(*sequence.load_data(), epochs=20)
    assert course.accuracies[-1] >= 0.85
    assert course.accuracies[0] < 0.4


def test_beliefs_do_not_depend_on_pixels_still_to_come(batch: Digits) -> None:
    params = sequence.first_params(16)
    read = rlx.jit(sequence.read)
    changed = batch.pixels.copy()
    changed[:, 40:] = 1 - changed[:, 40:]
    before, after = read(params, batch.pixels), read(params, changed)
    np.testing.assert_array_equal(before[:40], after[:40])
    assert np.abs(before[40:] - after[40:]).max(axis=(1, 2)).min() > 0


def test_the_gradient_is_the_slope_of_the_loss(batch: Digits) -> None:
    few = Digits(batch.pixels[:4].astype(np.float64), batch.labels[:4])
    params = {name: p.astype(np.float64) for name, p in sequence.first_params(4).items()}
    gradient = rlx.jit(rlx.grad(sequence.loss))(params, few)
    loss = rlx.jit(sequence.loss)
    random = np.random.default_rng(3)
    for name, param in params.items():
        direction = random.standard_normal(param.shape)
        above, below = (
            loss({**params, name: param + step * direction}, few) for step in (1e-5, -1e-5)
        )
        slope = (above - below) / 2e-5
        assert np.sum(gradient[name] * direction) == pytest.approx(slope, rel=1e-6), name


def test_jax_runs_the_same_program_to_the_same_numbers(batch: Digits) -> None:
    other, params = with_jax(sequence), sequence.first_params()
    value, gradient = rlx.jit(rlx.value_and_grad(sequence.loss))(params, batch)
    expected, slopes = other.rlx.jit(other.rlx.value_and_grad(other.loss))(params, batch)
    assert value == pytest.approx(float(expected), rel=1e-5)
    for name, slope in slopes.items():
        np.testing.assert_allclose(gradient[name], slope, atol=1e-5, err_msg=name)


@pytest.mark.slow
@needs_compiler
def test_the_exported_c_trains_as_python_does(tmp_path: Path, batch: Digits) -> None:
    params = sequence.first_params(16)
    native = artifacts.load(sequence.export(tmp_path, params, batch))
    step, init = sequence.make_step(sequence.EPOCHS)
    params, state, losses = {k: p.copy() for k, p in params.items()}, init(params), []
    for _ in range(3):
        params, state, value = step(params, state, batch)
        (loss,) = artifacts.call(native, *batch)
        losses.append(float(loss))
        assert loss == pytest.approx(float(value), rel=1e-5)
    assert losses[2] < losses[0]
    trained = native.view("params", "params_recall").reshape(16, 48)
    np.testing.assert_allclose(trained, params["recall"], atol=1e-5)


@pytest.mark.slow
def test_the_program_saves_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn with the extra `demo`")
    sequence.main(["--output", str(tmp_path), "--epochs", "1"])
    assert (tmp_path / "sequence.png").stat().st_size > 10_000
    assert "test digits right" in capsys.readouterr().out
