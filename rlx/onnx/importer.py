"""From the nodes of a model to the ops of the open trace.

Every node is given to the translator of its operator. What depends on known arrays alone, the
arithmetic of shapes above all, is evaluated by the reference interpreter at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx

from rlx.dataclass import dataclass
from rlx.errors import (
    FormatError,
    InternalError,
    LimitError,
    RlxError,
    Source,
    UnsupportedError,
)
from rlx.limits import current_budget, is_too_large
from rlx.onnx import functions, host, leaves, symbolic, text_labels
from rlx.onnx import operators as operators  # registers them
from rlx.onnx.errors import ForeignDTypeError, relocated, unknown_operator
from rlx.onnx.folding import fold
from rlx.onnx.leaves import LeafValues
from rlx.onnx.model import Array, Model, dense
from rlx.onnx.node_inputs import as_input, checked_attributes, computed, needs_all, static
from rlx.onnx.registry import Operator, find_operator
from rlx.onnx.scope import Scope, extents_read
from rlx.onnx.values import (
    Deferred,
    Weight,
    folds,
    is_known,
    is_supported,
    is_symbolic,
    without_subnormals,
)
from rlx.onnx.versions import MOVED
from rlx.onnx.violations import misread, violation
from rlx.tracing.apply import graph as open_graph
from rlx.tracing.trace import Trace
from rlx.tracing.tracer import Tracer


@dataclass(frozen=True)
class Node:
    """The node that a translator works on, for what its inputs and attributes do not say."""

    proto: Any
    opset: int
    importer: Importer
    scope: Scope

    @property
    def outputs(self) -> int:
        return len(self.proto.output)

    def has_output(self, place: int) -> bool:
        """True if output number `place` has a name."""
        return place < len(self.proto.output) and bool(self.proto.output[place])


class Body:
    """A sub-graph of a node: a function of its inputs that sees the values around it."""

    def __init__(self, importer: Importer, proto: Any, scope: Scope) -> None:
        self.importer = importer
        self.proto = proto
        self.scope = scope

    @property
    def inputs(self) -> list[str]:
        return [value.name for value in self.proto.input]

    @property
    def outputs(self) -> list[str]:
        return [value.name for value in self.proto.output]

    def __call__(self, *given: Any) -> list[Any]:
        """Append the nodes of the sub-graph to the open trace; return its outputs."""
        if len(given) != len(self.inputs):
            raise FormatError(
                f"sub-graph {self.proto.name!r} takes {len(self.inputs)} inputs and is given "
                f"{len(given)}",
                remedy="the model is malformed: export it again",
            )
        scope = self.scope.inner()
        with current_budget().nested(f"sub-graph {self.proto.name!r}"):
            self.importer.declare_initializers(self.proto, scope)
            scope.values.update(zip(self.inputs, given, strict=True))
            self.importer.run(self.proto.node, scope)
            return [self.importer.read(name, scope) for name in self.outputs]


class Importer:
    """Appends nodes of a model to the open trace. `root` is the trace that has the params."""

    def __init__(self, model: Model, root: Trace) -> None:
        self.model = model
        self.root = root
        self.params: dict[str, Array] = {}
        self.by_numpy: set[str] = set()
        """Names of outputs that NumPy computed, of known inputs."""
        self._weights: dict[str, list[Weight]] = {}
        self._tracers: dict[Weight, Tracer] = {}
        self._normal: dict[Weight, Weight] = {}
        """Weights of products, without their subnormal numbers."""

    # Values

    def declare_initializers(self, graph: Any, scope: Scope) -> None:
        for tensor in graph.initializer:
            scope.values[tensor.name] = self.weight(tensor.name, self.model.array(tensor))
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            scope.values[name] = self.weight(name, dense(sparse, self.model))

    def weight(self, name: str, array: Array) -> Any:
        """Return an array of the file: known if it is small, else a weight.

        Sub-graphs and functions are run as often as they are called; their weights are one each.
        """
        if folds(array):
            return np.asarray(array)
        known = self._weights.setdefault(name, [])
        for weight in known:
            if weight.array.dtype == array.dtype and np.array_equal(weight.array, array):
                return weight
        known.append(Weight(name, array))
        return known[-1]

    def read(self, name: str, scope: Scope) -> Any:
        """Return the value called `name`; a weight becomes a param, leaf values an array."""
        value = self.look_up(name, scope)
        if isinstance(value, LeafValues):
            return value.array()
        return self.param(value) if isinstance(value, Weight) else value

    def look_up(self, name: str, scope: Scope) -> Any:
        if not name:
            return None
        if name not in scope.values:
            raise FormatError(
                f"value {name!r} is read before any node makes it",
                remedy="the graph is cyclic, out of order or incomplete: export it again",
            )
        return scope.values[name]

    def param(self, weight: Weight) -> Tracer:
        """Return the param that a weight is."""
        if weight not in self._tracers:
            name = _unused(weight.name, self.params)
            value = self.root.graph.param(name, weight.array.shape, weight.array.dtype)
            self.params[name] = weight.array
            self._tracers[weight] = Tracer(self.root, value)
        return self._tracers[weight]

    def factor(self, weight: Weight) -> Weight:
        """Return a weight of a sum of products: subnormal numbers are zeros there.

        What they add is below any rounding of such a sum, and a product with one takes a hundred
        times as long; networks trained with decay hold thousands.
        """
        if weight not in self._normal:
            array = without_subnormals(weight.array)
            same = array is weight.array
            self._normal[weight] = weight if same else Weight(weight.name, array)
        return self._normal[weight]

    def numbers_of(self, value: Any) -> Array | None:
        """Return the numbers of a value that is a param of the graph."""
        weights = (w for w, tracer in self._tracers.items() if tracer is value)
        return next((weight.array for weight in weights), None)

    # Nodes

    def run(self, nodes: Sequence[Any], scope: Scope, first: int = 0) -> None:
        """Append `nodes` from number `first` on; what they make is added to the scope."""
        for number, proto in enumerate(nodes[first:], start=first):
            with self.at(proto, number, scope):
                self.apply(proto, scope)

    @contextmanager
    def at(self, proto: Any, number: int, scope: Scope) -> Iterator[None]:
        """Put nodes and errors at a node of the model, in place of a source line."""
        name = proto.name or (proto.output[0] if proto.output else "")
        source = Source(self.model.title, number, name or proto.op_type)
        try:
            with open_graph().attributed(source):
                yield
        except RlxError as error:
            where = Source(self.model.title, number, f"{name} ({proto.op_type})")
            is_ours = error.source is not None and error.source.file == self.model.title
            raise error if is_ours else relocated(error, proto.op_type, where) from error
        except (OSError, RecursionError):
            raise
        except MemoryError as error:
            raise LimitError(
                f"{proto.op_type} takes more memory than there is: {error}",
                limit="bytes",
                source=source,
                remedy="check the model's shapes, or load it on a machine with more memory",
            ) from error
        except Exception as error:  # the file is at fault, or else rlx
            resolved = self._with_attributes(proto, scope)
            where = Source(self.model.title, number, f"{name} ({proto.op_type})")
            extents = extents_read(resolved, scope)
            if extents:
                raise UnsupportedError(
                    f"{proto.op_type} is not known for extents that runs decide: {extents}",
                    source=where,
                    remedy="give numbers for them in dims=",
                ) from error
            if is_too_large(error):
                raise LimitError(
                    f"{proto.op_type} takes an array larger than any can be: {error}",
                    limit="elements",
                    source=where,
                    remedy="check the model's shapes: export it again",
                ) from error
            wrong = violation(resolved, scope.opsets, scope.values) or misread(resolved, error)
            if wrong is None:
                raise InternalError(
                    f"onnx: importing {proto.op_type}: {type(error).__name__}: {error}",
                    source=where,
                ) from error
            raise FormatError(
                f"{proto.op_type}: {wrong}",
                source=where,
                remedy="the model is malformed: export it again",
            ) from error

    def apply(self, proto: Any, scope: Scope) -> None:
        """Append one node."""
        current_budget().charge_nodes()
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        version = scope.opsets.get(domain, 1)
        results = self._results(proto, domain, version, scope)
        given = results if isinstance(results, tuple) else (results,)
        names = list(proto.output)
        while names and not names[-1]:
            names.pop()
        if len(names) > len(given):
            raise FormatError(
                f"{proto.op_type} has {len(names)} outputs; it gives {len(given)}",
                remedy="the model is malformed: export it again",
            )
        scope.values.update({n: v for n, v in zip(names, given, strict=False) if n})

    def _results(self, proto: Any, domain: str, version: int, scope: Scope) -> Any:
        if (domain, proto.op_type) in self.model.functions:
            function = self.model.functions[domain, proto.op_type]
            return self._call_function(proto, function, scope)
        found = find_operator(domain, proto.op_type, version)
        if found is None:
            inputs = [self.read(name, scope) for name in proto.input]
            proto = self._with_attributes(proto, scope)
            body = functions.body_of(proto, domain, version, inputs)
            if body is None:
                raise unknown_operator(proto, domain, version)
            return self._call_function(proto, body, scope)
        node = Node(proto, version, self, scope)
        attributes = self.attributes_of(proto, scope)
        inputs = self._inputs(proto, found, version, attributes, scope)
        checked = checked_attributes(found, attributes)
        if found.takes_node:
            checked["node"] = node
        return self._translate(found, inputs, checked, proto)

    def _translate(
        self, found: Operator, inputs: list[Any], attributes: dict[str, Any], proto: Any
    ) -> Any:
        holds_bodies = any(isinstance(value, Body) for value in attributes.values())
        if any(isinstance(value, LeafValues) for value in inputs):
            result = leaves.applied(found, inputs, attributes)
            if result is not None:
                return result
            inputs = [v.array() if isinstance(v, LeafValues) else v for v in inputs]
        if found.on_host:
            if not all(map(is_known, inputs)):
                raise needs_all(proto, inputs)
            self.by_numpy.update(proto.output)
            return found.translate(*inputs, **attributes)
        if any(map(is_symbolic, inputs)):
            result = symbolic.arithmetic(found, inputs, attributes)
            if result is not None:
                return result
            inputs = computed(found, inputs)
        if any(map(is_symbolic, inputs)):  # as shapes
            return found.translate(*inputs, **attributes)
        if holds_bodies or not all(map(is_known, inputs)):
            if found.name == "Identity" and isinstance(inputs[0], Deferred):
                return inputs[0]
            moved = text_labels.applied(found, inputs, attributes)
            if moved is not None:
                return moved
            foreign = next((v for v in inputs if not is_supported(v)), None)
            if foreign is not None and not holds_bodies:
                raise needs_all(proto, inputs)
            return found.translate(*inputs, **attributes)
        try:
            if all(map(is_supported, inputs)):
                return fold(lambda: found.translate(*inputs, **attributes))
        except ForeignDTypeError:
            pass
        self.by_numpy.update(proto.output)
        moved = fold(lambda: text_labels.applied(found, inputs, attributes))
        return host.apply(found, inputs, attributes) if moved is None else moved

    def _inputs(
        self, proto: Any, found: Operator, version: int, attributes: dict[str, Any], scope: Scope
    ) -> list[Any]:
        """Return the inputs; attributes that have become inputs are taken from `attributes`."""
        names = list(proto.input)
        if found.inputs is not None and len(names) > found.inputs:
            raise FormatError(
                f"{found.name} takes {found.inputs} inputs at most and has {len(names)}",
                remedy="the model is malformed: export it again",
            )
        inputs: list[Any] = []
        for place, name in enumerate(names):
            value = self.look_up(name, scope)
            if place in found.static or found.all_static:
                inputs.append(static(value, name))
            elif isinstance(value, Weight):
                inputs.append(self.param(self.factor(value) if found.sums_products else value))
            else:
                inputs.append(value)
        for below, attribute, place in MOVED.get(found.name, ()) if not found.domain else ():
            if version < below and attribute in attributes:
                inputs += [None] * (place + 1 - len(inputs))
                inputs[place] = as_input(attributes.pop(attribute))
        if len(inputs) < found.required:
            raise FormatError(
                f"{found.name} takes {found.required} inputs at least and has {len(inputs)}",
                remedy="the model is malformed: export it again",
            )
        for place, name in enumerate(names[: found.required]):
            if not name and inputs[place] is None:
                raise FormatError(
                    f"{found.name} needs its input number {place + 1}, which is left out",
                    remedy="the model is malformed: export it again",
                )
        return inputs

    def attributes_of(self, proto: Any, scope: Scope) -> dict[str, Any]:
        found = {}
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name not in scope.attributes:
                    continue  # the caller leaves it to the default
                meant = scope.attributes[attribute.ref_attr_name]
            else:
                meant = attribute
            found[attribute.name] = self._attribute(meant, scope)
        return found

    def _attribute(self, attribute: Any, scope: Scope) -> Any:
        kinds = onnx.AttributeProto
        if attribute.type == kinds.GRAPH:
            return Body(self, attribute.g, scope)
        if attribute.type == kinds.TENSOR:
            return self.model.array(attribute.t)
        if attribute.type == kinds.SPARSE_TENSOR:
            return dense(attribute.sparse_tensor, self.model)
        if attribute.type == kinds.TENSORS:
            return tuple(self.model.array(tensor) for tensor in attribute.tensors)
        if attribute.type in (kinds.TYPE_PROTO, kinds.GRAPHS):
            return attribute.tp
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        if isinstance(value, (int, float)):
            return value
        if value is None:
            raise FormatError(
                f"attribute {attribute.name!r} has type {attribute.type}, which has no value",
                remedy="the model is malformed: export it again",
            )
        return tuple(v.decode(errors="replace") if isinstance(v, bytes) else v for v in value)

    def _call_function(self, proto: Any, function: Any, scope: Scope) -> Any:
        """Append the body of a function."""
        given = {attribute.name: attribute for attribute in function.attribute_proto}
        given |= {a.name: a for a in self._with_attributes(proto, scope).attribute}
        opsets = dict(scope.opsets)
        opsets |= {
            "" if o.domain == "ai.onnx" else o.domain: o.version for o in function.opset_import
        }
        inner = Scope(dict.fromkeys(function.input), opsets, given)
        values = [self.look_up(name, scope) for name in proto.input]
        if len(values) > len(function.input):
            raise FormatError(
                f"function {function.name!r} takes {len(function.input)} inputs and is given "
                f"{len(values)}",
                remedy="the model is malformed: export it again",
            )
        inner.values.update(zip(function.input, values, strict=False))
        with current_budget().nested(f"function {function.name!r}"):
            self.run(function.node, inner)
        return tuple(
            self.read(name, inner) if name in inner.values else None for name in function.output
        )

    @staticmethod
    def _with_attributes(proto: Any, scope: Scope) -> Any:
        """Return a node of a function with the attributes that it was called with."""
        if not any(attribute.ref_attr_name for attribute in proto.attribute):
            return proto
        resolved = onnx.NodeProto()
        resolved.CopyFrom(proto)
        del resolved.attribute[:]
        for attribute in proto.attribute:
            meant = scope.attributes.get(attribute.ref_attr_name, attribute)
            if not meant.ref_attr_name:  # else it is left to the default
                resolved.attribute.append(meant)
                resolved.attribute[-1].name = attribute.name
        return resolved


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return unique
