"""The graph IR. Its ops are declared when one is first asked for, so that `OPS` is complete."""

from __future__ import annotations

import importlib
from typing import Any

from rlx.ir import printer as printer
from rlx.ir.op import OPS
from rlx.locks import importing


def _declare_ops() -> None:
    """Import all ops, or wait for another thread that does; forks and Ctrl-C wait, too."""
    with importing():
        from rlx.ir import ops as ops


OPS.declared_by(_declare_ops)


def __getattr__(name: str) -> Any:
    if name != "ops":
        raise AttributeError(f"module 'rlx.ir' has no attribute {name!r}")
    with importing():
        return importlib.import_module("rlx.ir.ops")
