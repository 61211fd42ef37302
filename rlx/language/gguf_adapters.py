"""Adapters from GGUF files, as llama.cpp's `convert_lora_to_gguf.py` writes them."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import FormatError, UnsupportedError
from rlx.gguf import GgufFile, read
from rlx.language.lora import Adapters, Lora
from rlx.language.model_file import ModelFile
from rlx.language.peft import factor_shape, read_peft, require_factor, require_pairs
from rlx.limits import LoadLimits

Array: TypeAlias = NDArray[Any]

_SAID = {"general.type": "adapter", "adapter.type": "lora"}


def read_adapters(
    path: str | os.PathLike[str], file: ModelFile, *, limits: LoadLimits | None = None
) -> Adapters:
    """Read adapters for a model: a folder of peft, a GGUF file, or what `Adapters.save` wrote."""
    if os.path.isdir(path):
        return read_peft(path, file, limits=limits)
    if Path(path).suffix == ".gguf":
        return read_gguf_adapters(path, file, limits=limits)
    return Adapters.read(path, limits=limits)


def read_gguf_adapters(
    path: str | os.PathLike[str], file: ModelFile, *, limits: LoadLimits | None = None
) -> Adapters:
    """Read LoRA adapters of a GGUF file, for the model in another one.

    Matrices may have adapters of different ranks: all get the largest, with zeros.
    """
    folder, adapter = Path(path), read(path, limits=limits)
    if not isinstance(file, GgufFile):
        raise UnsupportedError(
            f"{path} has its rows in the order of GGUF files, and {file.path} is none",
            remedy="use the folder of peft that it was made from, or a GGUF file of the model",
        )
    alpha = _alpha(adapter, file)
    parts: dict[str, Array] = {}
    for name in adapter.tensors:
        own, dot, part = name.rpartition(".lora_")
        if not dot or part not in ("a", "b") or not own.startswith("blk."):
            raise UnsupportedError(
                f"{path}: tensor {name!r} is not an adapter of a matrix of a layer",
                remedy="train plain LoRA adapters of the layers' matrices",
            )
        value = adapter.dequant_f32(name)
        rank = value.shape[0 if part == "a" else -1] if value.ndim == 2 else 0
        shape = factor_shape(folder, name, file, own, part, rank)
        require_factor(folder, name, value, shape)
        parts[f"{own.removesuffix('.weight')}.lora_{part}"] = value.T
    require_pairs(folder, parts)
    most = max(value.shape[1] for name, value in parts.items() if name.endswith("a"))
    values: dict[str, Array] = {}
    for matrix in {name.rpartition(".")[0] for name in parts}:
        a, b = parts[f"{matrix}.lora_a"], parts[f"{matrix}.lora_b"]
        rank = a.shape[1]
        if rank == 0 or b.shape[0] != rank:
            raise FormatError(
                f"{path}: factors of {matrix!r} have ranks {rank} and {b.shape[0]}",
                remedy="get the file again",
            )
        more = ((0, 0), (0, most - rank))
        # A product is multiplied by alpha / most: here by what that is of its own factor.
        own_factor = most / rank if alpha else 1.0
        values[f"{matrix}.lora_a"] = np.pad(a, more)
        values[f"{matrix}.lora_b"] = np.pad(b * np.float32(own_factor), more[::-1])
    targets = {name.rpartition(".")[0].rpartition(".")[2] for name in values}
    return Adapters(Lora(most, alpha or float(most), tuple(sorted(targets))), values)


def _alpha(adapter: GgufFile, file: GgufFile) -> float:
    """Return by what products are multiplied, over the rank; 0 where that is 1 in all."""
    said = {**_SAID, "general.architecture": file.metadata.get("general.architecture")}
    for key, value in said.items():
        if adapter.metadata.get(key) != value:
            raise FormatError(
                f"{adapter.path}: key {key!r} is {adapter.metadata.get(key)!r}; adapters for this "
                f"model have {value!r}",
                remedy="give LoRA adapters that were made for this model",
            )
    alpha = adapter.metadata.get("adapter.lora.alpha")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not math.isfinite(alpha):
        raise FormatError(
            f"{adapter.path}: key 'adapter.lora.alpha' is {alpha!r}; it must be a number",
            remedy="get the file again",
        )
    return float(alpha)
