"""Loops as one kernel each: in registers where a body is small, else as a nest of loops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.nests.loop_body import LoopArguments, LoopBody, build_scan, build_while
from rlx.codegen.kernels.nests.loops import ArrayBody
from rlx.codegen.kernels.nests.nest import Nest
from rlx.codegen.kernels.nests.registers import RegisterNest
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.math.near import NEAR_FUNCTIONS
from rlx.codegen.loops.nodes import Buffer
from rlx.codegen.loops.passes.pipeline import FUSION, REGISTERS, UNROLLED_FUSION
from rlx.codegen.loops.scalar import is_library_function
from rlx.ir.graph import Graph
from rlx.ir.loop_signature import Parts
from rlx.ir.lowering import OneKernel
from rlx.passes.loops.batch_axis import NO_LANES
from rlx.passes.loops.fuse_loop_bodies import shape_in_registers, while_tables
from rlx.passes.loops.nests import (
    block_in_arrays,
    fits_nest,
    fits_while_nest,
    has_short_products,
    spills_registers,
)
from rlx.passes.loops.tables import NO_TABLES

LEAST_VECTOR = 8
"""Elements that are worth a loop of their own, if each takes a call of the math library."""


@kernel("scan", lowering=OneKernel)
def scan_in_one_kernel(
    scope: Scope,
    *arguments: Reader | Writer,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    **_: object,
) -> None:
    given, results = _memory(scope, arguments)
    loop = LoopArguments(body, Parts.of(given, num_carries, num_consts), results)
    lanes, tables = shape_in_registers(body, num_carries) or (None, NO_TABLES)
    one = lanes is NO_LANES and not tables.versions
    loops = one and (_reads_as_loops(body) or _wants_arrays(scope, body))
    block = None
    if lanes is not None and not one:
        block = block_in_arrays(body, lanes, is_small=scope.target.is_small)
    kept: LoopBody
    if lanes is None or loops:
        kept = _in_arrays(scope, body, unrolled=not loops)
    elif block is not None:
        scope.passes.extend(UNROLLED_FUSION)
        has_vectors = scope.target.has_vectors
        kept = ArrayBody(Nest(scope.k, body, has_vectors, lanes=lanes, block=block))
    else:
        scope.passes.extend(REGISTERS)
        kept = RegisterNest(scope.k, body, lanes, tables, pairs_sines=scope.target.is_small)
    build_scan(scope.k, kept, loop, length, reverse=reverse)


def _in_arrays(scope: Scope, body: Graph, *, unrolled: bool) -> ArrayBody:
    scope.passes.extend(UNROLLED_FUSION if unrolled else FUSION)
    return ArrayBody(Nest(scope.k, body, scope.target.has_vectors))


def _reads_as_loops(body: Graph) -> bool:
    """True for a body that is clearer as short loops: small matrices, no branches on angles."""
    branches = any(node.op.name in NEAR_FUNCTIONS for node in body.nodes)
    return has_short_products(body) and not branches


def _wants_arrays(scope: Scope, body: Graph) -> bool:
    """True if the values of a body are stored in arrays: they are many, or need vector loops."""
    if spills_registers(body, scope.target):
        return True
    calls = [node.result for node in body.nodes if _takes_vectors(node.op.name)]
    sizes = [math.prod(value.type.static_shape) for value in calls]
    return max(sizes, default=0) >= LEAST_VECTOR and fits_nest(body)


def _takes_vectors(name: str) -> bool:
    return is_library_function(name) and name not in NEAR_FUNCTIONS


@kernel("while_loop", lowering=OneKernel)
def while_in_one_kernel(
    scope: Scope,
    *arguments: Reader | Writer,
    condition: Graph,
    body: Graph,
    num_consts: int = 0,
    max_trips: int | None = None,
) -> None:
    given, results = _memory(scope, arguments)
    parts = Parts.of(given, len(given) - num_consts, num_consts)
    loop = LoopArguments(body, parts, results)
    tables = while_tables(condition, body, num_consts=num_consts)
    one = tables is not None and not any(each.versions for each in tables)
    loops = one and fits_while_nest(condition, body) and _wants_arrays(scope, body)
    kept: LoopBody
    if tables is None or loops:
        kept = _in_arrays(scope, body, unrolled=not loops)
    else:
        scope.passes.extend(REGISTERS)
        of_condition, of_body = tables
        kept = RegisterNest(
            scope.k,
            body,
            tables=of_body,
            condition_tables=of_condition,
            pairs_sines=scope.target.is_small,
        )
    build_while(scope.k, kept, loop, condition, max_trips)


def _memory(
    scope: Scope, arguments: Sequence[Reader | Writer]
) -> tuple[list[Buffer], list[Buffer]]:
    """Return the arguments of operands and of results: a loop's operands have no prologue."""
    scope.body.stored.update(range(len(scope.body.outputs)))
    operands = [a.value for a in arguments if isinstance(a, Reader)]
    return (
        [scope.body.inputs[value] for value in operands],
        [buffer for _, buffer in scope.body.outputs],
    )
