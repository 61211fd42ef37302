"""The graph verifier: collects every fault and shows it in place.

    %1: f32[784, 10] = param "w"
    %2: f32[128, 11] = matmul %0, %1
    ^ declared f32[128, 11], inferred f32[128, 10]

`errors_of` lists the faults, `verify` raises one GraphError that shows them all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field

from rlx.dataclass import dataclass
from rlx.errors import GraphError, RlxError
from rlx.ir.attributes import conform, parts
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import check_lowering, reads_layout
from rlx.ir.op import INFERENCE_FAULTS, OPS, Trait, check_arity, may_hold_bodies
from rlx.ir.printer import format_node, symbols_in
from rlx.ir.shape import Symbol
from rlx.ir.types import TensorType

_CONTEXT = 2
"""Nodes shown before and after a faulty one."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Graphs and nodes that were verified already, by identity."""

    nodes: dict[tuple[int, ...], Node] = field(default_factory=dict)
    """Nodes whose types are right, by their attributes and the types of their operands."""
    bodies: dict[int, tuple[Graph, Hashable]] = field(default_factory=dict)
    """Bodies in which all is right, and the state in which they were."""

    def holds(self, body: Graph) -> bool:
        """True if `body` was verified and has not changed since."""
        known = self.bodies.get(id(body))
        return known is not None and known[0] is body and known[1] == body.state()


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a graph, and at which node (None: with the graph as a whole)."""

    graph: Graph
    node: Node | None
    message: str


def verify(graph: Graph, *, after: str | None = None, checked: Checked | None = None) -> None:
    """Raise a GraphError that shows every fault of `graph`; `after` names the last pass.

    `checked` keeps what was found right, so that the types of its copies are not inferred again.
    """
    faults = errors_of(graph, checked)
    if not faults:
        return
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    when = "" if after is None else f" after {after}"
    shown = "\n\n".join(_show(fault, graph) for fault in faults)
    source = next((f.node.source for f in faults if f.node is not None and f.node.source), None)
    raise GraphError(
        f"graph {graph.name!r} has {count}{when}\n{shown}",
        source=source,
        remedy="this graph was built or changed by hand: mend the nodes that are named",
    )


def errors_of(graph: Graph, checked: Checked | None = None) -> list[Fault]:
    """Return every fault of `graph` and of its sub-graphs, in order."""
    found = checked or Checked()
    return [*_symbol_faults(graph), *_graph_faults(graph, found, set())]


def _graph_faults(graph: Graph, checked: Checked, seen: set[int]) -> Iterator[Fault]:
    """Go over a graph and its bodies; one that several nodes hold is looked at once."""
    seen.add(id(graph))
    leaves: dict[str, Node] = {}
    for position, node in enumerate(graph.nodes):
        if not _is_right(graph, node, position, checked):
            for message in _node_faults(graph, node, position, checked):
                yield Fault(graph, node, message)
        if node.op.has(Trait.NAMED):
            name = node.attribute("name")
            if name in leaves:
                yield Fault(graph, node, f"%{leaves[name].index} is also named {name!r}")
            leaves.setdefault(name, node)
        if may_hold_bodies(type(node.attrs)):
            for value in node.attrs.as_dict().values():
                for body in parts(value):
                    if isinstance(body, Graph) and id(body) not in seen:
                        yield from _body_faults(body, checked, seen)
    yield from _output_faults(graph, leaves)
    for given, axis in graph.communicators.items():
        if given not in leaves or leaves[given].result.type != TensorType(DType.I64, ()):
            message = f"{given!r}, the communicator of axis {axis.name!r}, is no i64 scalar"
            yield Fault(graph, None, message)


def _body_faults(body: Graph, checked: Checked, seen: set[int]) -> Iterator[Fault]:
    if checked.holds(body):
        seen.add(id(body))
        return
    faults = list(_graph_faults(body, checked, seen))
    if not faults:
        checked.bodies[id(body)] = body, body.state()
    yield from faults


def _is_right(graph: Graph, node: Node, position: int, checked: Checked) -> bool:
    """True if a node has no fault: it is placed as it should be, and copies a verified one."""
    if node.index != position or not OPS.holds(node.op.name, node.op):
        return False
    nodes = graph.nodes
    for operand in node.operands:
        maker = operand.node
        if operand.graph is not graph or not 0 <= maker.index < position:
            return False
        if nodes[maker.index] is not maker or operand not in maker.results:
            return False
    for place, result in enumerate(node.results):
        if result.node is not node or result.index != place or result.graph is not graph:
            return False
    return _is_copy(node, checked.nodes.get(_key(node)))


def _node_faults(graph: Graph, node: Node, position: int, checked: Checked) -> Iterator[str]:
    if node.index != position:
        yield f"has index {node.index} at position {position}"
    if OPS.get(node.op.name) is not node.op:
        yield f"{node.op.name} is not a declared op"
    operand_faults = [
        f"operand {number} ({operand.label}) {fault}"
        for number, operand in enumerate(node.operands)
        for fault in _value_faults(graph, operand, before=node)
    ]
    yield from operand_faults
    yield from _result_faults(graph, node)
    if operand_faults or _is_copy(node, checked.nodes.get(_key(node))):
        return
    faults = list(_type_faults(node))
    if not faults:
        checked.nodes[_key(node)] = node
    yield from faults


def _key(node: Node) -> tuple[int, ...]:
    """Return the identities of a node's attributes and operand types, which its copies share."""
    return id(node.attrs), *[id(operand.type) for operand in node.operands]


