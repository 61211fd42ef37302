"""vmap as a pass: the graph of one example becomes the graph of a batch of them.

g = vmap(graph, [0, None], size=32)      # input 0 gains axis 0, input 1 is shared
g = vmap(graph, {"x": 1}, 1, size=32)    # by name; the outputs carry the batch at axis 1

Inside, a batch axis always leads; only at inputs and outputs may it be
elsewhere. Params and constants are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import Extent, Shape, format_shape
from rlx.passes.rewrites.unfuse import unfuse
from rlx.passes.vmap.batching import (
    MappedAxis,
    MaybeBatched,
    batch_to,
    batch_to_front,
    expand_to,
    reshape_to,
)
from rlx.passes.vmap.errors import AxisError, DonationError, UnknownInputError
from rlx.passes.vmap.sweep import Image, carry, live

InAxes: TypeAlias = Sequence[int | None] | Mapping[str, int | None]
OutAxes: TypeAlias = int | Sequence[int | None] | None


def vmap(
    graph: Graph,
    in_axes: InAxes,
    out_axes: OutAxes = 0,
    *,
    size: Extent | None = None,
    axis_name: str | None = None,
) -> Graph:
    """Return `<name>_vmap`, which does what `graph` does for each of `size` examples.

    `in_axes` says, per input in declaration order or by name, the position of the batch axis in
    its new shape; None (or a name left out) is an input shared by all examples. `out_axes` says the
    same of the outputs: one that does not depend on the batch is repeated, or with None stays
    as it is. `axis_name` is what collectives in the graph call the batch axis.
    """
    axes = _input_axes(graph, in_axes)
    extent = _size(size, axes)
    axis = MappedAxis(extent, axis_name)
    if any(node.op.has(Trait.LAYOUT) for node in graph.nodes):
        graph = unfuse(graph)  # rules know plain tensors only
    target, value_map = Graph(f"{graph.name}_vmap"), Image()
    for node in live(graph):
        if node.name in axes and node.op.name == "input":
            value_map[node.result] = _declare(target, node, axes[node.name], extent)
        else:
            carry(target, [node], value_map, axis)
    outputs = [value_map[output] for output in graph.outputs]
    wanted = _output_axes(graph, out_axes)
    target.set_outputs(map(_placed, graph.outputs, outputs, wanted, [extent] * len(outputs)))
    _donate_like(graph, target)
    for name, ranks in graph.communicators.items():
        target.connect(name, ranks)
    return target


def _input_axes(graph: Graph, in_axes: InAxes) -> dict[str, int | None]:
    """Return the batch axis of every input, counted from the front."""
    names = [str(leaf.node.name) for leaf in graph.inputs]
    if isinstance(in_axes, Mapping):
        _require_inputs(graph, in_axes, names)
        given = {name: in_axes.get(name) for name in names}
    elif len(in_axes) != len(names):
        raise UnknownInputError(
            f"in_axes names {len(in_axes)} axes and graph {graph.name!r} has {len(names)} "
            f"inputs ({', '.join(names) or 'none'})",
            remedy="give one axis (or None) for each input",
        )
    else:
        given = dict(zip(names, in_axes, strict=True))
    return {
        name: _placed_axis(axis, graph.leaf(name).shape, f"input {name!r}")
        for name, axis in given.items()
    }


def _require_inputs(graph: Graph, in_axes: Mapping[str, int | None], names: list[str]) -> None:
    params = {str(leaf.node.name) for leaf in graph.params}
    for name in in_axes:
        if name in params:
            raise UnknownInputError(
                f"{name!r} is a param of graph {graph.name!r}; all examples share it",
                remedy="declare it as an input to batch over it",
            )
        if name not in names:
            raise UnknownInputError(
                f"graph {graph.name!r} has no input {name!r} (has: {', '.join(names) or 'none'})",
                remedy="name one of these inputs",
            )


def _size(size: Extent | None, axes: Mapping[str, int | None]) -> Extent:
    if size is None:
        raise AxisError(
            f"no batch size was given for {len(axes)} inputs", remedy="pass vmap(..., size=...)"
        )
    if isinstance(size, int) and size < 0:
        raise AxisError(
            f"the batch size is {size}; it must not be negative", remedy="give a size of 0 or more"
        )
    return size


def _placed_axis(axis: int | None, shape: Shape, what: str) -> int | None:
    """Return a batch axis, counted from the front of `shape` with that axis in it."""
    rank = len(shape) + 1
    if axis is None:
        return None
    if not -rank <= axis < rank:
        raise AxisError(
            f"axis {axis} is out of range for {what} of shape {format_shape(shape)}; "
            f"with the batch axis its rank is {rank}",
            remedy="give an axis in that rank",
        )
    return axis % rank


def _declare(target: Graph, node: Node, axis: int | None, size: Extent) -> MaybeBatched:
    name, type = str(node.name), node.result.type
    with target.attributed(node.source, node.scope):
        if axis is None:
            return MaybeBatched(target.input(name, type.shape, type.dtype), batched=False)
        shape = (*type.shape[:axis], size, *type.shape[axis:])
        return MaybeBatched(
            batch_to_front(target.input(name, shape, type.dtype), axis), batched=True
        )


def _output_axes(graph: Graph, out_axes: OutAxes) -> list[int | None]:
    count = len(graph.outputs)
    each = [out_axes] * count if out_axes is None or isinstance(out_axes, int) else list(out_axes)
    if len(each) != count:
        raise AxisError(
            f"out_axes names {len(each)} axes and the graph has {count} outputs",
            remedy="give one axis for all outputs or one for each",
        )
    return [
        _placed_axis(axis, output.shape, f"output {position}")
        for position, (axis, output) in enumerate(zip(each, graph.outputs, strict=True))
    ]


def _placed(output: Value, carried: MaybeBatched, axis: int | None, size: Extent) -> Value:
    """Return an output with its batch axis at `axis`."""
    value = carried.value
    if axis is None and not carried.batched:
        return value
    if axis is None:
        raise AxisError(
            f"output {output.label} ({output.op.name}) depends on the batch, and its out_axes "
            "is None",
            source=output.node.source,
            remedy="give it an axis, or reduce over the batch outside of vmap",
        )
    if carried.batched:
        return batch_to(value, axis)
    column = (*value.shape[:axis], 1, *value.shape[axis:])
    whole = (*value.shape[:axis], size, *value.shape[axis:])
    return expand_to(reshape_to(value, column), whole)


def _donate_like(graph: Graph, target: Graph) -> None:
    for name, position in graph.donations.items():
        leaf, output = target.leaf(name), target.outputs[position]
        if leaf.type != output.type:
            raise DonationError(
                f"output {position} of type {output.type} cannot replace {name!r} of type "
                f"{leaf.type} in place, as it does in graph {graph.name!r}",
                source=graph.leaf(name).node.source,
                remedy="give both or neither the batch axis, or drop the donation",
            )
        target.donate(name, position)
