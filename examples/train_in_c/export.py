"""Export the digits MLP's training step as C, with its data: `train.c` does the rest.

    python -m examples.train_in_c.export build/
    cc -O3 build/*.c examples/train_in_c/train.c -Ibuild -lm -o train && ./train build/

The training step is that of `examples.digits`: loss, gradients and Adam in one function, with
params and optimizer state replaced in place.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from examples.digits import BATCH, Digits, load_data, make_step, mlp

EPOCHS = 12
HIDDEN = 64


def export(directory: Path, *, target: str = "portable") -> None:
    """Write the artifacts `digits_step` and `digits_predict`, and `digits.bin`."""
    data, model = load_data(), mlp(HIDDEN)
    step, state = make_step(model, "c")
    batch = data.train_x[:BATCH], data.train_y[:BATCH]
    rlx.aot(
        step, directory, name="digits_step", target=target,
        example_inputs=(model.params, state, *batch), output_names=("loss",),
    )  # fmt: skip
    predict = rlx.jit(lambda params, x: rnp.argmax(model.apply(params, x), axis=-1))
    rlx.aot(
        predict, directory, name="digits_predict", target=target,
        example_inputs=(model.params, data.test_x), param_argnums=(0,), weights="argument",
        output_names=("labels",),
    )  # fmt: skip
    (directory / "main.c").unlink()  # the sample programs; train.c takes their place
    (directory / "digits.bin").write_bytes(data_file(data))


def data_file(data: Digits) -> bytes:
    """Return counts, then images and labels: training set first."""
    counts = np.array([len(data.train_x), len(data.test_x)], np.int32)
    parts = (counts, data.train_x, data.train_y, data.test_x, data.test_y)
    return b"".join(part.tobytes() for part in parts)


def train_in_python() -> tuple[dict[str, NDArray[Any]], list[float]]:
    """Do what `train.c` does: batches in order; return the params and each epoch's last loss."""
    data, model = load_data(), mlp(HIDDEN)
    step, state = make_step(model, "c")
    params, losses = model.params, []
    for _ in range(EPOCHS):
        loss = 0.0
        for first in range(0, len(data.train_x) - BATCH + 1, BATCH):
            rows = slice(first, first + BATCH)
            params, state, loss = step(params, state, data.train_x[rows], data.train_y[rows])
        losses.append(float(loss))
    return params, losses


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--target", default="portable")
    arguments = parser.parse_args()
    export(arguments.directory, target=arguments.target)


if __name__ == "__main__":
    main()
