"""Train a small convolutional network on handwritten digits, entirely in compiled steps.

    python -m examples.digits_conv [--backend c|llvm] [--output DIR]

Three convolutions with batch norm, two of them followed by max pooling, and a dense layer:
99 % of the test digits. One compiled function is a whole training step: loss, gradients, the
Adam update and the running statistics, with everything replaced in place. The picture shows what
the network gets wrong. `examples/train_in_c/` trains the same network in a C program.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import rlx
import rlx.numpy as rnp
from examples.digits import BATCH, CLASSES, SEED, SIDE, Digits, Rounding, as_it_is, load_data

Array = NDArray[Any]
Arrays = dict[str, Any]

CHANNELS = (1, 16, 32, 32)
POOLED = (False, True, True)
"""Whether a convolution is followed by max pooling."""
EPOCHS = 60
RATE, DROPPED = 4e-3, 0.3


@dataclass(frozen=True)
class Network:
    """What training changes: params, and the running statistics of the batch norms."""

    params: Arrays
    statistics: Arrays


@dataclass(frozen=True)
class Trained:
    """What training gave."""

    network: Network
    labels: Array
    """What the network says of the test images."""
    accuracy: float
    seconds: float
    losses: list[float]


def network() -> Network:
    """Return the initial values: weights `[C_out, C_in, 3, 3]`, and one dense matrix."""
    random = np.random.default_rng(SEED)
    he = rlx.nn.initializers.he_normal
    params: Arrays = {}
    statistics: Arrays = {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(CHANNELS)):
        params[f"w{layer}"] = he(random, (outputs, inputs, 3, 3), in_axis=1, out_axis=0)
        params[f"gamma{layer}"] = np.ones(outputs, np.float32)
        params[f"beta{layer}"] = np.zeros(outputs, np.float32)
        statistics[f"mean{layer}"] = np.zeros(outputs, np.float32)
        statistics[f"variance{layer}"] = np.ones(outputs, np.float32)
    features = CHANNELS[-1] * (SIDE // 2 ** sum(POOLED)) ** 2
    params["dense"] = he(random, (features, CLASSES))
    params["bias"] = np.zeros(CLASSES, np.float32)
    return Network(params, statistics)


def apply(
    params: Arrays, statistics: Arrays, images: Any, key: Any = None, rounded: Rounding = as_it_is
) -> Any:
    """Return the logits of images `[n, 64]`, and the next statistics where `key` says to train.

    `rounded` is what becomes of the operands of products and convolutions.
    """
    x = rnp.reshape(images, (images.shape[0], 1, SIDE, SIDE))
    following: Arrays = {}
    for layer, is_pooled in enumerate(POOLED):
        names = f"mean{layer}", f"variance{layer}"
        known = params[f"gamma{layer}"], params[f"beta{layer}"], *(statistics[n] for n in names)
        x = rlx.nn.conv(rounded(x), rounded(params[f"w{layer}"], axis=0))
        if key is None:
            x = rlx.nn.batch_norm(x, *known)
        else:
            x, *kept = rlx.nn.batch_norm(x, *known, training=True)
            following.update(zip(names, kept, strict=True))
        x = rlx.nn.relu(x)
        x = rlx.nn.max_pool(x, 2) if is_pooled else x
    x = rnp.reshape(x, (x.shape[0], -1))
    x = x if key is None else rlx.nn.dropout(x, key, DROPPED)
    return rounded(x) @ rounded(params["dense"], axis=1) + params["bias"], following


def make_step(
    backend: str, steps: int, rate: float = RATE, rounded: Rounding = as_it_is
) -> tuple[Any, Any]:
    """Return the compiled training step and the optimizer's initial state."""
    optimizer = rlx.optim.adam(rlx.optim.cosine_decay_schedule(rate, steps))

    def loss(params: Arrays, statistics: Arrays, x: Any, y: Any, key: Any) -> Any:
        logits, following = apply(params, statistics, x, key, rounded)
        return rnp.mean(rlx.nn.softmax_cross_entropy(logits, y)), following

    def step(params: Arrays, statistics: Arrays, state: Any, key: Any, x: Any, y: Any) -> Any:
        key, drop = rlx.random.split(key)
        differentiated = rlx.value_and_grad(loss, has_aux=True)
        (value, statistics), gradients = differentiated(params, statistics, x, y, drop)
        updates, state = optimizer.update(gradients, state, params)
        params = rlx.optim.apply_updates(params, updates)
        return params, statistics, state, key, value

    compiled = rlx.jit(step, donate_argnums=(0, 1, 2, 3), backend=backend)
    return compiled, optimizer.init(network().params)


