"""ONNX models: nodes of the standard's operators in graphs, functions, branches and loops.

Values flow from node to node where their types happen to fit. Most models then have something
changed: known numbers, attributes, names, structure, or bytes.
"""

from __future__ import annotations

import copy
import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

import rlx.onnx
from rlx.limits import LoadLimits
from rlx.onnx import InferenceSession
from tests.fuzz.files.case import (
    HOSTILE_FLOATS,
    HOSTILE_INTEGERS,
    HOSTILE_TEXTS,
    NAMES,
    Array,
    Kind,
    Loaded,
    Rng,
    chosen,
)
from tests.fuzz.mutations import damaged_bytes
from tests.onnx.generated import GENERATORS, NodeCase, random_case
from tests.onnx.models import flattening, indexing, perceptron, recurrent
from tests.onnx.mutated import open_extents
from tests.onnx.restructured import restructured

_LIMITS = LoadLimits(nodes=20_000, elements=1 << 22, bytes=1 << 28, seconds=20.0)
_LARGEST_OFFICIAL = 1 << 14
_DOMAINS = {"": 21, "ai.onnx.ml": 3, "made.up": 1}


def drawn(rng: Rng) -> bytes:
    """Return the bytes of a model."""
    return _changed(chosen(rng, (8, _composed), (1, _written))(rng), rng)


def drawn_official(rng: Rng) -> bytes:
    """Return a changed model of the standard's own tests, which have every operator."""
    made = onnx.ModelProto.FromString(rng.choice(_official_models()))
    return _changed(made, rng)


def _changed(made: Any, rng: Rng) -> bytes:
    for _ in range(chosen(rng, (3, 0), (3, 1), (2, 2), (1, 4))):
        chosen(rng, (3, _with_numbers), (2, _with_attribute), (1, _with_name), (1, _with_shape),
               (1, _with_external))(made, rng)  # fmt: skip
    if rng.random() < 0.25:
        made = onnx.ModelProto.FromString(restructured(made, rng))
    content = made.SerializeToString()
    return damaged_bytes(content, rng) if rng.random() < 0.08 else bytes(content)


def loaded(path: Path, rng: Rng) -> Loaded:
    """Load a model as a graph; some are run in a session first, which takes more models."""
    if rng.random() < 0.2:
        _run_in_session(path)
    graph = rlx.onnx.load(path, dims=open_extents(path, _LIMITS), limits=_LIMITS)
    return Loaded(graph, dict(graph.param_values))


def _run_in_session(path: Path) -> None:
    """Run a model on ones, unless the inputs that it declares are large or no tensors."""
    session = InferenceSession(path, backend="reference", limits=_LIMITS)
    given: dict[str, Any] = {}
    for value in session.get_inputs():
        declared = value.type.removeprefix("tensor(").removesuffix(")")
        if value.shape is None or declared not in _BY_NAME:
            return
        shape = [e if isinstance(e, int) else 2 for e in value.shape]
        if np.prod([max(e, 1) for e in shape], dtype=float) > _LARGEST_INPUT:
            return
        given[value.name] = np.full(shape, "a" if declared == "string" else 1, _BY_NAME[declared])
    session.run(None, given)


_BY_NAME = {"float": "f4", "double": "f8", "float16": "f2", "int64": "i8", "int32": "i4",
            "uint8": "u1", "int8": "i1", "bool": "?", "string": object}  # fmt: skip
_LARGEST_INPUT = 1 << 16


def _written(rng: Rng) -> Any:
    return rng.choice((perceptron, flattening, recurrent, indexing))()


