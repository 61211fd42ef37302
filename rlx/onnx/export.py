"""`export`: a graph of ours as an ONNX model."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rlx.errors import FormatError, InputError, NoRuleError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import Dim, Extent
from rlx.onnx import export_arithmetic as export_arithmetic  # registers rules, as the next do
from rlx.onnx import export_control as export_control
from rlx.onnx import export_indexing as export_indexing
from rlx.onnx.export_rules import RULES
from rlx.onnx.export_types import refused, wider
from rlx.passes.rewrites.dead_code import dead_code
from rlx.passes.rewrites.decompose import decompose
from rlx.runtime.aot_source import Traceable

OPSET = 21

Array = np.ndarray[Any, Any]


class Writer:
    """The nodes and initializers of a model in the making.

    The writers of bodies share initializers and numbers with that of the model: bodies see the
    names around them, so that each name is given once.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names: dict[Value, str] = {}
        self._numbers = itertools.count()

    def inner(self) -> Writer:
        """Return a writer for a body."""
        made = Writer()
        made.initializers, made._numbers = self.initializers, self._numbers
        return made

    def fresh(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers)}"

    def inline(self, graph: Graph, given: Sequence[str]) -> list[str]:
        """Append the nodes of a body over values of these names; return those of its outputs."""
        self.names.update(zip(graph.inputs, given, strict=True))
        for node in graph.nodes:
            if node.op.name != "input":
                write_node(self, node)
        return [self.names[output] for output in graph.outputs]

    def name(self, value: Value) -> str:
        return self.names[value]

    def array(self, array: Array, name: str | None = None) -> str:
        """Add an initializer; return its name."""
        name = name or f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def integers(self, values: Iterable[Extent]) -> str:
        """Add a vector of i64: a shape, axes or bounds."""
        listed = list(values)
        for value in listed:
            if isinstance(value, Dim):
                raise NoRuleError(
                    f"the symbolic extent {value} in a shape has no form in ONNX here",
                    remedy="export the graph at known extents",
                )
        return self.array(np.asarray(listed, np.int64))

    def reversed(self, x: str, *axes: int) -> str:
        """Return `x` with the order along `axes` turned around."""
        count, lowest = len(axes), np.iinfo(np.int64).min
        bounds = ([-1] * count, [lowest] * count, axes, [-1] * count)
        return self.emit("Slice", [x, *map(self.integers, bounds)])

    @staticmethod
    def element_type(dtype: DType) -> int:
        return int(helper.np_dtype_to_tensor_dtype(dtype.numpy))

    @staticmethod
    def extents(value: Value) -> list[int | str]:
        return [e if isinstance(e, int) else str(e) for e in value.shape]

    def emit(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node with one output; return that output's name."""
        return self.emit_all(op, inputs, 1, **attributes)[0]

    def emit_all(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        number = next(self._numbers)
        outputs = [f"{op}_{number}_{i}" if count > 1 else f"{op}_{number}" for i in range(count)]
        self.nodes.append(
            helper.make_node(op, inputs, outputs, name=f"{op}_{number}", **attributes)
        )
        return outputs


def export(
    graph_or_function: Graph | Traceable,
    path: str | os.PathLike[str] | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    example_inputs: Sequence[Any] | None = None,
    output_names: Sequence[str] = (),
) -> Any:
    """Return a graph, or a function under `rlx.jit` at `example_inputs`, as a `ModelProto`.

    Params become initializers, with the values in `params` or those that came with the graph;
    without a value they are inputs. Formulas are written out where ONNX has no operator for
    them; an op that it cannot express is a `NoRuleError`. The model passes `onnx.checker`, and
    is written to `path` if that is given.
    """
    graph = _graph_of(graph_or_function, example_inputs)
    values = {**graph.param_values, **(params or {})}
    names = list(output_names or graph.output_names or _numbered(len(graph.outputs)))
    model = _model(dead_code(decompose(RULES.keys())(graph)), values, names)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise FormatError(
            f"the exported model of {graph.name!r} does not pass the checker: {error}",
            remedy="please report this with the graph",
        ) from error
    if path is not None:
        onnx.save(model, path)
    return model


def _graph_of(given: Graph | Traceable, example_inputs: Sequence[Any] | None) -> Graph:
    if isinstance(given, Graph):
        return given
    if not isinstance(given, Traceable) or example_inputs is None:
        raise InputError(
            f"cannot export a {type(given).__name__} without the shapes of its inputs",
            remedy="pass a Graph, or a function under rlx.jit with example_inputs=",
        )
    return given.named_graph(*example_inputs)[0]


def _numbered(count: int) -> list[str]:
    return ["y"] if count == 1 else [f"y_{i}" for i in range(count)]


def _model(graph: Graph, values: Mapping[str, Any], names: Sequence[str]) -> Any:
    writer, inputs = Writer(), []
    for node in graph.nodes:
        if node.op.name in ("input", "param"):
            name = str(node.name)
            writer.names[node.result] = name
            if name in values:
                writer.array(np.asarray(values[name]), name)
            else:
                inputs.append(_declared(name, node.result))
        else:
            write_node(writer, node)
    outputs = []
    for value, name in zip(graph.outputs, names, strict=True):
        given = writer.name(value)
        writer.nodes.append(helper.make_node("Identity", [given], [name], name=f"output_{name}"))
        outputs.append(_declared(name, value))
    made = helper.make_graph(
        writer.nodes, graph.name, inputs, outputs, initializer=writer.initializers
    )
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(made, opset_imports=[opset], producer_name="rlx", ir_version=10)


def write_node(writer: Writer, node: Node) -> None:
    """Append what a node is in ONNX."""
    rule = RULES.get(node.op.name)
    if rule is None:
        raise NoRuleError(
            f"{node.title} has no form in ONNX here",
            source=node.source,
            remedy=f"write it with other ops; those with one are: {', '.join(sorted(RULES))}",
        )
    operands = {writer.name(operand): operand.dtype for operand in node.operands}
    names = [writer.name(operand) for operand in node.operands]
    begin = len(writer.nodes), len(writer.initializers)
    results = rule(writer, node, *names)
    found = refused(writer.nodes[begin[0] :], operands, OPSET)
    if found is not None:
        del writer.nodes[begin[0] :], writer.initializers[begin[1] :]
        results = _in_wider_types(writer, node, found, operands)
    given = [results] if isinstance(results, str) else results
    writer.names.update(zip(node.results, given, strict=True))


def _in_wider_types(
    writer: Writer, node: Node, found: tuple[str, str], operands: Mapping[str, DType]
) -> list[str]:
    """Append a node in a dtype that its operator takes, with casts around it."""
    operator, name = found
    wide = wider(node, operands[name])
    if wide is None:
        raise NoRuleError(
            f"{node.title}: {operator} of ONNX takes no {operands[name].name.lower()}",
            source=node.source,
            remedy="cast to a dtype that the operator takes before it",
        )
    cast = {
        each: writer.emit("Cast", [each], to=Writer.element_type(wide))
        for each, dtype in operands.items()
        if dtype is operands[name]
    }
    names = [writer.name(operand) for operand in node.operands]
    results = RULES[node.op.name](writer, node, *(cast.get(each, each) for each in names))
    given = [results] if isinstance(results, str) else results
    return [
        writer.emit("Cast", [each], to=Writer.element_type(result.dtype))
        for each, result in zip(given, node.results, strict=True)
    ]


def _declared(name: str, value: Value) -> Any:
    kind, extents = Writer.element_type(value.dtype), Writer.extents(value)
    return helper.make_tensor_value_info(name, kind, extents)
