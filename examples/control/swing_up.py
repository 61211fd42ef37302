"""Swing a pole up on a cart by predictive control, in one C file, on the host and a Cortex-M.

    python -m examples.control.swing_up [--core cortex-m7] [--output DIR]

The controller sees where the cart is and the angle of the pole, both noisy, twenty times a second.
A Kalman filter, extended by `rlx.jacfwd`, estimates the state; `rlx.optimize.ilqr` plans the next
two seconds from the last plan. `rlx.aot` writes both as one C file without allocation, which
`main_swing_up.c` runs in a loop with a simulated cart of whose friction and noise the controller
has no model. Without `--core` it runs on this machine, with it in QEMU by `arm-none-eabi-gcc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rlx
import rlx.numpy as rnp
from examples.control import closed_loop
from examples.control.cart import LIMIT, STEP, distance, estimate, move

HORIZON, ITERATIONS = 40, 2  # steps of a plan, iterations of each


class Plan(NamedTuple):
    """A trajectory and feedback along it: `inputs[t] + gains[t] @ (x - states[t])`."""

    states: Any
    """`[HORIZON, 4]`."""
    inputs: Any
    """`[HORIZON, 1]`: the force is `LIMIT * tanh(input)`."""
    gains: Any
    """`[HORIZON, 1, 4]`."""


class Memory(NamedTuple):
    """What the controller keeps from one measurement to the next."""

    mean: Any
    """Position, speed, angle from upright and its rate, `[4]`."""
    covariance: Any
    """Of the estimate, `[4, 4]`."""
    plan: Plan
    """From the last measurement on."""


def dynamics(x: Any, u: Any) -> Any:
    """Return the state `[4]` a step later; an input `[1]` is a force within `LIMIT`."""
    return move(x, LIMIT * rnp.tanh(u[0]))


def rest_of(plan: Plan) -> Plan:
    """Return a plan from its second step on, whose last one is repeated."""
    return rlx.tree_map(  # type: ignore[no-any-return]
        lambda rows: rnp.concatenate([rows[1:], rows[-1:]]), plan
    )


def plan_ahead(mean: Any, start: Plan, iterations: int) -> Plan:
    """Return a plan from a state, improved from one that is followed with its feedback.

    Without feedback a trajectory around the upright pole would leave it within the horizon.
    """
    found = rlx.optimize.ilqr(
        dynamics,
        lambda x, u: STEP * (distance(x) + u[0] ** 2),
        lambda x: 10 * distance(x),
        mean,
        start.inputs,
        states=start.states,
        gains=start.gains,
        max_iterations=iterations,
    )
    return Plan(found.states[:-1], found.inputs, found.gains)


def control(memory: Memory, measured: Any) -> tuple[Memory, Any]:
    """Return what is kept, and the force `[]` until the next measurement, from `[2]` numbers."""
    force = LIMIT * rnp.tanh(memory.plan.inputs[0, 0])
    mean, covariance = estimate(memory.mean, memory.covariance, force, measured)
    plan = plan_ahead(mean, rest_of(memory.plan), ITERATIONS)
    return Memory(mean, covariance, plan), LIMIT * rnp.tanh(plan.inputs[0, 0])


def first_memory() -> Memory:
    """Return the hanging pole at rest, and a plan that swings it up, computed here."""
    mean, inputs = np.array([0, 0, np.pi, 0]), 0.5 * np.sin(np.arange(HORIZON) * 0.2)[:, None]
    start = Plan(np.zeros((HORIZON, 4)), inputs, np.zeros((HORIZON, 1, 4)))
    plan = rlx.jit(lambda mean, start: plan_ahead(mean, start, 60))(mean, start)
    still = Plan(mean[None], np.zeros((1, 1)), np.zeros((1, 1, 4)))
    late = rlx.tree_map(lambda first, rest: np.concatenate([first, rest[:-1]]), still, plan)
    whole = Memory(mean, 0.01 * np.eye(4), late)
    as_single: Memory = rlx.tree_map(lambda x: np.asarray(x, np.float32), whole)
    return as_single


def export(directory: Path, target: str | None = None) -> rlx.Artifact:
    """Write the controller as `swing_up.c` with its header, for this machine or a core."""
    options: Mapping[str, Any] = {} if target is None else {"target": target, "math": "none"}
    first = first_memory()
    with rlx.default_dtype("f32"):
        artifact = rlx.aot(
            rlx.jit(control), directory, name="swing_up", optimize="size",
            example_inputs=(first, np.zeros(2, np.float32)),
            output_names=("mean", "covariance", "states", "inputs", "gains", "force"), **options,
        )  # fmt: skip
    (directory / "first_plan.h").write_text(_as_c(first.plan))
    return artifact


def _as_c(plan: Plan) -> str:
    """Return the arrays of a plan as constants in C."""
    lines = []
    for name, array in plan._asdict().items():
        numbers = ", ".join(f"{float(x):.6f}f" for x in array.ravel())
        lines.append(f"static const float first_{name}[{array.size}] = {{{numbers}}};")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    closed_loop.main(__doc__, export)
