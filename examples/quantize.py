"""Quantize a digits network after training: size, speed and accuracy before and after.

    python -m examples.quantize

Trains the MLP of `examples.digits`, measures its activations on 256 images, and turns its products
into exact integer products. The table says what each layer lost, and what the network did.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import rlx
from examples.digits import Digits, load_data, mlp, train_with_progress
from rlx.quantization import Quantized, quantize

Array = NDArray[Any]
BATCH = 60


def network(data: Digits, console: Console) -> tuple[rlx.Graph, dict[str, Array]]:
    """Return the trained network as a graph, and its params by name."""
    model = mlp()
    trained = train_with_progress(model, data, "auto", console)
    graph = rlx.jit(model.apply).graph(trained.params, data.test_x[:BATCH])
    params = {f"p_{name}": np.array(value) for name, value in trained.params.items()}
    return graph, params


def in_eight_bits(graph: rlx.Graph, params: dict[str, Array], data: Digits) -> Quantized:
    """Return the network quantized on some of the training images."""
    parts = [data.train_x[first : first + BATCH] for first in range(0, 4 * BATCH, BATCH)]
    return quantize(graph, [{"x": part} for part in parts], params=params)


def accuracy(graph: rlx.Graph, params: dict[str, Array], data: Digits) -> tuple[float, float]:
    """Return the share of test digits that are right, and microseconds for a batch."""
    run = rlx.compile(graph, params=params, threads=1)
    right, times = 0, []
    for first in range(0, len(data.test_x), BATCH):
        started = time.perf_counter()
        (logits,) = run.run({"x": data.test_x[first : first + BATCH]})
        times.append(time.perf_counter() - started)
        right += int(np.sum(np.argmax(logits, -1) == data.test_y[first : first + BATCH]))
    return right / len(data.test_y), min(times) * 1e6


def main() -> None:
    console, data = Console(), load_data()
    graph, params = network(data, console)
    done = in_eight_bits(graph, params, data)
    console.print(str(done.report))
    table = Table("", "weights", "accuracy", f"batch of {BATCH}")
    for name, version, values, size in [
        ("f32", done.original, params, done.report.float_bytes),
        ("int8", done.graph, done.params, done.report.quantized_bytes),
    ]:
        share, microseconds = accuracy(version, values, data)
        table.add_row(name, f"{size} bytes", f"{share:.2%}", f"{microseconds:.0f} us")
    console.print(table)


if __name__ == "__main__":
    main()
