"""A directory as the examples of the help expect it: a model, an input, weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlx.ir.graph import Graph
from rlx.ir.serialize import save


def mlp() -> Graph:
    """A two-layer perceptron small enough to compile in no time."""
    g = Graph("mlp")
    x = g.input("x", (4, 6))
    hidden = g.tanh(g.matmul(x, g.param("w1", (6, 8))) + g.param("b1", (8,)))
    g.set_outputs([g.softmax(g.matmul(hidden, g.param("w2", (8, 3))), axis=-1)])
    return g


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests of the command line."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def workspace(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, holding model.rlx, x.npy, inputs.npz, weights.npz."""
    random = np.random.default_rng(7)
    graph = mlp()
    save(graph, tmp_path / "model.rlx")
    x = random.normal(size=(4, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "inputs.npz", x=x)
    np.savez(
        tmp_path / "weights.npz",
        w1=random.normal(size=(6, 8)).astype(np.float32),
        b1=np.zeros(8, np.float32),
        w2=random.normal(size=(8, 3)).astype(np.float32),
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLX_CACHE_DIR", str(cache))
    return tmp_path
