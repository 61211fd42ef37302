"""Adapters from folders that the package `peft` writes."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import FormatError, UnsupportedError
from rlx.files import read_file
from rlx.language.checkpoint_keys import no_scales
from rlx.language.checkpoint_table import MODEL_TYPES, ModelType, gguf_name
from rlx.language.config import DecoderConfig
from rlx.language.lora import Adapters, Lora
from rlx.language.model_file import ModelFile
from rlx.language.params import rope_order
from rlx.limits import LoadLimits, loading
from rlx.safetensors_file import read_safetensors

Array: TypeAlias = NDArray[Any]

_NAME = re.compile(r"base_model\.model\.(.+)\.lora_([AB])(?:\.default)?\.weight")
_UNSUPPORTED = (
    "use_dora", "use_rslora", "fan_in_fan_out", "modules_to_save", "rank_pattern",
    "alpha_pattern", "lora_bias", "trainable_token_indices",
)  # fmt: skip


_USUAL = {"bias": "none", "peft_type": "LORA"}
_CHANGES_MODEL = ("pissa", "olora", "corda", "loftq")
"""Starts of `init_lora_weights` by which peft changes the model's own matrices, too."""


def read_peft(
    path: str | os.PathLike[str], file: ModelFile, *, limits: LoadLimits | None = None
) -> Adapters:
    """Read a folder with `adapter_config.json` and `adapter_model.safetensors` for a model.

    `file` is the model that the adapters were trained for, as a folder or as a GGUF file.
    """
    folder = Path(path)
    lora = _settings(folder / "adapter_config.json", limits)
    config = DecoderConfig.of(file)
    kinds = [k for k in MODEL_TYPES.values() if k.architecture == config.architecture]
    if not kinds or kinds[0].scales is not no_scales:  # whose matrices are multiplied when read
        raise UnsupportedError(
            f"{file.path}: adapters of peft are not supported for {config.architecture!r}",
            remedy="convert them to a GGUF file, for a GGUF file of the model",
        )
    kind = kinds[0]
    try:
        arrays = read_safetensors(folder / "adapter_model.safetensors", limits).arrays
    except OSError as error:
        raise FormatError(f"{folder}: {error}", remedy="give a folder that peft wrote") from error
    values: dict[str, Array] = {}
    for name, value in arrays.items():
        own, part = _own_name(folder, name, kind)
        require_factor(folder, name, value, factor_shape(folder, name, file, own, part, lora.rank))
        matrix = own.removesuffix(".weight")
        if f"{matrix}.lora_{part}" in values:
            raise FormatError(
                f"{folder}: {name!r} occurs twice", remedy="keep one adapter in a folder"
            )
        turned = value.astype(np.float32).T
        order = None if kind.interleaved_rope else rope_order(config, matrix)
        if part == "b" and order is not None:
            turned = turned[:, np.argsort(order)]
        values[f"{matrix}.lora_{part}"] = np.ascontiguousarray(turned)
    require_pairs(folder, values)
    targets = {name.rpartition(".")[0].rpartition(".")[2] for name in values}
    return Adapters(Lora(lora.rank, lora.alpha, tuple(sorted(targets))), values)


def factor_shape(
    folder: Path, name: str, file: ModelFile, own: str, part: str, rank: int
) -> tuple[int, ...]:
    """Return the shape of a factor of the adapter of the matrix `own`."""
    info = file.tensors.get(own)
    if info is None or len(info.shape) != 2:
        raise FormatError(
            f"{folder}: {name!r} is for no matrix of {file.path}",
            remedy="use adapters that were trained for this model",
        )
    rows, columns = info.shape
    return (rank, columns) if part == "a" else (rows, rank)


def require_factor(folder: Path, name: str, value: Array, shape: tuple[int, ...]) -> None:
    """Raise FormatError for a factor of another shape, or of no floats."""
    if value.shape != shape or value.dtype.kind not in "fV":
        raise FormatError(
            f"{folder}: {name!r} is {value.dtype}{list(value.shape)}; for this model's matrix it "
            f"is floats of shape {list(shape)}",
            remedy="use adapters that were trained for this model",
        )


def require_pairs(folder: Path, values: Mapping[str, Array]) -> None:
    """Raise FormatError unless each adapter has both factors."""
    others = {name[:-1] + ("b" if name.endswith("a") else "a"): name for name in values}
    missing = sorted(others.keys() - values.keys())
    if missing or not values:
        raise FormatError(
            f"{folder}: it has {f'{others[missing[0]]} alone' if missing else 'no adapters'}; an "
            "adapter is lora_A and lora_B",
            remedy="get the folder again",
        )


def _settings(path: Path, limits: LoadLimits | None) -> Lora:
    with loading(limits, str(path)) as budget:
        try:
            found: dict[str, Any] = json.loads(read_file(path, budget))
            refused = [name for name in _UNSUPPORTED if found.get(name)]
            refused += [name for name, usual in _USUAL.items() if found.get(name, usual) != usual]
            start = found.get("init_lora_weights")
            if isinstance(start, str) and start.lower().startswith(_CHANGES_MODEL):
                refused.append(f"init_lora_weights={start!r}")
            lora = Lora(int(found["r"]), float(found["lora_alpha"]))
            if not math.isfinite(lora.scale):
                raise ValueError(f"lora_alpha is {lora.alpha}")
        except (
            OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError
        ) as error:  # fmt: skip
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
            f"{folder}: tensor {name!r} is not an adapter of a decoder's matrix",
            remedy="train plain LoRA adapters of the layers' matrices",
        )
    return own[0], match[2].lower()
