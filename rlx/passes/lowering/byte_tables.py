"""Tables for functions of one byte: chains between a rounding to eight bits and another.

    %4: u8[M, N] = round(erf(dequantize(round(dequantize(%1) / scale)))) ...
        ->  %5: u8[256] = the same of all bytes: once, in setup
            %6: u8[M, N] = map_bytes %1, %5

A quantized network spells an activation as several operators, each of which rounds to eight bits.
Whatever they are, their result has 256 values, which the same kernels compute, so that the bits are
those of the chain.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.ops.byte_tables import ENTRIES
from rlx.ir.shape import product, upper
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites
from rlx.passes.scalars import splat
from rlx.target import Target

_BYTES = (DType.I8, DType.U8)

_EXPENSIVE, _DIVISION = 16, 4
"""Costs of a transcendental function or table, and of a division, in units of other arithmetic."""

_WORTH = 24
"""Cost of a chain from which on a table is faster."""

_FEWEST = 4 * ENTRIES
"""Elements from which on a table pays."""


def byte_tables(target: Target) -> GraphPass:
    """Return the pass; microcontrollers compute the chain, for a table takes memory and a pass."""

    def rule(node: Node) -> Value | None:
        value = node.result
        if value.dtype not in _BYTES or upper(product(value.shape)) < _FEWEST:
            return None
        source = _source(value)
        if source is None or source is value:
            return None
        chain = _chain(value, source)
        return _mapped(chain, source) if sum(map(_cost, chain)) >= _WORTH else None

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [] if target.is_small else [LocalRewrite((ops.cast,), rule)])

    return GraphPass("byte-tables", run, __doc__ or "")


def _source(value: Value) -> Value | None:
    """Return the first bytes that `value` is a function of, element by element; None for none.

    Bytes that are made of several values, or otherwise, are a function of themselves.
    """
    known = value.graph.facts(_source_of)
    waiting = [value]
    while waiting:  # chains may be longer than calls may nest
        at = waiting[-1]
        unknown = [each for each in _operands(at) if each.node not in known]
        if unknown:
            waiting += unknown
        else:
            known[waiting.pop().node] = _source_of(at, known)
    return known[value.node]


def _source_of(value: Value, known: Mapping[Node, Value | None]) -> Value | None:
    if len(value.node.results) > 1:
        return None  # sources are kept by node
    found = {known[each.node] for each in _operands(value)}
    first = found.pop() if len(found) == 1 else None
    return value if first is None and value.dtype in _BYTES else first


def _operands(value: Value) -> list[Value]:
    """Return the operands that an elementwise result varies with; none for other results.

    A table that was made before is a function of its bytes, too.
    """
    node = value.node
    if node.op is ops.map_bytes:
        return [node.operands[0]]
    if not node.op.has(Trait.ELEMENTWISE) or len(node.results) > 1:
        return []
    varying = [operand for operand in node.operands if splat(operand) is None]
    return varying if all(each.shape == value.shape for each in varying) else []


def _chain(value: Value, source: Value) -> list[Node]:
    """Return the nodes from `source`, without it, to `value`, in order."""
    found, waiting = set[Node](), [value]
    while waiting:
        at = waiting.pop()
        if at is not source and at.node not in found:
            found.add(at.node)
            waiting += _operands(at)
    return sorted(found, key=lambda node: node.index)


def _cost(node: Node) -> int:
    if node.op.has(Trait.EXPENSIVE) or node.op is ops.map_bytes:
        return _EXPENSIVE
    return _DIVISION if node.op is ops.div else 1


def _mapped(chain: list[Node], source: Value) -> Value:
    """Return the last of a chain by the table of its results for all bytes of `source`."""
    graph, every = source.graph, np.arange(ENTRIES, dtype=np.uint8)
    made = {source: graph.constant(every.view(np.int8) if source.dtype is DType.I8 else every)}

    def operand(value: Value) -> Value:
        if value not in made:
            made[value] = graph.constant(np.full(ENTRIES, splat(value)), value.dtype)
        return made[value]

    for node in chain:
        if node.op is ops.map_bytes:  # of the same source, which is a function of nothing else
            made[node.result] = node.operands[1]
        else:
            operands = tuple(map(operand, node.operands))
            made[node.result] = graph.append(node.op, operands, node.attrs)[0]
    result: Value = ops.map_bytes(source, made[chain[-1].result])
    return result
