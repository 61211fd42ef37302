"""An ONNX file as the importer reads it: parsed, its opsets known, its tensors as arrays."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
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
        try:
            return numpy_helper.to_array(tensor)
        except _UNREADABLE as error:
            raise FormatError(
                f"{self.title}: tensor {tensor.name!r} cannot be read: {error}",
                remedy="the file is damaged: export or download it again",
            ) from None


def read_model(
    source: str | os.PathLike[str] | bytes | Any, limits: LoadLimits | None = None
) -> Model:
    """Parse a path, the bytes of a file, or take a `ModelProto` as it is."""
    name = str(source) if isinstance(source, (str, os.PathLike)) else "model"
    with loading(limits, name) as budget:
        proto, title, folder = _proto_of(source, budget)
        budget.file = title
        return _checked_model(proto, title, folder, budget)


def _proto_of(source: Any, budget: Budget) -> tuple[Any, str, Path | None]:
    """Return the parsed file, its title and its folder."""
    if isinstance(source, onnx.ModelProto):
        return source, source.graph.name or "model", None
    if isinstance(source, bytes):
        budget.charge_bytes(len(source))
        return _parsed(source, "model"), "model", None
    path = Path(source)
    return _parsed(_content(path, budget), str(path)), path.name, path.parent


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
    functions = {(_domain(f.domain), f.name): f for f in proto.functions}
    if len(functions) < len(proto.functions):
        raise FormatError(
            f"{title}: two functions have the same domain and name", remedy=_MALFORMED
        )
    return Model(proto, title, folder, opsets, functions, budget.limits)


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
