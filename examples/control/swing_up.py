"""Swing a pole up on a cart by predictive control, in one C file, on the host and a Cortex-M.

    python -m examples.control.swing_up [--core cortex-m7] [--output DIR]

The controller sees where the cart is and the angle of the pole, both noisy, twenty times a second.
A Kalman filter, extended by `rlx.jacfwd`, estimates the state; `rlx.optimize.ilqr` plans the next
two seconds from the last plan. `rlx.aot` writes both as one C file without allocation, which
`main.c` runs in a loop with a simulated cart whose friction and noise the controller has no model
of. Without `--core` it runs on this machine; with it in QEMU, by `arm-none-eabi-gcc`.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from examples.microcontroller.board import BOARDS, build, emulate, flash

Array = NDArray[np.float32]

HERE = Path(__file__).parent
STEP, HORIZON, ITERATIONS = 0.05, 40, 2  # s, steps of a plan, iterations of each
LIMIT = 10.0  # N
GRAVITY, CART, POLE, LENGTH = 9.81, 1.0, 0.1, 0.5  # m/s^2, kg, kg, m to the pole's centre
PROCESS, NOISE = np.diag([1e-5, 1e-3, 1e-5, 1e-3]), np.diag([1e-4, 1e-4])


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


def slope(x: Any, force: Any) -> Any:
    """Return the change of a state in a second."""
    sine, cosine = rnp.sin(x[2]), rnp.cos(x[2])
    push = (force + POLE * LENGTH * x[3] ** 2 * sine) / (CART + POLE)
    inertia = LENGTH * (4 / 3 - POLE / (CART + POLE) * cosine**2)
    turn = (GRAVITY * sine - cosine * push) / inertia
    return rnp.stack([x[1], push - POLE * LENGTH / (CART + POLE) * turn * cosine, x[3], turn])


def dynamics(x: Any, u: Any) -> Any:
    """Return the state `[4]` a step later, by the midpoint method of Runge."""
    force = LIMIT * rnp.tanh(u[0])
    return x + STEP * slope(x + STEP / 2 * slope(x, force), force)


def distance(x: Any) -> Any:
    """Return how far a state is from upright and at rest in the middle."""
    return x[0] ** 2 + 0.1 * x[1] ** 2 + 10 * (1 - rnp.cos(x[2])) + 0.1 * x[3] ** 2


def estimate(memory: Memory, measured: Any) -> tuple[Any, Any]:
    """Return mean and covariance after the force of the last plan and a measurement `[2]`."""
    u = memory.plan.inputs[0]
    change = rlx.jacfwd(dynamics)(memory.mean, u)
    mean = dynamics(memory.mean, u)
    covariance = change @ memory.covariance @ change.T + PROCESS.astype(np.float32)
    shared = covariance[:, ::2]
    gain = rnp.linalg.solve(shared[::2] + NOISE.astype(np.float32), shared.T).T
    return mean + gain @ (measured - mean[::2]), covariance - gain @ shared.T


def follow(plan: Plan, mean: Any) -> Any:
    """Return the inputs with which the rest of a plan is followed from a state, and one more.

    Without feedback a trajectory around the upright pole would leave it within the horizon.
    """

    def step(x: Any, row: Plan) -> Any:
        u = row.inputs + row.gains @ (x - row.states)
        return dynamics(x, u), u

    rest = rlx.tree_map(lambda rows: rnp.concatenate([rows[1:], rows[-1:]]), plan)
    return rlx.scan(step, mean, rest)[1]


def plan_ahead(mean: Any, start: Any, iterations: int) -> Plan:
    """Return a plan from a state, improved from inputs `[HORIZON, 1]`."""
    found = rlx.optimize.ilqr(
        dynamics,
        lambda x, u: STEP * (distance(x) + u[0] ** 2),
        lambda x: 10 * distance(x),
        mean,
        start,
        max_iterations=iterations,
    )
    return Plan(found.states[:-1], found.inputs, found.gains)


def control(memory: Memory, measured: Any) -> tuple[Memory, Any]:
    """Return what is kept, and the force `[]` until the next measurement, from `[2]` numbers."""
    mean, covariance = estimate(memory, measured)
    plan = plan_ahead(mean, follow(memory.plan, mean), ITERATIONS)
    return Memory(mean, covariance, plan), LIMIT * rnp.tanh(plan.inputs[0, 0])


def first_memory() -> Memory:
    """Return the hanging pole at rest, and a plan that swings it up, computed here."""
    mean, start = np.array([0, 0, np.pi, 0]), 0.5 * np.sin(np.arange(HORIZON) * 0.2)[:, None]
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


def run_here(artifact: rlx.Artifact, directory: Path) -> dict[str, list[int]]:
    """Return what the program prints on this machine, by the word before each number."""
    program = directory / "swing_up"
    sources = [HERE / "main.c", HERE / "host.c", artifact.source]
    command = ["cc", "-O2", "-I", directory, "-I", HERE.parent / "microcontroller", *sources]
    subprocess.run([*map(str, command), "-lm", "-o", str(program)], check=True)
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=120)
    facts: dict[str, list[int]] = {}
    for line in done.stdout.splitlines():
        name, _, number = line.partition(" ")
        facts.setdefault(name, []).append(int(number))
    return facts


def run(directory: Path, core: str | None = None) -> dict[str, list[int]]:
    """Return what the program prints, and the bytes of its code on a core."""
    artifact = export(directory, core)
    facts = {"arena": [artifact.arena_bytes]}
    if core is None:
        return facts | run_here(artifact, directory)
    program = build(core, str(HERE / "main.c"), artifact, directory)
    code, constants = flash(core, program, artifact)
    return facts | emulate(core, program) | {"code": [code], "constants": [constants]}


def trajectory(facts: Mapping[str, Sequence[int]]) -> Array:
    """Return position, angle and force of each step, `[steps, 3]`."""
    columns = [np.array(facts[name]) / 1e4 - 1e5 for name in ("position", "angle", "force")]
    return np.stack(columns, axis=1).astype(np.float32)


def save_picture(path: Path, path_of: Array) -> None:
    """Draw position, angle and force over time, and the cart in some moments."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    scene, *rest = figure.subplot_mosaic([["s", "1"], ["s", "2"], ["s", "3"]]).values()
    times = STEP * np.arange(len(path_of))
    for axes, values, label in zip(
        rest, path_of.T, ("position (m)", "angle (rad)", "force (N)"), strict=True
    ):
        axes.plot(times, values)
        axes.set(ylabel=label, xlim=(0, times[-1]))
    rest[-1].set_xlabel("time (s)")
    for number, (position, angle, _) in enumerate(path_of[:80:4]):
        top = position + 2 * LENGTH * np.sin(angle), 2 * LENGTH * np.cos(angle)
        scene.plot([position, top[0]], [0, top[1]], color="C0", alpha=0.15 + 0.04 * number)
    scene.set(xlabel="x (m)", ylabel="y (m)", title="every 0.2 s of the first four", aspect="equal")
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", choices=BOARDS, help="run in QEMU, not on this machine")
    parser.add_argument("--output", type=Path, help="where the picture and the C are written")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.output or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        facts = run(directory, options.core)
        states = trajectory(facts)
        late = states[len(states) // 2 :]
        print(f"upright to {abs(late[:, 1]).max():.3f} rad in the second half")
        numbers = ("arena", "stack", "code", "constants", "instructions")
        print(", ".join(f"{name} {max(facts[name])}" for name in numbers if name in facts))
        if options.output:
            save_picture(directory / "swing_up.png", states)
            print(f"C: {directory / 'swing_up.c'}; picture: {directory / 'swing_up.png'}")


if __name__ == "__main__":
    main()
