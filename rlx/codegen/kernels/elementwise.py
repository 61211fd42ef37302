"""Elementwise regions: any graph of elementwise and movement nodes, in one pass.

The iteration space collapses to the fewest loops that every operand and result can follow;
the innermost is a `simd` loop. A single elementwise op, a copy, an expand or a slice is a
region of one node.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedWriter
from rlx.codegen.kernels.affine import Grid, Groups
from rlx.codegen.kernels.grouped import Body, target
from rlx.codegen.kernels.parallel import BLOCK, LOOP_NAMES, blocks, is_large
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.loops.expr import E, maximum, minimum
from rlx.codegen.loops.nodes import LoopKind
from rlx.codegen.loops.passes.common_subexpressions import common_subexpressions
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.shape import Extent, Shape, product, upper

UNROLLED = 4
"""Innermost extents up to this are written out: vectors gain nothing there."""

PARALLEL_ITERATIONS = 64
"""Outer axes are joined into the parallel loop until it has this many iterations."""


def region(scope: Scope) -> None:
    """Build the kernel of a body without an anchor."""
    body = scope.body
    shape = iteration_shape(body)
    probe = region_writer(body, shape, (tuple(range(len(shape))),))
    groups = probe.collapsed(range(len(shape)))
    work = product(shape)
    if len(groups) <= 1:
        _flat(scope, region_writer(body, shape, groups or ((),)), work)
    else:
        _nested(scope, shape, groups, work)


def iteration_shape(body: Body) -> Shape:
    """Return the shape that the outputs are computed over: the first one's, before reshapes."""
    value: Value = body.outputs[0][0]
    while value.op.name == "reshape":
        value = value.node.operands[0]
    return value.shape


def region_writer(body: Body, shape: Shape, groups: Groups) -> GroupedWriter:
    """Return a writer of all outputs of a body without an anchor."""
    targets = tuple(target(value, buffer, shape) for value, buffer in body.outputs)
    body.stored.update(range(len(targets)))
    return GroupedWriter(body, Grid.over(shape, groups, body.extents), None, targets)


def _flat(scope: Scope, writer: GroupedWriter, work: Extent) -> None:
    if not writer.grid.groups[0]:
        writer.write_region(scope.extents(0))
        return
    if not is_large(work):
        _line(scope, writer)
        return
    with blocks(scope.k, writer.extent(0), work) as bounds:
        _line(scope, writer, bounds)


def _nested(scope: Scope, shape: Shape, groups: Groups, work: Extent) -> None:
    """Loop over the groups; the outer ones are joined until there is work for the threads."""
    if not is_large(work):
        _loops(scope, region_writer(scope.body, shape, groups), len(groups), 0)
        return
    if len(groups) == 2 and _is_short_and_heavy(
        scope.body, product(shape[axis] for axis in groups[1])
    ):
        _many_short_rows(scope, region_writer(scope.body, shape, groups), work)
        return
    extents = [product(shape[axis] for axis in group) for group in groups]
    joined = 1
    while joined < len(groups) - 1 and upper(product(extents[:joined])) < PARALLEL_ITERATIONS:
        joined += 1
    outer = tuple(axis for group in groups[:joined] for axis in group)
    writer = region_writer(scope.body, shape, (outer, *groups[joined:]))
    few = upper(product(extents[:joined])) < PARALLEL_ITERATIONS
    if few and joined == len(groups) - 1 and upper(extents[-1]) >= 2 * BLOCK:
        _long_rows(scope, writer)
        return
    with scope.k.loop("row", writer.extent(0), kind=LoopKind.PARALLEL) as row:
        _loops(scope, writer.at(row), len(groups) - joined, 0)


def _long_rows(scope: Scope, writer: GroupedWriter) -> None:
    """Cut a few long rows into blocks, so that every thread gets some."""
    k = scope.k
    rows, length = writer.extent(0), writer.extent(1)
    count = (length + (BLOCK - 1)) / BLOCK
    with k.loop("block", rows * count, kind=LoopKind.PARALLEL) as block:
        row = k.let("row", block / count)
        start = k.let("start", block % count * BLOCK)
        stop = k.let("stop", minimum(start + BLOCK, length))
        _line(scope, writer.at(row), (start, stop))


def _many_short_rows(scope: Scope, writer: GroupedWriter, work: Extent) -> None:
    """Cut many short rows into blocks, so that every thread gets some."""
    length = writer.extent_of(1)
    size = max(1, BLOCK // upper(length))
    with blocks(scope.k, writer.extent(0), work, size) as bounds:
        _short_rows(scope, writer, "row", bounds)


def _short_rows(scope: Scope, writer: GroupedWriter, name: str, bounds: tuple[E, E]) -> None:
    """Loop over rows in vectors, whose lanes are rows, and over the few elements of a row within.

    Elements of lanes are not next to each other, but moving them takes less than a function.
    """
    with scope.k.loop(name, bounds[1], start=bounds[0], kind=LoopKind.SIMD) as row:
        _line(scope, writer.at(row))


def _is_short_and_heavy(body: Body, extent: Extent) -> bool:
    """True for rows that are shorter than a vector, of elements that cost more than their moves."""
    if not isinstance(extent, int) or not 1 < extent <= UNROLLED:
        return False
    nodes = (node for node in body.graph.nodes if node.op.has(Trait.EXPENSIVE))
    return any(node.results[0].dtype.is_float for node in nodes)


def _loops(scope: Scope, writer: GroupedWriter, remaining: int, depth: int) -> None:
    if remaining == 1:
        _line(scope, writer)
        return
    if remaining == 2 and _is_short_and_heavy(scope.body, writer.extent_of(1)):
        _short_rows(scope, writer, LOOP_NAMES[depth], (writer.extent(0) * 0, writer.extent(0)))
        return
    with scope.k.loop(LOOP_NAMES[depth], writer.extent(0)) as index:
        _loops(scope, writer.at(index), remaining - 1, depth + 1)


def _line(scope: Scope, writer: GroupedWriter, bounds: tuple[E, E] | None = None) -> None:
    """Loop over the last group, or the part in `bounds`, split at the bounds of guards."""
    extent = writer.extent_of(0)
    short = bounds is None and isinstance(extent, int) and extent <= UNROLLED
    kind = LoopKind.UNROLL if short else LoopKind.SIMD
    split = writer.segments()
    if len(split) > 1:  # parts that read one element name it apart
        scope.passes.append(common_subexpressions)
    for start, stop, part in split:
        if bounds is not None:
            start, stop = _common(scope, (start, stop), bounds) if len(split) > 1 else bounds
        with scope.k.loop("i", stop, start=start, kind=kind) as i:
            part.write_region(i)


def _common(scope: Scope, segment: tuple[E, E], bounds: tuple[E, E]) -> tuple[E, E]:
    first = scope.k.let("first", maximum(segment[0], bounds[0]))
    return first, scope.k.let("last", minimum(segment[1], bounds[1]))
