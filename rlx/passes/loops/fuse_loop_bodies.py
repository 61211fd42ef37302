"""Choice of the loops that become one kernel: bodies that fit the registers, or the caches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rlx.ir import ops
from rlx.ir.fold_maps import fold_map
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import OneKernel
from rlx.ir.op import Trait, make_attrs
from rlx.passes.loops.batch_axis import NO_LANES, Lanes, find_lanes
from rlx.passes.loops.nests import fits_nest, fits_while_nest, has_elements, is_composed
from rlx.passes.loops.tables import NO_TABLES, Tables, find_tables, table_positions
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.rewrites.decompose import expand_pointwise, is_pointwise_formula

LARGEST_VALUE = 64
"""Elements of one instance of a value: beyond, registers and first-level cache lose."""

MOST_OPERATIONS = 1200
"""Scalar operations of one step of one instance: beyond, compile time and code size suffer."""

MOST_STRIDED = 128
"""Elements of one instance that a step may read and store apart from those of its neighbors:
what vectors gather and scatter one by one, beyond, takes compilers long and machines longer."""


@graph_pass
def fuse_loop_bodies(graph: Graph) -> Rewritten:
    """Make loops with small bodies kernels of their own, whose bodies no pass touches again.

        scan %c {body = few small values}      ->      scan %c {body = ...} lowering = one_kernel()

    Requires decomposed and simplified bodies.
    """
    return apply_rewrites(graph, [_small_scan, _small_while])


@rewrite(ops.scan)
def _small_scan(node: Node) -> tuple[Value, ...] | None:
    body = expand_pointwise(node.attribute("body"))
    if node.is_one_kernel or not node.results or not node.attribute("num_carries"):
        return None
    small = shape_in_registers(body, node.attribute("num_carries")) is not None
    if not small and not fits_nest(body):
        return None
    return _in_one_kernel(node, {"body": body, "checkpoints": None})


@rewrite(ops.while_loop)
def _small_while(node: Node) -> tuple[Value, ...] | None:
    graphs = {name: expand_pointwise(node.attribute(name)) for name in ("condition", "body")}
    small = while_tables(**graphs, num_consts=node.attribute("num_consts")) is not None
    if node.is_one_kernel or not (small or fits_while_nest(**graphs)):
        return None
    return _in_one_kernel(node, graphs)


def _in_one_kernel(node: Node, changed: Mapping[str, Graph | None]) -> tuple[Value, ...]:
    attrs = make_attrs(node.op, {**node.attrs.as_dict(), **changed})
    graph = node.results[0].graph
    return graph.append(node.op, node.operands, attrs, lowering=OneKernel())


def shape_in_registers(body: Graph, num_carries: int) -> tuple[Lanes, Tables] | None:
    """Return how a scan's body runs in registers: in lanes, as one instance, or not at all."""
    lanes = find_lanes(body, num_carries)
    if lanes is not None and fits_registers(body, lanes):
        return lanes, NO_TABLES
    tables = _tables([body], (num_carries,))
    return None if tables is None else (NO_LANES, tables[0])


def while_tables(condition: Graph, body: Graph, *, num_consts: int) -> tuple[Tables, ...] | None:
    """Return what condition and body of a loop in registers leave in memory, if it can be one."""
    return _tables([condition, body], (0, len(body.inputs) - num_consts))


def _tables(graphs: Sequence[Graph], replaced: Sequence[int]) -> tuple[Tables, ...] | None:
    """Return the tables of `graphs`, each of which may replace its first `replaced` inputs."""
    if not all(value.type.is_static for graph in graphs for value in _values(graph)):
        return None
    positions = table_positions(graphs, LARGEST_VALUE)
    found: list[Tables] = []
    for graph, num_replaced in zip(graphs, replaced, strict=True):
        tables = find_tables(graph, positions, num_replaced, LARGEST_VALUE)
        if tables is None or not fits_registers(graph, NO_LANES, tables):
            return None
        found.append(tables)
    return tuple(found)


def fits_registers(body: Graph, lanes: Lanes, tables: Tables = NO_TABLES) -> bool:
    """True if one instance of the body is small and made of ops that have elements.

    Formulas cannot (`expand_pointwise`).
    """
    values = [value for value in _values(body) if not tables.holds(value)]
    if not all(_is_plain(value, tables) for value in values):
        return False
    if any(is_composed(value) for value in _values(body)):
        return False
    if any(math.prod(lanes.local_shape(value)) > LARGEST_VALUE for value in values):
        return False
    computing = {value.node: None for value in values if value.op is not ops.input}
    return (
        sum(_cost(node, lanes) for node in computing) <= MOST_OPERATIONS
        and _strided(body, lanes) <= MOST_STRIDED
    )


def _values(graph: Graph) -> list[Value]:
    return [result for node in graph.nodes for result in node.results]


def _is_plain(value: Value, tables: Tables) -> bool:
    """True for an array of machine numbers that can be computed element by element."""
    definition, node = value.op, value.node
    reads = definition.has(Trait.SUBSET) and tables.holds(node.operands[0])
    known = definition is ops.input or reads or has_elements(node)
    known &= not is_pointwise_formula(node.op)
    return known and value.type.is_static and not is_composed(value)


def _strided(body: Graph, lanes: Lanes) -> int:
    """Return the distance in elements between one instance and its neighbors."""
    outside = [value for value in (*body.inputs, *body.outputs) if value in lanes.axes]
    apart = [v for v in outside if math.prod(v.type.static_shape[lanes.axes[v] + 1 :]) > 1]
    return sum(math.prod(lanes.local_shape(value)) for value in apart)


def _cost(node: Node, lanes: Lanes) -> int:
    elements = math.prod(lanes.local_shape(node.results[0]))
    fold = fold_map(node)
    if fold is not None:
        shape = lanes.local_shape(node.operands[0])
        return elements * math.prod(shape[axis] for axis in fold.folded_axes(0))
    return elements if node.op.has(Trait.ELEMENTWISE) else 0
