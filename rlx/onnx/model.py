"""An ONNX file as the importer reads it: parsed, its opsets known, its tensors as arrays."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from rlx.errors import FormatError, InputError
from rlx.onnx import narrow
from rlx.onnx.types import numpy_dtype

Array = np.ndarray[Any, Any]
NEWEST_OPSET = onnx.defs.onnx_opset_version()

_UNREADABLE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""What the onnx package raises for a tensor that is not what it claims to be."""

_MOST_DENSE = 1 << 28
"""Elements of a sparse tensor written out: a few bytes of a file can claim any number."""


@dataclass(frozen=True, slots=True)
class Model:
    """A parsed model. `title` names it in messages, `folder` holds its external data."""

    proto: Any
    title: str
    folder: Path | None
    opsets: dict[str, int]
    functions: dict[tuple[str, str], Any]

    @property
    def graph(self) -> Any:
        return self.proto.graph

    def array(self, tensor: Any) -> Array:
        """Return a tensor of the file as an array; external data is mapped, not read."""
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return _external(tensor, self.folder, self.title)
        try:
            return numpy_helper.to_array(tensor)
        except _UNREADABLE as error:
            raise FormatError(
                f"{self.title}: tensor {tensor.name!r} cannot be read: {error}",
                remedy="the file is damaged: export or download it again",
            ) from None


def read_model(source: str | os.PathLike[str] | bytes | Any) -> Model:
    """Parse a path, the bytes of a file, or take a `ModelProto` as it is."""
    folder: Path | None = None
    if isinstance(source, onnx.ModelProto):
        proto, title = source, source.graph.name or "model"
    elif isinstance(source, bytes):
        proto, title = _parsed(source, "model"), "model"
    else:
        path = Path(source)
        proto, title, folder = _parsed(_content(path), str(path)), path.name, path.parent
    if not all(isinstance(o.domain, str) for o in (*proto.opset_import, *proto.functions)):
        raise FormatError(
            f"{title}: the name of a domain is not text", remedy="the file is damaged"
        )
    opsets = {_domain(o.domain): int(o.version) for o in proto.opset_import}
    if not proto.graph.node and not proto.graph.output:
        raise FormatError(
            f"{title}: holds no graph", remedy="check that this is an ONNX model, and all of it"
        )
    _require_known(opsets, title)
    for graph in (proto.graph, *proto.functions):
        _require_text(graph, title)
    functions = {(_domain(f.domain), f.name): f for f in proto.functions}
    return Model(proto, title, folder, opsets, functions)


def _require_text(graph: Any, title: str) -> None:
    """Raise FormatError for names that are no text: protobuf gives bytes for them."""
    words = [graph.name]
    for node in graph.node:
        words += [node.name, node.op_type, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            words += [attribute.name, attribute.ref_attr_name]
            _require_text(attribute.g, title)
    if isinstance(graph, onnx.GraphProto):
        declared = (*graph.input, *graph.output, *graph.initializer)
        words += [value.name for value in declared]
    if not all(isinstance(word, str) for word in words):
        raise FormatError(
            f"{title}: a name in it is not text",
            remedy="the file is damaged: export or download it again",
        )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}", remedy="check the path and its permissions"
        ) from error


def _parsed(content: bytes, title: str) -> Any:
    try:
        return onnx.ModelProto.FromString(content)
    except (DecodeError, RuntimeError) as error:
        raise FormatError(
            f"{title}: not an ONNX model: {error}",
            remedy="check that the file is complete, and an .onnx file",
        ) from None


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _require_known(opsets: dict[str, int], title: str) -> None:
    version = opsets.setdefault("", 1)
    if version > NEWEST_OPSET:
        raise FormatError(
            f"{title}: uses opset {version}; the installed onnx package knows {NEWEST_OPSET}",
            remedy="update it with pip install --upgrade onnx",
        )


def external_entries(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _external(tensor: Any, folder: Path | None, title: str) -> Array:
    entries = external_entries(tensor)
    location = entries.get("location", "")
    if folder is None:
        raise InputError(
            f"{title}: tensor {tensor.name!r} lies in {location!r}, beside an unknown file",
            remedy="load the model by its path",
        )
    path = _inside(folder, location, f"{title}: tensor {tensor.name!r}")
    dtype = numpy_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    try:
        offset = int(entries.get("offset", "0"))
        if 0 in shape:
            return np.zeros(shape, dtype)
        if narrow.bits(dtype) < 8:
            return _unpacked(tensor, path, offset, dtype)
        return np.memmap(path, dtype, "r", offset, shape)
    except (OSError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{title}: tensor {tensor.name!r} of shape {shape} cannot be read from {location!r}: "
            f"{error}",
            remedy="put the complete data file beside the model",
        ) from None


def _unpacked(tensor: Any, path: Path, offset: int, dtype: np.dtype[Any]) -> Array:
    """Return external elements of less than a byte, several of which lie in each."""
    size = -(-math.prod(tensor.dims) * narrow.bits(dtype) // 8)
    packed = np.memmap(path, np.uint8, "r", offset, (size,))
    whole = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
    whole.raw_data = packed.tobytes()
    return numpy_helper.to_array(whole)


def _inside(folder: Path, location: str, what: str) -> Path:
    """Return the file at `location`, which must lie in the model's folder."""
    root = folder.resolve()
    path = (root / location).resolve()
    if not location or not path.is_relative_to(root):
        raise FormatError(
            f"{what} names data outside of the model's folder: {location!r}",
            remedy="a model that reads other files is not to be trusted; put its data beside it",
        )
    return path


def dense(sparse: Any, model: Model) -> Array:
    """Return a sparse tensor as an array."""
    values, indices = model.array(sparse.values), model.array(sparse.indices)
    shape = tuple(sparse.dims)
    wrong = _misplaced(values, indices, shape)
    if wrong is not None:
        raise FormatError(
            f"{model.title}: sparse tensor {sparse.values.name!r} of shape {shape}: {wrong}",
            remedy="the file is damaged: export or download it again",
        )
    result = np.zeros(shape, values.dtype)
    places = (indices,) if indices.ndim == 1 else tuple(indices.T)
    target = result.reshape(-1) if indices.ndim == 1 else result
    target[places] = values
    return result


def _misplaced(values: Array, indices: Array, shape: tuple[int, ...]) -> str | None:
    """Return what is wrong with a sparse tensor; None if nothing is."""
    if math.prod(shape) > _MOST_DENSE or min(shape, default=1) < 0:
        return f"it has more than {_MOST_DENSE} elements, or a negative extent"
    if indices.dtype != np.int64 or indices.ndim not in (1, 2) or values.ndim != 1:
        return f"indices are {indices.dtype} {indices.shape}, values {values.shape}"
    if len(indices) != len(values) or (indices.ndim == 2 and indices.shape[1] != len(shape)):
        return f"{len(values)} values have indices of shape {indices.shape}"
    bounds = np.asarray(math.prod(shape) if indices.ndim == 1 else shape)
    if np.any(indices < 0) or np.any(indices >= bounds):
        return "an index lies outside"
    return None


def names_of(values: Iterable[Any]) -> list[str]:
    return [str(value.name) for value in values]
