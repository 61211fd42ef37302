"""Export a digits network's training step as C, with its data: `train.c` does the rest.

    python -m examples.train_in_c.export build/ [--network mlp|conv]
    cc -O3 build/*.c examples/train_in_c/train.c -Ibuild -lm -o train && ./train build/

The training step is that of `examples.digits`, or of `examples.digits_conv`: loss, gradients, Adam
and running statistics in one function, with everything replaced in place.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from examples import digits, digits_conv
from examples.digits import BATCH, Digits, load_data

EPOCHS = 12
HIDDEN = 64

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Network:
    """A network to train: its step `(*arrays, *state, x, y) -> (*arrays, *state, loss)`."""

    arrays: dict[str, Arrays]
    """What the classifier takes, by the name of its argument: params, statistics."""
    state: tuple[Any, ...]
    step: Any
    predict: Any


def mlp() -> Network:
    """The dense network of `examples.digits`, of half its width."""
    model = digits.mlp(HIDDEN)
    step, state = digits.make_step(model, "c")
    predict = rlx.jit(lambda params, x: rnp.argmax(model.apply(params, x), axis=-1))
    return Network({"params": model.params}, (state,), step, predict)


def conv() -> Network:
    """The convolutional network of `examples.digits_conv`."""
    network = digits_conv.network()
    step, state = digits_conv.make_step("c", EPOCHS * (len(load_data().train_x) // BATCH))
    arrays = {"params": network.params, "statistics": network.statistics}
    key = rlx.random.key(digits.SEED)
    return Network(arrays, (state, key), step, digits_conv.make_predict("c"))


NETWORKS = {"mlp": mlp, "conv": conv}


def export(directory: Path, network: Network, *, target: str = "portable") -> None:
    """Write the artifacts `digits_step` and `digits_predict`, `network.h` and `digits.bin`."""
    data = load_data()
    batch, given = (data.train_x[:BATCH], data.train_y[:BATCH]), tuple(network.arrays.values())
    rlx.aot(
        network.step, directory, name="digits_step", target=target,
        example_inputs=(*given, *network.state, *batch), output_names=("loss",),
    )  # fmt: skip
    rlx.aot(
        network.predict, directory, name="digits_predict", target=target,
        example_inputs=(*given, data.test_x), param_argnums=tuple(range(len(given))),
        weights="argument", output_names=("labels",),
    )  # fmt: skip
    (directory / "main.c").unlink()  # the sample programs; train.c takes their place
    (directory / "network.h").write_text(header(network), encoding="utf-8")
    (directory / "digits.bin").write_bytes(data_file(data))


def names(network: Network) -> list[str]:
    """Return what the C functions call the network's arrays, in order."""
    return [f"{group}_{name}" for group, arrays in network.arrays.items() for name in arrays]


def header(network: Network) -> str:
    """Return a list of the network's arrays for the C preprocessor."""
    listed = " \\\n".join(f"  ARRAY({name}, {name.upper()})" for name in names(network))
    return f"// The arrays that training changes.\n#define NETWORK(ARRAY) \\\n{listed}\n"


def data_file(data: Digits) -> bytes:
    """Return counts, then images and labels: training set first."""
    counts = np.array([len(data.train_x), len(data.test_x)], np.int32)
    parts = (counts, data.train_x, data.train_y, data.test_x, data.test_y)
    return b"".join(part.tobytes() for part in parts)


def train_in_python(network: Network) -> tuple[list[NDArray[Any]], list[float]]:
    """Do what `train.c` does: batches in order; return the arrays and each epoch's last loss."""
    data, losses = load_data(), []
    carried = (*network.arrays.values(), *network.state)
    for _ in range(EPOCHS):
        loss = 0.0
        for first in range(0, len(data.train_x) - BATCH + 1, BATCH):
            rows = slice(first, first + BATCH)
            *carried, loss = network.step(*carried, data.train_x[rows], data.train_y[rows])
        losses.append(float(loss))
    trained = carried[: len(network.arrays)]
    return [
        arrays[name]
        for arrays, own in zip(trained, network.arrays.values(), strict=True)
        for name in own
    ], losses


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--network", default="mlp", choices=NETWORKS)
    parser.add_argument("--target", default="portable")
    arguments = parser.parse_args()
    export(arguments.directory, NETWORKS[arguments.network](), target=arguments.target)


if __name__ == "__main__":
    main()
