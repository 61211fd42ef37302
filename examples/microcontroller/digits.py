"""Read digits in eight bits on a Cortex-M, in QEMU: flash, RAM, stack and accuracy.

    python -m examples.microcontroller.digits --core cortex-m4

Trains a network of 64-32-10 units on handwritten digits, quantizes it, exports it as C with its
weights as constants of one byte, which stay in flash, and runs it on some test digits. Needs
`arm-none-eabi-gcc` and `qemu-system-arm`.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlx
from examples.digits import Digits, Model, load_data, train
from examples.microcontroller.board import BOARDS, build, emulate, flash
from rlx.quantization import Quantized

Array = NDArray[Any]
IMAGES = 8
CLASSES = 10


@dataclass(frozen=True)
class Measured:
    """What the emulator printed, and the sizes of the program's parts in bytes."""

    instructions: int
    stack: int
    ram: int
    scores: Array
    code: int
    constants: int


def network(hidden: int = 32, epochs: int = 15) -> Model:
    """64 -> hidden -> 10 with relu."""
    random, he = np.random.default_rng(0), rlx.nn.initializers.he_normal
    params = {
        "w0": he(random, (64, hidden)), "b0": np.zeros(hidden, np.float32),
        "w1": he(random, (hidden, CLASSES)), "b1": np.zeros(CLASSES, np.float32),
    }  # fmt: skip

    def apply(p: dict[str, Any], x: Any) -> Any:
        return rlx.nn.relu(x @ p["w0"] + p["b0"]) @ p["w1"] + p["b1"]

    return Model("small", params, apply, epochs=epochs, rate=4e-3)


def quantized(model: Model, params: dict[str, Any], data: Digits) -> Quantized:
    """Return the network for one image, measured on training images."""
    images = [row[None] for row in data.train_x[:256]]
    done: Quantized = rlx.quantize(model.apply, images, params=params)
    return done


def run(core: str, done: Quantized, images: Array, directory: Path) -> Measured:
    """Export, compile and emulate."""
    artifact = rlx.aot(
        done.graph, directory, name="digits", params=done.params, output_names=("y",),
        weights="embed", target=core, math="none",
    )  # fmt: skip
    (directory / "images.h").write_text(_header(images))
    program = build(core, "digits.c", artifact, directory)
    facts = emulate(core, program)
    scores = np.array(facts["y"], np.uint32).view(np.float32).reshape(len(images), CLASSES)
    code, constants = flash(core, program, artifact)
    return Measured(
        facts["instructions"][0], facts["stack"][0], facts["arena"][0], scores, code, constants
    )


def _header(images: Array) -> str:
    rows = ",\n".join("{" + ", ".join(f"{x!r}f" for x in map(float, row)) + "}" for row in images)
    count = f"enum {{ IMAGES = {len(images)} }};\n"
    return f"{count}static const float images[{len(images)}][{images.shape[1]}] = {{\n{rows}}};\n"


def accuracy(graph: rlx.Graph, params: dict[str, Array], data: Digits) -> float:
    """Return the share of test digits that are right."""
    model = rlx.compile(graph, params=params)
    scores = [model.run({"x": row[None]})[0][0] for row in data.test_x]
    return float(np.mean(np.argmax(scores, -1) == data.test_y))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", choices=BOARDS, default="cortex-m4")
    core = parser.parse_args().core
    data, model = load_data(), network()
    trained = train(model, data, "auto", lambda *_: None)
    done = quantized(model, trained.params, data)
    with tempfile.TemporaryDirectory() as directory:
        found = run(core, done, data.test_x[:IMAGES], Path(directory))
    before = accuracy(done.original, done.original_params, data)
    after = accuracy(done.graph, done.params, data)
    print(
        f"{core}: {found.instructions} instructions a digit, flash {found.code} bytes of code and "
        f"{found.constants} of constants, RAM {found.ram}, stack {found.stack}"
    )
    print(f"weights: {done.report.float_bytes} -> {done.report.quantized_bytes} bytes")
    print(f"test digits right: {before:.1%} in f32, {after:.1%} in eight bits")
    print("read:", *np.argmax(found.scores, -1), "  are:", *data.test_y[:IMAGES])


if __name__ == "__main__":
    main()
