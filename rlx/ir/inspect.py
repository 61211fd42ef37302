"""Statistics of a graph: counts of ops, sizes, source lines."""

from __future__ import annotations

from collections import Counter

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.printer import format_node, symbols_in

_UNITS = ("B", "KB", "MB", "GB", "TB")


def computed_ops(node: Node) -> str:
    """Return the ops that a kernel of its own computes, by first use, such as `add x3, exp`."""
    if not node.is_one_kernel:
        return node.op.name
    inner = node.attribute("body").nodes
    counts = Counter(each.op.name for each in inner if not each.op.has(Trait.LEAF))
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())


def summary(graph: Graph) -> str:
    """Return counts by op, then every node with its scope, its source line and outputs marked.

    The size in the first line is the sum over all values: what a plan without any sharing takes.
    """
    counts = Counter(node.op.name for node in graph.nodes)
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    outputs = ", ".join(output.label for output in graph.outputs)
    return "\n".join(
        [
            f"graph @{graph.name} ({len(graph.nodes)} nodes, {len(graph.outputs)} outputs, "
            f"{_size_text(graph)})",
            f"  op kinds: {', '.join(f'{name}={count}' for name, count in kinds)}",
            "",
            *(f"  {_line(node, graph.outputs)}" for node in graph.nodes),
            f"  return {outputs}".rstrip(),
        ]
    )


def bytes_text(count: int) -> str:
    """Return a size in units of 1024, with one decimal above bytes."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def _size_text(graph: Graph) -> str:
    if any(symbol.max is None for symbol in symbols_in(graph)):
        return "size unbounded"
    return bytes_text(sum(r.type.bytes for node in graph.nodes for r in node.results))


def _line(node: Node, outputs: tuple[Value, ...]) -> str:
    origin = "" if node.source is None else f"  // {node.source}"
    output = "  ← output" if any(result in outputs for result in node.results) else ""
    return f"{format_node(node, indent='  ')}{origin}{output}"
