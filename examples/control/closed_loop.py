"""Run a controller with a simulated cart, here or on a core, and draw what happened."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import rlx
from examples.control.cart import LENGTH, STEP
from examples.microcontroller.board import BOARDS, build, emulate, flash

Array = NDArray[np.float32]

HERE = Path(__file__).parent


def run(artifact: rlx.Artifact, directory: Path, core: str | None = None) -> dict[str, list[int]]:
    """Return the numbers that a controller's program prints, by the word before each."""
    main = HERE / f"main_{artifact.name}.c"
    facts = {"arena": [artifact.arena_bytes]}
    if core is None:
        return facts | _run_here(main, artifact, directory)
    program = build(core, str(main), artifact, directory)
    code, constants = flash(core, program, artifact)
    return facts | emulate(core, program) | {"code": [code], "constants": [constants]}


def _run_here(main: Path, artifact: rlx.Artifact, directory: Path) -> dict[str, list[int]]:
    program = directory / artifact.name
    sources = [main, HERE / "host.c", artifact.source]
    command = ["cc", "-O2", "-I", directory, "-I", HERE.parent / "microcontroller", *sources]
    subprocess.run([*map(str, command), "-lm", "-o", str(program)], check=True)
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=120)
    facts: dict[str, list[int]] = {}
    for line in done.stdout.splitlines():
        name, _, number = line.partition(" ")
        facts.setdefault(name, []).append(int(number))
    return facts


def trajectory(facts: Mapping[str, Sequence[int]]) -> Array:
    """Return position, angle and force of each step, `[steps, 3]`."""
    columns = [np.array(facts[name]) / 1e4 - 1e5 for name in ("position", "angle", "force")]
    return np.stack(columns, axis=1).astype(np.float32)


def from_upright(angles: Array) -> Array:
    """Return angles from the nearest upright pole."""
    return np.asarray((angles + np.pi) % (2 * np.pi) - np.pi, np.float32)


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


def main(
    description: str | None,
    export: Callable[[Path, str | None], rlx.Artifact],
    arguments: list[str] | None = None,
) -> None:
    """Run an exported controller as the arguments of a command say, and print what it costs."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--core", choices=BOARDS, help="run in QEMU, not on this machine")
    parser.add_argument("--output", type=Path, help="where the picture and the C are written")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.output or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        artifact = export(directory, options.core)
        facts = run(artifact, directory, options.core)
        states = trajectory(facts)
        late = from_upright(states[len(states) // 2 :, 1])
        print(f"upright to {abs(late).max():.3f} rad in the second half")
        numbers = ("arena", "stack", "code", "constants", "instructions")
        print(", ".join(f"{name} {max(facts[name])}" for name in numbers if name in facts))
        if options.output:
            save_picture(directory / f"{artifact.name}.png", states)
            print(f"C: {artifact.source}; picture: {directory / artifact.name}.png")
