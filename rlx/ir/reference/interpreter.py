"""Evaluation of whole graphs and of single nodes with NumPy.

Symbolic extents are bound from the feeds' shapes first; every node then runs at concrete
extents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rlx.errors import InputError, RlxError, UnsupportedError
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Attrs
from rlx.ir.reference.binding import bind_extents
from rlx.ir.reference.registry import Array, apply_node, apply_op
from rlx.ir.shape import Dim
from rlx.ir.shape import evaluate as evaluate_extent
from rlx.ir.types import TensorType
from rlx.limits import is_too_large


def evaluate(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of `graph` for `feeds`: an array for every input and param by name."""
    leaves = (*graph.inputs, *graph.params)
    arrays = _checked(graph, leaves, feeds)
    shapes = {str(leaf.node.name): array.shape for leaf, array in zip(leaves, arrays, strict=True)}
    binding = bind_extents({str(leaf.node.name): leaf.shape for leaf in leaves}, shapes)
    return _evaluate(graph, dict(zip(leaves, arrays, strict=True)), binding)


def evaluate_body(body: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Return the outputs of a sub-graph, its inputs bound to `arrays` in order."""
    return _evaluate(body, dict(zip(body.inputs, arrays, strict=True)), {})


def fold(node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Return the results of one node with static attributes for the operands `arrays`."""
    with _memory_for(node):
        return _apply(node, arrays, {})


def _evaluate(graph: Graph, values: dict[Value, Array], binding: Mapping[str, int]) -> list[Array]:
    for node in graph.nodes:
        if node.results[0] not in values:
            with _memory_for(node):
                results = _apply(node, [values[operand] for operand in node.operands], binding)
            values.update(zip(node.results, results, strict=True))
    return [values[output] for output in graph.outputs]


def _apply(node: Node, arrays: Sequence[Array], binding: Mapping[str, int]) -> tuple[Array, ...]:
    if node.op.name == "constant":
        return (node.attribute("value").array,)
    try:
        if not binding:
            return apply_node(node, arrays)
        return apply_op(node.op, arrays, _bound_attrs(node.attrs, binding))
    except RlxError as error:
        if error.source is None:
            raise error.located(node.title, node.source) from None
        raise


@contextmanager
def _memory_for(node: Node) -> Iterator[None]:
    """Raise an UnsupportedError where NumPy cannot allocate what a node computes."""
    try:
        yield
    except (MemoryError, ValueError) as error:
        if isinstance(error, RlxError) or not (
            isinstance(error, MemoryError) or is_too_large(error)
        ):
            raise
        types = ", ".join(str(result.type) for result in node.results)
        raise UnsupportedError(
            f"{node.op.name}: its result {types} takes more memory than this machine gives: "
            f"{error}",
            source=node.source,
            remedy="compute it in blocks of fewer elements",
        ) from error


def _bound_attrs(attrs: Attrs, binding: Mapping[str, int]) -> Attrs:
    if not binding:
        return attrs
    bound = {name: _bound(value, binding) for name, value in attrs.as_dict().items()}
    return dataclasses.replace(attrs, **bound)


def _bound(value: Any, binding: Mapping[str, int]) -> Any:
    if isinstance(value, Dim):
        return evaluate_extent(value, binding)
    if isinstance(value, tuple):
        return tuple(_bound(item, binding) for item in value)
    if isinstance(value, TensorType):
        return value.with_shape(_bound(value.shape, binding))
    if isinstance(value, Graph):
        return at_extents(value, binding)
    return value


def at_extents(graph: Graph, binding: Mapping[str, int]) -> Graph:
    """Return a copy of `graph` at concrete extents; ShapeError where an op refuses them."""
    copy = Graph(graph.name)
    image: dict[Value, Value] = {}
    for node in graph.nodes:
        operands = [image[operand] for operand in node.operands]
        try:
            attrs = _bound_attrs(node.attrs, binding)
            results = copy.append(node.op, operands, attrs, name=node.name, source=node.source)
        except RlxError as error:
            raise error.located(node.title, node.source) from None
        image.update(zip(node.results, results, strict=True))
    copy.set_outputs(image[output] for output in graph.outputs)
    return copy


def symbolic_uses(graph: Graph) -> list[Node]:
    """Return the nodes whose extents a binding may break, one for each op on equal types."""
    uses: dict[tuple[object, ...], Node] = {}
    for node in graph.nodes:
        types = tuple(operand.type for operand in node.operands)
        static = all(type.is_static for type in types) and not _extents_in(node.attrs)
        if node.operands and not (static and not node.op.holds_bodies):
            uses.setdefault((node.op.name, types, node.attrs), node)
    return list(uses.values())


def _extents_in(attrs: Attrs) -> bool:
    """True if an attribute is, or holds, a symbolic extent."""
    values = attrs.as_dict().values()
    items = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return any(
        isinstance(item, Dim) or (isinstance(item, TensorType) and not item.is_static)
        for item in items
    )


def check_extents(uses: Sequence[Node], binding: Mapping[str, int]) -> None:
    """Raise a ShapeError where one of some nodes refuses its operands at concrete extents."""
    for node in uses:
        scratch = Graph("extents")
        operands = [
            scratch.input_of(f"x{i}", _bound(operand.type, binding))
            for i, operand in enumerate(node.operands)
        ]
        try:
            attrs = _bound_attrs(node.attrs, binding)
            scratch.append(node.op, operands, attrs, name=node.name, source=node.source)
        except RlxError as error:
            raise error.located(node.title, node.source) from None


def _checked(graph: Graph, leaves: Sequence[Value], feeds: Mapping[str, Array]) -> list[Array]:
    """Return the feeds in the order of `leaves`, their names and dtypes checked."""
    names = [str(leaf.node.name) for leaf in leaves]
    missing = [name for name in names if name not in feeds]
    unknown = [name for name in feeds if name not in names]
    if missing or unknown:
        faults = [
            f"{what}: {', '.join(given)}"
            for what, given in (("missing", missing), ("unknown", unknown))
            if given
        ]
        raise InputError(
            f"graph {graph.name!r} takes {', '.join(names) or 'no arrays'}; " + "; ".join(faults),
            remedy="give one array for each name",
        )
    arrays = [np.asarray(feeds[name]) for name in names]
    for name, leaf, array in zip(names, leaves, arrays, strict=True):
        if array.dtype != leaf.dtype.numpy:
            raise InputError(
                f"{name!r} has dtype {array.dtype}; it must be {leaf.dtype}",
                remedy=f"convert it with .astype({as_dtype(leaf.dtype).numpy.name!r})",
            )
    return arrays
