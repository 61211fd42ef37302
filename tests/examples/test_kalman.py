"""The Kalman filter against the joint Gaussian of all fixes, and the fit against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("scipy", reason="the joint density is SciPy's")
from scipy.stats import multivariate_normal

import rlx
from examples import kalman
from examples.kalman import Fixes
from tests.aot.building import needs_compiler
from tests.examples import artifacts
from tests.examples.with_jax import with_jax

Array = NDArray[Any]

PARAMS = {"keep": 0.9, "gust": 0.5, "error": 3.0}


@pytest.fixture(scope="module")
def fixes() -> Fixes:
    return kalman.sail(steps=20)[1]


def joint(params: kalman.Params, steps: int) -> Array:
    """Return the covariance `[4 * steps, 4 * steps]` of all states, whose mean is 0."""
    transition, noise = np.eye(4), np.zeros((4, 4))
    transition[:2, 2:] = kalman.STEP * np.eye(2)
    transition[2:, 2:] *= params["keep"]
    noise[2:, 2:] = params["gust"] ** 2 * np.eye(2)
    covariance = np.zeros((steps, 4, steps, 4))
    now = kalman.PRIOR.covariance
    for t in range(steps):
        now = transition @ now @ transition.T + noise
        across = now
        for later in range(t, steps):
            covariance[later, :, t] = across
            covariance[t, :, later] = across.T
            across = transition @ across
    return covariance.reshape(4 * steps, 4 * steps)


def observation(params: kalman.Params, fixes: Fixes) -> tuple[Array, Array, Array]:
    """Return the received fixes, and which combinations of all states, and of what error."""
    steps = len(fixes.positions)
    rows = np.kron(np.eye(steps)[fixes.received], np.eye(2, 4))
    error = params["error"] ** 2 * np.eye(len(rows))
    return fixes.positions[fixes.received].ravel(), rows, error


def log_density(params: kalman.Params, fixes: Fixes) -> float:
    seen, rows, error = observation(params, fixes)
    covariance = rows @ joint(params, len(fixes.positions)) @ rows.T + error
    return float(multivariate_normal(cov=covariance).logpdf(seen))


def test_the_log_likelihood_is_the_density_of_all_fixes_together(fixes: Fixes) -> None:
    assert not fixes.received.all()
    *_, found = rlx.jit(kalman.kalman_filter)(PARAMS, fixes)
    assert found == pytest.approx(log_density(PARAMS, fixes), rel=1e-10)


def test_the_gradient_is_the_slope_of_that_density(fixes: Fixes) -> None:
    numbers = kalman.free(PARAMS)
    gradient = rlx.jit(rlx.grad(kalman.surprise))(numbers, fixes)
    for name in numbers:
        moved = [
            rlx.jit(kalman.bounded)({**numbers, name: numbers[name] + step})
            for step in (1e-5, -1e-5)
        ]
        above, below = (log_density(params, fixes) for params in moved)
        slope = -(above - below) / 2e-5 / len(fixes.positions)
        assert gradient[name] == pytest.approx(slope, rel=1e-6), name


def test_smoothed_beliefs_are_the_states_given_all_fixes(fixes: Fixes) -> None:
    steps = len(fixes.positions)
    seen, rows, error = observation(PARAMS, fixes)
    prior = joint(PARAMS, steps)
    gain = np.linalg.solve(rows @ prior @ rows.T + error, rows @ prior).T
    covariance = (prior - gain @ rows @ prior).reshape(steps, 4, steps, 4)
    smoothed = rlx.jit(kalman.smoother)(PARAMS, fixes)
    np.testing.assert_allclose(smoothed.mean, (gain @ seen).reshape(steps, 4), atol=1e-8)
    for t in range(steps):
        np.testing.assert_allclose(smoothed.covariance[t], covariance[t, :, t], atol=1e-8)


@pytest.mark.slow
def test_the_fit_finds_the_parameters_that_made_the_fixes() -> None:
    states, fixes = kalman.sail()
    numbers, course = kalman.fit(fixes, iterations=120)
    params, errors = rlx.jit(kalman.bounded)(numbers), kalman.standard_errors(numbers, fixes)
    assert course[-1] == pytest.approx(max(course), abs=0.01)
    for name, true in kalman.TRUTH.items():
        assert abs(params[name] - true) < 2 * errors[name] < 0.4 * true, name
    smoothed = rlx.jit(kalman.smoother)(params, fixes)
    _, filtered, _ = rlx.jit(kalman.kalman_filter)(params, fixes)
    off = [np.mean((b.mean[:, :2] - states[:, :2]) ** 2) for b in (smoothed, filtered)]
    assert off[0] < 0.5 * off[1]


def test_jax_runs_the_same_program_to_the_same_numbers(fixes: Fixes) -> None:
    other, numbers = with_jax(kalman), kalman.free(PARAMS)
    value, gradient = rlx.jit(rlx.value_and_grad(kalman.surprise))(numbers, fixes)
    expected, slopes = other.rlx.jit(other.rlx.value_and_grad(other.surprise))(numbers, fixes)
    assert value == pytest.approx(float(expected), rel=1e-12)
    for name, slope in slopes.items():
        assert gradient[name] == pytest.approx(float(slope), rel=1e-9), name


@pytest.mark.slow
@needs_compiler
def test_the_exported_c_computes_value_and_gradient(tmp_path: Path, fixes: Fixes) -> None:
    numbers = kalman.free(PARAMS)
    value, gradient = rlx.jit(rlx.value_and_grad(kalman.surprise))(numbers, fixes)
    native = artifacts.load(kalman.export(tmp_path, numbers, fixes))
    leaves = rlx.tree_leaves((numbers, fixes))
    found = artifacts.call(native, *leaves)
    np.testing.assert_allclose(found, rlx.tree_leaves((value, gradient)), rtol=1e-12)


@pytest.mark.slow
def test_the_program_saves_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn with the extra `demo`")
    kalman.main(["--output", str(tmp_path), "--iterations", "3"])
    assert (tmp_path / "kalman.png").stat().st_size > 10_000
    assert "log-likelihood" in capsys.readouterr().out
