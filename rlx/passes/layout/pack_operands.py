"""Data tiling of matrix products: packed operands and register tiles for this machine.

`matmul(a, b)` gets a tile, and reads `pack_panels(b)` unless `b` changes and has few rows of `a`
to pay for packing, or has the columns of one panel, which packing would only copy. Rows of a `b`
that changes are streamed past few rows of `a`: reading `b` takes the time. The transpose of a
matrix that changes is not packed where `a` is smaller: the product is computed transposed. Where
nothing pays it stays as it is. Sums of one term are elementwise products, to which 0.0 is added.
Transposes of either operand are absorbed (`stored_matmul`). Products of bf16 run over words of two
where the target multiplies pairs and that pays (`stored_matmul`, too), and are widened elsewhere:

    %2 = matmul %x, %w    ->    %2 = pack_panels %w {layout = Panels(width = 32)}
                                %3 = matmul %x, %2 lowering = schedule(rows = 12, ...)

The packing of a weight depends on params only and is hoisted into `setup`; that of an
activation costs one pass over it and pays off from a few rows on. Requires nothing; run it
before fusion, so that what follows a product fuses with the packed form.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import PANELS, ROWS, RegisterTranspose, Schedule
from rlx.ir.op import make_attrs
from rlx.ir.ops.bf16_products import BF16_PER_WORD, words_of_bf16
from rlx.ir.ops.linalg import swapped
from rlx.ir.shape import Extent, format_shape, product, upper
from rlx.passes.layout.choices import Choice, ChoiceObserver, Why, no_layout
from rlx.passes.layout.given_schedules import given_schedule
from rlx.passes.layout.prepared import is_prepared
from rlx.passes.layout.split_product import WAYS, Matrices, product_loops, rows_in_a_set
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites
from rlx.target import Target

_REGISTERS_BESIDE_TILE = 8
"""Vector registers kept free for the panel row, the broadcast scalar and addresses."""

_MAX_ROWS = 12
"""More rows than this gain nothing: the multipliers are already busy."""

_MAX_VECTORS = 8
"""Vectors across a panel. Unpacked columns may be more: long stretches stream well."""

_NARROW = 2
"""Vectors of a panel for many rows."""

MIN_WORK = 8 * 1024
"""Multiply-adds below which packing an activation costs more than it saves."""

_MIN_WEIGHTS = 256
"""Elements of weights from which on packing them, once, pays."""

_MIN_PANEL = 64
"""Elements of a matrix of one panel from which on a tile pays: nothing is packed."""

_MIN_ROWS = 4
"""Rows of `a` from which on packing an activation pays."""

_FEW_ROWS = 24
"""Rows of `a` up to which an activation is not packed: it is read once or twice."""

_SOME_ROWS = 128
"""... if the second-level cache holds a panel of it, which is read again for each tile of rows."""

_WAYS = 8
"""Lines that the second-level cache holds of those that are its size, divided by this, apart."""

_TRANSPOSED = 0.8
"""Elements that a product computed transposed moves, of those that packing `b` would: measured."""

_REGISTERS_PER_ROW = 4
"""Registers that each row of a streamed product takes: up to 8 rows with 32 of them."""

_ROWS_OF_SLOW_PAIRS = 4
"""Rows of `a` up to which slow instructions for pairs pay: `b` is half as long, and read once."""

_STREAMED_COLUMNS = 2 * 1024
"""Columns of a streamed block: stretches that long are read at the speed of the memory."""

_LEAST_COLUMNS = 256
"""Columns of a streamed block below which two threads gain nothing."""

_MIN_ELEMENTS = 4 * 1024
"""Elements of an activation from which on tiles of few rows beat the plain loops."""


def pack_operands(target: Target, seen: ChoiceObserver = no_layout) -> GraphPass:
    """Return the pass for `target`; `seen` is called with every product."""

    def rule(node: Node) -> Value | None:
        if node.lowering is not None:
            return None
        transposed = transposed_product(node, target)
        if transposed is not None:
            inner = rule(transposed.node)
            rows = ops.transpose(transposed if inner is None else inner, perm=(1, 0))
            return ops.reshape(rows, shape=node.result.shape) if node.result.rank > 2 else rows
        choice = choose_product(node, target)
        seen(node, choice)
        packed = packed_product(node, choice)
        return small_product(node) if packed is None else packed

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.matmul,), rule)])

    return GraphPass("pack-operands", run, __doc__ or "")


def choose_product(node: Node, target: Target) -> Choice:
    """Choose the schedule of `node`, a matmul."""
    a, _ = node.operands
    if a.shape[-1] == 1:
        return Why.ONE_TERM.because()
    if not a.dtype.is_low_precision:
        return _choose(node, target)
    if a.dtype is not DType.BF16 or not target.dots_bf16 or not isinstance(a.shape[-1], int):
        return Why.WIDENED.because(a.dtype)
    choice = _choose(node, target)
    if choice.why not in (Why.PACKED, Why.PACKED_ONCE, Why.ONE_PANEL):
        return Why.WIDENED.because(a.dtype)
    product_ = Product.of(node)
    if target.has_slow_bf16_dots and product_.rows > _ROWS_OF_SLOW_PAIRS:
        return Why.SLOW_PAIRS.because(target.cpu, _ROWS_OF_SLOW_PAIRS)
    assert isinstance(choice.lowering, Schedule)
    packed = replace(choice.lowering, right="panels")
    words = replace(product_.matrices, inner=-(-upper(product_.inner) // BF16_PER_WORD))
    return Why.PAIRS.because(target.cpu, lowering=product_loops(packed, words))


@dataclass(frozen=True, slots=True)
class Product:
    """The matrices of a product, and which of its operands are stored transposed."""

    node: Node
    a: Value
    b: Value
    transposed: tuple[bool, bool]
    height: Extent
    """Rows that one matrix multiplies."""
    inner: Extent
    width: Extent

    @classmethod
    def of(cls, node: Node) -> Product:
        (a, left), (b, right) = product_operands(node)
        height, inner = (a.shape[-1], a.shape[-2]) if left else a.shape[-2:]
        if b.rank == 2:
            height = product((*a.shape[:-2], height))  # a shared matrix multiplies all rows at once
        return cls(node, a, b, (left, right), height, inner, b.shape[-2 if right else -1])

    @property
    def rows(self) -> int:
        return upper(self.height)

    @property
    def columns(self) -> int:
        return upper(self.width)

    @property
    def size(self) -> int:
        """Bytes of an element: products of bf16 multiply words of two."""
        return max(self.a.dtype.size, DType.F32.size)

    @property
    def matrices(self) -> Matrices:
        """Return the extents, at most."""
        batch = upper(product(self.node.result.shape[:-2])) if self.b.rank > 2 else 1
        inner, left = upper(self.inner), self.transposed[0]
        return Matrices(batch, self.rows, inner, self.columns, self.size, left)

    def completed(self, given: Schedule) -> Schedule:
        """Return a given schedule with the loops that it leaves open."""
        if given.order or given.library != "none":
            return given
        if given.left == "registers":
            return replace(given, order=("batch", PANELS, ROWS))
        return product_loops(given, self.matrices)

    def scheduled(self, tile: Schedule, *, packed: bool) -> Schedule:
        """Return the schedule by a tile."""
        right: Literal["panels", "in_place"] = "panels" if packed else "in_place"
        return product_loops(replace(tile, right=right), self.matrices)


def _choose(node: Node, target: Target) -> Choice:
    a, b = node.operands
    if a.dtype not in (DType.F32, DType.F64, DType.BF16):
        return Why.DTYPE.because(a.dtype)
    if not target.has_vectors:
        return Why.NO_VECTORS.because(target.cpu)
    found = Product.of(node)
    a, b, columns = found.a, found.b, found.columns
    given = given_schedule(node, target)
    if given is not None:
        return Why.GIVEN.because(lowering=found.completed(given))
    if columns == 0:
        return Why.COLUMNS.because(found.width)
    if b.rank > 2 and a.shape[:-2] not in ((), b.shape[:-2]):
        return Why.BATCHES.because(format_shape(a.shape[:-2]), format_shape(b.shape[:-2]))
    right = found.transposed[1]
    if not right and stays_in_place(found):
        in_place = _choose_in_place(found, target)
        if in_place is not None:
            return in_place
    lanes = target.lanes(found.size)
    shares = target.shares_panels and is_prepared(b)
    choose = shared_tile if shares else choose_tile
    tile = choose(found.rows, columns, lanes, target.vector_registers)
    one_panel = is_one_panel(found.width, tile, transposed=right)
    if one_panel and upper(found.inner) * columns >= _MIN_PANEL:
        return Why.ONE_PANEL.because(columns, lowering=found.scheduled(tile, packed=False))
    tile = tile if shares else _uncrowded(found, tile, target.vector_registers)
    return _packing(found, tile)


def is_one_panel(columns: Extent, tile: Schedule, *, transposed: bool) -> bool:
    """True if a matrix has the columns of one panel, so that packing it would only copy it."""
    return columns == tile.columns and not transposed


def _uncrowded(found: Product, tile: Schedule, registers: int) -> Schedule:
    """Return a tile half as high and twice as wide where rows of `a` evict each other.

    It has as many sums, and its rows need not be copied first.
    """
    columns = 2 * tile.columns
    most = (registers - _REGISTERS_BESIDE_TILE) * tile.lanes // columns
    if found.transposed[0] or found.columns % columns or tile.columns != _NARROW * tile.lanes:
        return tile
    rows = -(-found.rows // -(-found.rows // most))
    row_bytes = upper(found.inner) * found.size
    crowded, still = (rows_in_a_set(count, row_bytes) for count in (tile.rows, rows))
    is_as_large = rows * columns >= tile.rows * tile.columns
    return Schedule(rows, columns, tile.lanes) if is_as_large and crowded >= WAYS >= still else tile


def _choose_in_place(found: Product, target: Target) -> Choice | None:
    """Choose how an unpacked `b` is read; None where its columns suit no tile."""
    rows, columns = found.rows, found.columns
    lanes, registers = target.lanes(found.size), target.vector_registers
    most = registers // _REGISTERS_PER_ROW
    if found.height in range(1, most + 1) and found.width == columns >= lanes:
        streamed = choose_stream(rows, columns, lanes, registers)
        return Why.STREAMED.because(rows, most, streamed)
    tile = choose_tile(rows, columns, lanes, registers, whole=True)
    if tile.columns < 2 * lanes or not (rows <= _FEW_ROWS or _holds_panel(found, tile, target)):
        return None
    limit = _FEW_ROWS if rows <= _FEW_ROWS else _SOME_ROWS
    return Why.IN_PLACE.because(rows, limit, found.scheduled(tile, packed=False))


def _holds_panel(found: Product, tile: Schedule, target: Target) -> bool:
    """True if the second-level cache holds the rows of an unpacked panel.

    Rows that are a multiple of a power of two apart share few of its sets; how far apart rows of a
    symbolic number of columns are is not known.
    """
    if found.width != found.columns:
        return False
    apart = math.gcd(found.columns * found.size, target.l2 // _WAYS)
    return upper(found.inner) * max(apart, 2 * tile.columns * found.size) <= target.l2


def _packing(found: Product, tile: Schedule) -> Choice:
    """Choose whether `b` is packed for `tile`."""
    fits = pays(found.node, found.height, found.inner, found.columns)
    elements, packed = upper(found.inner) * found.columns, found.scheduled(tile, packed=True)
    if is_prepared(found.node.operands[1]):
        once = Why.PACKED_ONCE.because(lowering=packed)
        return once if fits else Why.SMALL_WEIGHTS.because(elements, _MIN_WEIGHTS)
    rows = found.rows
    work, least = f"{rows} rows, {rows * elements}", f"{_MIN_ROWS} rows, {MIN_WORK}"
    return Why.PACKED.because(work, least, packed) if fits else Why.SMALL.because(work, least)


def packed_product(node: Node, choice: Choice) -> Value | None:
    """Return `node`, a matmul, as it was chosen; None for plain loops."""
    if choice.why is Why.ONE_TERM:
        column, row = node.operands
        outer: Value = ops.mul(column, row)
        return outer if outer.dtype.is_int else outer + 0.0  # with which sums begin
    if choice.why in (Why.WIDENED, Why.SLOW_PAIRS):
        return in_single_precision(node)
    if not isinstance(choice.lowering, Schedule):
        return None
    (a, a_transposed), (b, b_transposed) = product_operands(node)
    if choice.why is Why.PAIRS:
        pairs = _product_of_pairs(a, b, choice.lowering, (a_transposed, b_transposed))
        result: Value = ops.cast(pairs, to=node.result.dtype)
        return result
    if choice.lowering.right == "in_place" and choice.lowering.library == "none":
        b = node.operands[1]
    elif choice.lowering.right == "panels" and choice.lowering.library == "none":
        b = in_panels(b, choice.lowering.columns, choice.lowering.lanes, transposed=b_transposed)
    right = b_transposed and choice.lowering.library != "none"
    return lowered_product(a, b, choice.lowering, left=a_transposed, right=right)


def _product_of_pairs(
    a: Value, b: Value, schedule: Schedule, transposed: tuple[bool, bool]
) -> Value:
    """Return the f32 product of bf16 operands over words of two; either may be given transposed."""
    rows = words_of_bf16(a, a.rank - 1 - transposed[0])
    if transposed[0]:
        rows = swapped(rows)
    columns = words_of_bf16(b, b.rank - 2 + transposed[1])
    panels = in_panels(columns, schedule.columns, schedule.lanes, transposed=transposed[1])
    attrs = make_attrs(ops.stored_matmul, {"elements": "bf16"})
    return a.graph.append(ops.stored_matmul, (rows, panels), attrs, lowering=schedule)[0]


def lowered_product(
    a: Value, b: Value, schedule: Schedule, *, left: bool, right: bool = False
) -> Value:
    """Return `a @ b` computed as `schedule` says; `left` and `right` say what is transposed."""
    transposed = {"left": left, "right": right} if left or right else {}
    definition = ops.stored_matmul if transposed else ops.matmul
    attrs = make_attrs(definition, transposed)
    return a.graph.append(definition, (a, b), attrs, lowering=schedule)[0]


def product_operands(node: Node) -> tuple[tuple[Value, bool], tuple[Value, bool]]:
    """Return both operands of a product, each without its transpose where that is absorbed.

    A batch of transposes with one matrix is copied: then the rows of all batches are one.
    """
    a, b = map(without_transpose, node.operands)
    copied = a[0].rank > 2 and b[0].rank == 2
    return ((node.operands[0], False) if copied else a), b


def in_panels(b: Value, width: int, lanes: int, *, transposed: bool) -> Value:
    """Return `b`, or its transpose, in panels of `width` columns."""
    attrs = make_attrs(ops.pack_panels, {"layout": Panels(width), "transposed": transposed})
    squares = RegisterTranspose(lanes) if transposed and lanes > 1 else None
    return b.graph.append(ops.pack_panels, (b,), attrs, lowering=squares)[0]


def small_product(node: Node) -> Value | None:
    """Return a product too small to pack with the transposes of its operands absorbed."""
    (a, left), (b, right) = (without_transpose(operand) for operand in node.operands)
    if not left and not right:
        return None
    result: Value = ops.stored_matmul(a, b, left=left, right=right)
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
        return upper(inner) * columns >= _MIN_WEIGHTS
    rows = upper(height)
    return rows >= _MIN_ROWS and rows * upper(inner) * columns >= MIN_WORK


def stays_in_place(found: Product) -> bool:
    """True if `b` is computed anew and has so few rows of `a` that packing it may not pay."""
    elements = upper(found.inner) * found.columns
    return found.rows <= _SOME_ROWS and elements >= _MIN_ELEMENTS and not is_prepared(found.b)


def transposed_product(node: Node, target: Target) -> Value | None:
    """Return `w @ a^T` for `a @ w^T` where that moves fewer elements; None elsewhere.

    Packing transposes all of `w`. In its place `a` is packed, and the result transposed.
    """
    (a, left), (w, right) = product_operands(node)
    if a.dtype not in (DType.F32, DType.F64) or not target.has_vectors or left or not right:
        return None
    if a.rank < 2 or w.rank != 2 or is_prepared(w) or given_schedule(node, target) is not None:
        return None
    rows, inner, columns = product(a.shape[:-1]), a.shape[-1], w.shape[0]
    if not (isinstance(rows, int) and isinstance(inner, int) and isinstance(columns, int)):
        return None
    moved, packed = rows * (inner + 2 * columns), inner * columns
    if rows * packed < MIN_WORK or moved > _TRANSPOSED * packed:
        return None
    matrix = a if a.rank == 2 else ops.reshape(a, shape=(rows, inner))
    result: Value = ops.matmul(w, ops.transpose(matrix, perm=(1, 0)))
    return result


def without_transpose(value: Value) -> tuple[Value, bool]:
    """Strip a transpose of the last two axes; also return whether there was one."""
    if value.op is not ops.transpose or value.rank < 2:
        return value, False
    order = tuple(range(value.rank))
    swapped = (*order[:-2], order[-1], order[-2])
    if value.node.attribute("perm") != swapped:
        return value, False
    return value.node.operands[0], True


def choose_stream(height: int, columns: int, lanes: int, registers: int) -> Schedule:
    """Choose blocks of columns, an even number of equal ones, and the rows of `b` to take at once.

    `depth` rows of `b` and their scalars stay in registers, with a vector of sums.
    """
    depth = next(d for d in (4, 2, 1) if d == 1 or (height + 1) * d + 1 <= registers)
    parts = -(-columns // _STREAMED_COLUMNS)
    if columns >= 2 * _LEAST_COLUMNS:
        parts += parts % 2
    vectors = -(-columns // (parts * lanes))
    return Schedule(
        height,
        lanes,
        lanes,
        order=("batch", PANELS, ROWS),
        groups=-(-columns // (vectors * lanes)),
        depth=depth,
        left="registers",
        right="in_place",
    )


def choose_tile(
    height: int, columns: int, lanes: int, registers: int, *, whole: bool = False
) -> Schedule:
    """Choose the tile that covers `height` rows with the least waste.

    The tile's accumulators fill the registers that the loop does not need otherwise: 12 x 2
    vectors with 32 registers; fewer rows leave room for wider panels. `whole` panels divide
    the columns, or the last one overlaps its neighbour.
    """
    budget = registers - _REGISTERS_BESIDE_TILE
    most = min(_MAX_ROWS, budget // 2)
    tiles = -(-height // most)
    rows = max(1, -(-height // max(1, tiles)))
    widest = budget if whole else _MAX_VECTORS
    vectors = max(1, min(widest, budget // rows, -(-columns // lanes)))
    if whole:
        vectors = panel_vectors(columns, lanes, vectors)
    elif vectors == _NARROW and _wastes(columns, lanes, vectors):
        rows, vectors = _wider(rows, vectors, columns, lanes, budget)
    return Schedule(rows, vectors * lanes, lanes)


def shared_tile(height: int, columns: int, lanes: int, registers: int) -> Schedule:
    """Choose the tile for `height` rows whose panels are those of many rows."""
    many = choose_tile(_SOME_ROWS, columns, lanes, registers)
    tiles = -(-height // many.rows)
    return replace(many, rows=max(1, -(-height // max(1, tiles))))


def _wider(rows: int, vectors: int, columns: int, lanes: int, budget: int) -> tuple[int, int]:
    """Return rows and vectors of a lower and wider tile if its panels hold just the columns."""
    lower = min(rows, budget // (vectors + 1))
    fits = not _wastes(columns, lanes, vectors + 1) and 3 * lower >= 2 * rows
    return (lower, vectors + 1) if fits else (rows, vectors)


def _wastes(columns: int, lanes: int, vectors: int) -> bool:
    """True if the last panel has vectors without a column."""
    return -(-columns // lanes) % vectors != 0


def panel_vectors(columns: int, lanes: int, most: int) -> int:
    """Return the vectors of an unpacked panel: one that divides the columns, or nearly."""
    for vectors in range(most, most // 2, -1):
        if columns % (vectors * lanes) == 0:
            return vectors
    needed, most = -(-columns // lanes), min(most, columns // lanes)
    return -(-needed // -(-needed // most)) if most else 0
