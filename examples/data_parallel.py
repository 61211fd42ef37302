"""Train on handwritten digits on several ranks: each takes its share of every batch.

    mpirun -n 2 python -m examples.data_parallel [--model mlp|attention] [--export DIRECTORY]

The step is that of `examples.digits`, but for the loss, which is the mean over the ranks: its
gradient by params that all ranks have is summed over them inside of the compiled step. The losses
are those of one rank, but for the order in which sums are rounded; at a fixed number of ranks they
are equal to the bit from run to run.
`--export` writes the step as C, which `mpicc` compiles, with what `train.c` next to it needs.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import rlx
import rlx.numpy as rnp
from examples.digits import BATCH, Digits, Model, attention, load_data, mlp
from rlx.distributed import Mesh, P, initialize, shard_map
from rlx.distributed.shard_map import ShardMapped

EPOCHS = 20
SEED = 0
MODELS: dict[str, Callable[[], Model]] = {"mlp": mlp, "attention": attention}


def make_step(model: Model, mesh: Mesh) -> tuple[ShardMapped, Any]:
    """Return the compiled training step over all ranks, and the optimizer's initial state."""
    optimizer = rlx.optim.adam(model.rate)

    def loss(params: Any, x: Any, y: Any) -> Any:
        own = rnp.mean(rlx.nn.softmax_cross_entropy(model.apply(params, x), y))
        return rlx.distributed.pmean(own, "data")

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, gradients = rlx.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradients, state, params)
        params = rlx.optim.apply_updates(params, updates)
        return params, state, value

    shared, split = P(), P("data")
    specs = (shared, shared, split, split)
    compiled = shard_map(step, mesh, specs, shared, donate_argnums=(0, 1), threads=1)
    return compiled, optimizer.init(model.params)


def train(model: Model, data: Digits, mesh: Mesh, epochs: int = EPOCHS) -> tuple[Any, list[float]]:
    """Return the trained params, and the loss of every step; ranks draw the same batches."""
    step, state = make_step(model, mesh)
    random, params, losses = np.random.default_rng(SEED), model.params, []
    for _ in track(range(epochs), "training", disable=mesh.world.rank != 0):
        order = random.permutation(len(data.train_x))
        for first in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[first : first + BATCH]
            params, state, value = step(params, state, data.train_x[rows], data.train_y[rows])
            losses.append(float(value))
    return params, losses


def export(model: Model, data: Digits, mesh: Mesh, directory: Path) -> None:
    """Write the step as C, the digits as binary files, and the program that trains on them."""
    step, state = make_step(model, mesh)
    graph = step.graph(model.params, state, data.train_x[:BATCH], data.train_y[:BATCH])
    if mesh.world.rank:
        return
    donated = [str(leaf.node.name) for leaf in graph.inputs if leaf.node.name in graph.donations]
    values = dict(zip(donated, rlx.tree_leaves((model.params, state)), strict=True))
    rlx.aot(graph, directory, name="step", params=values, output_names=("loss",))
    data.train_x.tofile(directory / "images.f32")
    data.train_y.tofile(directory / "labels.i32")
    (directory / "main.c").unlink()  # the sample program; train.c takes its place
    shutil.copy(Path(__file__).with_name("data_parallel_in_c") / "train.c", directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=list(MODELS), default="mlp")
    parser.add_argument("--export", type=Path, metavar="DIRECTORY")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    arguments = parser.parse_args()
    world = initialize()
    mesh, data, model = Mesh({"data": world.size}), load_data(), MODELS[arguments.model]()
    if arguments.export is not None:
        export(model, data, mesh, arguments.export)
        return
    params, losses = train(model, data, mesh, arguments.epochs)
    if world.rank == 0:
        predicted = np.argmax(rlx.jit(model.apply)(params, data.test_x), axis=-1)
        right = float(np.mean(predicted == data.test_y))
        print(f"{world.size} ranks: loss {losses[0]:.6f} to {losses[-1]:.6f}, {right:.1%} right")


if __name__ == "__main__":
    main()
