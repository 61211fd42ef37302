"""Programs for processors without double precision say where they use it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as jnp

P = np.eye(4, dtype=np.float32)


def messages(function: Callable[..., Any], x: Any, target: str, directory: Path) -> list[str]:
    """Return the warnings of an export that are about f64."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rlx.aot(
            rlx.jit(function), directory, name="f", example_inputs=(x,), target=target,
            emit_only=True,
        )  # fmt: skip
    assert all(each.filename == __file__ for each in caught if "f64" in str(each.message))
    return [str(each.message) for each in caught if "f64" in str(each.message)]


def widened(p: Any) -> Any:
    q = p @ p
    return jnp.eye(4) - q


def test_the_line_that_widens_is_named(tmp_path: Path) -> None:
    (message,) = messages(widened, P, "cortex-m4", tmp_path)
    line = widened.__code__.co_firstlineno + 2
    assert f"{__file__}:{line} " in message
    assert "dtype='float32'" in message


def test_an_input_is_named(tmp_path: Path) -> None:
    (message,) = messages(lambda p: p, P.astype(float), "cortex-m0", tmp_path)
    assert "input p" in message


@pytest.mark.parametrize("target", ["x86-64", "aarch64", "cortex-m7", "portable"])
def test_processors_with_doubles_use_them(target: str, tmp_path: Path) -> None:
    assert messages(widened, P, target, tmp_path) == []


def test_what_is_folded_while_compiling_is_no_double(tmp_path: Path) -> None:
    def single(p: Any) -> Any:
        return jnp.eye(4).astype(np.float32) - p

    assert messages(single, P, "cortex-m4", tmp_path) == []
