"""A model compiled in stages, since shapes may depend on numbers that a run computes.

A stage is the run of nodes up to one that needs the numbers of a value. It is specialized to the
types of what flows in, and to the numbers of what must be known; so is the next, which begins
with these numbers. Most models are one stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.reference.binding import bind_extents
from rlx.ir.shape import Shape, evaluate
from rlx.ir.types import TensorType
from rlx.limits import loading
from rlx.onnx.errors import ValueNeededError
from rlx.onnx.importer import Importer
from rlx.onnx.load import declare
from rlx.onnx.model import Array, Model, names_of
from rlx.onnx.scope import Scope
from rlx.onnx.values import Map, Weight, is_known, is_supported, is_symbolic, traced_in
from rlx.tracing.pytree import TreeDef, tree_flatten, tree_unflatten
from rlx.tracing.trace import TracedArray, as_value, opened
from rlx.tracing.widths import wide_types


@dataclass(frozen=True)
class Stage:
    """Nodes imported together: a graph, and how values go in and come out."""

    graph: Graph
    params: dict[str, Array]
    inputs: tuple[tuple[str, int], ...]
    """Which leaf of which value each input of the graph is."""
    leaves: tuple[Any, ...]
    """Known leaves of the results; for others, their place among the graph's outputs."""
    traced: tuple[bool, ...]
    tree: TreeDef
    next: int | None
    """Number of the node that the next stage begins with; None if this is the last."""
    needs: tuple[str, ...]
    """Values that the next stage must know."""

    def results(self, outputs: Sequence[Array]) -> dict[str, Any]:
        """Return the values that the stage leaves, by name."""
        pairs = zip(self.leaves, self.traced, strict=True)
        filled = [outputs[leaf] if traced else _own(leaf) for leaf, traced in pairs]
        found: dict[str, Any] = tree_unflatten(self.tree, filled)
        return found


def with_extents(stage: Stage, values: Mapping[str, Any]) -> Stage:
    """Return `stage` with numbers in `values` for the symbolic extents of its results."""
    if not any(map(is_symbolic, stage.leaves)):
        return stage
    declared = {str(value.node.name): value.type.shape for value in stage.graph.inputs}
    given = [tree_flatten(values[name])[0][place].shape for name, place in stage.inputs]
    binding = bind_extents(declared, dict(zip(declared, given, strict=True)))
    return replace(stage, leaves=tuple(_at_extents(leaf, binding) for leaf in stage.leaves))


def _at_extents(leaf: Any, binding: Mapping[str, int]) -> Any:
    if not is_symbolic(leaf):
        return leaf
    numbers = [evaluate(extent, binding) for extent in leaf.flat]
    return np.asarray(numbers, leaf.integers).reshape(leaf.shape)


def _own(leaf: Any) -> Any:
    """Return a known array for a caller, who may change it."""
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def make_stage(
    model: Model,
    values: Mapping[str, Any],
    known: frozenset[str],
    first: int,
    shapes: Mapping[str, Shape],
) -> Stage:
    """Import the nodes from number `first` on; `known` names values whose numbers count.

    `shapes` has those of values whose extents are symbolic. Raise ValueNeededError if another of
    `values` must be known.
    """
    nodes = model.graph.node
    limits = loading(model.limits, model.title)
    with limits, wide_types(), opened("model") as trace:
        importer = Importer(model, trace)
        scope = Scope({}, model.opsets)
        importer.declare_initializers(model.graph, scope)
        _declare_constants(importer, scope, nodes[:first])
        inputs: list[tuple[str, int]] = []
        for name, value in values.items():
            entered = None if name in known else shapes.get(name)
            scope.values[name] = _entered(trace, name, value, name in known, inputs, entered)
        stop, needs = _run(importer, scope, nodes, first, set(values))
        live = _live(model, scope, stop) if stop is not None else names_of(model.graph.output)
        results = {name: importer.read(name, scope) for name in live}
        leaves, tree = tree_flatten(results)
        traced = tuple(isinstance(leaf, TracedArray) for leaf in leaves)
        outputs = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
        trace.graph.set_outputs([as_value(output) for output in outputs])
    places = iter(range(len(outputs)))
    marked = tuple(
        next(places) if is_traced else leaf for leaf, is_traced in zip(leaves, traced, strict=True)
    )
    return Stage(
        trace.graph, importer.params, tuple(inputs), marked, traced, tree, stop, needs
    )  # fmt: skip


