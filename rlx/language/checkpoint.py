"""Folders of safetensors, as the Hugging Face hub has them, read as if they were a GGUF file.

    folder = checkpoint.read("SmolLM2-135M-Instruct", quantize="q8_0")
    folder.metadata["llama.block_count"], folder.dequant_f32("blk.0.attn_q.weight")

Tensors are mapped, and converted when they are read: to f32, or packed if `quantize` names a type.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import FormatError, InputError, UnsupportedError
from rlx.files import read_file, releasing_pages
from rlx.gguf.element_types import ELEMENT_TYPES, ElementType
from rlx.gguf.header import TensorInfo
from rlx.language.checkpoint_table import (
    ModelType,
    gguf_name,
    gguf_views,
    model_type,
    of_text,
    translated,
)
from rlx.limits import Budget, LoadLimits, loading
from rlx.safetensors_file import MappedSafetensors, map_safetensors

Array: TypeAlias = NDArray[Any]

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_NUMBERS = {kind.name: number for number, kind in ELEMENT_TYPES.items()}
_FALLBACK = "q8_0"
"""The type of matrices whose rows are no whole blocks of the type that was asked for."""
_KEPT = ("ffn_gate_inp", "_norm", ".bias", "conv.", "conv1d.")
"""Parts of names of tensors that are never packed."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A tensor as the folder has it: whole, or a matrix for each expert."""

    parts: tuple[Array, ...]
    is_stack: bool
    added: float = 0.0
    scale: Array | None = None
    """What all rows of a matrix are multiplied by, or each."""

    @property
    def shape(self) -> tuple[int, ...]:
        own = self.parts[0].shape
        if self.is_stack:
            return (len(self.parts), *own)
        return own[1:] if len(own) == 2 and own[0] == 1 else own

    def values(self) -> NDArray[np.float32]:
        """Return f32: the mapped file's own numbers where it has these."""
        each = [part.astype(np.float32, copy=False) for part in self.parts]
        whole = np.stack(each) if self.is_stack else each[0].reshape(self.shape)
        if self.scale is not None:
            whole = whole * self._scale_of_rows
        return whole + np.float32(self.added) if self.added else whole

    @property
    def _scale_of_rows(self) -> NDArray[np.float32]:
        assert self.scale is not None
        if self.scale.size not in (1, self.shape[0]):
            raise FormatError(
                f"a matrix of {self.shape[0]} rows, of which the config scales {self.scale.size}",
                remedy="get the folder again",
            )
        return self.scale.astype(np.float32)[:, None]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Metadata and tensors of a folder, by the names that GGUF files give them."""

    path: str
    """Of `config.json`."""
    folder: Path
    config: Mapping[str, Any]
    metadata: Mapping[str, Any]
    key_names: Mapping[str, str]
    tensors: Mapping[str, TensorInfo]
    digest: str
    limits: LoadLimits | None
    _stored: Mapping[str, _Stored]
    _mapped: tuple[NDArray[np.uint8], ...] = field(default=(), repr=False)

    def element_type(self, name: str) -> ElementType:
        """Return what a tensor holds: f32, or blocks of the type that it is packed as."""
        return ELEMENT_TYPES[self.tensors[name].type]

    def tensor_bytes(self, name: str) -> NDArray[np.uint8]:
        """Return a tensor's bytes, `[..., bytes of a row]`: packed if it is to be."""
        from rlx.gguf.encoding import encode  # which a model that is not packed needs not

        kind, values = self.element_type(name), self._stored[name].values()
        if kind.blocks is not None:
            return encode(values, kind.name)
        return np.ascontiguousarray(values).view(np.uint8)

    def dequant_f32(self, name: str) -> NDArray[np.float32]:
        """Return a tensor as f32, rounded as its type is."""
        from rlx.ir.block_decoding import decode_blocks

        kind = self.element_type(name).blocks
        stored = self._stored[name]
        return stored.values() if kind is None else decode_blocks(self.tensor_bytes(name), kind)

    def releasing(self) -> AbstractContextManager[None]:
        """Release pages again and again in a block that reads the folder once, and at its end."""
        return releasing_pages(self._mapped)

    def settings(self, name: str) -> dict[str, Any]:
        """Return a file of JSON that there may be: empty if there is none."""
        path = self.folder / name
        if not path.exists():
            return {}
        with loading(self.limits, str(path)) as budget:
            return _object_of(path, budget)


def read(
    path: str | os.PathLike[str], *, quantize: str | None = None, limits: LoadLimits | None = None
) -> Checkpoint:
    """Map a folder with `config.json` and `model.safetensors`, or several files and their index.

    Matrices are packed as `quantize` says, such as `q4_k`: as `q8_0` where their rows are no whole
    blocks of it, and not at all where they are no whole blocks of 32 elements.
    """
    folder = Path(path)
    config_path = str(folder / "config.json")
    with loading(limits, config_path) as budget:
        config = of_text(_object_of(folder / "config.json", budget))
        kind = model_type(config, config_path)
        translation = translated(config, config_path)
        files = _files(folder, budget, limits)
        is_tied = config.get("tie_word_embeddings") is True
        stored = _stored(files, kind, is_tied, translation.scales)
    stored |= {name: _Stored((value,), False) for name, value in translation.factors.items()}
    tensors = {name: _info(name, tensor, quantize) for name, tensor in stored.items()}
    words = json.dumps([config, str(quantize)], sort_keys=True)
    digest = hashlib.sha256(words.encode())
    for file in files.values():
        digest.update(file.head)
    return Checkpoint(
        config_path, folder, config, translation.metadata, translation.names, tensors,
        digest.hexdigest(), limits, stored, tuple(file.data for file in files.values()),
    )  # fmt: skip


