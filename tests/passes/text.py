"""Before -> after cases as text."""

from __future__ import annotations

import textwrap

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
