"""Checkpoints: what is written is read again, and faults reach all ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.distributed import Mesh, P, load, save, shard_map, simulate
from rlx.errors import FormatError, InputError

pytest.importorskip("safetensors")
X = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_leaves_whose_names_would_be_equal_are_all_kept(tmp_path: Path) -> None:
    tree = {"a": {"b": X}, "a_b": 2 * X}

    def program() -> Any:
        save(tmp_path / "state", tree)
        return load(tmp_path / "state", tree)

    (found,) = simulate(program, 1)
    np.testing.assert_array_equal(found["a"]["b"], X)
    np.testing.assert_array_equal(found["a_b"], 2 * X)


def test_split_arrays_and_numbers_say_what_is_expected(tmp_path: Path) -> None:
    def program() -> Any:
        mesh = Mesh({"ranks": 2})
        part = shard_map(lambda x: x, mesh, P("ranks"), P("ranks"))(X)
        save(tmp_path / "state", {"x": part, "rate": 0.5})
        return load(tmp_path / "state", {"x": part, "rate": 0.0})

    for found in simulate(program, 2):
        np.testing.assert_array_equal(found["x"], X)
        assert found["rate"] == 0.5


def test_another_shape_is_an_error_with_both(tmp_path: Path) -> None:
    def program() -> None:
        save(tmp_path / "state", {"x": X})
        load(tmp_path / "state", {"x": X[:2]})

    with pytest.raises(FormatError, match=r"float32\[4, 2\]; it should be float32\[2, 2\]"):
        simulate(program, 1)


def test_a_file_that_cannot_be_written_is_an_error_on_all_ranks(tmp_path: Path) -> None:
    def program() -> str:
        with pytest.raises(InputError) as raised:
            save(tmp_path / "missing" / "state", {"x": X})
        return str(raised.value)

    for message in simulate(program, 2):
        assert "could not be written" in message
    assert not list(tmp_path.iterdir())
