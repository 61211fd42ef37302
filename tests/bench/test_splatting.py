"""The bench of Gaussian splatting: implementations in processes of their own, and its picture."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bench import splatting
from bench.splatting_peers import PEERS, Peer
from bench.splatting_process import OutOfMemoryError, PeerProcess, answered
from bench.splatting_scene import Array, scene

Runs = tuple[Callable[[], Any], Callable[[], Any], Array]


def nothing() -> None:
    time.sleep(0.3)


def too_much() -> Array:
    return np.ones(1 << 50)


def hungry(arrays: list[Array], size: int, threads: int | None) -> Runs:
    del arrays, threads
    return nothing, too_much, np.ones((size, size, 4), np.float32)


def killed(arrays: list[Array], size: int, threads: int | None) -> Runs:
    del arrays, size, threads
    return nothing, lambda: os.kill(os.getpid(), signal.SIGKILL), np.ones(1, np.float32)


def broken(arrays: list[Array], size: int, threads: int | None) -> Runs:
    del arrays, size, threads
    raise ValueError("no such scene")


@contextmanager
def process(peer: Peer) -> Iterator[PeerProcess]:
    opened = PeerProcess(peer, 4, 8, 1)
    yield opened
    opened.close()


def test_what_finds_no_memory_says_so_and_leaves_the_rest() -> None:
    with process(hungry) as opened:
        assert opened.image().shape == (8, 8, 4)
        with pytest.raises(OutOfMemoryError, match="allocate"):
            opened.milliseconds("gradient")
        assert opened.milliseconds("image") < 500


def test_a_process_that_the_system_ends_was_out_of_memory() -> None:
    with process(killed) as opened, pytest.raises(OutOfMemoryError, match="ended with -9"):
        opened.milliseconds("gradient")


def test_other_failures_keep_their_words() -> None:
    with process(broken) as opened, pytest.raises(RuntimeError, match="no such scene"):
        opened.image()


def test_libraries_have_words_of_their_own_for_too_little_memory() -> None:
    def ask() -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")

    assert answered(ask).out_of_memory
    assert not answered(lambda: 1 / 0).out_of_memory


def test_a_cell_without_a_time_says_why() -> None:
    assert splatting._cell(float("nan"), 2.0) == "out of memory | "
    assert splatting._cell(3.0, 2.0) == "3.0 | 1.5"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PEERS if name != "rlx"])
def test_peers_draw_what_rlx_draws_and_have_gradients(name: str) -> None:
    pytest.importorskip(name.split("_")[0])
    arrays = scene(50)
    ours, theirs = (PEERS[each](arrays, 32, 1) for each in ("rlx", name))
    np.testing.assert_allclose(theirs[2].reshape(32, 32, 4), ours[2].reshape(32, 32, 4), atol=1e-4)
    theirs[1]()


@pytest.mark.slow
def test_growth_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    points = [(1_000, 256, 1_338, 2.2, 3.7), (10_000, 512, 13_511, 8.4, 18.8)]
    splatting.plot(points, str(tmp_path / "growth.png"))
    with Image.open(tmp_path / "growth.png") as picture:
        assert np.asarray(picture.convert("L")).std() > 10
