"""Checkpoints: trees of arrays in one file, for any number of ranks."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

from rlx.distributed.sharding import Array, Sharded
from rlx.distributed.world import current_world
from rlx.errors import FormatError, InputError, ToolchainError
from rlx.limits import LoadLimits
from rlx.safetensors_file import read_safetensors
from rlx.tracing.pytree import TreeDef, leaf_names, tree_flatten, tree_unflatten
from rlx.tracing.traced_function import unique_names


def save(path: str | Path, tree: Any) -> None:
    """Write whole arrays to a `safetensors` file, from rank 0; all ranks must call it.

    The file is complete or not there: it is written to a temporary name, and then renamed.
    """
    _require_safetensors()
    world = current_world()
    leaves, structure = tree_flatten(tree)
    whole = [leaf.gather() if isinstance(leaf, Sharded) else np.asarray(leaf) for leaf in leaves]
    arrays = dict(zip(_names(structure), whole, strict=True))
    failure = _write(Path(path), arrays) if world.rank == 0 else ""
    failure = world.connection.gather(failure, "a file is written")[
        0
    ]  # which is there when they go on
    if failure:
        raise InputError(
            f"{path} could not be written: {failure}",
            remedy="name a path in an existing folder with space for the file",
        )


def _write(path: Path, arrays: dict[str, Array]) -> str:
    """Write a file; return what went wrong, which all ranks must know of."""
    from safetensors.numpy import save_file

    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    dense = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    try:
        save_file(dense, unfinished)
        unfinished.replace(path)
    except Exception as error:
        unfinished.unlink(missing_ok=True)
        return f"{type(error).__name__}: {error}"
    return ""


def load(path: str | Path, like: Any, *, limits: LoadLimits | None = None) -> Any:
    """Return a tree of whole arrays, with the structure of `like`; FormatError if they differ.

    A file that needs more than `limits` raises LimitError.
    """
    leaves, structure = tree_flatten(like)
    try:
        found = read_safetensors(path, limits).arrays
    except OSError as error:
        raise FormatError(
            f"{path} is not a checkpoint: {error}", remedy="write it with rlx.distributed.save"
        ) from None
    names = _names(structure)
    for name, leaf in zip(names, leaves, strict=True):
        given = _described(found[name]) if name in found else "nothing"
        if given != _described(leaf):
            raise FormatError(
                f"{path} has for {name!r} {given}; it should be {_described(leaf)}",
                remedy="load it for the model that it was saved of",
            )
    return tree_unflatten(structure, [found[name] for name in names])


def _names(structure: TreeDef) -> list[str]:
    return unique_names(leaf_names(structure, "tree"))


def _described(leaf: Any) -> str:
    array = leaf if isinstance(leaf, Sharded) else np.asarray(leaf)
    return f"{array.dtype}{list(array.shape)}"


def _require_safetensors() -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise ToolchainError(
            "the package safetensors is not installed",
            remedy="install it with pip install rlx[mpi]",
        )
