"""A PyTorch model compiled by rlx, trained, and exported to C: the model and its training step.

    python -m examples.torch_model --output build

`torch.compile(model, backend="rlx")` trains it in PyTorch; `rlx.from_torch` makes a function of it,
of which `rlx.aot` writes C without Python: `classify` and `classify_step`, one file each.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import rlx
import rlx.numpy as rnp
from rlx import optim
from rlx.torch import backend

BATCH, POINTS, STEPS = 64, 1024, 200


def spirals(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points of two spirals, and of which one each is."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, POINTS)
    turn = draw.uniform(0.5, 3.5, POINTS)
    angle = turn * np.pi + labels * np.pi
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1) / 2
    points += draw.normal(scale=0.02, size=points.shape)
    return torch.from_numpy(points.astype("f4")), torch.from_numpy(labels)


def make_model() -> nn.Module:
    """Return a classifier of points."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 2)
    )


def train(model: nn.Module, steps: int = STEPS) -> float:
    """Train in PyTorch, with rlx as the backend of `torch.compile`; return the last loss."""
    points, labels = spirals()
    backend.register()  # an installed rlx is registered already
    compiled = torch.compile(model, backend="rlx")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss = torch.zeros(())
    for step in range(steps):
        rows = slice(step * BATCH % POINTS, step * BATCH % POINTS + BATCH)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(compiled(points[rows]), labels[rows])
        loss.backward()
        optimizer.step()
    return float(loss)


def export(model: nn.Module, directory: Path) -> None:
    """Write the model, and a step of Adam, as C."""
    points, labels = (x[:BATCH] for x in spirals())
    f = rlx.from_torch(model, (points,))
    graph = f.graph()
    rlx.aot(graph, directory / "model", name="classify", params=graph.param_values)

    method = optim.adam(1e-2)

    def loss(params: Any, x: Any, y: Any) -> Any:
        return rnp.mean(rlx.nn.softmax_cross_entropy(f(params, x), rlx.nn.one_hot(y, 2, "f32")))

    @rlx.jit(donate_argnums=(0, 1))
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, slopes = rlx.value_and_grad(loss)(params, x, y)
        updates, state = method.update(slopes, state, params)
        return optim.apply_updates(params, updates), state, value

    params = f.params
    given = (params, method.init(params), points.numpy(), labels.numpy())
    rlx.aot(step, directory / "training", name="classify_step", example_inputs=given)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build"))
    arguments = parser.parse_args()
    model = make_model()
    print(f"loss after {STEPS} steps: {train(model):.4f}")
    export(model, arguments.output)
    print(f"C of the model and of its training step: {arguments.output}/model, /training")


if __name__ == "__main__":
    main()
