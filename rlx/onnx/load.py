"""`load`: a model as a graph of ours."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from rlx.errors import Source, UnsupportedError
from rlx.ir.graph import Graph
from rlx.limits import LoadLimits, loading
from rlx.onnx.importer import Importer
from rlx.onnx.inputs import Dims, check_dims, declared_inputs, input_type
from rlx.onnx.model import Model, names_of, read_model
from rlx.onnx.scope import Scope
from rlx.onnx.symbolic import computed
from rlx.onnx.values import Deferred, is_known, is_supported, is_symbolic
from rlx.tracing.trace import Trace, TracedArray, as_value, opened
from rlx.tracing.tracer import Tracer
from rlx.tracing.widths import wide_types


def load(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    dims: Dims | None = None,
    limits: LoadLimits | None = None,
) -> Graph:
    """Return the model in a file, or a `ModelProto`, as a graph.

    `dims` gives extents to the dimensions that the model leaves open, by their names, or shapes
    to inputs, by theirs: numbers, or `rlx.Dim` with a bound. Initializers are the graph's params;
    `graph.param_values` has their arrays, with which it is compiled. The graph has the name of the
    file, as far as that is an identifier. A file that needs more than
    `limits` to be loaded raises `LimitError`.
    """
    model = read_model(source, limits)
    check_dims(declared_inputs(model), dims or {}, model.title)
    with loading(limits, model.title):
        return _graph_of(model, dims)


def _graph_of(model: Model, dims: Dims | None) -> Graph:
    types = {
        value.name: input_type(value, dims or {}, model.title) for value in declared_inputs(model)
    }
    with wide_types(), opened(_identifier(model)) as trace:
        importer = Importer(model, trace)
        scope = Scope({}, model.opsets)
        importer.declare_initializers(model.graph, scope)
        for number, (name, type) in enumerate(types.items()):
            with trace.graph.attributed(Source(model.title, number, name)):
                scope.values[name] = declare(trace, name, type)
        importer.run(model.graph.node, scope)
        names = names_of(model.graph.output)
        results = [importer.read(name, scope) for name in names]
        outputs = [_output(*pair) for pair in zip(names, results, strict=True)]
        trace.graph.set_outputs([as_value(output) for output in outputs])
    graph = trace.graph
    graph.param_values.update(importer.params)
    graph.output_names = tuple(names)
    graph.output_labels = tuple(r.labels if isinstance(r, Deferred) else () for r in results)
    return graph


def declare(trace: Trace, name: str, type: Any) -> Tracer:
    """Declare an input."""
    return Tracer(trace, trace.graph.input(name, type.shape, type.dtype))


def _identifier(model: Model) -> str:
    """Return what the graph is called: as the file, for exporters call all graphs the same."""
    name = model.graph.name
    if model.folder is not None:
        name = re.sub(r"\W", "_", Path(model.title).stem, flags=re.ASCII)
        name = name if name[:1].isalpha() else f"model_{name}"
    return name if name.isidentifier() else "model"


def _output(name: str, value: Any) -> Any:
    """Return an output as an array; instead of strings and maps, the numbers they are made of."""
    if isinstance(value, Deferred) and value.labels:
        return value.array
    if is_symbolic(value):
        return computed(value)
    if isinstance(value, TracedArray) or (
        not isinstance(value, list)
        and is_known(value)
        and value is not None
        and is_supported(value)
    ):
        return value
    what = "a sequence" if isinstance(value, list) else "no tensor that rlx has a dtype for"
    raise UnsupportedError(
        f"output {name!r} is {what}", remedy="run the model in rlx.onnx.InferenceSession"
    )
