"""Exports of what no kernel reads or computes: constants as results, params without a reader."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

import rlx
from rlx.ir import ops
from rlx.ir.graph import Graph


def test_a_constant_is_a_result_like_others(tmp_path: Path) -> None:
    graph = Graph("f")
    x = graph.input("x", (3,))
    row = np.array([4.0, 5.0], np.float32)
    graph.set_outputs([ops.exp(x), graph.constant(row), graph.constant(row)])
    artifact = rlx.aot(graph, tmp_path)
    assert artifact.weights is None
    printed = run_sample(tmp_path)
    assert printed.count("4 5") == 2


def test_the_sample_needs_no_weights_that_nothing_reads(tmp_path: Path) -> None:
    graph = Graph("f")
    x = graph.input("x", (3,))
    graph.param("w", (2,))
    graph.set_outputs([x + 1.0])
    artifact = rlx.aot(graph, tmp_path, params={"w": np.ones(2, np.float32)})
    assert artifact.weights is None
    assert list(tmp_path.glob("*.weights")) == []
    assert run_sample(tmp_path).startswith("y: 1 ")


def run_sample(folder: Path) -> str:
    subprocess.run(
        ["cc", "main.c", "f.c", "-lm", "-o", "sample"], cwd=folder, check=True, timeout=600
    )
    done = subprocess.run(
        ["./sample"], cwd=folder, check=True, capture_output=True, text=True, timeout=600
    )
    return done.stdout
