"""rlx as the compiler of JAX: `install()` hands it programs of `jax.jit`, `report()` lists them.

The modules of `rlx.jax` itself are for machines without JAX.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from rlx.errors import ToolchainError
from rlx.ir.source_lines import calling_source
from rlx.locks import importing


def is_there() -> bool:
    """True if JAX is installed."""
    return importlib.util.find_spec("jax") is not None


def _process() -> Any:
    if not is_there():
        raise ToolchainError(
            "rlx cannot compile for JAX, which is not installed",
            source=calling_source(),
            remedy="pip install 'rlx[jax]', or import rlx.jax in its place",
        )
    with importing():
        return importlib.import_module("rlx.jaxpr.process")


def install() -> None:
    """Let rlx compile what `jax.jit` compiles in this process from now on.

    Tracing, transformations, dispatch and arrays stay JAX's. What rlx has no rule for, what has
    effects, and single operations outside of `jax.jit` are compiled by XLA as before.
    """
    _process().install()


def uninstall() -> None:
    """Let XLA compile again."""
    _process().uninstall()


def report() -> Any:
    """Return what rlx compiled since `install`, and what was left to XLA, with reasons."""
    return _process().report()
