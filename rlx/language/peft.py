"""Adapters from folders that the package `peft` writes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from rlx.errors import FormatError, UnsupportedError
from rlx.files import read_file
from rlx.language.checkpoint_table import MODEL_TYPES, ModelType, gguf_name
from rlx.language.config import DecoderConfig
from rlx.language.lora import Adapters, Lora
from rlx.language.model_file import ModelFile
from rlx.language.params import rope_order
from rlx.limits import LoadLimits, loading
from rlx.safetensors_file import read_safetensors

_NAME = re.compile(r"base_model\.model\.(.+)\.lora_([AB])(?:\.default)?\.weight")
_UNSUPPORTED = (
    "use_dora", "use_rslora", "fan_in_fan_out", "modules_to_save", "rank_pattern",
    "alpha_pattern", "lora_bias", "trainable_token_indices",
)  # fmt: skip


def read_peft(
    path: str | os.PathLike[str], file: ModelFile, *, limits: LoadLimits | None = None
) -> Adapters:
    """Read a folder with `adapter_config.json` and `adapter_model.safetensors` for a model.

    `file` is the model that the adapters were trained for, as a folder or as a GGUF file.
    """
    folder = Path(path)
    lora = _settings(folder / "adapter_config.json", limits)
    config = DecoderConfig.of(file)
    kind = next(k for k in MODEL_TYPES.values() if k.architecture == config.architecture)
    try:
        arrays = read_safetensors(folder / "adapter_model.safetensors", limits).arrays
    except OSError as error:
        raise FormatError(f"{folder}: {error}", remedy="give a folder that peft wrote") from error
    values = {}
    for name, value in arrays.items():
        own, part = _own_name(folder, name, kind)
        if own not in file.tensors or value.ndim != 2:
            raise FormatError(
                f"{folder}: {name!r} is for no matrix of {file.path}",
                remedy="use adapters that were trained for this model",
            )
        matrix = own.removesuffix(".weight")
        turned = value.astype(np.float32).T
        order = None if kind.interleaved_rope else rope_order(config, matrix)
        if part == "b" and order is not None:
            turned = turned[:, np.argsort(order)]
        values[f"{matrix}.lora_{part}"] = np.ascontiguousarray(turned)
    targets = {name.rpartition(".")[0].rpartition(".")[2] for name in values}
    return Adapters(Lora(lora.rank, lora.alpha, tuple(sorted(targets))), values)


def _settings(path: Path, limits: LoadLimits | None) -> Lora:
    with loading(limits, str(path)) as budget:
        try:
            found: dict[str, Any] = json.loads(read_file(path, budget))
            refused = [name for name in _UNSUPPORTED if found.get(name)]
            if found.get("bias", "none") != "none":
                refused.append("bias")
            lora = Lora(int(found["r"]), float(found["lora_alpha"]))
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise FormatError(
                f"{path}: {error!r}", remedy="give a folder that peft wrote, of type LORA"
            ) from error
    if refused:
        raise UnsupportedError(
            f"{path}: adapters with {', '.join(refused)} are not supported",
            remedy="train plain LoRA adapters of the layers' matrices",
        )
    return lora


def _own_name(folder: Path, name: str, kind: ModelType) -> tuple[str, str]:
    """Return what a GGUF file calls the matrix of an adapter, and which of its factors it is."""
    match = _NAME.fullmatch(name)
    try:
        own = gguf_name(f"{match[1]}.weight", kind) if match else None
    except LookupError:
        own = None
    if match is None or own is None or own[1] is not None:
        raise UnsupportedError(
            f"{folder}: tensor {name!r} is no adapter of a decoder's matrix",
            remedy="train plain LoRA adapters of the layers' matrices",
        )
    return own[0], match[2].lower()