def _declare_constants(importer: Importer, scope: Scope, nodes: Sequence[Any]) -> None:
    """Append the constants of earlier stages, which are weights as initializers are."""
    for number, proto in enumerate(nodes):
        if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx"):
            with importer.at(proto, number, scope):
                importer.apply(proto, scope)


def _entered(
    trace: Any,
    name: str,
    value: Any,
    is_known_here: bool,
    inputs: list[tuple[str, int]],
    shape: Shape | None,
) -> Any:
    """Return the substitute of a value: itself if it is known, else inputs of the graph."""
    leaves, tree = tree_flatten(value)
    if is_known_here or not is_supported(leaves):
        return value
    entered = []
    for place, leaf in enumerate(leaves):
        title = name if len(leaves) == 1 else f"{name}_{place}"
        inputs.append((name, place))
        entered.append(declare(trace, title, TensorType(as_dtype(leaf.dtype), shape or leaf.shape)))
    return tree_unflatten(tree, entered)


def _run(
    importer: Importer, scope: Scope, nodes: Sequence[Any], first: int, given: set[str]
) -> tuple[int | None, tuple[str, ...]]:
    """Append nodes; return the number of one that needs values first, and these values."""
    for number in range(first, len(nodes)):
        proto = nodes[number]
        try:
            with importer.at(proto, number, scope):
                importer.apply(proto, scope)
            if number + 1 < len(nodes) and _is_computed(proto, importer, scope, given):
                return number + 1, ()  # what follows is compiled for all such numbers
        except ValueNeededError as error:
            needs = tuple(n for n in error.names if _is_traced(scope, n)) or _read_by(proto, scope)
            if not needs:
                raise
            if number == first or set(needs) & given:
                error.names = needs
                raise
            return number, needs
    return None, ()


def _is_computed(proto: Any, importer: Importer, scope: Scope, given: set[str]) -> bool:
    """True if NumPy made arrays that rlx has a dtype for of given values."""
    made = [scope.values.get(n) for n in proto.output]
    by_numpy = importer.by_numpy.issuperset(proto.output) and given.intersection(proto.input)
    return bool(by_numpy) and all(is_known(x) and is_supported(x) for x in made)


def _is_traced(scope: Scope, name: str) -> bool:
    return bool(traced_in([scope.values.get(name)]))


def _read_by(proto: Any, scope: Scope) -> tuple[str, ...]:
    """Return the values that a node and its sub-graphs read and that are not known."""
    return tuple(n for n in dict.fromkeys(_names_read(proto)) if _is_traced(scope, n))


def _names_read(proto: Any) -> list[str]:
    names = [str(name) for name in proto.input]
    for attribute in proto.attribute:
        for node in attribute.g.node:
            names += _names_read(node)
        names += [output.name for output in attribute.g.output]
    return names


def _live(model: Model, scope: Scope, stop: int) -> list[str]:
    """Return the values that nodes from `stop` on read, and outputs, that exist already."""
    wanted = names_of(model.graph.output)
    for proto in model.graph.node[stop:]:
        wanted += _names_read(proto)
    found = (name for name in dict.fromkeys(wanted) if name in scope.values)
    return [name for name in found if not isinstance(scope.values[name], Weight)]


def key_of(value: Any, known: bool, shape: Shape | None = None) -> Any:
    """Return what a stage depends on of a value: its types, and its numbers if it is known.

    `shape` is that of an array, where some of its extents are symbolic.
    """
    if shape is not None and not known and is_supported(value):
        return value.dtype, shape
    leaves, tree = tree_flatten(value)
    return tree, tuple(map(_numbers if known else _type, leaves))


def _type(leaf: Any) -> Any:
    if not isinstance(leaf, np.ndarray) or not is_supported(leaf):
        return _numbers(leaf)
    return leaf.dtype, leaf.shape


def _numbers(leaf: Any) -> Any:
    if isinstance(leaf, Map):
        return leaf.dtype, tuple(leaf.items())
    if not isinstance(leaf, np.ndarray):
        return leaf
    if leaf.dtype == object:
        return leaf.shape, tuple(leaf.ravel().tolist())
    return leaf.dtype, leaf.shape, leaf.tobytes()
