"""Ragged products in register tiles, with the other operand packed in panels.

%3 = ragged_matmul %x, %w, %bounds   ->   %3 = pack_panels %w {layout = Panels(width = 32)}
                                          %4 = ragged_matmul %x, %3, %bounds lowering = ...
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import PANELS, ROWS, Schedule
from rlx.ir.ops.experts import has_many_rows
from rlx.ir.shape import product, upper
from rlx.passes.layout.pack_operands import (
    MIN_WORK,
    choose_tile,
    in_panels,
    is_one_panel,
    without_transpose,
)
from rlx.passes.rewrite import GraphPass, LocalRewrite, Replacement, Rewritten, apply_rewrites
from rlx.passes.rewrites.decompose import expand_formula
from rlx.target import Target

_DTYPES = (DType.F32, DType.F64)

_PANEL_BYTES = 256 << 10
"""Bytes of the panels that a tile's rows are multiplied with at a time: half a second-level
cache. Rows are neither copied nor cut in blocks, for a group may have any number of them."""


def sort_rows(target: Target) -> GraphPass:
    """Return the pass that sorts many rows by their experts, for tiles of the rows of each."""

    def rule(node: Node) -> Replacement:
        x, weights, _ = node.operands
        tiled = target.has_vectors and x.dtype in _DTYPES
        return (
            expand_formula(node) if tiled and has_many_rows(x.shape[0], weights.shape[0]) else None
        )

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.grouped_matmul,), rule)])

    return GraphPass("sort-rows", run, "Sort many rows by their experts.")


def tile_ragged(target: Target) -> GraphPass:
    """Return the pass for `target`."""

    def rule(node: Node) -> Value | None:
        x, other, bounds = node.operands
        source, transposed = without_transpose(other)
        schedule = None if node.lowering else _schedule(node, target, transposed=transposed)
        if schedule is None:
            return None
        if schedule.right == "panels":
            other = in_panels(source, schedule.columns, schedule.lanes, transposed=transposed)
        return x.graph.append(node.op, (x, other, bounds), node.attrs, lowering=schedule)[0]

    products, outer = (
        LocalRewrite((ops.ragged_matmul,), rule),
        LocalRewrite((ops.ragged_outer,), rule),
    )

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [products, outer])

    return GraphPass("tile-ragged", run, __doc__ or "")


def _schedule(node: Node, target: Target, *, transposed: bool) -> Schedule | None:
    x, other, _ = node.operands
    height, columns = upper(x.shape[node.op is ops.ragged_outer]), upper(other.shape[-1])
    work = upper(product((*x.shape, other.shape[-1])))
    if x.dtype not in _DTYPES or not target.has_vectors or work < MIN_WORK:
        return None
    tile = choose_tile(height, columns, target.lanes(x.dtype.size), target.vector_registers)
    alone = is_one_panel(other.shape[-1], tile, transposed=transposed)
    right: Literal["panels", "in_place"] = "in_place" if alone else "panels"
    panel = upper(other.shape[-2]) * tile.columns * x.dtype.size
    panels = -(-columns // tile.columns)
    groups = -(-panels // max(1, _PANEL_BYTES // panel))
    order = ("group", PANELS, ROWS)
    return replace(tile, order=order, groups=groups, right=right)
