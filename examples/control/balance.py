"""Swing a pole up by a trained policy and balance it within bounds, in one C file on a Cortex-M.

    python -m examples.control.balance [--core cortex-m7] [--output DIR]

The policy is a small network, trained here through the closed loop: the cost of a few seconds of
the cart and its policy is differentiated by the weights. It swings the pole up. Near the top a
quadratic program of the next half second, `rlx.optimize.solve_qp`, keeps force and cart within
their bounds. Both see the estimate of a Kalman filter. `rlx.aot` writes the three as one C file,
which `main_balance.c` runs with a simulated cart of which no part of the controller has a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from examples.control import closed_loop
from examples.control.cart import LIMIT, distance, estimate, move

Weights = dict[str, Any]
Array = NDArray[np.floating[Any]]

UNITS = (5, 12, 12, 1)
LONGEST, BATCH, UPDATES = 80, 64, 3000  # steps of a training run, carts, updates of the weights
HORIZON, TRACK, NEAR = 10, 2.0, 0.2  # steps of a plan, m
WEIGHTS = np.diag([1.0, 0.1, 10.0, 0.1])
"""Of a state's squares in a plan; a force has 0.01."""


class Memory(NamedTuple):
    """What the controller keeps from one measurement to the next."""

    mean: Any
    """Position, speed, angle from upright and its rate, `[4]`."""
    covariance: Any
    """Of the estimate, `[4, 4]`."""
    force: Any
    """Since the last measurement, `[]`."""


def policy(weights: Weights, x: Any) -> Any:
    """Return the force `[]` of the network at a state `[4]`."""
    seen = rnp.stack([x[0], x[1], rnp.sin(x[2]), rnp.cos(x[2]), x[3]])
    for number in (1, 2):
        seen = rnp.tanh(seen @ weights[f"w{number}"] + weights[f"b{number}"])
    return LIMIT * rnp.tanh(seen @ weights["w3"] + weights["b3"])[0]


def mean_cost(weights: Weights, starts: Any) -> Any:
    """Return the mean cost of driving carts by the policy from states `[carts, 4]`."""

    def step(x: Any, _: Any) -> Any:
        force = policy(weights, x)
        x = move(x, force)
        return x, distance(x) + 0.001 * force**2

    def cost(x: Any) -> Any:
        last, costs = rlx.scan(step, x, None, length=LONGEST)
        return rnp.mean(costs) + 2 * distance(last)

    return rnp.mean(rlx.vmap(cost)(starts))


def train(updates: int = UPDATES, seed: int = 0) -> Weights:
    """Return weights after descents from random states, upright ones first, hanging ones last."""
    rng = np.random.default_rng(seed)
    weights: Weights = {}
    for number, (rows, columns) in enumerate(pairwise(UNITS), start=1):
        drawn = rng.standard_normal((rows, columns)) / np.sqrt(rows)
        weights[f"w{number}"] = drawn.astype(np.float32)
        weights[f"b{number}"] = np.zeros(columns, np.float32)
    rate = rlx.optim.cosine_decay_schedule(0.004, updates)
    optimizer = rlx.optim.chain(rlx.optim.clip_by_global_norm(1.0), rlx.optim.adam(rate))

    @rlx.jit
    def update(weights: Weights, state: Any, starts: Any) -> tuple[Weights, Any]:
        slopes = rlx.grad(mean_cost)(weights, starts)
        changes, state = optimizer.update(slopes, state, weights)
        return rlx.optim.apply_updates(weights, changes), state

    state = optimizer.init(weights)
    for count in range(updates):
        widest = min(3.3, 0.3 + 4 * count / updates)
        starts = rng.uniform(-1, 1, (BATCH, 4)) * [0.5, 0.5, widest, 0.5]
        weights, state = update(weights, state, starts.astype(np.float32))
    return rlx.tree_map(np.asarray, weights)  # type: ignore[no-any-return]