def _object_of(path: Path, budget: Budget) -> dict[str, Any]:
    try:
        found = json.loads(read_file(path, budget))
    except OSError as error:
        raise FormatError(
            f"{path} cannot be read: {error.strerror or error}",
            remedy="give a folder as the hub has it, with config.json and model.safetensors",
        ) from error
    except ValueError as error:
        raise FormatError(f"{path}: {error}", remedy="get the file again") from error
    if not isinstance(found, dict):
        raise FormatError(f"{path} is no JSON object", remedy="get the file again")
    return found


def _files(folder: Path, budget: Budget, limits: LoadLimits | None) -> dict[str, MappedSafetensors]:
    """Return the files with tensors: those that the index names, or the only one."""
    names = {_SINGLE}
    if (folder / _INDEX).exists():
        places = _object_of(folder / _INDEX, budget).get("weight_map")
        if not isinstance(places, dict) or not all(map(_is_name, places.values())):
            raise FormatError(
                f"{folder / _INDEX}: key 'weight_map' is not an object of names of files",
                remedy="get the file again",
            )
        names = set(places.values())
    found = {}
    for name in sorted(names):
        try:
            found[name] = map_safetensors(folder / name, limits)
        except OSError as error:
            raise FormatError(
                f"{folder / name} cannot be read: {error.strerror or error}",
                remedy="give a folder with the weights as safetensors",
            ) from error
    return found


def _is_name(value: Any) -> bool:
    """True for a file in the folder itself."""
    return isinstance(value, str) and value not in ("", ".", "..") and Path(value).name == value


def _stored(
    files: Mapping[str, MappedSafetensors],
    kind: ModelType,
    is_tied: bool,
    scales: Mapping[str, Array],
) -> dict[str, _Stored]:
    """Return the decoder's tensors by the names of GGUF files."""
    whole: dict[str, Array] = {}
    experts: dict[str, dict[int, Array]] = {}
    for path, file in files.items():
        for name, given, value in _by_name(file, kind):
            own, expert = (given, None) if given else _own_name(path, name, kind)
            if not own or (is_tied and own == "output.weight"):
                continue
            places: dict[Any, Array] = whole if expert is None else experts.setdefault(own, {})
            key = own if expert is None else expert
            if key in places:
                raise FormatError(
                    f"{path}: tensor {name!r} occurs twice", remedy="keep one model in a folder"
                )
            _require_numbers(path, name, value)
            places[key] = value
    stored = {
        name: _Stored((value,), False, _added(kind, name), scales.get(name.split(".", 2)[-1]))
        for name, value in whole.items()
    }
    return stored | {name: _stack(name, parts) for name, parts in experts.items()}


def _by_name(file: MappedSafetensors, kind: ModelType) -> Iterator[tuple[str, str | None, Array]]:
    """Yield the arrays of a file, with the names in GGUF files of those that differ there."""
    for name, value in file.arrays.items():
        views = gguf_views(name, kind)
        if views is None:
            yield name, None, value
        for own, view in views or ():
            yield name, own, view(value) if value.ndim else value


def _own_name(path: str, name: str, kind: ModelType) -> tuple[str, int | None]:
    try:
        return gguf_name(name, kind) or ("", None)
    except LookupError:
        raise UnsupportedError(
            f"{path}: tensor {name!r} is of no decoder of this model type",
            remedy="use a model without it",
        ) from None


def _require_numbers(path: str, name: str, value: Array) -> None:
    if value.dtype.kind not in "fV" or value.dtype.itemsize < 2 or not 1 <= value.ndim <= 3:
        raise UnsupportedError(
            f"{path}: tensor {name!r} is {value.dtype}{list(value.shape)}; weights are F32, F16, "
            "BF16 or F64 of one to three axes",
            remedy="use a model that is not quantized already",
        )


def _added(kind: ModelType, name: str) -> float:
    adds = (
        kind.norms_add_1 and name.endswith("norm.weight") and not name.endswith("ssm_norm.weight")
    )
    return 1.0 if adds else 0.0


def _stack(name: str, parts: Mapping[int, Array]) -> _Stored:
    each = tuple(parts.get(number) for number in range(len(parts)))
    present = tuple(part for part in each if part is not None)
    if len(present) < len(each) or len({part.shape for part in present}) > 1:
        raise FormatError(
            f"{name}: {len(parts)} experts, numbered {sorted(parts)[:20]}, have no matrix of one "
            "shape each",
            remedy="get the folder again",
        )
    return _Stored(present, True)


def _info(name: str, tensor: _Stored, quantize: str | None) -> TensorInfo:
    """Return a tensor's shape, and its type: packed where rows are whole blocks."""
    number = _NUMBERS["f32"]
    is_matrix = len(tensor.shape) > 1 and not any(part in name for part in _KEPT)
    if quantize is not None and is_matrix:
        types = (_packed_type(quantize), ELEMENT_TYPES[_NUMBERS[_FALLBACK]])
        whole = [kind for kind in types if tensor.shape[-1] % kind.elements == 0]
        number = _NUMBERS[whole[0].name] if whole else number
    return TensorInfo(name, tensor.shape[::-1], number, 0)


def _packed_type(name: str) -> ElementType:
    from rlx.gguf.encoding import ENCODERS

    if name not in ENCODERS:
        raise InputError(
            f"weights are not packed as {name!r}", remedy=f"use one of: {', '.join(ENCODERS)}"
        )
    return ELEMENT_TYPES[_NUMBERS[name]]
