"""GGUF files: weights and metadata of language models, read without copying.

    file = rlx.gguf.read("model.gguf")
    file.metadata["general.architecture"]
    file.tensor_bytes("token_embd.weight")     # as stored in the file, mapped into memory
    file.dequant_f32("token_embd.weight")      # decoded

Everything is validated before use: a damaged file is a FormatError that names the key or
tensor, never a crash, and never memory that only the file says is needed.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import FormatError, InputError
from rlx.files import map_file, release_pages, releasing_pages
from rlx.gguf.element_types import ELEMENT_TYPES, ElementType, type_name
from rlx.gguf.header import Header, MetadataValue, TensorInfo, read_header
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_type import BlockType
from rlx.limits import LoadLimits, loading

_SPLIT_COUNT, _SPLIT_NUMBER = "split.count", "split.no"
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_MOST_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class _Part:
    """One file, mapped into memory."""

    path: str
    data: NDArray[np.uint8]
    header: Header


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A model's metadata and tensors, from one file or several parts."""

    path: str
    version: int
    alignment: int
    metadata: Mapping[str, MetadataValue]
    tensors: Mapping[str, TensorInfo]
    _parts: Mapping[str, _Part]
    """The part of the file with a tensor."""

    @property
    def key_names(self) -> Mapping[str, str]:
        """What keys are called in the file, where that is something else than in `metadata`."""
        return {}

    @property
    def head(self) -> tuple[NDArray[np.uint8], str]:
        """The bytes before the list of tensors, and their order; nothing for several parts."""
        parts = {part.path: part for part in self._parts.values()}
        if len(parts) != 1:
            return np.zeros(0, np.uint8), ""
        (part,) = parts.values()
        return part.data[: part.header.tensors_start], part.header.order

    @property
    def digest(self) -> str:
        """A digest of the heads of all parts: metadata, and what tensors there are."""
        parts = {part.path: part for part in self._parts.values()}
        heads = hashlib.sha256()
        for part in parts.values():
            heads.update(part.data[: part.header.data_start].data)
        return heads.hexdigest()

    def element_type(self, name: str) -> ElementType:
        """Return what a tensor holds; a FormatError for a type that cannot be read."""
        info = self._info(name)
        if info.type not in ELEMENT_TYPES:
            known = " ".join(sorted(kind.name for kind in ELEMENT_TYPES.values()))
            raise FormatError(
                f"{self._parts[name].path}: tensor {name!r}: its type, {type_name(info.type)}, "
                "cannot be read",
                remedy=f"use a file with types among: {known}",
            )
        return ELEMENT_TYPES[info.type]

    def tensor_bytes(self, name: str) -> NDArray[np.uint8]:
        """Return a tensor's bytes, `[..., bytes of a row]`, in little-endian order.

        They are the file's own, mapped, unless the file is big-endian.
        """
        info, kind, part = self._info(name), self.element_type(name), self._parts[name]
        start = part.header.data_start + info.offset
        size = math.prod(info.dims) // kind.elements * kind.size
        *outer, row = info.shape or (1,)
        flat = part.data[start : start + size]
        if part.header.order == ">":
            flat = _swapped(flat, kind)
        return flat.reshape(*outer, row // kind.elements * kind.size)

    def dequant_f32(self, name: str) -> NDArray[np.float32]:
        """Return a tensor decoded to f32, in NumPy's order of axes."""
        kind, packed = self.element_type(name), self.tensor_bytes(name)
        if kind.blocks is not None:
            return decode_blocks(packed, kind.blocks)
        shape = self._info(name).shape
        numbers = np.frombuffer(packed.tobytes(), f"<{kind.numpy}")
        if kind.name == "bf16":
            numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
        return numbers.astype(np.float32).reshape(shape)

    def release(self) -> None:
        """Let the system take the pages of the file back; what is read again is mapped again."""
        release_pages(self._mapped)

    def releasing(self) -> AbstractContextManager[None]:
        """Release pages again and again in a block that reads the file once, and at its end."""
        return releasing_pages(self._mapped)

    @property
    def _mapped(self) -> list[NDArray[np.uint8]]:
        return [part.data for part in {part.path: part for part in self._parts.values()}.values()]

    def _info(self, name: str) -> TensorInfo:
        if name not in self.tensors:
            raise InputError(
                f"{self.path} has no tensor {name!r}",
                remedy="its tensors are listed in .tensors",
            )
        return self.tensors[name]


def read(path: str | os.PathLike[str], *, limits: LoadLimits | None = None) -> GgufFile:
    """Map a GGUF file, or all parts of a split one given its first, and read its head.

    A head that needs more than `limits` raises LimitError.
    """
    with loading(limits, str(path)):
        first = _open(Path(path))
        return _joined([first, *(_open(other) for other in _other_parts(first))])


def _joined(parts: Sequence[_Part]) -> GgufFile:
    """Return the file that parts make; a FormatError for a tensor that two of them have."""
    tensors: dict[str, TensorInfo] = {}
    places: dict[str, _Part] = {}
    for part in parts:
        for name, info in part.header.tensors.items():
            if name in tensors:
                raise FormatError(
                    f"{part.path}: tensor {name!r} is in {places[name].path} too",
                    remedy="keep the parts of one model together, and no others",
                )
            tensors[name], places[name] = info, part
    first = parts[0]
    header = first.header
    metadata = dict(header.metadata)
    if len(parts) > 1:
        metadata[_SPLIT_COUNT] = 1
        metadata.pop(_SPLIT_NUMBER, None)
    return GgufFile(first.path, header.version, header.alignment, metadata, tensors, places)


def _open(path: Path) -> _Part:
    """Map one file and check its head."""
    try:
        data = map_file(path)
    except OSError as error:
        raise FormatError(
            f"{path} cannot be read: {error.strerror or error}", remedy="check the path"
        ) from error
    header = read_header(str(path), data)
    for info in header.tensors.values():
        _check_place(str(path), info, len(data) - header.data_start)
    return _Part(str(path), data, header)


def _check_place(path: str, info: TensorInfo, room: int) -> None:
    """Demand that a tensor is in its file; one of unknown type is checked when it is read."""
    kind = ELEMENT_TYPES.get(info.type)
    if kind is None:
        return
    row = info.dims[0] if info.dims else 1
    if row % kind.elements:
        raise FormatError(
            f"{path}: tensor {info.name!r}: rows of {row} elements are no whole blocks of "
            f"{kind.elements}, as {kind.name} has",
            remedy="the file is damaged: get it again",
        )
    end = info.offset + math.prod(info.dims) // kind.elements * kind.size
    if end > max(room, 0):
        raise FormatError(
            f"{path}: tensor {info.name!r} ends at byte {end} of the data, which has "
            f"{max(room, 0)}",
            remedy="the file is incomplete: get it again",
        )


def _other_parts(first: _Part) -> list[Path]:
    """Return the paths of the other parts of a split file."""
    count = first.header.metadata.get(_SPLIT_COUNT, 1)
    if not isinstance(count, int) or not 0 <= count <= _MOST_PARTS:
        raise FormatError(
            f"{first.path}: key {_SPLIT_COUNT!r} is {count!r}; it must be a number of files",
            remedy="the file is damaged: get it again",
        )
    if count <= 1:
        return []
    match = _PART.search(first.path)
    if match is None or int(match[1]) != 1 or int(match[2]) != count:
        raise FormatError(
            f"{first.path}: the model has {count} parts and the first is called "
            f"<name>-00001-of-{count:05}.gguf",
            remedy="give the first part, and keep the names that the parts came with",
        )
    stem = first.path[: match.start()]
    return [Path(f"{stem}-{part:05}-of-{count:05}.gguf") for part in range(2, count + 1)]


def _swapped(data: NDArray[np.uint8], kind: ElementType) -> NDArray[np.uint8]:
    """Return big-endian elements as little-endian ones."""
    if kind.blocks is None:
        return data.reshape(-1, kind.size)[:, ::-1].reshape(-1)
    blocks = np.array(data).reshape(-1, kind.size)
    for at, size in _fields(kind.blocks):
        blocks[:, at : at + size] = blocks[:, at : at + size][:, ::-1]
    return blocks.reshape(-1)


def _fields(kind: BlockType) -> list[tuple[int, int]]:
    """Return place and size of every field of several bytes."""
    if kind.name == "q8_k":
        return [(0, 4), *((260 + 2 * run, 2) for run in range(16))]
    return [(at, 2) for at in kind.halves]
