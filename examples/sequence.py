"""Read handwritten digits one pixel at a time with a small recurrent network (GRU).

    python -m examples.sequence [--output DIR] [--export DIR]

The data (1,797 real images of 8 x 8 pixels) ship with scikit-learn; each is a sequence of 64
gray levels. `rlx.scan` carries what the network remembers from pixel to pixel, and the gradient
goes back through all 64. The network says after every pixel which digit it believes to see, and
is trained to be right as early as it can. A training step is one compiled function: loss,
gradients, clipping and the Adam update.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from examples.packaged import load_digits

Array = NDArray[Any]
Params = dict[str, Any]

CLASSES, PIXELS, TESTED = 10, 64, 360
WIDTH, BATCH, EPOCHS, RATE, SEED = 64, 64, 40, 1e-2, 0


class Digits(NamedTuple):
    """Sequences `[n, 64]` of gray levels in [0, 1], and the digits they show."""

    pixels: Array
    labels: Array


class Course(NamedTuple):
    """Loss of the last batch and accuracy on the test digits, by epoch."""

    losses: list[float]
    accuracies: list[float]


def load_data() -> tuple[Digits, Digits]:
    """Return training and test digits, shuffled by a fixed seed."""
    images, labels = load_digits()
    order = np.random.default_rng(SEED).permutation(len(images))
    pixels = (images[order] / 16).astype(np.float32)
    digits = labels[order].astype(np.int32)
    return Digits(pixels[TESTED:], digits[TESTED:]), Digits(pixels[:TESTED], digits[:TESTED])


def first_params(width: int = WIDTH) -> Params:
    """Return random params; the update gate starts out keeping most of the memory."""
    random, glorot = np.random.default_rng(SEED), rlx.nn.initializers.glorot_uniform
    return {
        "see": rlx.nn.initializers.normal(random, (1, 3 * width)),
        "recall": np.concatenate([glorot(random, (width, width)) for _ in range(3)], axis=1),
        "bias": np.repeat(np.array([1, 0, 0], np.float32), width),
        "name": glorot(random, (width, CLASSES)),
        "name_bias": np.zeros(CLASSES, np.float32),
    }


def gru(params: Params, memory: Any, pixel: Any) -> Any:
    """A gated recurrent unit (Cho et al., 2014): return the memory after one more pixel."""
    seen = pixel[:, None] @ params["see"] + params["bias"]
    keep, use, new = rnp.split(seen, 3, axis=1)
    recalled_keep, recalled_use, recalled = rnp.split(memory @ params["recall"], 3, axis=1)
    keep = rlx.nn.sigmoid(keep + recalled_keep)
    use = rlx.nn.sigmoid(use + recalled_use)
    return keep * memory + (1 - keep) * rnp.tanh(new + use * recalled)


def read(params: Params, pixels: Any) -> Any:
    """Return the logits `[64, n, 10]` after every pixel of `pixels[n, 64]`."""

    def step(memory: Any, pixel: Any) -> tuple[Any, Any]:
        memory = gru(params, memory, pixel)
        return memory, memory

    start = rnp.zeros((pixels.shape[0], params["recall"].shape[0]), pixels.dtype)
    _, memories = rlx.scan(step, start, pixels.T)
    return memories @ params["name"] + params["name_bias"]


def loss(params: Params, digits: Digits) -> Any:
    """Mean cross-entropy over all pixels."""
    logits = read(params, digits.pixels)
    labels = rnp.broadcast_to(digits.labels, logits.shape[:2])
    return rnp.mean(rlx.nn.softmax_cross_entropy(logits, labels))


def make_step(steps: int, backend: str = "auto") -> tuple[Any, Any]:
    """Return the compiled training step, and the function that makes the optimizer's state."""
    rate = rlx.optim.cosine_decay_schedule(RATE, steps, 0.02)
    optimizer = rlx.optim.chain(rlx.optim.clip_by_global_norm(1.0), rlx.optim.adam(rate))

    def train_step(params: Params, state: Any, digits: Digits) -> Any:
        value, gradients = rlx.value_and_grad(loss)(params, digits)
        updates, state = optimizer.update(gradients, state, params)
        params = rlx.optim.apply_updates(params, updates)
        return params, state, value

    return rlx.jit(train_step, donate_argnums=(0, 1), backend=backend), optimizer.init