@functools.cache
def _official_models() -> list[bytes]:
    """Return the models of the standard's tests, which take seconds to be made."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    content = [bytes(case.model.SerializeToString()) for case in cases if case.model is not None]
    return [each for each in content if len(each) < _LARGEST_OFFICIAL]


def _composed(rng: Rng) -> Any:
    """Return a model of some nodes, of which some are in functions, branches and loops."""
    builder = _Builder(rng)
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        builder.add_case()
    return builder.model()


class _Builder:
    """Collects nodes, inputs and initializers under names of their own."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.numpy = np.random.default_rng(rng.randrange(1 << 30))
        self.nodes: list[Any] = []
        self.inputs: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}
        self.functions: list[Any] = []
        self.made: list[str] = []
        self.opset = 21
        self.symbolic = rng.random() < 0.15

    def add_case(self) -> None:
        """Add a random node, as it is or inside of something."""
        name = self.rng.choice(tuple(GENERATORS))
        case = random_case(name, self.numpy)
        self.opset = min(self.opset, case.opset)
        node = self._node(name, case)
        wrap = chosen(self.rng, (6, self._plain), (1, self._function), (1, self._branch),
                      (1, self._loop), (1, self._scan))  # fmt: skip
        wrap(node)

    def _node(self, name: str, case: NodeCase) -> Any:
        number = len(self.nodes) + len(self.functions)
        names = []
        for place, array in enumerate(map(np.asarray, case.inputs)):
            if self.made and self.rng.random() < 0.3:
                names.append(self.rng.choice(self.made))
            else:
                names.append(f"x{number}_{place}")
                (self.weights if self.rng.random() < 0.25 else self.inputs)[names[-1]] = array
        for place, value in enumerate(case.known):
            names.append("" if value is None else f"k{number}_{place}")
            if value is not None:
                self.weights[names[-1]] = np.asarray(value)
        outputs = [f"y{number}_{place}" for place in range(case.outputs)]
        return helper.make_node(name, names, outputs, domain=case.domain, **case.attributes)

    def _plain(self, node: Any) -> None:
        self._append(node)

    def _append(self, node: Any) -> None:
        self.nodes.append(node)
        self.made += [name for name in node.output if name]

    def _function(self, node: Any) -> None:
        """Call the node through functions that call each other."""
        names = [name for name in node.input if name]
        opsets = [helper.make_opsetid(domain, v) for domain, v in _DOMAINS.items()]
        opsets[0].version = self.opset
        inner = node
        for _ in range(self.rng.choice((1, 1, 3))):
            name = f"F{len(self.functions)}"
            self.functions.append(
                helper.make_function("made.up", name, names, list(node.output), [inner], opsets)
            )
            inner = helper.make_node(name, names, list(node.output), domain="made.up")
        self._append(inner)

    def _body(self, node: Any, outer: str) -> Any:
        """Return the node as a graph of its own that reads values around it."""
        inner = copy.deepcopy(node)
        for place, name in enumerate(node.output):
            inner.output[place] = f"{outer}_{name}"
        results = [helper.make_empty_tensor_value_info(name) for name in inner.output]
        return helper.make_graph([inner], outer, [], results)

    def _branch(self, node: Any) -> None:
        name = f"c{len(self.nodes)}"
        where = self.weights if self.rng.random() < 0.3 else self.inputs
        where[name] = np.asarray(self.rng.random() < 0.5)
        bodies = {f"{which}_branch": self._body(node, which) for which in ("then", "else")}
        self._append(helper.make_node("If", [name], list(node.output), **bodies))

    def _loop(self, node: Any) -> None:
        """Collect what the node gives in every trip."""
        name = f"t{len(self.nodes)}"
        self.weights[name] = np.asarray(self.rng.choice((0, 1, 3, 200)), np.int64)
        body = self._body(node, "trip")
        body.input.extend([
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        ])  # fmt: skip
        results = list(body.output)
        del body.output[:]
        body.output.append(helper.make_tensor_value_info("on", TensorProto.BOOL, []))
        body.output.extend(results)
        self._append(helper.make_node("Loop", [name, ""], list(node.output), body=body))

    def _scan(self, node: Any) -> None:
        """Apply the node to the rows of what it reads first."""
        if not node.input or node.input[0] not in self.inputs:
            return self._plain(node)
        first = node.input[0]
        stack = np.stack([self.inputs[first]] * self.rng.choice((1, 2)))
        body = self._body(node, "row")
        kind = helper.np_dtype_to_tensor_dtype(self.inputs[first].dtype)
        body.input.append(helper.make_tensor_value_info(first, kind, self.inputs[first].shape))
        self.inputs[f"{first}_rows"] = stack
        self.inputs.pop(first)
        if any(first in other.input for other in self.nodes):
            self.inputs[first] = stack[0]
        return self._append(
            helper.make_node("Scan", [f"{first}_rows"], list(node.output), body=body,
                             num_scan_inputs=1)
        )  # fmt: skip

    def model(self) -> Any:
        """Return what has been collected, with some results as outputs."""
        outputs = [name for name in self.made if self.rng.random() < 0.7] or self.made[-1:]
        declared = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), self._shape(array)
            )
            for name, array in self.inputs.items()
        ]
        graph = helper.make_graph(
            self.nodes, "drawn", declared,
            [helper.make_empty_tensor_value_info(n) for n in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )  # fmt: skip
        domains = {**_DOMAINS, "": self.opset}
        opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        return helper.make_model(
            graph, opset_imports=opsets, functions=self.functions, ir_version=9
        )

    def _shape(self, array: Array) -> list[Any]:
        shape: list[Any] = list(array.shape)
        if self.symbolic and shape and shape[0] == 2:
            shape[0] = "n"
        return shape


# Changes


def _with_numbers(made: Any, rng: Rng) -> None:
    """Replace some numbers of an initializer."""
    if not made.graph.initializer:
        return
    tensor = rng.choice(made.graph.initializer)
    if tensor.data_location == TensorProto.EXTERNAL:
        return
    array = numpy_helper.to_array(tensor).copy()
    if array.dtype.kind not in "iuf" or not array.size or array.size > 64:
        return
    flat = array.reshape(-1)
    for _ in range(rng.choice((1, 1, 2))):
        with np.errstate(all="ignore"):
            number = rng.choice(HOSTILE_INTEGERS if array.dtype.kind in "iu" else HOSTILE_FLOATS)
            flat[rng.randrange(flat.size)] = np.asarray(number).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _nodes(made: Any) -> list[Any]:
    inner = [node for function in made.functions for node in function.node]
    return [*made.graph.node, *inner]


def _with_attribute(made: Any, rng: Rng) -> None:
    """Replace, add or remove a number or text of an attribute."""
    attributes = [a for node in _nodes(made) for a in node.attribute]
    if not attributes:
        return
    attribute = rng.choice(attributes)
    if attribute.ints:
        kind = rng.randrange(3)
        if kind == 0:
            attribute.ints.append(rng.choice(HOSTILE_INTEGERS))
        elif kind == 1:
            del attribute.ints[rng.randrange(len(attribute.ints))]
        else:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(HOSTILE_INTEGERS)
    elif attribute.floats:
        attribute.floats[rng.randrange(len(attribute.floats))] = rng.choice(HOSTILE_FLOATS)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = rng.choice(HOSTILE_INTEGERS)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = rng.choice(HOSTILE_FLOATS)
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = rng.choice(HOSTILE_TEXTS).encode()


def _with_name(made: Any, rng: Rng) -> None:
    """Give a value, everywhere, or a node another name."""
    new = rng.choice(NAMES)
    if rng.random() < 0.3:
        rng.choice(_nodes(made)).name = new
        return
    values = [value.name for value in (*made.graph.input, *made.graph.output)]
    values += [tensor.name for tensor in made.graph.initializer]
    old = rng.choice(values)
    for value in (*made.graph.input, *made.graph.output, *made.graph.initializer):
        if value.name == old:
            value.name = new
    for node in made.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new


def _with_shape(made: Any, rng: Rng) -> None:
    if not made.graph.input:
        return
    shape = rng.choice(made.graph.input).type.tensor_type.shape
    if not shape.dim or rng.random() < 0.2:
        shape.dim.add().dim_value = rng.choice(HOSTILE_INTEGERS)
    elif rng.random() < 0.5:
        rng.choice(shape.dim).dim_value = rng.choice(HOSTILE_INTEGERS)
    else:
        rng.choice(shape.dim).dim_param = rng.choice((*HOSTILE_TEXTS, "batch", "n"))


def _with_external(made: Any, rng: Rng) -> None:
    """Move a weight into a file that may be anything."""
    if not made.graph.initializer:
        return
    tensor = rng.choice(made.graph.initializer)
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    for key, value in (
        ("location", rng.choice((*HOSTILE_TEXTS, "data", "data", "data", "pipe", "."))),
        ("offset", rng.choice(("0", "0", "4", "-1", str(2**63), "x"))),
        ("length", rng.choice((str(size), str(size), "0", "-1", str(2**63)))),
    ):
        if key == "location" or rng.random() < 0.5:
            tensor.external_data.add(key=key, value=value)


ONNX = Kind("onnx", ".onnx", drawn, loaded)
OFFICIAL = Kind("official onnx", ".onnx", drawn_official, loaded)
