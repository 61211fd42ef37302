"""Export a network for a Cortex-M, run it in QEMU, print instructions, flash, RAM and stack.

    python -m examples.microcontroller.run --core cortex-m4

Needs `arm-none-eabi-gcc` and `qemu-system-arm`. No C library takes part.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

import rlx
import rlx.numpy as rnp
from examples.microcontroller.board import BOARDS, build, emulate, flash

X = np.array([[0.25, -0.5, 1.0, 0.75, *[0.0] * 12]], np.float32)


@rlx.jit
def classify(weights: Mapping[str, rlx.Array], x: rlx.Array) -> rlx.Array:
    """Return the scores of four classes."""
    hidden = rnp.maximum(x @ weights["w1"] + weights["b1"], 0)
    hidden = rnp.maximum(hidden @ weights["w2"] + weights["b2"], 0)
    scores: rlx.Array = hidden @ weights["w3"] + weights["b3"]
    return scores


def weights() -> dict[str, np.ndarray]:
    """Return weights as training could have left them."""
    random = np.random.default_rng(0)
    widths = (16, 32, 32, 4)
    layers = list(pairwise(widths))
    matrices = {f"w{i}": 0.3 * random.standard_normal(s) for i, s in enumerate(layers, 1)}
    biases = {f"b{i}": 0.1 * random.standard_normal(s[1]) for i, s in enumerate(layers, 1)}
    return {name: value.astype(np.float32) for name, value in (matrices | biases).items()}


def run(core: str, directory: Path) -> dict[str, list[int]]:
    """Return what the program prints, and the bytes of its sections, by name."""
    artifact = rlx.aot(
        classify, directory, name="classify", example_inputs=(weights(), X), param_argnums=(0,),
        output_names=("y",), weights="embed", target=core, math="none",
    )  # fmt: skip
    program = build(core, "main.c", artifact, directory)
    code, constants = flash(core, program, artifact)
    return emulate(core, program) | {"code": [code], "constants": [constants]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", choices=BOARDS, default="cortex-m4")
    core = parser.parse_args().core
    with tempfile.TemporaryDirectory() as directory:
        facts = run(core, Path(directory))
    scores = [number / 1e6 - 2e3 for number in facts.pop("y")]
    print(f"{core}: " + ", ".join(f"{name} {number[0]}" for name, number in facts.items()))
    print("scores: " + " ".join(f"{score:.4f}" for score in scores))


if __name__ == "__main__":
    main()