class Plan(NamedTuple):
    """Of a horizon of linear dynamics, the matrices of a quadratic program in the forces."""

    curvature: Array
    """`[HORIZON, HORIZON]`."""
    slope: Array
    """By the state, `[HORIZON, 4]`."""
    bounded: Array
    """Forces, and positions of the cart by the forces, `[2 * HORIZON, HORIZON]`."""
    drift: Array
    """What these are without forces, by the state, `[2 * HORIZON, 4]`."""
    bounds: Array
    """Of both, `[2 * HORIZON]`."""


def linear_plan() -> Plan:
    """Return the plan around the upright pole, whose last state has the cost of all later ones."""
    upright = np.zeros(4)
    a, b = (np.asarray(x) for x in rlx.jacfwd(move, (0, 1))(upright, 0.0))
    b = b[:, None]
    rest = WEIGHTS
    for _ in range(300):
        gain = np.linalg.solve(b.T @ rest @ b + 0.01, b.T @ rest @ a)
        rest = WEIGHTS + a.T @ rest @ (a - b @ gain)
    powers = [np.eye(4)]
    for _ in range(HORIZON):
        powers.append(a @ powers[-1])
    forced = np.zeros((HORIZON, 4, HORIZON))
    for row, column in zip(*np.tril_indices(HORIZON), strict=True):
        forced[row, :, column] = (powers[row - column] @ b)[:, 0]
    free = np.stack(powers[1:])
    weights = np.stack([WEIGHTS] * (HORIZON - 1) + [rest])
    curvature = np.einsum("sik,sij,sjl->kl", forced, weights, forced) + 0.01 * np.eye(HORIZON)
    slope = np.einsum("sik,sij,sjl->kl", forced, weights, free)
    bounded = np.concatenate([np.eye(HORIZON), forced[:, 0]])
    drift = np.concatenate([np.zeros((HORIZON, 4)), free[:, 0]])
    return Plan(curvature, slope, bounded, drift, np.repeat([LIMIT, TRACK], HORIZON))


def balance(plan: Plan, x: Any) -> tuple[Any, Any]:
    """Return the first force `[]` of a plan from a state, and the status of its solution."""
    drift = plan.drift @ x
    found = rlx.optimize.solve_qp(
        plan.curvature,
        plan.slope @ x,
        g=plan.bounded,
        lower=-plan.bounds - drift,
        upper=plan.bounds - drift,
        max_iterations=12,
    )
    return found.x[0], found.status


def control(weights: Weights, plan: Plan, memory: Memory, measured: Any) -> Memory:
    """Return what is kept after a measurement `[2]`, with the force until the next."""
    mean, covariance = estimate(memory.mean, memory.covariance, memory.force, measured)
    swing = policy(weights, mean)

    def planned() -> Any:
        force, status = balance(plan, rnp.stack([mean[0], mean[1], rnp.sin(mean[2]), mean[3]]))
        return rnp.where(status == rlx.optimize.Status.SOLVED, force, swing)

    is_near = 1 - rnp.cos(mean[2]) + 0.01 * mean[3] ** 2 < NEAR
    return Memory(mean, covariance, rlx.cond(is_near, planned, lambda: swing))


def export(directory: Path, target: str | None = None, weights: Weights | None = None) -> Any:
    """Write the controller as `balance.c` with its header, for this machine or a core."""
    options: Mapping[str, Any] = {} if target is None else {"target": target, "math": "none"}
    plan: Plan = rlx.tree_map(np.float32, linear_plan())
    zeros = Memory(*(np.zeros(shape, np.float32) for shape in ((4,), (4, 4), ())))
    with rlx.default_dtype("f32"):
        return rlx.aot(
            rlx.jit(lambda weights, *given: control(weights, plan, *given)), directory,
            name="balance", optimize="size", param_argnums=(0,), weights="embed",
            example_inputs=(weights or train(), zeros, np.zeros(2, np.float32)),
            output_names=("mean_after", "covariance_after", "force_after"), **options,
        )  # fmt: skip


if __name__ == "__main__":
    closed_loop.main(__doc__, export)
