"""Declared inputs and outputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx.errors import FormatError, InputError
from rlx.ir.shape import Dim, Extent, Shape, format_shape
from rlx.ir.types import TensorType
from rlx.onnx.errors import ForeignDTypeError
from rlx.onnx.model import Model
from rlx.onnx.types import dtype_of, type_name

Dims = Mapping[str, Any]
"""Extents by the names of dimensions, or shapes by the names of inputs."""


def declared_inputs(model: Model) -> list[Any]:
    """Return the inputs that a caller gives: those that are no initializers."""
    own = {t.name for t in model.graph.initializer}
    own |= {t.values.name for t in model.graph.sparse_initializer}
    return [value for value in model.graph.input if value.name not in own]


def input_type(value: Any, dims: Dims, title: str) -> TensorType:
    """Return the type of an input, with the extents that `dims` gives to what it leaves open."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise InputError(
            f"{title}: input {value.name!r} is a {type_text(value.type)}; a graph takes tensors",
            remedy="run the model in rlx.onnx.InferenceSession",
        )
    try:
        dtype = dtype_of(value.type.tensor_type.elem_type)
    except (ForeignDTypeError, FormatError) as error:
        raise error.located(f"{title}: input {value.name!r}", None) from None
    return TensorType(dtype, _shape(value, dims, title))


def _shape(value: Any, dims: Dims, title: str) -> tuple[Extent, ...]:
    declared = value.type.tensor_type
    if value.name in dims and isinstance(dims[value.name], (tuple, list)):
        return tuple(dims[value.name])
    if not declared.HasField("shape"):
        raise InputError(
            f"{title}: input {value.name!r} has no declared shape",
            remedy=f"give it as in dims={{{value.name!r}: (1, 3, 224, 224)}}",
        )
    return tuple(_extent(d, axis, value, dims, title) for axis, d in enumerate(declared.shape.dim))


def _extent(dim: Any, axis: int, value: Any, dims: Dims, title: str) -> Extent:
    if _is_fixed(dim):
        return int(dim.dim_value)
    if dim.dim_param and dim.dim_param in dims:
        given: Extent = dims[dim.dim_param]
        return given
    named = f"{dim.dim_param!r}" if dim.dim_param else f"number {axis}"
    example = f"{{{dim.dim_param!r}: 1}}" if dim.dim_param else f"{{{value.name!r}: (1, ...)}}"
    raise InputError(
        f"{title}: input {value.name!r} leaves dimension {named} open",
        remedy=f"give its extent, as in dims={example}, or an rlx.Dim with max=; on the command "
        "line, with --shape",
    )


def bounded_shape(value: Any, dims: Dims, given: tuple[int, ...], title: str) -> Shape:
    """Return the shape of an array that is given for an input, with the symbols of `dims`."""
    declared, listed = value.type.tensor_type.shape.dim, dims.get(value.name)
    if not isinstance(listed, (tuple, list)):
        listed = [dims.get(d.dim_param) if d.dim_param else None for d in declared]
        listed = listed or [None] * len(given)
    pairs = list(zip(listed, given, strict=False))
    fixed = all(wanted is None or isinstance(wanted, Dim) or wanted == n for wanted, n in pairs)
    if len(listed) != len(given) or not fixed:
        raise InputError(
            f"{title}: input {value.name!r} has shape {given}; dims= says "
            f"{format_shape(tuple(listed))}",
            remedy="give an array of that shape, or other dims",
        )
    return tuple(wanted if isinstance(wanted, Dim) else n for wanted, n in pairs)


def check_dims(values: Sequence[Any], dims: Dims, title: str) -> None:
    """Raise InputError for what `dims` has that no input has: names, extents, shapes."""
    shapes = {value.name: value.type.tensor_type for value in values}
    open_dims = {d.dim_param for t in shapes.values() for d in t.shape.dim if d.dim_param}
    names = shapes.keys()
    for name, given in dims.items():
        listed = isinstance(given, (tuple, list))
        if name not in (names if listed else open_dims):
            raise InputError(
                f"{title}: dims= has {name!r}, which no input has",
                remedy=f"open dimensions are: {', '.join(sorted(open_dims)) or 'none'}; "
                f"shapes may be given for: {', '.join(sorted(names)) or 'none'}",
            )
        for extent in given if listed else [given]:
            _require_extent(extent, name, title)
        if listed and shapes[name].HasField("shape"):
            _require_shape(tuple(given), shapes[name].shape.dim, name, title)


def _require_extent(extent: Any, name: str, title: str) -> None:
    known = isinstance(extent, (int, np.integer)) and not isinstance(extent, bool)
    if not (isinstance(extent, Dim) or (known and extent >= 0)):
        raise InputError(
            f"{title}: dims= has the extent {extent!r} for {name!r}",
            remedy="give an integer from 0 on, or an rlx.Dim with max=",
        )


def _require_shape(given: Shape, declared: Sequence[Any], name: str, title: str) -> None:
    pairs = zip(given, declared, strict=False)
    if len(given) != len(declared) or any(_is_fixed(d) and d.dim_value != n for n, d in pairs):
        listed = ", ".join(str(d.dim_value) if _is_fixed(d) else d.dim_param or "?"
                           for d in declared)  # fmt: skip
        raise InputError(
            f"{title}: dims= has the shape {format_shape(given)} for input {name!r}, which the "
            f"model declares as ({listed})",
            remedy="give as many extents as the input has, with those that are fixed",
        )


def _is_fixed(dim: Any) -> bool:
    """True for a number; exporters write -1 for an extent that is open."""
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)


def shape_list(value: Any) -> list[int | str | None] | None:
    """Return a declared shape with names for open extents, None for those without one."""
    if value.type.WhichOneof("value") != "tensor_type":
        return []
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [
        int(d.dim_value) if _is_fixed(d) else (d.dim_param or None)
        for d in value.type.tensor_type.shape.dim
    ]


def type_text(type: Any) -> str:
    """Return a type as `tensor(float)`, `seq(tensor(int64))` or `optional(...)`."""
    kind = type.WhichOneof("value")
    if kind == "tensor_type":
        return f"tensor({type_name(type.tensor_type.elem_type)})"
    if kind == "sequence_type":
        return f"seq({type_text(type.sequence_type.elem_type)})"
    if kind == "map_type":
        key = type_name(type.map_type.key_type)
        return f"map({key},{type_text(type.map_type.value_type)})"
    if kind == "optional_type":
        return f"optional({type_text(type.optional_type.elem_type)})"
    return str(kind)
