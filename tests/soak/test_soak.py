"""The trials of the soak test, for a second or two each; `make soak MINUTES=60` for longer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlx.runtime.toolchain import has_toolchain
from tests.soak import trials

SECONDS = 1.5

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")


@pytest.mark.slow
def test_calls_from_many_threads_are_right() -> None:
    assert trials.threads(2 * SECONDS, 1) >= trials.THREADS


@pytest.mark.slow
@needs_fork
def test_interrupted_calls_can_be_made_again() -> None:
    assert trials.interrupts(SECONDS, 2) > 0


@pytest.mark.slow
@needs_fork
def test_forks_during_calls_and_compilations_end_well() -> None:
    assert trials.forks(SECONDS, 3) > 0


@pytest.mark.guarantee("Compiling", "Memory of compiled programs is freed.")
@pytest.mark.slow
def test_compilations_free_their_memory() -> None:
    assert trials.compilations(SECONDS, 4) >= 2 * trials.WARM


@pytest.mark.slow
@pytest.mark.skipif(not has_toolchain(), reason="needs a C compiler")
def test_a_cache_survives_processes_that_are_killed(tmp_path: Path) -> None:
    assert trials.killed_processes(4 * SECONDS, 5, tmp_path) > 0
