"""Simulators: trajectories of the Lorenz system, and bodies that attract each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.routine import Bound, FrontEnd, Function, Routine, gradient, samples
from bench.workload import Array

TRAJECTORIES, LORENZ_STEPS, LORENZ_STEP = 64, 1_000, 0.005
BODIES, BODY_STEPS, BODY_STEP, SOFTENING = 16, 1_000, 1e-3, 0.05


def lorenz(library: FrontEnd) -> Function:
    """Classical Runge-Kutta steps of all trajectories; the mean square of where they end."""
    xp = library.numpy

    def slope(state: Any, params: Any) -> Any:
        x, y, z = state[:, 0], state[:, 1], state[:, 2]
        sigma, rho, beta = params[0], params[1], params[2]
        return xp.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z], axis=1)

    def loss(first: Any, params: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            h = LORENZ_STEP
            k1 = slope(state, params)
            k2 = slope(state + h / 2 * k1, params)
            k3 = slope(state + h / 2 * k2, params)
            k4 = slope(state + h * k3, params)
            return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        last, _ = library.control.scan(step, first, None, length=LORENZ_STEPS)
        return (last * last).mean()

    return loss


def _lorenz_arguments() -> tuple[Array, ...]:
    (first,) = samples((TRAJECTORIES, 3))
    return first, np.array([10.0, 28.0, 8.0 / 3.0])


def bodies(library: FrontEnd) -> Function:
    """Leapfrog steps of bodies under softened gravity; the mean square of where they end."""
    xp = library.numpy

    def pull(positions: Any, masses: Any) -> Any:
        apart = positions[None, :, :] - positions[:, None, :]
        squared = (apart * apart).sum(axis=-1) + SOFTENING
        weights = masses[None, :] / (squared * xp.sqrt(squared))
        return (weights[:, :, None] * apart).sum(axis=1)

    def loss(positions: Any, speeds: Any, masses: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            at, moving = state
            at, moving = state
            at = at + BODY_STEP / 2 * moving
            moving = moving + BODY_STEP * pull(at, masses)
            return (at + BODY_STEP / 2 * moving, moving), None

        (last, _), _ = library.control.scan(step, (positions, speeds), None, length=BODY_STEPS)
        return (last * last).mean()

    return loss


def _body_arguments() -> tuple[Array, ...]:
    positions, speeds, masses = samples((BODIES, 3), (BODIES, 3), (BODIES,))
    return positions, 0.1 * speeds, 0.5 + 0.1 * np.abs(masses)


PHYSICS = (
    Routine("loops.lorenz.value", lorenz, _lorenz_arguments, Bound("lorenz", "value", ((),))),
    Routine(
        "loops.lorenz.gradient",
        gradient(lorenz, (0, 1)),
        _lorenz_arguments,
        Bound("lorenz", "gradient", ((TRAJECTORIES, 3), (3,))),
        "loops.lorenz.value",
    ),
    Routine("loops.bodies.value", bodies, _body_arguments, Bound("bodies", "value", ((),))),
    Routine(
        "loops.bodies.gradient",
        gradient(bodies, (0, 1)),
        _body_arguments,
        Bound("bodies", "gradient", ((BODIES, 3), (BODIES, 3))),
        "loops.bodies.value",
    ),
)
