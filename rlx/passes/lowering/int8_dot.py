"""Lowering of integer products to byte dot-product instructions (VNNI, `sdot`).

    %4: i32[M, N] = matmul (cast %x - zero) (cast %w)
        ->  %5: u8[M, K] = %x moved to 0..255, which x86 wants: in the kernel that computes %x
            %6: u32[M, K / 4] = bytes_as_words %5: in place
            %7: i32[K / 4, N] = pack_bytes %w, neighbors of K, in panels: once, in setup
            %8: i32[M, N] = stored_matmul %6, %7 {elements = "bytes"}
            %9: i32[M, N] = %8 - (zero + 128) * columns of %w summed: once, in setup

Bytes of a row are words as stored, so that whatever kernel rounds them (a norm, an activation
after a product) stores what the product reads, and products of one input share it. Where rows are
no whole words, or bytes come from outside, they are packed, and a word holds elements that are a
quarter of the contracted axis apart, which takes no shuffling: words are made of whole vectors.
What computes the bytes stores them as bytes: a network of integers stays in eight bits between its
layers. Convolutions have words of four channels, of an input that is padded with its zero point
before; those of single taps are products of the weights by the pixels.
"""

from __future__ import annotations

from typing import Any

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.ir.lowering import Lowering, Schedule
from rlx.ir.op import OpDef, Trait, make_attrs
from rlx.ir.ops.byte_products import BYTES, SIGN
from rlx.ir.ops.conv_geometry import attributes_of, undilated
from rlx.ir.shape import product, upper
from rlx.passes.layout.convolution_tiles import is_bare, is_pointwise, only_pads, sliding_of
from rlx.passes.layout.pack_operands import choose_tile as choose_matrix_tile
from rlx.passes.layout.pack_operands import in_panels
from rlx.passes.layout.split_product import Matrices, product_loops
from rlx.passes.layout.tile_convolutions import choose_tile as choose_image_tile
from rlx.passes.layout.tile_convolutions import every_window
from rlx.passes.rewrites.scalars import splat
from rlx.target import Target

_FEWEST = 4
"""Terms of a sum, and channels of a group, from which on words pay."""


_RANGES = {DType.I8: (-SIGN, SIGN), DType.U8: (0, 2 * SIGN)}
"""Where bytes begin and end."""


@dataclass(frozen=True, slots=True)
class QuantizedOperand:
    """Quantized values and their zero point."""

    bytes: Value
    zero: int

    @property
    def are_signed(self) -> bool:
        return self.bytes.dtype is DType.I8

    def zero_among(self, *, signed: bool) -> int:
        """Return the zero once the bytes are stored with a sign, or without."""
        return self.zero + SIGN * (self.are_signed - signed)

    def stored(self, *, signed: bool) -> Value:
        """Return the bytes with a sign, or without."""
        if signed is self.are_signed:
            return self.bytes
        bits, sign = ops.bitcast(self.bytes, to=DType.U8), self.bytes.graph.constant(SIGN, DType.U8)
        moved = ops.bitwise_xor(bits, sign)
        result: Value = ops.bitcast(moved, to=DType.I8) if signed else moved
        return result

    def sums(self, axes: tuple[int, ...], *, signed: bool) -> Value:
        """Return the sums over axes of the bytes as they are stored."""
        wide = ops.cast(self.bytes, to=DType.I32)
        moved = wide + SIGN * (self.are_signed - signed)
        return ops.reduce_sum(moved, axes=axes)


def quantized_operand_of(value: Value) -> QuantizedOperand | None:
    """Return the bytes that an i32 operand is made of: `cast(q)`, or `cast(q)` less a constant.

    Transposes and reshapes move to the bytes.
    """
    if value.op in (ops.transpose, ops.reshape):
        inner, node = quantized_operand_of(value.node.operands[0]), value.node
        return inner and QuantizedOperand(
            value.graph.append(node.op, (inner.bytes,), node.attrs)[0], inner.zero
        )
    zero = 0
    if value.op in (ops.sub, ops.add):
        left, right = value.node.operands
        constant = splat(right)
        if constant is None:
            return None
        zero = int(constant) if value.op is ops.sub else -int(constant)
        value = left
    if value.op is not ops.cast or abs(zero) > 2 * SIGN:
        return None
    (source,) = value.node.operands
    return QuantizedOperand(source, zero) if source.dtype in (DType.I8, DType.U8) else None


def product_of_bytes(node: Node, target: Target) -> Value | None:
    """Return `node`, a matmul of i32, by words; None where target or operands do not suit."""
    a, b = map(quantized_operand_of, node.operands)
    depth, columns = node.operands[0].shape[-1], node.result.shape[-1]
    known = isinstance(depth, int) and isinstance(columns, int) and depth >= _FEWEST
    if not (target.dots_bytes and known and a and b) or b.bytes.rank > 2 or not columns:
        return None
    signed = not target.dots_unsigned_bytes
    zeros = a.zero_among(signed=signed), b.zero_among(signed=True)
    rows, lanes = upper(product(node.result.shape[:-1])), target.lanes(BYTES)
    tile = choose_matrix_tile(rows, upper(columns), lanes, target.vector_registers)
    words, neighbors = _words_of_rows(a, signed=signed)
    weights = ops.pack_bytes(b.bytes, axis=0, signed=True, neighbors=neighbors)
    panels = in_panels(weights, tile.columns, lanes, transposed=False)
    inner = upper(words.shape[-1])
    matrices = Matrices(1, rows, inner, upper(columns), BYTES, is_transposed=False)
    schedule = product_loops(Schedule(tile.rows, tile.columns, lanes), matrices)
    total = _lowered(ops.stored_matmul, words, panels, schedule, elements="bytes")
    if zeros[0]:
        total = total - b.sums((0,), signed=True) * zeros[0]
    if zeros[1]:
        of_rows = ops.reshape(a.sums((-1,), signed=signed), shape=(*a.bytes.shape[:-1], 1))
        total = total - of_rows * zeros[1] + upper(depth) * zeros[0] * zeros[1]
    return total


