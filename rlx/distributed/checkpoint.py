"""Checkpoints: trees of arrays in one file, for any number of ranks."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

from rlx.distributed.sharding import Sharded
from rlx.distributed.world import current_world
from rlx.errors import FormatError, ToolchainError
from rlx.tracing.pytree import leaf_names, tree_flatten, tree_unflatten


def save(path: str | Path, tree: Any) -> None:
    """Write whole arrays to a `safetensors` file, from rank 0; all ranks must call it.

    The file is complete or not there: it is written beside its place, and then moved.
    """
    _require_safetensors()
    from safetensors.numpy import save_file

    world = current_world()
    leaves, structure = tree_flatten(tree)
    whole = [leaf.gather() if isinstance(leaf, Sharded) else np.asarray(leaf) for leaf in leaves]
    if world.rank == 0:
        unfinished = Path(f"{path}.{os.getpid()}.tmp")
        names = leaf_names(structure, "tree")
        arrays = [np.require(array, requirements="C") for array in whole]
        save_file(dict(zip(names, arrays, strict=True)), unfinished)
        unfinished.replace(path)
    world.connection.gather(None)  # nobody goes on before the file is there


def load(path: str | Path, like: Any) -> Any:
    """Return a tree of whole arrays, with the structure of `like`; FormatError if they differ."""
    _require_safetensors()
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    leaves, structure = tree_flatten(like)
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise FormatError(
            f"{path} is no checkpoint: {error}", remedy="write it with rlx.distributed.save"
        ) from None
    names = leaf_names(structure, "tree")
    for name, leaf in zip(names, leaves, strict=True):
        given = None if name not in found else (found[name].dtype, found[name].shape)
        if given != (leaf.dtype, tuple(leaf.shape)):
            raise FormatError(
                f"{path} has for {name!r} {_described(given)}; it should be "
                f"{_described((leaf.dtype, tuple(leaf.shape)))}",
                remedy="load it for the model that it was saved of",
            )
    return tree_unflatten(structure, [found[name] for name in names])


def _described(type: tuple[Any, Any] | None) -> str:
    return "nothing" if type is None else f"{type[0]}{list(type[1])}"


def _require_safetensors() -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise ToolchainError(
            "there is no safetensors here", remedy="install it with pip install rlx[mpi]"
        )
