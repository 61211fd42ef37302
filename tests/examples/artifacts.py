"""Calling what an example exports, through its C interface, as a C program would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.runtime.aot import Artifact
from tests.aot.building import Loaded, file_block

DTYPES = {"f32": np.float32, "f64": np.float64}


def load(artifact: Artifact, library: Path | None = None) -> Loaded:
    """Return the library with an arena that is set up; the header declares its functions.

    `library` is one that was built from the artifact's source elsewhere.
    """
    name = artifact.name
    found = re.findall(
        rf"^int {name}_(?:call|load_weights)\(.*?\);", artifact.header.read_text(), re.M | re.S
    )
    native = Loaded(artifact, "\n".join(found), library=library)
    assert native.call("init", native.arena, native.block.size) == 0
    if artifact.weights is not None:
        native.weights = file_block(artifact.weights)
        weights = pointer(native, native.weights)
        assert native.call("load_weights", native.arena, weights, native.weights.size) == 0
    assert native.call("setup", native.arena) == 0
    return native


def call(native: Loaded, *inputs: Any) -> list[NDArray[Any]]:
    """Run once and return the outputs that are not params."""
    arrays = [np.ascontiguousarray(x) for x in inputs]
    results = [
        np.zeros(output["shape"], DTYPES[output["dtype"]])
        for output in native.manifest["outputs"]
        if not output["donated"]
    ]
    pointers = [pointer(native, x) for x in (*arrays, *results)]
    assert native.call("call", native.arena, *pointers) == 0
    return results


def pointer(native: Loaded, array: NDArray[Any]) -> Any:
    return native.ffi.cast("void *", array.ctypes.data)
