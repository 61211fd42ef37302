"""An Equinox model trained by rlx with a step of Optax, and its prediction as a program in C.

    python -m examples.jax_model --output build

JAX traces the step and the prediction; `rlx.from_jax` makes functions of rlx of them. `rlx.aot`
writes `surface.c` with the trained weights in it, and `main.c`, which calls it without Python.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

import rlx
from rlx.runtime.toolchain import find_toolchain

BATCH, POINTS, STEPS = 64, 1024, 400
SHOWN = 6

Array = NDArray[np.float32]


def surface(seed: int = 0) -> tuple[Array, Array]:
    """Return points of the plane `[POINTS, 2]`, and the heights `[POINTS]` of a surface there."""
    points = np.random.default_rng(seed).uniform(-1, 1, (POINTS, 2)).astype("f4")
    return points, np.sin(3 * points[:, 0]) * np.cos(2 * points[:, 1])


def make_model() -> eqx.nn.MLP:
    """Return a network from a point to a height."""
    return eqx.nn.MLP(2, "scalar", 32, 2, activation=jax.nn.gelu, key=jax.random.key(0))


def predict(model: eqx.nn.MLP, points: Any) -> Any:
    """Return the heights at points `[n, 2]`."""
    return jax.vmap(model)(points)


def mean_square(model: eqx.nn.MLP, points: Any, heights: Any) -> Any:
    """Return the mean squared error of the heights."""
    return jnp.mean((predict(model, points) - heights) ** 2)


def train(model: eqx.nn.MLP, steps: int = STEPS) -> tuple[eqx.nn.MLP, float]:
    """Return the model after steps of Adam, compiled by rlx, and the loss over all points."""
    optimizer = optax.adam(1e-2)
    points, heights = surface()

    def step(model: Any, state: Any, x: Any, y: Any) -> Any:
        slopes = eqx.filter_grad(mean_square)(model, x, y)
        updates, state = optimizer.update(slopes, state)
        return eqx.apply_updates(model, updates), state

    compiled = rlx.from_jax(step, donate_argnums=(0, 1))
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    for number in range(steps):
        rows = slice(number * BATCH % POINTS, number * BATCH % POINTS + BATCH)
        model, state = compiled(model, state, points[rows], heights[rows])
    return model, float(rlx.from_jax(mean_square)(model, points, heights))


def export(model: eqx.nn.MLP, points: Array, directory: Path) -> Path:
    """Write the prediction at `points` as C, compile it, and return the path of the program."""
    artifact = rlx.aot(
        rlx.from_jax(predict), directory, name="surface", example_inputs=[model, points],
        param_argnums=(0,), weights="embed", output_names=("heights",),
    )  # fmt: skip
    program = directory / "surface"
    sources = [str(artifact.sample), str(artifact.source)]
    compiler = find_toolchain().command
    subprocess.run([*compiler, "-O2", *sources, "-o", str(program), "-lm"], check=True)
    return program


def run(program: Path) -> Array:
    """Return the heights that the program in C prints."""
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    return np.array(done.stdout.removeprefix("heights:").split(), "f4")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build"))
    arguments = parser.parse_args()
    model, loss = train(make_model())
    print(f"mean squared error after {STEPS} steps: {loss:.5f}")
    points = surface(seed=1)[0][:SHOWN]
    found = run(export(model, points, arguments.output))
    expected = np.asarray(predict(model, points))
    print("heights by the program in C:", *(f"{height:8.5f}" for height in found))
    print("heights by JAX:             ", *(f"{height:8.5f}" for height in expected))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
