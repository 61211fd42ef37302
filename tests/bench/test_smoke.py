"""The bench runs and its peers agree; how fast anything is, is not tested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from bench.machine import Peak
from bench.peers import PEERS, load_peer
from bench.report import report
from bench.revisions import Side, compare
from bench.rounds import Row, Timing, disagreement, run
from bench.worker import Made
from bench.workload import Array, Workload
from bench.workloads import WORKLOADS
from rlx.ir.reference import evaluate

SMALL = ("tiny_mlp", "wide_fan", "matmul_16", "layer_norm", "encoder_16")
VISION = ("conv_transposed_4x4_s2_28_128_batch1", "max_pool_3x3_s2_112_64")
LIBRARIES = {"jax": "jax", "torch": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}


def named(name: str) -> Workload:
    return next(workload for workload in WORKLOADS if workload.name == name)


def expected(workload: Workload) -> Sequence[Array]:
    graph = workload.build()
    return evaluate(graph, {**workload.feeds(graph), **workload.params(graph)})


def timing(seconds: float) -> Timing:
    return Timing(Made([]), [seconds, 2 * seconds])


@pytest.mark.parametrize("peer", LIBRARIES)
@pytest.mark.parametrize("name", [*SMALL, *VISION])
def test_peers_compute_what_the_graph_means(peer: str, name: str) -> None:
    pytest.importorskip(LIBRARIES[peer])
    workload = named(name)
    session = load_peer(peer)(workload, 1)
    found = session.to_arrays(session.call())
    assert disagreement(expected(workload), found, workload.tolerance) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train_sgd", "train_adam", "train_conv_batch32"])
def test_peers_train_alike(name: str) -> None:
    pytest.importorskip("jax")
    ours, theirs = (load_peer(peer)(named(name), 1) for peer in ("rlx", "jax"))
    for _ in range(3):
        losses = [float(session.to_arrays(session.call())[0]) for session in (ours, theirs)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.slow
def test_a_run_prepares_compares_and_times() -> None:
    peers = ["rlx", *(peer for peer in LIBRARIES if find_spec(LIBRARIES[peer]))]
    rows = list(run([named("tiny_mlp")], peers=peers, threads=1, rounds=1, seconds=0.01))
    (row,) = rows
    for name, measured in row.timings.items():
        assert measured.ran, f"{name}: {measured.made.fault or measured.disagreement}"
    text = report(rows, Peak(100.0, 10.0), command="bench", date="today", threads=1)
    assert "| tiny_mlp |" in text


def test_ratios_are_ours_to_the_fastest_peer() -> None:
    row = Row(named("tiny_mlp"), {"rlx": timing(1.0), "torch": timing(8.0), "jax": timing(4.0)})
    assert row.best_peer == "jax"
    assert row.ratio == 0.25


def test_results_that_differ_are_reported() -> None:
    right, wrong = np.ones(3, np.float32), np.array([1, 2, 1], np.float32)
    assert disagreement([right], [right], 1e-6) is None
    assert disagreement([right], [wrong], 1e-6) == "differs by 1.0e+00"
    assert disagreement([right], [right[:2]], 1e-6) == "shape (2,) instead of (3,)"
    assert disagreement([right], [np.full(3, np.nan, np.float32)], 1e-6) is not None


def test_every_workload_builds_and_names_are_unique() -> None:
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)
    for workload in WORKLOADS:
        graph = workload.build()
        assert graph.outputs, workload.name
        assert set(workload.peers) <= set(PEERS)


@pytest.mark.slow
def test_two_checkouts_run_the_rows_that_both_have_in_turns() -> None:
    tree = str(Path(__file__).parents[2])
    command = ["-m", "bench.revisions", tree, "tiny_products", "--rounds", "2"]
    done = subprocess.run(
        [sys.executable, *command, "--seconds", "0.01"],
        capture_output=True, text=True, timeout=300, cwd=tree,
    )  # fmt: skip
    *_, row = done.stdout.splitlines()
    assert row.startswith("| tiny_products | "), done.stdout + done.stderr
    assert len(row.split(" | ")) == 5, row


def test_results_that_differ_are_no_times() -> None:
    class Fixed(Side):
        def __init__(self, path: Path) -> None:
            self.path = path

        def ask(self, command: str, argument: object = None) -> object:
            del argument
            assert command == "prepare", "rows whose results differ are not timed"
            return {"fault": None, "outputs": str(self.path)}

    with TemporaryDirectory() as directory:
        paths = [Path(directory) / f"{number}.npz" for number in range(2)]
        for number, path in enumerate(paths):
            np.savez(path, np.full(3, float(number)))
        row = compare("row", *map(Fixed, paths), rounds=1, seconds=0.1)
    assert "results differ" in str(row)
