"""Rows under load by other processes: their quantiles, and that the processes end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.load import LOADED, busy_processes, describe_loaded, loaded_table
from bench.rounds import Row, Timing
from bench.worker import Made
from bench.workloads import WORKLOADS

KNOWN = {workload.name: workload for workload in WORKLOADS}


def row(ours: list[float], theirs: list[float]) -> Row:
    timings = {"rlx": Timing(Made([]), ours), "onnxruntime": Timing(Made([]), theirs)}
    return Row(KNOWN["matmul_256"], timings)


def test_ratios_are_of_medians_and_of_the_slowest_calls() -> None:
    made = row([1e-6] * 90 + [9e-3] * 10, [2e-6] * 100)
    assert "0.50 4500.00" in describe_loaded(made)
    assert "| 1 (9,000) | 2 (2) | 0.50 | 4500.00 |" in loaded_table([made])


def test_a_peer_that_did_not_run_has_no_times() -> None:
    assert "| 1 (1) | - |" in loaded_table([row([1e-6], [])])


def test_the_rows_are_workloads() -> None:
    assert set(LOADED) <= set(KNOWN)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_busy_processes_run_during_the_block_and_end_after_it() -> None:
    def children() -> set[str]:
        task = Path(f"/proc/self/task/{os.getpid()}/children")
        return set(task.read_text().split())

    before = children()
    with busy_processes(2):
        assert len(children() - before) == 2
    assert children() <= before
