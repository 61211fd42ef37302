"""Rules for the names of every graph and function of a model, checked when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx

from rlx.errors import FormatError
from rlx.limits import Budget

_MALFORMED = "the model is malformed: export it again"


def check_structure(graph: Any, title: str, budget: Budget) -> None:
    """Raise FormatError for a graph or function whose names are not text or not unique.

    Sub-graphs are checked too; LimitError where they nest too deeply.
    """
    with budget.nested("sub-graphs"):
        _check_names(graph, title)
        for node in graph.node:
            budget.check_time()
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    check_structure(inner, title, budget)


def _check_names(graph: Any, title: str) -> None:
    words = [graph.name]
    for node in graph.node:
        words += [node.name, node.op_type, node.domain, *node.input, *node.output]
        words += [word for a in node.attribute for word in (a.name, a.ref_attr_name)]
    inputs, outputs = _names(graph.input), _names(graph.output)
    weights = _initializers(graph) if isinstance(graph, onnx.GraphProto) else []
    if not all(isinstance(word, str) for word in (*words, *inputs, *outputs, *weights)):
        raise FormatError(
            f"{title}: a name in it is not text",
            remedy="the file is damaged: export or download it again",
        )
    made = [name for node in graph.node for name in node.output if name]
    for what, names in (
        ("inputs", inputs),
        ("outputs", outputs),
        ("initializers", weights),
        ("inputs and results of nodes", [*inputs, *made]),
        ("initializers and results of nodes", [*weights, *made]),
    ):
        twice = next(_repeated(names), None)
        if twice is not None:
            raise FormatError(
                f"{title}: graph {graph.name!r} has {twice!r} twice among its {what}",
                remedy=_MALFORMED,
            )


def _names(values: Iterable[Any]) -> list[Any]:
    """Return the names of inputs or outputs; those of a function are names already."""
    return [getattr(value, "name", value) for value in values]


def _initializers(graph: Any) -> list[Any]:
    dense = [tensor.name for tensor in graph.initializer]
    return dense + [tensor.values.name for tensor in graph.sparse_initializer]


def _repeated(names: list[Any]) -> Iterator[Any]:
    seen = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)
