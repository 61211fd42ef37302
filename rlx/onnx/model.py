"""An ONNX file as the importer reads it: parsed, its opsets known, its tensors as arrays."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from rlx.dataclass import dataclass
from rlx.errors import FormatError, InputError
from rlx.files import read_file
from rlx.limits import Budget, LoadLimits, current_budget, loading
from rlx.onnx.external import external_array
from rlx.onnx.structure import check_structure

Array = np.ndarray[Any, Any]
NEWEST_OPSET = onnx.defs.onnx_opset_version()

_UNREADABLE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""What the onnx package raises for a tensor that is not what it claims to be."""

_LARGE = 1 << 12
"""Bytes of tensors that are large."""

_MALFORMED = "the model is malformed: export it again"


@dataclass(frozen=True, slots=True)
class Model:
    """A parsed model. `title` names it in messages, `folder` holds its external data."""

    proto: Any
    title: str
    folder: Path | None
    opsets: dict[str, int]
    functions: dict[tuple[str, str], Any]
    limits: LoadLimits
    arrays: Mapping[str, Array]
    """Large initializers by name; the parsed message has them without their bytes."""
    file: tuple[Path, tuple[int, int]] | None = None
    """The file that they are mapped from, and its stamp when it was read."""

    @property
    def graph(self) -> Any:
        return self.proto.graph

    def array(self, tensor: Any) -> Array:
        """Return a tensor of the file as an array; external data is mapped, not read."""
        if any(extent < 0 for extent in tensor.dims):
            raise FormatError(
                f"{self.title}: tensor {tensor.name!r} has shape {tuple(tensor.dims)}, with a "
                "negative extent",
                remedy=_MALFORMED,
            )
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return external_array(tensor, self.folder, self.title)
        if tensor.name in self.arrays and not tensor.HasField("raw_data"):
            self._check_file()
            return self.arrays[tensor.name]
        try:
            return numpy_helper.to_array(tensor)
        except _UNREADABLE as error:
            raise FormatError(
                f"{self.title}: tensor {tensor.name!r} cannot be read: {error}",
                remedy="the file is damaged: export or download it again",
            ) from None

    def _check_file(self) -> None:
        """Raise InputError if the file that arrays are mapped from was written since."""
        if self.file is None or not self.file[0].exists():  # what was removed stays mapped
            return
        if _stamp(self.file[0]) != self.file[1]:
            raise InputError(
                f"{self.title} was overwritten while a session of it is in use",
                remedy="make a new session, or write models to another path",
            )


def read_model(
    source: str | os.PathLike[str] | bytes | Any,
    limits: LoadLimits | None = None,
    *,
    mapped: bool = False,
) -> Model:
    """Parse a path, the bytes of a file, or take a `ModelProto` as it is.

    With `mapped`, large initializers of a path are mapped, not copied: their file is not to be
    overwritten as long as the model is used.
    """
    name = str(source) if isinstance(source, (str, os.PathLike)) else "model"
    with loading(limits, name) as budget:
        if isinstance(source, onnx.ModelProto):
            budget.file = title = source.graph.name or "model"
            return _checked_model(source, title, None, budget)
        if isinstance(source, bytes):
            budget.charge_bytes(len(source))
            budget.file = "model"
            proto = _parsed(source, "model")
            return _with_arrays(_checked_model(proto, "model", None, budget), source, None)
        path = Path(source)
        content = _content(path, budget)
        proto = _parsed(content, str(path))
        budget.file = path.name
        model = _checked_model(proto, path.name, path.parent, budget)
        return _with_arrays(model, content, path if mapped else None)


def _with_arrays(model: Model, content: bytes, path: Path | None) -> Model:
    """Return a model whose large initializers are arrays: else both are kept in memory.

    They are mapped where `content` is that of the file at `path`.
    """
    counts = Counter(tensor.name for tensor in model.graph.initializer)
    arrays, place = {}, 0
    for tensor in model.graph.initializer:
        raw = tensor.raw_data
        if len(raw) > _LARGE and counts[tensor.name] == 1:
            array = model.array(tensor)
            if path is not None and array.nbytes == len(raw):
                at = content.find(raw, place)  # or that of equal bytes, which is as good
                place = at if at >= 0 else content.index(raw)
                array = np.memmap(path, array.dtype, "r", place, array.shape)
            arrays[tensor.name] = array
            tensor.ClearField("raw_data")
    if not arrays:
        return model
    lean = model.proto.SerializeToString()  # the memory of a message is that of all it had
    proto = onnx.ModelProto.FromString(lean)
    file = None if path is None else (path, _stamp(path))
    return replace(model, proto=proto, functions=_functions(proto), arrays=arrays, file=file)


def _stamp(path: Path) -> tuple[int, int]:
    """Return what changes when a file is written."""
    state = path.stat()
    return state.st_mtime_ns, state.st_size


def _checked_model(proto: Any, title: str, folder: Path | None, budget: Budget) -> Model:
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
        check_structure(graph, title, budget)
    functions = _functions(proto)
    if len(functions) < len(proto.functions):
        raise FormatError(
            f"{title}: two functions have the same domain and name", remedy=_MALFORMED
        )
    return Model(proto, title, folder, opsets, functions, budget.limits, {})


def _functions(proto: Any) -> dict[tuple[str, str], Any]:
    return {(_domain(f.domain), f.name): f for f in proto.functions}


def _content(path: Path, budget: Budget) -> bytes:
    try:
        return read_file(path, budget)
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
            f"{title}: uses opset {version}; the installed onnx has up to {NEWEST_OPSET}",
            remedy="update it with pip install --upgrade onnx",
        )


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
    budget, what = current_budget(), f"sparse tensor {sparse.values.name!r}"
    budget.charge_bytes(budget.check_elements(math.prod(shape), what) * values.itemsize, what)
    result = np.zeros(shape, values.dtype)
    places = (indices,) if indices.ndim == 1 else tuple(indices.T)
    target = result.reshape(-1) if indices.ndim == 1 else result
    target[places] = values
    return result


def _misplaced(values: Array, indices: Array, shape: tuple[int, ...]) -> str | None:
    """Return what is wrong with a sparse tensor; None if nothing is."""
    if min(shape, default=1) < 0:
        return "it has a negative extent"
    if indices.dtype != np.int64 or indices.ndim not in (1, 2) or values.ndim != 1:
        return f"indices are {indices.dtype} {indices.shape}, values {values.shape}"
    if len(indices) != len(values) or (indices.ndim == 2 and indices.shape[1] != len(shape)):
        return f"{len(values)} values have indices of shape {indices.shape}"
    bounds = np.asarray(math.prod(shape) if indices.ndim == 1 else shape)
    if np.any(indices < 0) or np.any(indices >= bounds):
        return "an index is out of range"
    return None


def names_of(values: Iterable[Any]) -> list[str]:
    return [str(value.name) for value in values]