@rlx.jit
def accuracy(params: Params, digits: Digits) -> Any:
    """The share of digits recognized after their last pixel."""
    return rnp.mean(rnp.argmax(read(params, digits.pixels)[-1], axis=-1) == digits.labels)


def train(
    train_set: Digits, test_set: Digits, *, width: int = WIDTH, epochs: int = EPOCHS
) -> tuple[Params, Course]:
    """Train on shuffled batches; return the params and how it went."""
    batches = len(train_set.labels) // BATCH
    step, init = make_step(epochs * batches)
    params, course = first_params(width), Course([], [])
    state, random = init(params), np.random.default_rng(SEED)
    for _ in range(epochs):
        order = random.permutation(len(train_set.labels))[: batches * BATCH]
        for rows in order.reshape(batches, BATCH):
            batch = Digits(train_set.pixels[rows], train_set.labels[rows])
            params, state, value = step(params, state, batch)
        course.losses.append(float(value))
        course.accuracies.append(float(accuracy(params, test_set)))
    return params, course


def save_picture(path: Path, params: Params, course: Course, test_set: Digits) -> None:
    """Draw how training went, and what the network believes while it reads four digits."""
    from matplotlib.figure import Figure

    shown = [int(np.argmax(test_set.labels == digit)) for digit in (3, 4, 7, 9)]
    pixels = test_set.pixels[shown]
    beliefs = rlx.jit(lambda p, x: rlx.nn.softmax(read(p, x)))(params, pixels)
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(2, 3))[0]
    above, below = left.subplots(2, sharex=True)
    above.plot(course.losses, color="C0")
    above.set(ylabel="loss (nats)", ylim=(0, None), title="training")
    below.plot(100 * np.array(course.accuracies), color="C2")
    below.set(xlabel="epoch", ylabel="test digits right (%)")
    grid = right.subplots(len(shown), 2, width_ratios=(1, 5))
    for (picture, belief), image, belief_of in zip(
        grid, pixels, beliefs.transpose(1, 2, 0), strict=True
    ):
        picture.imshow(image.reshape(8, 8), cmap="gray_r")
        picture.set(xticks=[], yticks=[])
        shades = belief.imshow(
            belief_of, aspect="auto", vmin=0, vmax=1, extent=(0, PIXELS, CLASSES - 0.5, -0.5)
        )
        belief.set(yticks=range(0, CLASSES, 3), ylabel="digit", xticks=[])
    grid[0, 1].set_title("what it believes as the pixels come in, row by row")
    grid[-1, 1].set(xticks=range(0, PIXELS + 1, 8), xlabel="pixels read")
    right.colorbar(shades, ax=grid, label="probability")
    figure.savefig(path, dpi=150)


def export(directory: Path, params: Params, digits: Digits) -> rlx.Artifact:
    """Write a training step on one batch as C; params and optimizer state stay in its memory."""
    step, init = make_step(EPOCHS * len(digits.labels) // BATCH)
    batch = Digits(digits.pixels[:BATCH], digits.labels[:BATCH])
    return rlx.aot(
        step, directory, name="sequence", example_inputs=(params, init(params), batch),
        output_names=("loss",),
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(), help="where the picture goes")
    parser.add_argument("--export", type=Path, help="write the training step as C here")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args(arguments)
    train_set, test_set = load_data()
    started = time.perf_counter()
    params, course = train(train_set, test_set, epochs=options.epochs)
    print(
        f"{course.accuracies[-1]:.1%} of {TESTED} test digits right after {options.epochs} epochs "
        f"({time.perf_counter() - started:.1f} s); last loss {course.losses[-1]:.3f}"
    )
    options.output.mkdir(parents=True, exist_ok=True)
    save_picture(options.output / "sequence.png", params, course, test_set)
    print(f"picture: {options.output / 'sequence.png'}")
    if options.export:
        artifact = export(options.export, params, train_set)
        print(f"C: {artifact.source}; its memory is {artifact.arena_bytes:,} bytes")


if __name__ == "__main__":
    main()
