"""Data tiling of packed weights: rows side by side, for vectors that decode as many at once.

    %2 = dequant_matmul %x, %w {scheme = "q4_0"}
    ->  %2 = pack_panels %w {layout = Panels(width = 16), transposed = true}
        %3 = dequant_matmul %x, %2 {..., transposed = true} lowering = schedule(...)

The bytes stay bytes: what was `[rows, bytes]` becomes `[rows / 16, bytes, 16]`, once, in `setup`.
Few rows of `x` stream the blocks; many use dequantized ones in tiles. Blocks that change from
call to call are read as stored. Rows gathered from a table that a product reads too, such as
the embeddings of tokens, are gathered from its panels: it is stored once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeGuard

from rlx.ir import ops
from rlx.ir.block_type import block_type
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import PANELS, ROWS, GatherFromPanels, Lowering, Schedule
from rlx.ir.op import OpDef, make_attrs
from rlx.ir.ops.packed_int8 import BYTES, block_bytes, block_words
from rlx.ir.shape import Extent, product, upper
from rlx.passes.layout.choices import Choice, ChoiceObserver, Why, no_layout
from rlx.passes.layout.pack_operands import in_panels
from rlx.passes.layout.prepared import is_prepared
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites
from rlx.target import Target

_FEW_ROWS = 4
"""Rows of `x` up to which the decoding takes no longer than the products."""

_DEPTH = 256
"""Elements of K that are decoded at a time."""

_DECODED = 32 * 1024
"""Bytes that are decoded at a time, at most: they stay in the first-level cache."""

_BLOCK_ROWS = 256
"""Rows whose sums wait while blocks are decoded, at most."""

_FLOAT = 4
_BLOCKS_OF_WORDS = 4
"""The operand of `dequant_matmul_words` that is packed."""
_TILE_ROWS = 4
"""Rows of a tile of the most columns: few, since the last tile may lack some."""
_TILE_VECTORS = 16
"""Vectors of a tile: more do not make it faster."""


def pack_blocks(target: Target, seen: ChoiceObserver = no_layout) -> GraphPass:
    """Return the pass for `target`; `seen` is called with every product."""

    def rule(node: Node) -> Value | None:
        if node.lowering is not None or node.attribute("transposed"):
            return None
        choice = choose_packed_product(node, target)
        seen(node, choice)
        return None if choice.lowering is None else _packed(node, choice.lowering, target)

    def by_expert(node: Node) -> Value | None:
        return None if node.lowering is not None else _experts(node, target)

    def words(node: Node) -> Value | None:
        return None if node.lowering is not None else _of_words(node, target)

    def run(graph: Graph) -> Rewritten:
        tied = _tied_tables(graph, target)

        def table(node: Node) -> Value | None:
            return None if node.lowering is not None else _picked(node, tied, target)

        products = LocalRewrite((ops.dequant_matmul,), rule)
        grouped = LocalRewrite((ops.grouped_dequant_matmul,), by_expert)
        of_words = LocalRewrite((ops.dequant_matmul_words,), words)
        tables = LocalRewrite((ops.gather,), table)
        return apply_rewrites(graph, [products, grouped, of_words, tables])

    return GraphPass("pack-blocks", run, __doc__ or "")


def choose_packed_product(node: Node, target: Target) -> Choice:
    """Choose how `node`, a dequant_matmul of plain rows, is computed."""
    x, blocks = node.operands[:2]
    lanes = target.lanes(_FLOAT)
    if blocks.rank > 2 or not is_prepared(blocks) or lanes == 1:
        return Why.BLOCKS_IN_PLACE.because()
    rows, scheme = product(x.shape[:-1]), str(node.attribute("scheme"))
    if _are_few(rows):
        return Why.BLOCKS_STREAMED.because(rows, _FEW_ROWS, Schedule(rows, lanes, lanes))
    tiles = _decoded(rows, blocks.shape[-2], x.shape[-1], scheme, target)
    return Why.BLOCKS_DECODED.because(rows, _FEW_ROWS, tiles)


def _are_few(rows: Extent) -> TypeGuard[int]:
    return isinstance(rows, int) and 0 < rows <= _FEW_ROWS


def _decoded(rows: Extent, columns: Extent, inner: Extent, scheme: str, target: Target) -> Schedule:
    """Return the schedule of tiles by panels that are decoded, some blocks at a time."""
    depth = _depth(inner, scheme)
    most = max(1, _DECODED // (depth * _FLOAT * target.lanes(_FLOAT)))
    return replace(_blocks_of(rows, columns, depth, most, target), left="in_place")


def _unpacked(
    rows: Extent, columns: Extent, inner: Extent, scheme: str, target: Target
) -> Schedule:
    """Return the same by panels of codes of eight bits; a strip's codes are copied with scales."""
    depth = _depth(inner, scheme)
    return replace(_blocks_of(rows, columns, depth, _TILE_VECTORS, target), left="copied")