def _words_of_rows(a: QuantizedOperand, *, signed: bool) -> tuple[Value, bool]:
    """Return rows of bytes as words, and whether these are made of neighbors."""
    stored = a.stored(signed=signed)
    if upper(stored.shape[-1]) % BYTES == 0 and stored.op.has(Trait.ELEMENTWISE):
        return ops.bytes_as_words(stored), True
    return ops.pack_bytes(a.bytes, axis=a.bytes.rank - 1, signed=signed), False


def convolution_of_bytes(node: Node, target: Target) -> Value | None:
    """Return `node`, a convolution of i32, by words of channels; None where they do not suit."""
    x, w = map(quantized_operand_of, node.operands)
    if not (target.dots_bytes and x and w) or w.zero_among(signed=True):
        return None
    shape = w.bytes.shape
    known = all(isinstance(extent, int) for extent in (*x.bytes.shape[1:], *shape))
    if not known or upper(shape[1]) < _FEWEST or not only_pads(sliding_of(node)):
        return None
    if x.zero not in range(*_RANGES[x.bytes.dtype]) and not is_bare(node):
        return None
    few = upper(product(node.result.shape[2:])) < 2 * target.lanes(BYTES)
    multiply = _sums_of_windows if few or not is_pointwise(node) else _products_of_pixels
    total = multiply(node, x, w, target)
    zero = x.zero_among(signed=not target.dots_unsigned_bytes)
    if total is None or not zero:
        return total
    column = (shape[0], *(1,) * (len(shape) - 2))
    sums = ops.reshape(w.sums(tuple(range(1, len(shape))), signed=True), shape=column)
    return total - sums * zero


def _sums_of_windows(
    node: Node, x: QuantizedOperand, w: QuantizedOperand, target: Target
) -> Value | None:
    """Return a convolution over words of channels; None where no tile fits."""
    tile, sliding, groups = (
        choose_image_tile(node, target, per_word=BYTES),
        sliding_of(node),
        node.attribute("groups"),
    )
    if tile is None:
        return None
    signed, pads = not target.dots_unsigned_bytes, tuple((a.low, a.high) for a in sliding)
    around = {"padding": pads, "value": x.zero} if any(map(any, pads)) else {}
    words = ops.pack_bytes(x.bytes, axis=1, signed=signed, groups=groups, **around)
    weights = ops.pack_bytes(w.bytes, axis=1, signed=True)
    panels = ops.pack_channels(weights, width=tile.columns, groups=groups)
    attributes = {**attributes_of(undilated(sliding)), "groups": groups}
    return _lowered(ops.stored_conv, words, panels, tile, elements="bytes", **attributes)


def _products_of_pixels(
    node: Node, x: QuantizedOperand, w: QuantizedOperand, target: Target
) -> Value:
    """Return a convolution of single taps: weights, as words, by the pixels of every image.

    Lanes are along the pixels, as they do in memory, so that whole vectors are stored.
    """
    pixels = every_window(x.bytes, sliding_of(node))
    words = ops.pack_bytes(pixels, axis=1, signed=not target.dots_unsigned_bytes)
    words = ops.reshape(words, shape=(*words.shape[:2], product(words.shape[2:])))
    rows = ops.pack_bytes(ops.reshape(w.bytes, shape=w.bytes.shape[:2]), axis=1, signed=True)
    height, columns = upper(rows.shape[0]), upper(words.shape[-1])
    registers, lanes = target.vector_registers, target.lanes(BYTES)
    tile = choose_matrix_tile(height, columns, lanes, registers, whole=True)
    images, inner = upper(words.shape[0]), upper(rows.shape[-1])
    schedule = product_loops(
        Schedule(tile.rows, tile.columns, tile.lanes, right="in_place"),
        Matrices(images, height, inner, columns, BYTES, is_transposed=False),
    )
    result: Value = ops.reshape(
        _lowered(ops.stored_matmul, rows, words, schedule, elements="bytes"),
        shape=node.result.shape,
    )
    return result


def product_of_codes(node: Node) -> Value | None:
    """Return `node`, a matmul of i32, over the codes as stored; None for other operands.

    Weights stay bytes where they are: in flash, on a microcontroller.
    """
    a, b = map(quantized_operand_of, node.operands)
    depth = node.operands[0].shape[-1]
    if not (a and b and isinstance(depth, int)) or b.zero or b.bytes.rank > 2:
        return None
    total = ops.stored_matmul(a.bytes, b.bytes, elements="integers")
    sums = ops.reduce_sum(ops.cast(b.bytes, to=DType.I32), axes=(0,))
    return total - sums * a.zero if a.zero else total


def convolution_of_codes(node: Node) -> Value | None:
    """Return `node`, a convolution of i32, by weights as stored; None for other operands."""
    x, w = node.operands[0], quantized_operand_of(node.operands[1])
    if w is None or w.zero:
        return None
    codes = quantized_operand_of(x)
    image = codes.bytes if codes is not None and not codes.zero else x
    return ops.stored_conv(image, w.bytes, elements="integers", **node.attrs.as_dict())


def _lowered(definition: OpDef, a: Value, b: Value, lowering: Lowering, **attributes: Any) -> Value:
    attrs = make_attrs(definition, attributes)
    return a.graph.append(definition, (a, b), attrs, lowering=lowering)[0]
