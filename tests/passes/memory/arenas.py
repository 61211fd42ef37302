"""Arenas of derived programs, over the bytes that these read, write and must keep."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rlx.codegen.kernels.build import scratch_bytes
from rlx.errors import RlxError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.passes.autodiff import grad_with_loss, jvp
from rlx.passes.autodiff.errors import NoDerivativeError
from rlx.passes.memory.planner import HEADER_BYTES, plan_memory
from rlx.passes.pipeline import pipeline
from rlx.passes.vmap import vmap
from rlx.passes.vmap.registry import Kind, kind_of
from rlx.runtime.lower import claimed_ops
from tests.passes.models import TARGET
from tests.records import OpRecord

SLACK_BYTES = 4096
"""Alignment and scratch of a size that does not grow with the operands."""

_ELEMENTS = 1 << 17
_MOST_EXAMPLES = 4096
_BATCH = 4
_STRUCTURES = {"tables"}
"""Operands that examples have in common: with one each, ops are repeated for every example."""

MODES = ("value", "gradient", "jvp", "vmap")


def derived(graph: Graph, mode: str) -> Graph | None:
    """Return the program of `mode` of `graph`; None if it has no derivative."""
    names = [str(leaf.node.name) for leaf in graph.inputs]
    if mode == "value":
        return graph
    if mode == "vmap":
        return vmap(graph, dict.fromkeys(names, 0), size=_BATCH)
    moving = [str(leaf.node.name) for leaf in graph.inputs if leaf.dtype.is_differentiable]
    results = [output for output in graph.outputs if output.dtype.is_differentiable]
    if not (moving and results):
        return None
    try:
        if mode == "jvp":
            return jvp(graph, moving)
        graph.set_outputs(results[:1])
        return grad_with_loss(graph, moving, missing="zero")
    except NoDerivativeError:
        return None


def arena_bytes(graph: Graph) -> int:
    """Return the bytes of the planned arena after all passes, without its header."""
    done = pipeline(claimed_ops(), TARGET).run(graph)
    return plan_memory(done, scratch_bytes=scratch_bytes).arena_bytes - HEADER_BYTES


def end_bytes(graph: Graph) -> int:
    """Return the bytes of all inputs, params, constants and distinct outputs."""
    constants = [node.result for node in graph.nodes if node.op is ops.constant]
    ends = dict.fromkeys([*graph.inputs, *graph.params, *constants, *graph.outputs])
    return sum(value.type.bytes for value in ends)


def exceeds(graph: Graph, kept: int = 0, multiple: float = 3) -> str:
    """Return how the arena is above `multiple` of the bytes of all ends and of `kept`, or ""."""
    arena, needed = arena_bytes(graph), end_bytes(graph) + kept
    if arena <= multiple * needed + SLACK_BYTES:
        return ""
    return f"the arena has {arena} bytes, {arena / needed:.1f} times {needed}"


def large_graph(record: OpRecord) -> Graph:
    """Return the record's op on operands of about 2**17 elements.

    All extents are multiplied where the op and its attributes admit that, else it is batched.
    """
    dtype = DType.F32 if DType.F32 in record.dtypes else record.dtypes[0]
    for factor in _factors(record):
        try:
            return _scaled(record, dtype, factor)
        except RlxError:  # an attribute or an index names the extents of the record
            continue
    graph = record.graph(dtype)
    elements = sum(math.prod(operand.shape) for operand in record.operands)
    examples = min(_MOST_EXAMPLES, _ELEMENTS // max(elements, 1))
    size = _BATCH if kind_of(record.op) is Kind.UNROLLED else max(_BATCH, examples)
    return vmap(graph, [None if n in _STRUCTURES else 0 for n in record.operand_names], size=size)


def _factors(record: OpRecord) -> Iterator[int]:
    factor = 4096
    while factor > 1:
        if _elements(record, factor) <= _ELEMENTS:
            yield factor
        factor //= 2


def _elements(record: OpRecord, factor: int) -> int:
    shapes = (_larger(operand.shape, factor) for operand in record.operands)
    return sum(math.prod(shape) for shape in shapes)


def _larger(shape: tuple[int, ...], factor: int) -> tuple[int, ...]:
    return tuple(extent * factor if extent > 1 else extent for extent in shape)


def _scaled(record: OpRecord, dtype: DType, factor: int) -> Graph:
    graph = Graph("large")
    operands = [
        graph.input(name, _larger(operand.shape, factor), operand.dtype or dtype)
        for name, operand in zip(record.operand_names, record.operands, strict=True)
    ]
    result = graph.apply(record.op, operands, **record.attributes)
    graph.set_outputs(result if isinstance(result, tuple) else (result,))
    return graph
