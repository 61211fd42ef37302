"""A cart and pole: how they move, what is good, and a Kalman filter of their state.

A state is the position of the cart, its speed, the angle of the pole from upright and its rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp

STEP = 0.05  # s
LIMIT = 10.0  # N
GRAVITY, CART, POLE, LENGTH = 9.81, 1.0, 0.1, 0.5  # m/s^2, kg, kg, m to the pole's centre
PROCESS, NOISE = np.diag([1e-5, 1e-3, 1e-5, 1e-3]), np.diag([1e-4, 1e-4])


def slope(x: Any, force: Any) -> Any:
    """Return the change of a state in a second."""
    sine, cosine = rnp.sin(x[2]), rnp.cos(x[2])
    push = (force + POLE * LENGTH * x[3] ** 2 * sine) / (CART + POLE)
    inertia = LENGTH * (4 / 3 - POLE / (CART + POLE) * cosine**2)
    turn = (GRAVITY * sine - cosine * push) / inertia
    return rnp.stack([x[1], push - POLE * LENGTH / (CART + POLE) * turn * cosine, x[3], turn])


def move(x: Any, force: Any) -> Any:
    """Return the state `[4]` a step later, by the midpoint method of Runge."""
    return x + STEP * slope(x + STEP / 2 * slope(x, force), force)


def distance(x: Any) -> Any:
    """Return how far a state is from upright and at rest in the middle."""
    return x[0] ** 2 + 0.1 * x[1] ** 2 + 10 * (1 - rnp.cos(x[2])) + 0.1 * x[3] ** 2


def estimate(mean: Any, covariance: Any, force: Any, measured: Any) -> tuple[Any, Any]:
    """Return mean and covariance after a step with a force and a measurement `[2]`."""
    change = rlx.jacfwd(move)(mean, force)
    mean = move(mean, force)
    covariance = change @ covariance @ change.T + PROCESS.astype(np.float32)
    shared = covariance[:, ::2]
    gain = rnp.linalg.solve(shared[::2] + NOISE.astype(np.float32), shared.T).T
    return mean + gain @ (measured - mean[::2]), covariance - gain @ shared.T
