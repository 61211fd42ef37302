"""Before -> after cases as text, and graphs of formulas for tables of cases."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from rlx.ir.graph import Graph, Value
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.passes.rewrite import GraphPass


def assert_becomes(graph_pass: GraphPass, before: str, after: str) -> None:
    """Assert that a graph's text becomes `after`, and that a second run changes nothing."""
    once = graph_pass(parse_graph(_graph(before)))
    expected = parse_graph(_graph(after))
    assert format_graph(once) == format_graph(expected)
    assert graph_pass(once) == once


def assert_unchanged(graph_pass: GraphPass, text: str) -> None:
    """Assert that the pass returns this graph itself."""
    graph = parse_graph(_graph(text))
    assert graph_pass(graph) is graph


def _graph(text: str) -> str:
    return "graph @case {\n" + textwrap.dedent(text).strip("\n") + "\n}\n"


def built(formula: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "f32") -> Graph:
    """Return the graph of a formula; its inputs are named as its parameters, `w...` are params.

    The last shape is also that of all parameters that follow.
    """
    graph = Graph("case")
    names = list(inspect.signature(formula).parameters)
    every = [*shapes, *shapes[-1:] * (len(names) - len(shapes))]
    values = [
        (graph.param if name.startswith("w") else graph.input)(name, shape, dtype)
        for name, shape in zip(names, every, strict=True)
    ]
    found = formula(*values)
    graph.set_outputs([found] if isinstance(found, Value) else found)
    return graph
