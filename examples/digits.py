"""Train on handwritten digits: an MLP and a small attention model, entirely in compiled steps.

    python -m examples.digits [--backend c|llvm] [--model mlp|attention|both]

The data (1,797 images of 8 x 8 pixels) ship with scikit-learn. One compiled function is a whole
training step: loss, gradients and the Adam update, with params and optimizer state replaced in
place. The same seed gives the same bits at every run.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import rlx
import rlx.numpy as rnp
from examples.packaged import load_digits

Array = NDArray[Any]
Params = dict[str, Any]
Rounding = Callable[..., Any]

CLASSES, SIDE = 10, 8
BATCH = 64
SEED = 0


@dataclass(frozen=True)
class Digits:
    """Images as `[n, 64]` in [0, 1] and labels, split into training and test."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array


@dataclass(frozen=True)
class Model:
    """A network: its initial params and `apply(params, images) -> logits`."""

    name: str
    params: Params
    apply: Callable[[Params, Any], Any]
    epochs: int
    rate: float


@dataclass(frozen=True)
class Trained:
    """What training gave."""

    params: Params
    accuracy: float
    seconds: float
    losses: list[float]


def as_it_is(x: Any, axis: int | None = None) -> Any:
    """Return `x`; `rlx.nn.fake_quantize` in its place rounds to eight bits in training."""
    del axis
    return x


def load_data(test_size: int = 360) -> Digits:
    """Return the digits, shuffled by a fixed seed."""
    images, labels = load_digits()
    order = np.random.default_rng(SEED).permutation(len(images))
    x = (images[order] / 16.0).astype(np.float32)
    y = labels[order].astype(np.int32)
    return Digits(x[test_size:], y[test_size:], x[:test_size], y[:test_size])


def mlp(hidden: int = 128, rounded: Rounding = as_it_is) -> Model:
    """64 -> 128 -> 64 -> 10 with GELU; `rounded` is what becomes of operands of products."""
    random = np.random.default_rng(SEED)
    widths = (SIDE * SIDE, hidden, hidden // 2, CLASSES)
    params: Params = {}
    for layer, shape in enumerate(itertools.pairwise(widths)):
        params[f"w{layer}"] = rlx.nn.initializers.he_normal(random, shape)
        params[f"b{layer}"] = np.zeros(shape[1], np.float32)

    def apply(p: Params, x: Any) -> Any:
        for layer in range(len(widths) - 2):
            x = rlx.nn.gelu(rounded(x) @ rounded(p[f"w{layer}"], axis=1) + p[f"b{layer}"])
        last = len(widths) - 2
        return rounded(x) @ rounded(p[f"w{last}"], axis=1) + p[f"b{last}"]

    return Model("mlp", params, apply, epochs=40, rate=2e-3)


def attention(width: int = 32, heads: int = 4) -> Model:
    """The eight rows of an image as tokens: embed, attend once, feed forward, average."""
    random = np.random.default_rng(SEED)
    he = rlx.nn.initializers.he_normal
    params: Params = {
        "embed": he(random, (SIDE, width)),
        "place": 0.1 * he(random, (SIDE, width)),
        "qkv": he(random, (width, 3 * width)),
        "out": 0.5 * he(random, (width, width)),
        "up": he(random, (width, 4 * width)),
        "down": 0.5 * he(random, (4 * width, width)),
        "head": he(random, (width * SIDE, CLASSES)),
    }
    for name in ("norm1", "norm2"):
        params[f"{name}_gamma"] = np.ones(width, np.float32)
        params[f"{name}_beta"] = np.zeros(width, np.float32)

    def attend(p: Params, x: Any) -> Any:
        shape = (x.shape[0], SIDE, heads, width // heads)
        q, k, v = (rnp.reshape(part, shape) for part in rnp.split(x @ p["qkv"], 3, axis=-1))
        return rnp.reshape(rlx.nn.dot_product_attention(q, k, v), x.shape) @ p["out"]

    def apply(p: Params, x: Any) -> Any:
        x = rnp.reshape(x, (x.shape[0], SIDE, SIDE)) @ p["embed"] + p["place"]
        x = x + attend(p, rlx.nn.layer_norm(x, p["norm1_gamma"], p["norm1_beta"]))
        h = rlx.nn.layer_norm(x, p["norm2_gamma"], p["norm2_beta"])
        x = x + rlx.nn.gelu(h @ p["up"]) @ p["down"]
        return rnp.reshape(x, (x.shape[0], SIDE * width)) @ p["head"]

    return Model("attention", params, apply, epochs=30, rate=2e-3)


def make_step(model: Model, backend: str) -> tuple[Any, Any]:
    """Return the compiled training step and the optimizer's initial state."""
    optimizer = rlx.optim.adam(model.rate)

    def loss(params: Params, x: Any, y: Any) -> Any:
        return rnp.mean(rlx.nn.softmax_cross_entropy(model.apply(params, x), y))

    def step(params: Params, state: Any, x: Any, y: Any) -> Any:
        value, gradients = rlx.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradients, state, params)
        params = rlx.optim.apply_updates(params, updates)
        return params, state, value

    compiled = rlx.jit(step, donate_argnums=(0, 1), backend=backend)
    return compiled, optimizer.init(model.params)


def train(
    model: Model, data: Digits, backend: str, on_epoch: Callable[[int, float], None]
) -> Trained:
    """Train and test; `on_epoch(number, loss)` is called after every epoch."""
    step, state = make_step(model, backend)
    predict = rlx.jit(lambda p, x: rnp.argmax(model.apply(p, x), axis=-1), backend=backend)
    random = np.random.default_rng(SEED)
    params, losses = model.params, []
    started = time.perf_counter()
    for epoch in range(model.epochs):
        order = random.permutation(len(data.train_x))
        value = 0.0
        for first in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[first : first + BATCH]
            params, state, value = step(params, state, data.train_x[rows], data.train_y[rows])
        losses.append(float(value))
        on_epoch(epoch, losses[-1])
    seconds = time.perf_counter() - started
    accuracy = float(np.mean(predict(params, data.test_x) == data.test_y))
    return Trained(params, accuracy, seconds, losses)


def train_with_progress(model: Model, data: Digits, backend: str, console: Console) -> Trained:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task(f"training {model.name}", total=model.epochs)
        return train(model, data, backend, lambda *_: progress.advance(task))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="auto", choices=("auto", "c", "llvm", "reference"))
    parser.add_argument("--model", default="both", choices=("mlp", "attention", "both"))
    arguments = parser.parse_args()
    console = Console()
    data = load_data()
    models = [m for m in (mlp(), attention()) if arguments.model in (m.name, "both")]
    for model in models:
        trained = train_with_progress(model, data, arguments.backend, console)
        console.print(
            f"{model.name}: {trained.accuracy:.1%} of {len(data.test_y)} test digits right "
            f"after {trained.seconds:.1f} s; last loss {trained.losses[-1]:.4f}"
        )


if __name__ == "__main__":
    main()
