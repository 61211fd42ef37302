"""What an artifact is made of: a graph, the values of its params, examples of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rlx.codegen.aot.layout import Keep
from rlx.codegen.aot.names import distinct_identifiers
from rlx.codegen.aot.state import inputs_as_params
from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.ir.types import TensorType
from rlx.passes.precision.mixed_precision import at_precision
from rlx.passes.precision.policy import Precision
from rlx.runtime.signature import Array, Signature, checked


@runtime_checkable
class Traceable(Protocol):
    """A function that can be traced into a graph, such as one under `rlx.jit`."""

    def named_graph(self, *inputs: Any) -> tuple[Graph, list[str]]: ...

    def argument_arrays(self, *inputs: Any) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """What `aot` was given, checked."""

    graph: Graph
    values: Mapping[str, Array]
    """Of params."""
    examples: Mapping[str, Array]
    """Of inputs."""
    keep: Mapping[str, Keep]
    """How each param comes to the code."""
    output_names: Sequence[str]


def program_source(
    given: Graph | Traceable,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None,
    param_argnums: Sequence[int],
    params: Mapping[str, Any],
    weights: str | Mapping[str, str] | None,
    precision: Precision,
) -> ProgramSource:
    """Trace or take the graph, and check what belongs to it."""
    graph, found, names = _graph_of(given, example_inputs, param_argnums)
    examples = _examples(given, example_inputs)
    params = {**found, **params}
    graph = inputs_as_params(at_precision(graph, precision), params)
    values = _checked_params(graph, params)
    keep = _keep(graph, weights or ("file" if params else "argument"))
    _require_values(keep, values, Keep.EMBED)
    return ProgramSource(graph, values, examples, keep, _result_names(graph, names))


def _graph_of(
    given: Graph | Traceable,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None,
    param_argnums: Sequence[int],
) -> tuple[Graph, dict[str, Any], list[str]]:
    """Return the graph, the params that a function's arguments are, the names of its results."""
    if isinstance(given, Graph):
        return given, dict(given.param_values), [*distinct_identifiers(given.output_names)]
    if not isinstance(given, Traceable):
        raise InputError(
            f"cannot make an artifact of a {type(given).__name__}",
            remedy="pass a Graph, or a function under rlx.jit with example_inputs=",
        )
    if example_inputs is None or isinstance(example_inputs, Mapping):
        raise InputError(
            "a function is compiled for the shapes of its inputs",
            remedy="pass example_inputs=, a sequence of them",
        )
    graph, names = given.named_graph(*example_inputs)
    found = {
        name: array
        for place, arrays in enumerate(given.argument_arrays(*example_inputs))
        for name, array in arrays.items()
        if place in param_argnums or name in graph.donations
    }
    arrays = {name: x for name, x in found.items() if not isinstance(x, TensorType)}
    return graph, arrays, names


def _examples(
    given: Graph | Traceable, example_inputs: Sequence[Any] | Mapping[str, Any] | None
) -> dict[str, Array]:
    """Return the arrays among the example inputs, by the names in the graph."""
    if example_inputs is None or isinstance(example_inputs, Mapping):
        found = dict(example_inputs or {})
    elif isinstance(given, Graph):
        names = [str(value.node.name) for value in given.inputs]
        found = dict(zip(names, example_inputs, strict=True))
    else:
        arguments = given.argument_arrays(*example_inputs)
        found = {name: x for arrays in arguments for name, x in arrays.items()}
    return {n: np.asarray(x) for n, x in found.items() if not isinstance(x, TensorType)}


def _result_names(graph: Graph, names: Sequence[str]) -> list[str]:
    """Return the names of the outputs that replace no param; one alone needs no number."""
    replacing = graph.donations.values()
    plain = [name for place, name in enumerate(names) if place not in replacing]
    return ["y"] if len(plain) == 1 and plain[0].startswith("y_") else plain


def _checked_params(graph: Graph, params: Mapping[str, Any]) -> dict[str, Array]:
    signature = Signature.of(graph)
    return {
        name: checked(signature.param(name), value, what="param") for name, value in params.items()
    }


def _keep(graph: Graph, weights: str | Mapping[str, str]) -> dict[str, Keep]:
    names = [str(param.node.name) for param in graph.params]
    chosen = dict.fromkeys(names, weights) if isinstance(weights, str) else weights
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise InputError(
            f"weights= names {unknown[0]!r}, which is not a param of {graph.name!r}",
            remedy="use the names of the graph's params",
        )
    known = {keep.value for keep in Keep}
    for name, how in chosen.items():
        if how not in known:
            raise InputError(
                f"param {name!r} cannot be kept as {how!r}",
                remedy=f"use one of {', '.join(sorted(known))}",
            )
    return {name: Keep(chosen.get(name, Keep.ARGUMENT.value)) for name in names}


def _require_values(keep: Mapping[str, Keep], values: Mapping[str, Array], needed: Keep) -> None:
    missing = [name for name, how in keep.items() if how is needed and name not in values]
    if missing:
        raise InputError(
            f"param {missing[0]!r} is to be embedded and has no value", remedy="give it in params="
        )
