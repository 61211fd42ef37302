"""Model files of other programs, by their suffix.

Their readers are above this layer: they are imported when a file of the kind is read.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.limits import LoadLimits

READERS = {
    ".mlir": "rlx.stablehlo", ".onnx": "rlx.onnx", ".pt2": "rlx.torch",
    ".stablehlo": "rlx.stablehlo",
}  # fmt: skip
"""Modules whose `load(path, dims=, limits=)` returns a graph with the values of its params."""


def is_model_file(path: Path | str) -> bool:
    """True if `path` has the suffix of a format that can be read."""
    return Path(path).suffix in READERS


def load_model_file(
    path: Path | str, dims: Mapping[str, Any] | None = None, limits: LoadLimits | None = None
) -> Graph:
    """Return the graph of a model file; `dims` has the extents that it leaves open."""
    suffix = Path(path).suffix
    if suffix not in READERS:
        raise InputError(
            f"{path}: not a kind of model file that is known",
            remedy=f"known are: {', '.join(READERS)}",
        )
    reader = importlib.import_module(READERS[suffix])
    graph: Graph = reader.load(path, dims=dims, limits=limits)
    return graph
