"""Warning of double precision in programs for processors that compute it in software."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node
from rlx.passes.rewrite import bodies_of, is_leaf
from rlx.target import Target

_DOUBLE = (DType.F64, DType.C128)


def warn_of_doubles(graph: Graph, lowered: Graph, target: Target) -> None:
    """Warn with the line of `graph` that computes in f64 first, if its code for `target` does.

    `lowered` is the graph after the passes: what they fold while compiling costs nothing.
    """
    if target.has_doubles or not any(map(_is_double, _nodes(lowered))):
        return
    node = next((n for n in _nodes(graph) if not is_leaf(n) and _is_double(n)), None)
    if node is None or node.source is None:
        given = [str(v.node.name) for v in (*graph.inputs, *graph.params) if v.dtype in _DOUBLE]
        place = f"in its input {', '.join(given)}" if given else "in its constants"
    else:
        place = f"at {node.source.file}:{node.source.line} ({node.title})"
    warnings.warn(
        f"{target.cpu} computes f64 in software, with some 50 instructions for an operation; the "
        f"program has f64 first {place}. Arrays of rlx.numpy.eye, zeros, ones and linspace are f64 "
        "where no dtype is named: pass dtype='float32'",
        RuntimeWarning,
        stacklevel=3,
    )


def _nodes(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph and of its bodies."""
    for node in graph.nodes:
        yield node
        for body in bodies_of(node.attrs):
            yield from _nodes(body)


def _is_double(node: Node) -> bool:
    return any(value.dtype in _DOUBLE for value in node.results)
