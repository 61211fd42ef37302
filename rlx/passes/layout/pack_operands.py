"""Give matrix products the layout and tile shape that suit this machine.

`matmul(a, b)` gets a tile, and reads `pack_panels(b)` unless `b` changes and meets too few rows
to pay for packing. Rows of a `b` that changes are streamed past few rows of `a`: reading `b` takes
the time. Where nothing pays it stays as it is. Transposes of either operand are absorbed
(`matmul_transposed`):

    %2 = matmul %x, %w    ->    %2 = pack_panels %w {width = 32}
                                %3 = matmul %x, %2 lowering = tile(rows = 12, columns = 32, ...)

The packing of a weight depends on params only and is hoisted into `setup`; that of an
activation costs one pass over it and pays off from a few rows on. Requires nothing; run it
before fusion, so that what follows a product fuses with the packed form.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import Lowering, Streamed, Tile, Turned
from rlx.ir.op import make_attrs
from rlx.ir.shape import Extent, product, upper
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites
from rlx.target import Target

_REGISTERS_BESIDE_TILE = 8
"""Vector registers kept free for the panel row, the broadcast scalar and addresses."""

_MAX_ROWS = 12
"""More rows than this gain nothing: the multipliers are already busy."""

_MAX_VECTORS = 8
"""Vectors across a panel. Columns read where they lie may be more: long stretches stream well."""

_MIN_WORK = 8 * 1024
"""Multiply-adds below which packing an activation costs more than it saves."""

_MIN_ROWS = 4
"""Rows of `a` from which on packing an activation pays."""

_FEW_ROWS = 24
"""Rows of `a` up to which an activation is read where it lies: it is read once or twice."""

_REGISTERS_PER_ROW = 4
"""Registers that each row of a streamed product takes: up to 8 rows with 32 of them."""

_STREAMED_COLUMNS = 2 * 1024
"""Columns of a streamed block: stretches that long are read at the speed of the memory."""

_LEAST_COLUMNS = 256
"""Columns of a streamed block below which two threads gain nothing."""

_MIN_ELEMENTS = 4 * 1024
"""Elements of an activation from which on tiles of few rows beat the plain loops."""


def pack_operands(target: Target) -> GraphPass:
    """Return the pass for `target`."""

    def rule(node: Node) -> Value | None:
        if node.lowering is not None:
            return None
        packed = packed_product(node, target)
        return product_as_it_lies(node) if packed is None else packed

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.matmul,), rule)])

    return GraphPass("pack-operands", run, __doc__ or "")


def packed_product(node: Node, target: Target) -> Value | None:
    """Return `node`, a matmul, as a packed product, or None where that does not pay."""
    a, b = node.operands
    if a.dtype.is_low_precision:
        return in_single_precision(node)
    if a.dtype not in (DType.F32, DType.F64):
        return None
    a, a_transposed = without_transpose(a)
    b, b_transposed = without_transpose(b)
    height, inner = (a.shape[-1], a.shape[-2]) if a_transposed else a.shape[-2:]
    columns = b.shape[-2 if b_transposed else -1]
    if not isinstance(columns, int) or columns == 0:
        return None
    if b.rank > 2 and a.shape[:-2] not in ((), b.shape[:-2]):
        return None
    if b.rank == 2:
        if a_transposed and a.rank > 2:
            return None
        height = product((*a.shape[:-2], height))  # a shared matrix meets all rows at once
    lanes, registers = target.lanes(a.dtype.size), target.vector_registers
    if not b_transposed and stays_in_place(b, upper(height), upper(inner), columns):
        most = registers // _REGISTERS_PER_ROW
        if height in range(1, most + 1) and columns >= lanes:
            streamed = choose_stream(upper(height), columns, lanes, registers)
            return lowered_product(a, b, streamed, transposed=a_transposed)
        tile = choose_tile(upper(height), columns, lanes, registers, whole=True)
        if tile.columns >= 2 * lanes:
            return lowered_product(a, b, tile, transposed=a_transposed)
    if not pays(node, height, inner, columns):
        return None
    tile = choose_tile(upper(height), columns, lanes, registers)
    packed = in_panels(b, tile, transposed=b_transposed)
    return lowered_product(a, packed, tile, transposed=a_transposed)


def lowered_product(a: Value, b: Value, lowering: Lowering, *, transposed: bool) -> Value:
    """Return `a @ b` computed as `lowering` says; `transposed` says that `a` is given so."""
    definition = ops.matmul_transposed if transposed else ops.matmul
    attrs = make_attrs(definition, {"left": True, "right": False} if transposed else {})
    return a.graph.append(definition, (a, b), attrs, lowering=lowering)[0]


def in_panels(b: Value, tile: Tile, *, transposed: bool) -> Value:
    """Return `b`, or its transpose, in panels as wide as the tile."""
    attrs = make_attrs(ops.pack_panels, {"width": tile.columns, "transposed": transposed})
    turned = Turned(tile.lanes) if transposed and tile.lanes > 1 else None
    return b.graph.append(ops.pack_panels, (b,), attrs, lowering=turned)[0]


def product_as_it_lies(node: Node) -> Value | None:
    """Return a product too small to pack with the transposes of its operands absorbed."""
    (a, left), (b, right) = (without_transpose(operand) for operand in node.operands)
    if not left and not right:
        return None
    result: Value = ops.matmul_transposed(a, b, left=left, right=right)
    return result


def in_single_precision(node: Node) -> Value:
    """Return a 16-bit product as one of f32, rounded once at the end."""
    wide = [widened(operand) for operand in node.operands]
    result: Value = ops.cast(ops.matmul(*wide), to=node.result.dtype)
    return result


def widened(operand: Value) -> Value:
    """Return a 16-bit operand as f32, its transpose last so that the product can absorb it."""
    plain, transposed = without_transpose(operand)
    wide: Value = ops.cast(plain, to=DType.F32)
    if not transposed:
        return wide
    result: Value = ops.transpose(wide, perm=operand.node.attribute("perm"))
    return result


def pays(node: Node, height: Extent, inner: Extent, columns: int) -> bool:
    """True if the tiled kernel with its packing beats the plain loops."""
    if is_prepared(node.operands[1]):
        return upper(inner) * columns >= 256
    rows = upper(height)
    return rows >= _MIN_ROWS and rows * upper(inner) * columns >= _MIN_WORK


def stays_in_place(b: Value, height: int, inner: int, columns: int) -> bool:
    """True if `b` is computed anew and meets so few rows that packing it would not pay."""
    return height <= _FEW_ROWS and inner * columns >= _MIN_ELEMENTS and not is_prepared(b)


def is_prepared(value: Value) -> bool:
    """True if `value` depends on params and constants only: its packing runs once."""
    if value.op is ops.input:
        return False
    if value.op is ops.param:
        return value.node.name not in value.graph.donations
    return all(is_prepared(operand) for operand in value.node.operands)


def without_transpose(value: Value) -> tuple[Value, bool]:
    """Strip a transpose of the last two axes; tell whether there was one."""
    if value.op is not ops.transpose or value.rank < 2:
        return value, False
    order = tuple(range(value.rank))
    swapped = (*order[:-2], order[-1], order[-2])
    if value.node.attribute("perm") != swapped:
        return value, False
    return value.node.operands[0], True


def choose_stream(height: int, columns: int, lanes: int, registers: int) -> Streamed:
    """Choose blocks of columns, an even number of equal ones, and the rows of `b` to take at once.

    `depth` rows of `b` and their scalars stay in registers, beside a vector of sums.
    """
    depth = next(d for d in (4, 2, 1) if d == 1 or (height + 1) * d + 1 <= registers)
    parts = -(-columns // _STREAMED_COLUMNS)
    if columns >= 2 * _LEAST_COLUMNS:
        parts += parts % 2
    return Streamed(-(-columns // (parts * lanes)) * lanes, depth, lanes)


def choose_tile(
    height: int, columns: int, lanes: int, registers: int, *, whole: bool = False
) -> Tile:
    """Choose the tile that covers `height` rows with the least waste.

    The tile's accumulators fill the registers that the loop does not need otherwise: 12 x 2
    vectors with 32 registers; fewer rows leave room for wider panels. `whole` panels divide
    the columns, or the last one meets its neighbour.
    """
    budget = registers - _REGISTERS_BESIDE_TILE
    most = min(_MAX_ROWS, budget // 2)
    tiles = -(-height // most)
    rows = max(1, -(-height // max(1, tiles)))
    widest = budget if whole else _MAX_VECTORS
    vectors = max(1, min(widest, budget // rows, -(-columns // lanes)))
    if whole:
        vectors = panel_vectors(columns, lanes, vectors)
    return Tile(rows, vectors * lanes, lanes)


def panel_vectors(columns: int, lanes: int, most: int) -> int:
    """Return the vectors of a panel read where it lies: one that divides the columns, or nearly."""
    for vectors in range(most, most // 2, -1):
        if columns % (vectors * lanes) == 0:
            return vectors
    needed, most = -(-columns // lanes), min(most, columns // lanes)
    return -(-needed // -(-needed // most)) if most else 0
