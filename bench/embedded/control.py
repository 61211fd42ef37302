"""Small control programs: an extended Kalman filter of a cart and pole, and a policy network."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp


def dynamics(x: Any, u: Any) -> Any:
    """Return the state of a cart and pole, `[4]`, a hundredth of a second later."""
    s, c = rnp.sin(x[2]), rnp.cos(x[2])
    push = (u[0] + 0.05 * x[3] * x[3] * s) / 1.1
    turn = (9.81 * s - c * push) / (0.5 * (4.0 / 3.0 - 0.1 * c * c / 1.1))
    return x + 0.01 * rnp.stack([x[1], push - 0.05 * turn * c / 1.1, x[3], turn])


def measure(x: Any) -> Any:
    """Return what a camera sees: where the cart is, and the pole's tip above it."""
    return rnp.stack([x[0], rnp.sin(x[2])])


def kalman_filter(x: Any, p: Any, u: Any, z: Any, q: Any, r: Any) -> tuple[Any, Any]:
    """Return the state and its covariance after a step and a measurement."""
    f = rlx.jacfwd(dynamics)(x, u)
    x = dynamics(x, u)
    p = f @ p @ f.T + q
    h = rlx.jacfwd(measure)(x)
    s = h @ p @ h.T + r
    k = rnp.linalg.solve(s, h @ p).T
    i = rnp.eye(4, dtype=np.float32) - k @ h
    return x + k @ (z - measure(x)), i @ p @ i.T + k @ r @ k.T


FILTER_INPUTS = (
    np.array([0.1, 0.0, 0.2, 0.0], np.float32),
    np.eye(4, dtype=np.float32) / 10,
    np.array([0.3], np.float32),
    np.array([0.11, 0.19], np.float32),
    np.eye(4, dtype=np.float32) * np.float32(1e-4),
    np.eye(2, dtype=np.float32) * np.float32(1e-2),
)


def rigid_body(x: Any, u: Any) -> Any:
    """Return the state of a rigid body, `[12]`, a hundredth of a second later.

    Position, velocity, the angles roll, pitch and yaw, and the rates of turning; of thrust and
    three torques, `[4]`.
    """
    velocity, angles, rates = x[3:6], x[6:9], x[9:12]
    (s, t, w), (c, d, v) = rnp.sin(angles), rnp.cos(angles)
    lift = u[0] / 1.5
    push = rnp.stack([(c * t * v + s * w) * lift, (c * t * w - s * v) * lift, c * d * lift - 9.81])
    p, q, r = rates
    turn = rnp.stack([p + (s * q + c * r) * t / d, c * q - s * r, (s * q + c * r) / d])
    spin = rnp.stack([(u[1] - 0.02 * q * r) / 0.03, (u[2] + 0.02 * p * r) / 0.03, u[3] / 0.05])
    return x + 0.01 * rnp.concatenate([velocity, push, turn, spin])


def body_filter(x: Any, p: Any, u: Any, z: Any, q: Any, r: Any) -> tuple[Any, Any]:
    """Return the state of a rigid body and its covariance after a step and its position."""
    f = rlx.jacfwd(rigid_body)(x, u)
    x = rigid_body(x, u)
    p = f @ p @ f.T + q
    h = rlx.jacfwd(lambda x: x[:3])(x)
    k = rnp.linalg.solve(h @ p @ h.T + r, h @ p).T
    i = rnp.eye(12, dtype=np.float32) - k @ h
    return x + k @ (z - x[:3]), i @ p @ i.T + k @ r @ k.T


BODY_INPUTS = (
    np.linspace(-0.3, 0.4, 12, dtype=np.float32),
    np.eye(12, dtype=np.float32) / 10,
    np.array([15.0, 0.1, -0.1, 0.05], np.float32),
    np.array([-0.3, -0.2, -0.1], np.float32),
    np.eye(12, dtype=np.float32) * np.float32(1e-4),
    np.eye(3, dtype=np.float32) * np.float32(1e-2),
)


def policy_weights() -> Mapping[str, np.ndarray]:
    """Return the weights of a network of 4-16-16-1 units."""
    rng = np.random.default_rng(0)
    sizes = (4, 16, 16, 1)
    weights: dict[str, np.ndarray] = {}
    for number, (rows, columns) in enumerate(pairwise(sizes), start=1):
        drawn = rng.standard_normal((rows, columns)) / np.sqrt(rows)
        weights[f"w{number}"] = drawn.astype(np.float32)
        weights[f"b{number}"] = rng.standard_normal(columns).astype(np.float32) / 10
    return weights


def policy(params: Mapping[str, Any], x: Any) -> Any:
    """Return the force on the cart, `[1]`, of a state `[4]`."""
    for number in (1, 2):
        x = rnp.maximum(x @ params[f"w{number}"] + params[f"b{number}"], 0)
    return x @ params["w3"] + params["b3"]