def make_predict(backend: str) -> Any:
    """Return the compiled classifier `(params, statistics, images) -> labels`."""
    return rlx.jit(
        lambda params, statistics, x: rnp.argmax(apply(params, statistics, x)[0], axis=-1),
        backend=backend,
    )


def train(
    data: Digits,
    backend: str,
    on_epoch: Callable[[int, float], None],
    epochs: int = EPOCHS,
    *,
    start: Network | None = None,
    rate: float = RATE,
    rounded: Rounding = as_it_is,
) -> Trained:
    """Train on images that are moved by a pixel at random, and test; `start` is where to go on."""
    batches = len(data.train_x) // BATCH
    step, state = make_step(backend, epochs * batches, rate, rounded)
    predict, start = make_predict(backend), start or network()
    params, statistics, key = start.params, start.statistics, rlx.random.key(SEED)
    random, losses = np.random.default_rng(SEED), []
    started = time.perf_counter()
    for epoch in range(epochs):
        order, value = random.permutation(len(data.train_x)), 0.0
        for first in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[first : first + BATCH]
            images = shifted(data.train_x[rows], random)
            params, statistics, state, key, value = step(
                params, statistics, state, key, images, data.train_y[rows]
            )
        losses.append(float(value))
        on_epoch(epoch, losses[-1])
    seconds = time.perf_counter() - started
    labels = predict(params, statistics, data.test_x)
    accuracy = float(np.mean(labels == data.test_y))
    return Trained(Network(params, statistics), labels, accuracy, seconds, losses)


def shifted(images: Array, random: np.random.Generator) -> Array:
    """Move the images of a batch by up to one pixel, all in one direction."""
    down, right = random.integers(-1, 2, 2)
    whole = np.pad(images.reshape(-1, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    moved = whole[:, 1 - down : 1 - down + SIDE, 1 - right : 1 - right + SIDE]
    return np.ascontiguousarray(moved.reshape(len(images), -1))


def save_picture(path: Path, data: Digits, trained: Trained) -> None:
    """Draw the digits that were read wrongly, each with what it is and what was read."""
    from matplotlib.figure import Figure

    wrong = np.nonzero(trained.labels != data.test_y)[0]
    columns = max(4, min(len(wrong), 8))
    rows = max(1, -(-len(wrong) // columns))
    figure = Figure(figsize=(1.4 * columns, 0.5 + 1.7 * rows), layout="constrained")
    figure.suptitle(f"{trained.accuracy:.1%} right; what is read wrongly:")
    for axes, index in zip(figure.subplots(rows, columns).flat, wrong, strict=False):
        axes.imshow(data.test_x[index].reshape(SIDE, SIDE), cmap="gray_r")
        axes.set_title(f"{data.test_y[index]} read as {trained.labels[index]}", fontsize=9)
    for axes in figure.axes:
        axes.axis("off")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="auto", choices=("auto", "c", "llvm"))
    parser.add_argument("--output", type=Path, help="folder for the picture")
    arguments = parser.parse_args()
    console, data = Console(), load_data()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("training", total=EPOCHS)
        trained = train(data, arguments.backend, lambda *_: progress.advance(task))
    console.print(
        f"{trained.accuracy:.1%} of {len(data.test_y)} test digits right after "
        f"{trained.seconds:.1f} s; last loss {trained.losses[-1]:.4f}"
    )
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        picture = arguments.output / "digits_conv.png"
        save_picture(picture, data, trained)
        console.print(f"what it gets wrong: {picture}")


if __name__ == "__main__":
    main()
