"""Loops and branches as operators of ONNX, whose bodies see the values around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from rlx.ir.graph import Graph, Node
from rlx.ir.loop_signature import loop_signature
from rlx.onnx.export_rules import export_rule

_LARGEST = np.iinfo(np.int64).max


def _body(
    writer: Any, name: str, inputs: Sequence[tuple[str, int, Any]], outputs: Sequence[str],
    types: Sequence[tuple[int, Any]] = (),
) -> Any:  # fmt: skip
    """Return what `writer` has of a body as a graph; `inputs` are (name, element type, shape).

    `types` are those of the outputs: a loop without trips has no values to infer them from.
    """
    named = [f"{name}_output_{place}" for place in range(len(outputs))]
    for given, output in zip(outputs, named, strict=True):
        writer.nodes.append(helper.make_node("Identity", [given], [output], name=output))
    declared = [helper.make_tensor_value_info(*each) for each in inputs]
    results = [helper.make_empty_tensor_value_info(output) for output in named]
    if types:
        typed = zip(named, types, strict=True)
        results = [helper.make_tensor_value_info(output, *each) for output, each in typed]
    return helper.make_graph(writer.nodes, name, declared, results)


def _declared(writer: Any, prefix: str, values: Sequence[Any]) -> list[tuple[str, int, Any]]:
    """Return names, element types and shapes for the inputs of a body."""
    return [
        (f"{prefix}_{place}", writer.element_type(value.dtype), writer.extents(value))
        for place, value in enumerate(values)
    ]


@export_rule("scan")
def scan(writer: Any, node: Node, *operands: str) -> list[str]:
    """`Scan` over the rows; a `Loop` where there are none."""
    body, signature = node.attribute("body"), loop_signature(node)
    given, leaves = signature.split(operands), signature.split(body.inputs)
    inner, name = writer.inner(), writer.fresh("scan")
    inputs = _declared(writer, name, (*leaves.carries, *leaves.rows))
    names = [each[0] for each in inputs]
    carries, count = signature.num_carries, len(node.results)
    results = inner.inline(body, [*names[:carries], *given.consts, *names[carries:]])
    if not given.rows:
        return _counted(writer, node, inner, name, inputs, results, given.carries)
    backward = int(node.attribute("reverse"))
    made: list[str] = writer.emit_all(
        "Scan", [*given.carries, *given.rows], count,
        body=_body(inner, name, inputs, results), num_scan_inputs=len(given.rows),
        scan_input_directions=[backward] * len(given.rows),
        **({"scan_output_directions": [backward] * (count - carries)} if count > carries else {}),
    )  # fmt: skip
    return made


def _counted(
    writer: Any, node: Node, inner: Any, name: str, inputs: Any, results: list[str],
    operands: Sequence[str],
) -> list[str]:  # fmt: skip
    """Return the results of a `Loop` of as many trips as the scan has steps."""
    trips = writer.array(np.asarray(node.attribute("length"), np.int64))
    header, goes_on = _loop_header(name)
    outputs = node.attribute("body").outputs
    types = [(writer.element_type(v.dtype), writer.extents(v)) for v in outputs]
    made: list[str] = writer.emit_all(
        "Loop", [trips, "", *operands], len(node.results),
        body=_body(inner, name, [*header, *inputs], [goes_on, *results],
                   [(TensorProto.BOOL, []), *types]),
    )  # fmt: skip
    count = len(operands)
    if node.attribute("reverse"):
        made[count:] = [writer.reversed(rows, 0) for rows in made[count:]]
    return made


def _loop_header(name: str) -> tuple[list[tuple[str, int, Any]], str]:
    """Return the two inputs that the body of a `Loop` begins with, and the second's name."""
    goes_on = f"{name}_goes_on"
    return [(f"{name}_trip", TensorProto.INT64, []), (goes_on, TensorProto.BOOL, [])], goes_on


@export_rule("while_loop")
def while_loop(writer: Any, node: Node, *operands: str) -> list[str]:
    """A `Loop` that asks the condition before the first trip and after each; it counts them."""
    given = loop_signature(node).split(operands)
    carries, shared, split = given.carries, given.consts, len(given.carries)
    body, condition = node.attribute("body"), node.attribute("condition")
    inner, name = writer.inner(), writer.fresh("while")
    header, _ = _loop_header(name)
    trips: tuple[str, int, Any] = (f"{name}_trips", TensorProto.INT64, [])
    inputs = [*_declared(writer, name, body.inputs[:split]), trips]
    results = inner.inline(body, [*(each[0] for each in inputs[:split]), *shared])
    one = writer.array(np.asarray(1, np.int64))
    counted = inner.emit("Add", [trips[0], one])
    goes_on = _holds(inner, condition, [*results, *shared])
    most = node.attribute("max_trips")
    limit = writer.array(np.asarray(_LARGEST if most is None else most, np.int64))
    zero = writer.array(np.asarray(0, np.int64))
    made: list[str] = writer.emit_all(
        "Loop", [limit, _holds(writer, condition, operands), *carries, zero], split + 1,
        body=_body(inner, name, [*header, *inputs], [goes_on, *results, counted]),
    )  # fmt: skip
    return made


def _holds(writer: Any, condition: Graph, given: Sequence[str]) -> str:
    """Return a bool: whether all elements of the condition's output are nonzero."""
    (output,) = writer.inline(condition, given)
    if condition.outputs[0].shape == () and condition.outputs[0].dtype.name == "BOOL":
        return str(output)
    truth = writer.emit("Cast", [output], to=TensorProto.BOOL)
    numbers = writer.emit("Cast", [truth], to=TensorProto.INT32)
    return str(
        writer.emit("Cast", [writer.emit("ReduceMin", [numbers], keepdims=0)], to=TensorProto.BOOL)
    )


@export_rule("switch")
def switch(writer: Any, node: Node, selector: str, *operands: str) -> list[str]:
    """An `If` for each branch but the last."""
    branches = node.attribute("branches")
    number = writer.emit("Reshape", [selector, writer.integers(())])
    number = writer.emit("Cast", [number], to=TensorProto.INT64)
    return _chosen(writer, number, 0, branches, operands)


def _chosen(
    writer: Any, number: str, first: int, branches: Sequence[Graph], operands: Sequence[str]
) -> list[str]:
    """Return the outputs of branch `number`, one from `first` on."""
    if first == len(branches) - 1:
        found: list[str] = writer.inline(branches[first], operands)
        return found
    bound = writer.array(np.asarray(first, np.int64))
    this, rest = writer.inner(), writer.inner()
    name = writer.fresh("if")
    taken = this.inline(branches[first], operands)
    others = _chosen(rest, number, first + 1, branches, operands)
    made: list[str] = writer.emit_all(
        "If", [writer.emit("LessOrEqual", [number, bound])], len(taken),
        then_branch=_body(this, f"{name}_then", [], taken),
        else_branch=_body(rest, f"{name}_else", [], others),
    )  # fmt: skip
    return made


@export_rule("barrier")
def barrier(writer: Any, node: Node, x: str, *dependencies: str) -> str:
    """ONNX does not specify when a node is computed."""
    return str(writer.emit("Identity", [x]))
