"""Training steps over ranks: two MLPs and a convolutional network."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from examples import digits_conv
from examples.data_parallel import make_step
from examples.digits import CLASSES, Model, mlp
from rlx.distributed import Mesh, P, shard_map
from rlx.distributed.shard_map import ShardMapped

Arrays = dict[str, Any]
SHARE = 128
"""Rows per rank."""


@dataclass(frozen=True, slots=True)
class Step:
    """A training step, and what it is first called with."""

    mapped: ShardMapped
    state: tuple[Any, ...]
    """What each step replaces: its first arguments and first results."""
    batch: tuple[Any, ...]

    @property
    def gradient_bytes(self) -> int:
        return sum(leaf.nbytes for leaf in rlx.tree_leaves(self.state[0]))

    def repeated(self) -> Callable[[], None]:
        """Return a call that goes one step on."""
        state = self.state

        def call() -> None:
            nonlocal state
            state = self.mapped(*state, *self.batch)[: len(state)]

        return call


def digits_mlp(mesh: Mesh, rows: int) -> Step:
    """64 -> 128 -> 64 -> 10 with GELU: the digits of `examples/data_parallel.py`."""
    return _dense(mlp(), mesh, rows, 64)


def classifier(mesh: Mesh, rows: int) -> Step:
    """784 -> 512 -> 256 -> 10 with ReLU."""
    random = np.random.default_rng(0)
    shapes = list(itertools.pairwise((784, 512, 256, CLASSES)))
    he = rlx.nn.initializers.he_normal
    params = {f"w{i}": he(random, shape) for i, shape in enumerate(shapes)}
    params |= {f"b{i}": np.zeros(shape[1], np.float32) for i, shape in enumerate(shapes)}

    def apply(p: Arrays, x: Any) -> Any:
        for layer in range(2):
            x = rlx.nn.relu(x @ p[f"w{layer}"] + p[f"b{layer}"])
        return x @ p["w2"] + p["b2"]

    return _dense(Model("classifier", params, apply, 1, 1e-3), mesh, rows, 784)


def convolutions(mesh: Mesh, rows: int) -> Step:
    """Three convolutions with batch norm over each rank's share: `examples/digits_conv.py`."""
    start = digits_conv.network()
    optimizer = rlx.optim.adam(1e-3)

    def loss(params: Arrays, statistics: Arrays, x: Any, y: Any, key: Any) -> Any:
        logits, following = digits_conv.apply(params, statistics, x, key)
        own = rnp.mean(rlx.nn.softmax_cross_entropy(logits, y))
        return rlx.distributed.pmean((own, following), "data")

    def step(params: Arrays, statistics: Arrays, state: Any, key: Any, x: Any, y: Any) -> Any:
        key, drop = rlx.random.split(key)
        drop = rlx.random.fold_in(drop, rlx.distributed.axis_index("data"))
        found = rlx.value_and_grad(loss, has_aux=True)(params, statistics, x, y, drop)
        (value, statistics), gradients = found
        updates, state = optimizer.update(gradients, state, params)
        params = rlx.optim.apply_updates(params, updates)
        return params, statistics, state, key, value

    specs = (P(),) * 4 + (P("data"),) * 2
    mapped = shard_map(step, mesh, specs, P(), donate_argnums=(0, 1, 2, 3), threads=1)
    state = (start.params, start.statistics, optimizer.init(start.params), rlx.random.key(0))
    return Step(mapped, state, _batch(rows, 64))


def _dense(model: Model, mesh: Mesh, rows: int, pixels: int) -> Step:
    mapped, state = make_step(model, mesh)
    return Step(mapped, (model.params, state), _batch(rows, pixels))


def _batch(rows: int, pixels: int) -> tuple[Any, Any]:
    random = np.random.default_rng(1)
    images = random.random((rows, pixels), np.float32)
    return images, random.integers(0, CLASSES, rows).astype(np.int32)


STEPS: dict[str, Callable[[Mesh, int], Step]] = {
    "digits MLP": digits_mlp,
    "classifier MLP": classifier,
    "convolutions": convolutions,
}