def _depth(inner: Extent, scheme: str) -> int:
    each = block_type(scheme).elements
    return max(1, min(upper(inner), _DEPTH) // each) * each


def _blocks_of(rows: Extent, columns: Extent, depth: int, vectors: int, target: Target) -> Schedule:
    height, width = upper(rows), upper(columns)
    tile = _tile(height, width, vectors, target)
    most = _BLOCK_ROWS // tile.rows * tile.rows
    return replace(
        tile,
        order=(ROWS, PANELS),
        blocks=max(1, -(-height // most)),
        groups=max(1, -(-width // tile.columns)),
        depth=depth,
    )


def _tile(height: int, columns: int, vectors: int, target: Target) -> Schedule:
    """Return a tile as wide as leaves the last panel the fewest of its vectors without a column."""
    lanes = target.lanes(_FLOAT)
    whole = max(1, min(_TILE_VECTORS, target.vector_registers // 2) // _TILE_ROWS)
    needed = max(1, -(-columns // lanes))
    widths = range(1, min(whole, vectors) + 1)
    vectors = min(widths, key=lambda v: (-(-needed // v) * v, -v))
    rows = _TILE_ROWS * whole // vectors
    tiles = max(1, -(-height // rows))
    return Schedule(max(1, -(-height // tiles)), vectors * lanes, lanes)


def _packed(node: Node, lowering: Lowering, target: Target) -> Value:
    x, blocks = node.operands[:2]
    lanes = target.lanes(_FLOAT)
    panels = in_panels(blocks, lanes, lanes, transposed=True)
    attrs = make_attrs(ops.dequant_matmul, {"scheme": node.attribute("scheme"), "transposed": True})
    operands = (x, panels, *node.operands[2:])
    return x.graph.append(ops.dequant_matmul, operands, attrs, lowering=lowering)[0]


def _of_words(node: Node, target: Target) -> Value:
    """Lay words of four bytes side by side; where that cannot be, decode both operands."""
    *given, blocks = node.operands[: _BLOCKS_OF_WORDS + 1]
    lanes, scheme = target.lanes(_FLOAT), str(node.attribute("scheme"))
    if not target.dots_bytes or blocks.rank > 2 or not is_prepared(blocks):
        formula = node.op.decompose
        assert formula is not None
        decoded: Value = formula(*node.operands, scheme=scheme)
        return decoded
    rows, inner = product(given[0].shape[:-1]), upper(given[0].shape[-1]) * BYTES
    lowering = (
        Schedule(rows, lanes, lanes)
        if _are_few(rows)
        else _unpacked(rows, blocks.shape[-2], inner, scheme, target)
    )
    panels = in_panels(_words(blocks, scheme, target), lanes, lanes, transposed=True)
    attrs = make_attrs(node.op, {"scheme": scheme, "transposed": True})
    operands = (*given, panels, *node.operands[_BLOCKS_OF_WORDS + 1 :])
    return blocks.graph.append(node.op, operands, attrs, lowering=lowering)[0]


def _words(blocks: Value, scheme: str, target: Target) -> Value:
    """Return words of four bytes, as i32 where the target multiplies signed bytes only."""
    words = block_words(blocks, scheme)
    return words if target.dots_unsigned_bytes else ops.bitcast(words, to=DType.I32)


def _tied_tables(graph: Graph, target: Target) -> dict[str, tuple[OpDef, str]]:
    """Return the params whose rows are packed for a product, that product, and its scheme."""
    tied = dict[str, tuple[OpDef, str]]()
    for node in graph.nodes:
        if node.op is ops.dequant_matmul and choose_packed_product(node, target).lowering:
            blocks = node.operands[1]
        elif node.op is ops.dequant_matmul_words and target.dots_bytes:
            blocks = node.operands[_BLOCKS_OF_WORDS]
        else:
            continue
        if blocks.op is ops.param and blocks.rank == 2 and is_prepared(blocks):
            tied[str(blocks.node.name)] = node.op, str(node.attribute("scheme"))
    return tied


def _picked(node: Node, tied: Mapping[str, tuple[OpDef, str]], target: Target) -> Value | None:
    """Gather rows of a table from a product's panels, so that it is stored once."""
    table, indices = node.operands
    name, lanes = str(table.node.name), target.lanes(_FLOAT)
    if table.op is not ops.param or name not in tied or node.attribute("axis") not in (0, -2):
        return None
    rows = table.shape[0]
    if not isinstance(rows, int) or rows == 0 or rows % lanes or indices.dtype.is_float:
        return None
    product_of, scheme = tied[name]
    in_words = product_of is ops.dequant_matmul_words
    panels = in_panels(
        _words(table, scheme, target) if in_words else table, lanes, lanes, transposed=True
    )
    attrs = make_attrs(ops.gather, {"axis": 1})
    columns = table.graph.append(ops.gather, (panels, indices), attrs, lowering=GatherFromPanels())[
        0
    ]
    last = indices.rank
    gathered: Value = ops.transpose(columns, perm=(*range(1, last + 1), 0))
    if not in_words:
        return gathered
    flat = ops.reshape(gathered, shape=(product(indices.shape), columns.shape[0]))
    return ops.reshape(block_bytes(flat, scheme), shape=node.result.shape)


def _experts(node: Node, target: Target) -> Value:
    """Lay the experts' rows side by side; where that cannot be, gather each row's blocks."""
    x, blocks, experts, *book = node.operands
    count, rows, size = blocks.shape
    lanes = target.lanes(_FLOAT)
    scheme = str(node.attribute("scheme"))
    known = isinstance(count, int) and count > 0 and isinstance(rows, int) and rows % lanes == 0
    if not known or lanes == 1 or not is_prepared(blocks):
        formula = node.op.decompose
        assert formula is not None
        gathered: Value = formula(*node.operands, scheme=scheme)
        return gathered
    flat = ops.reshape(blocks, shape=(count * rows, size))
    panels = in_panels(flat, lanes, lanes, transposed=True)
    attrs = make_attrs(node.op, {"scheme": scheme, "transposed": True, "count": count})
    operands = (x, panels, experts, *book)
    lowering = Schedule(1, lanes, lanes)
    if upper(x.shape[0]) > count:  # some experts have several rows
        lowering = _decoded(x.shape[0], rows, x.shape[1], scheme, target)
    return x.graph.append(node.op, operands, attrs, lowering=lowering)[0]
