"""Lay the rows of packed weights side by side, for vectors that decode as many rows at once.

    %2 = dequant_matmul %x, %w {scheme = "q4_0"}
    ->  %2 = pack_panels %w {width = 16, transposed = true} lowering = turned(lanes = 16)
        %3 = dequant_matmul %x, %2 {..., transposed = true} lowering = streamed(...)

The bytes stay bytes: what was `[rows, bytes]` becomes `[rows / 16, bytes, 16]`, once, in `setup`.
Few rows of `x` stream the blocks by; many meet decoded ones in tiles. Blocks that change from
call to call are read as they lie.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import Lowering, Streamed
from rlx.ir.op import make_attrs
from rlx.ir.ops.packed_int8 import block_words
from rlx.ir.shape import product, upper
from rlx.passes.layout.choices import Choice, ChoiceObserver, Why, nobody
from rlx.passes.layout.pack_operands import choose_tile, in_panels, is_prepared
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites
from rlx.target import Target

_FEW_ROWS = 4
"""Rows of `x` up to which the decoding takes no longer than the products."""

_FLOAT = 4
_VECTORS = 2
"""Vectors across a tile."""


def pack_blocks(target: Target, seen: ChoiceObserver = nobody) -> GraphPass:
    """Return the pass for `target`; `seen` is told of every product."""

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
        products = LocalRewrite((ops.dequant_matmul,), rule)
        grouped = LocalRewrite((ops.grouped_dequant_matmul,), by_expert)
        of_words = LocalRewrite((ops.dequant_matmul_words,), words)
        return apply_rewrites(graph, [products, grouped, of_words])

    return GraphPass("pack-blocks", run, __doc__ or "")


def choose_packed_product(node: Node, target: Target) -> Choice:
    """Choose how `node`, a dequant_matmul of plain rows, is computed."""
    x, blocks = node.operands[:2]
    lanes = target.lanes(_FLOAT)
    if blocks.rank > 2 or not is_prepared(blocks) or lanes == 1:
        return Why.BLOCKS_IN_PLACE.because()
    rows = product(x.shape[:-1])
    if isinstance(rows, int) and 0 < rows <= _FEW_ROWS:
        return Why.BLOCKS_STREAMED.because(rows, _FEW_ROWS, Streamed(lanes, 1, lanes))
    tile = choose_tile(upper(rows), _VECTORS * lanes, lanes, target.vector_registers)
    return Why.BLOCKS_DECODED.because(rows, _FEW_ROWS, tile)


def _packed(node: Node, lowering: Lowering, target: Target) -> Value:
    x, blocks = node.operands[:2]
    lanes = target.lanes(_FLOAT)
    panels = in_panels(blocks, lanes, lanes, transposed=True)
    attrs = make_attrs(ops.dequant_matmul, {"scheme": node.attribute("scheme"), "transposed": True})
    operands = (x, panels, *node.operands[2:])
    return x.graph.append(ops.dequant_matmul, operands, attrs, lowering=lowering)[0]


def _of_words(node: Node, target: Target) -> Value:
    """Lay words of four bytes side by side; where that cannot be, decode both operands."""
    *given, blocks = node.operands[:4]
    lanes, scheme = target.lanes(_FLOAT), str(node.attribute("scheme"))
    if not target.dots_unsigned_bytes or blocks.rank > 2 or not is_prepared(blocks):
        formula = node.op.decompose
        assert formula is not None
        decoded: Value = formula(*node.operands, scheme=scheme)
        return decoded
    rows = product(given[0].shape[:-1])
    tile = choose_tile(upper(rows), _VECTORS * lanes, lanes, target.vector_registers)
    few = isinstance(rows, int) and 0 < rows <= _FEW_ROWS
    panels = in_panels(block_words(blocks, scheme), lanes, lanes, transposed=True)
    attrs = make_attrs(node.op, {"scheme": scheme, "transposed": True})
    operands = (*given, panels, *node.operands[4:])
    lowering = Streamed(lanes, 1, lanes) if few else tile
    return blocks.graph.append(node.op, operands, attrs, lowering=lowering)[0]


def _experts(node: Node, target: Target) -> Value:
    """Lay the experts' rows side by side; where that cannot be, gather each row's blocks."""
    x, blocks, experts, *book = node.operands
    count, rows, size = blocks.shape
    lanes = target.lanes(_FLOAT)
    scheme = node.attribute("scheme")
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
    lowering: Lowering = Streamed(lanes, 1, lanes)
    most = upper(x.shape[0])
    if most > upper(count):  # some experts have several rows
        lowering = choose_tile(most, _VECTORS * lanes, lanes, target.vector_registers)
    return x.graph.append(node.op, operands, attrs, lowering=lowering)[0]