def _is_copy(node: Node, checked: Node | None) -> bool:
    """True if `node` has the attributes, operands and results of a verified node."""
    return (
        checked is not None
        and node.attrs is checked.attrs
        and node.op is checked.op
        and node.lowering == checked.lowering
        and _have_equal_types(node.operands, checked.operands)
        and _have_equal_types(node.results, checked.results)
        and not may_hold_bodies(type(node.attrs))  # which might have changed
    )


def _have_equal_types(values: Sequence[Value], others: Sequence[Value]) -> bool:
    if len(values) != len(others):
        return False
    for value, other in zip(values, others, strict=True):
        if value.type is not other.type and value.type != other.type:
            return False
    return True


def _value_faults(graph: Graph, value: Value, *, before: Node | None = None) -> Iterator[str]:
    node = value.node
    if value.graph is not graph:
        yield f"belongs to graph {value.graph.name!r}"
    elif not (node.index < len(graph.nodes) and graph.nodes[node.index] is node):
        yield "is not in the graph"
    elif value not in node.results:
        yield f"is not a result of %{node.index}"
    elif before is not None and node.index >= before.index:
        yield "is not computed before it is used"


def _result_faults(graph: Graph, node: Node) -> Iterator[str]:
    for position, result in enumerate(node.results):
        if result.node is not node or result.index != position or result.graph is not graph:
            yield f"result {position} does not point back to its node"


def _type_faults(node: Node) -> Iterator[str]:
    """Check operand count, attributes and lowering, and infer the result types again."""
    try:
        check_arity(node.op, len(node.operands))
        for name, attribute in node.attrs.__dataclass_fields__.items():
            conform(name, attribute.type, getattr(node.attrs, name))
        operands = tuple(operand.type for operand in node.operands)
        inferred = node.op.infer_types(operands, node.attrs)
        if node.lowering is not None:
            check_lowering(node.lowering, node.op, operands, node.attrs)
        yield from _layout_faults(node)
    except RlxError as error:
        yield error.message
    except INFERENCE_FAULTS as error:
        yield f"type inference failed with {type(error).__name__}: {error}"
    else:
        declared = tuple(result.type for result in node.results)
        if declared != inferred:
            yield f"declared {_listed(declared)}, inferred {_listed(inferred)}"


def _layout_faults(node: Node) -> Iterator[str]:
    for position, operand in enumerate(node.operands):
        layout = operand.type.layout
        if layout is not None and not reads_layout(node.op, node.lowering, position):
            yield (
                f"operand {position} ({operand.label}) has layout {layout}, which {node.op.name} "
                "does not read as it is lowered"
            )


def _listed(types: tuple[object, ...]) -> str:
    return ", ".join(map(str, types)) or "no results"


def _output_faults(graph: Graph, leaves: dict[str, Node]) -> Iterator[Fault]:
    for position, output in enumerate(graph.outputs):
        for fault in _value_faults(graph, output):
            yield Fault(graph, None, f"output {position} ({output.label}) {fault}")
        if output.type.layout is not None:
            text = f"output {position} ({output.label}) has the layout {output.type.layout}"
            yield Fault(graph, None, text)
    replaced: dict[int, str] = {}
    for name, position in graph.donations.items():
        message = _donation_fault(graph, leaves.get(name), position)
        if message is None and position in replaced:
            message = f"already replaces {replaced[position]!r}"
        if message is not None:
            yield Fault(graph, None, f"output {position}, donated to {name!r}, {message}")
        replaced[position] = name


def _donation_fault(graph: Graph, leaf: Node | None, position: int) -> str | None:
    if leaf is None:
        return "has no such input or param to replace"
    if not 0 <= position < len(graph.outputs):
        return "does not exist"
    output = graph.outputs[position]
    if output.type != leaf.result.type:
        return f"has type {output.type}, not {leaf.result.type}"
    return None


def _symbol_faults(graph: Graph) -> Iterator[Fault]:
    known: dict[str, Symbol] = {}
    for symbol in symbols_in(graph):
        first = known.setdefault(symbol.name, symbol)
        if first != symbol:
            bounds = f"{first.min}..{first.max} and {symbol.min}..{symbol.max}"
            yield Fault(graph, None, f"symbol {symbol.name} has two bounds: {bounds}")


def _show(fault: Fault, root: Graph) -> str:
    """Print the graph around a fault, with a mark under the faulty node."""
    if fault.node is None:
        return f"  graph @{fault.graph.name}\n  ^ {fault.message}"
    nodes = fault.graph.nodes
    center = next(i for i, node in enumerate(nodes) if node is fault.node)
    lines = [] if fault.graph is root else [f"  in graph @{fault.graph.name}"]
    for node in nodes[max(0, center - _CONTEXT) : center + _CONTEXT + 1]:
        lines.append(f"  {format_node(node, indent='  ')}")
        if node is fault.node:
            lines.append(f"  ^ {fault.message}")
    return "\n".join(lines)
