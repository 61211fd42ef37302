"""Find the parameters of a damped pendulum from a noisy recording of its angle.

    python -m examples.pendulum

The simulation, 500 Runge-Kutta steps through `rlx.scan`, is differentiated as it stands; loss,
gradient and update are one compiled function. With matplotlib, the fit is saved as a picture.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp

STEPS, STEP = 500, 0.02
TRUTH = {"damping": 0.25, "stiffness": 4.0}
START = (1.2, 0.0)


def acceleration(params: Any, angle: Any, speed: Any) -> Any:
    return -params["stiffness"] * rnp.sin(angle) - params["damping"] * speed


def simulate(params: Any) -> Any:
    """Return the angle after each of `STEPS` classical Runge-Kutta steps."""

    def slope(angle: Any, speed: Any) -> Any:
        return speed, acceleration(params, angle, speed)

    def step(state: Any, _: None) -> Any:
        angle, speed = state
        a1, s1 = slope(angle, speed)
        a2, s2 = slope(angle + STEP / 2 * a1, speed + STEP / 2 * s1)
        a3, s3 = slope(angle + STEP / 2 * a2, speed + STEP / 2 * s2)
        a4, s4 = slope(angle + STEP * a3, speed + STEP * s3)
        angle = angle + STEP / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        speed = speed + STEP / 6 * (s1 + 2 * s2 + 2 * s3 + s4)
        return (angle, speed), angle

    return rlx.scan(step, START, length=STEPS)[1]


def recording(seed: int = 0, noise: float = 0.05) -> NDArray[np.float64]:
    """Return the true trajectory with noise."""
    angles = np.asarray(rlx.jit(simulate)(TRUTH))
    return angles + noise * np.random.default_rng(seed).standard_normal(STEPS)


def fit(angles: NDArray[np.float64], iterations: int = 300) -> tuple[dict[str, float], float]:
    """Return the parameters found by gradient descent (Adam) and the last loss."""
    optimizer = rlx.optim.adam(0.05)

    def loss(params: Any, angles: Any) -> Any:
        return rnp.mean((simulate(params) - angles) ** 2)

    @rlx.jit
    def update(params: Any, state: Any, angles: Any) -> Any:
        value, gradients = rlx.value_and_grad(loss)(params, angles)
        params, state = optimizer.update(gradients, state, params)
        return params, state, value

    params: Any = {"damping": np.float64(0.0), "stiffness": np.float64(3.0)}
    state, value = optimizer.init(params), np.inf
    for _ in range(iterations):
        params, state, value = update(params, state, angles)
    return {name: float(found) for name, found in params.items()}, float(value)


def save_picture(path: Path, angles: NDArray[np.float64], found: dict[str, float]) -> None:
    """Draw recording and fit."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(8, 4), layout="constrained")).subplots()
    times = STEP * np.arange(1, STEPS + 1)
    axes.plot(times, angles, ".", markersize=3, label="recorded")
    axes.plot(times, np.asarray(rlx.jit(simulate)(found)), label="fitted")
    axes.set(xlabel="time (s)", ylabel="angle (rad)", title="Damped pendulum")
    axes.legend()
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Fit a damped pendulum to its recording.")
    parser.add_argument("--picture", type=Path, default=Path("pendulum.png"))
    parser.add_argument("--iterations", type=int, default=300)
    options = parser.parse_args(arguments)
    angles = recording()
    found, value = fit(angles, options.iterations)
    for name, true in TRUTH.items():
        print(f"{name}: {found[name]:.4f} (true {true})")
    print(f"mean squared error: {value:.5f}")
    if importlib.util.find_spec("matplotlib"):
        save_picture(options.picture, angles, found)
        print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
