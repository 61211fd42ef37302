"""Lowering of integer products to byte dot-product instructions (VNNI, `sdot`).

    %4: i32[M, N] = matmul (cast %x - zero) (cast %w)
        ->  %5: u8[M, K] = %x moved to 0..255, as x86 multiplies: in the kernel that computes %x
            %6: u32[M, K / 4] = bytes_as_words %5: in place
            %7: i32[K / 4, N] = words of %w, neighbors of K, in panels: once, in setup
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

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.ir.layout import ChannelPanels
from rlx.ir.lowering import Lowering, Windowed
from rlx.ir.op import OpDef, Trait, make_attrs
from rlx.ir.ops.byte_products import BYTES, SIGN, filled_up, words_of_bytes
from rlx.ir.ops.conv_geometry import attributes_of, geometry, pads_itself, undilated
from rlx.ir.shape import product, upper
from rlx.passes.layout.convolution_tiles import is_bare, is_pointwise, only_pads, sliding_of
from rlx.passes.layout.matrix_units import loops_around, matrix_unit_tile
from rlx.passes.layout.pack_operands import choose_tile as choose_matrix_tile
from rlx.passes.layout.pack_operands import in_panels
from rlx.passes.layout.split_product import Matrices
from rlx.passes.layout.tile_convolutions import choose_tile as choose_image_tile
from rlx.passes.layout.tile_convolutions import choose_window, every_window
from rlx.passes.lowering.integer_ranges import EXACT, range_of
from rlx.passes.scalars import splat
from rlx.target import Target

_FEWEST = 4
"""Terms of a sum from which on words pay."""
_FEWEST_CHANNELS = 2
"""Channels of a group from which on they do, though some bytes of a word are missing."""


_RANGES = {DType.I8: (-SIGN, SIGN), DType.U8: (0, 2 * SIGN)}
"""Where bytes begin and end."""


@dataclass(frozen=True, slots=True)
class QuantizedOperand:
    """Quantized values and their zero point."""

    bytes: Value
    zero: int | Value
    """One for all, or i32 of the rank of the bytes that spreads over their shape."""

    @property
    def are_signed(self) -> bool:
        return self.bytes.dtype is DType.I8

    def zero_among(self, *, signed: bool) -> int | Value:
        """Return the zero once the bytes are stored with a sign, or without."""
        moved = SIGN * (self.are_signed - signed)
        return self.zero + moved if moved else self.zero

    def is_uniform_along(self, *axes: int) -> bool:
        """True if the zero point does not change along `axes`."""
        return isinstance(self.zero, int) or all(self.zero.shape[axis] == 1 for axis in axes)

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
    """Return the bytes that an i32 operand is made of: `cast(q)`, or `cast(q)` less a zero point.

    Transposes and reshapes move to the bytes.
    """
    if value.op in (ops.transpose, ops.reshape):
        inner = quantized_operand_of(value.node.operands[0])
        return inner and _moved(inner, value)
    zero: int | Value = 0
    if value.op in (ops.sub, ops.add):
        left, right = value.node.operands
        found = _zero_of(value, right)
        if found is None or left.shape != value.shape:
            return None
        value, zero = left, found
    if value.op is not ops.cast or (isinstance(zero, int) and abs(zero) > 2 * SIGN):
        return None
    (source,) = value.node.operands
    return QuantizedOperand(source, zero) if source.dtype in (DType.I8, DType.U8) else None


def _zero_of(value: Value, right: Value) -> int | Value | None:
    """Return what `value`, a difference or sum, takes off its left operand."""
    constant = splat(right)
    if constant is not None:
        return int(constant) if value.op is ops.sub else -int(constant)
    if value.op is ops.add:
        return None
    while right.op is ops.expand:
        (right,) = right.node.operands
    return ops.reshape(right, shape=(*(1,) * (value.rank - right.rank), *right.shape))


def _moved(inner: QuantizedOperand, value: Value) -> QuantizedOperand | None:
    """Return bytes and zero point as `value`, a transpose or reshape, moves them."""
    node, zero = value.node, inner.zero
    if not isinstance(zero, int):
        if value.op is ops.transpose:
            zero = ops.transpose(zero, perm=node.attribute("perm"))
        elif inner.is_uniform_along(*range(zero.rank)):
            zero = ops.reshape(zero, shape=(1,) * value.rank)
        else:
            return None
    return QuantizedOperand(value.graph.append(node.op, (inner.bytes,), node.attrs)[0], zero)


def _is_zero(zero: int | Value) -> bool:
    return isinstance(zero, int) and zero == 0


def product_of_bytes(node: Node, target: Target) -> Value | None:
    """Return `node`, a matmul of i32, by words; None where target or operands do not suit."""
    a, b = map(quantized_operand_of, node.operands)
    depth, columns = node.operands[0].shape[-1], node.result.shape[-1]
    known = isinstance(depth, int) and isinstance(columns, int) and depth >= _FEWEST
    if not (target.dots_bytes and known and a and b) or not columns:
        return None
    batch, folded = b.bytes.shape[:-2], b.bytes.rank - 2
    if batch and a.bytes.shape[:-2] != batch:
        return None
    if not (a.is_uniform_along(-1) and b.is_uniform_along(-2)):
        return None
    signed = not target.dots_unsigned_bytes
    zeros = a.zero_among(signed=signed), b.zero_among(signed=True)
    count, rows = upper(product(batch)), upper(product(a.bytes.shape[len(batch) : -1]))
    lanes = target.lanes(BYTES)
    words, neighbors = _words_of_rows(a, signed=signed)
    tile = matrix_unit_tile(rows, upper(columns), upper(words.shape[-1]), target)
    if tile is None:
        tile = choose_matrix_tile(rows, upper(columns), lanes, target.vector_registers)
    weights = words_of_bytes(b.bytes, axis=folded, signed=True, neighbors=neighbors)
    panels = in_panels(weights, tile.columns, lanes, transposed=False)
    inner = upper(words.shape[-1])
    matrices = Matrices(count, rows, inner, upper(columns), BYTES, is_transposed=False)
    schedule = loops_around(tile, matrices)
    total = _lowered(ops.stored_matmul, words, panels, schedule, elements="bytes")
    if not _is_zero(zeros[0]):
        sums = b.sums((folded,), signed=True)
        total = total - ops.reshape(sums, shape=(*batch, 1, columns)) * zeros[0]
    if not _is_zero(zeros[1]):
        of_rows = ops.reshape(a.sums((-1,), signed=signed), shape=(*a.bytes.shape[:-1], 1))
        total = total - of_rows * zeros[1] + zeros[0] * zeros[1] * upper(depth)
    return total


def _words_of_rows(a: QuantizedOperand, *, signed: bool) -> tuple[Value, bool]:
    """Return rows of bytes as words, and whether these are made of neighbors."""
    stored = a.stored(signed=signed)
    whole = filled_up(stored, stored.rank - 1)
    if whole is not stored or stored.op.has(Trait.ELEMENTWISE):
        return ops.bytes_as_words(whole), True
    return words_of_bytes(a.bytes, axis=a.bytes.rank - 1, signed=signed), False


def convolution_of_bytes(node: Node, target: Target) -> Value | None:
    """Return `node`, a convolution of i32, by words of channels; None where they do not suit."""
    x, w = map(quantized_operand_of, node.operands)
    if not (target.dots_bytes and x and w):
        return None
    shape, inner = w.bytes.shape, range(1, w.bytes.rank)
    if not (x.is_uniform_along(*inner) and w.is_uniform_along(*inner)):
        return None
    known = all(isinstance(extent, int) for extent in (*x.bytes.shape[1:], *shape))
    if not known or not only_pads(sliding_of(node)):
        return None
    windowed = choose_window(node, target)
    if windowed is not None:
        return _sums_of_rows(node, x, w, windowed, target)
    if upper(shape[1]) < _FEWEST_CHANNELS:
        return None
    if not _is_zero(w.zero_among(signed=True)) and not _has_small_sums(node):
        return None
    around = None if is_bare(node) else _byte_around(x)
    if around is None and not is_bare(node):
        return None
    few = upper(product(node.result.shape[2:])) < 2 * target.lanes(BYTES)
    gathers = _gathers_windows(node, target)
    direct = (few or not is_pointwise(node)) and not gathers
    multiply = _sums_of_windows if direct else _products_of_pixels
    total = multiply(node, x, w, around, target)
    zeros = x.zero_among(signed=not target.dots_unsigned_bytes), w.zero_among(signed=True)
    column = (shape[0], *(1,) * (len(shape) - 2))
    if total is not None and not _is_zero(zeros[0]):
        sums = ops.reshape(w.sums(tuple(inner), signed=True), shape=column)
        total = total - sums * zeros[0]
    if total is not None and not _is_zero(zeros[1]):
        if not isinstance(zeros[1], int):
            zeros = zeros[0], ops.reshape(zeros[1], shape=(zeros[1].shape[0], *column[1:]))
        total = total - _sums_of_pixels(node) * zeros[1]
    return total


def _sums_of_rows(
    node: Node, x: QuantizedOperand, w: QuantizedOperand, windowed: Windowed, target: Target
) -> Value | None:
    """Return a depthwise convolution by words of four taps along rows; None where none fit.

    Taps that are missing in the last word are zero, over a column more on the right.
    """
    signed, sliding = not target.dots_unsigned_bytes, sliding_of(node)
    around, zero = _byte_around(x), x.zero_among(signed=signed)
    if around is None or not _is_zero(w.zero_among(signed=True)) or sliding[-1].dilation != 1:
        return None
    image, pads = x.stored(signed=signed), [(axis.low, axis.high) for axis in sliding]
    if not _is_zero(zero) and any(map(any, pads)):
        around = replace(x, bytes=around).stored(signed=signed)
        image, pads = _padded_with(image, around, pads), [(0, 0) for _ in sliding]
    taps = filled_up(w.stored(signed=True), w.bytes.rank - 1)
    missing = upper(taps.shape[-1]) - upper(w.bytes.shape[-1])
    pads[-1] = (pads[-1][0], pads[-1][1] + missing)
    attributes = {**node.attrs.as_dict(), "padding": tuple(pads), "elements": "integers"}
    if not pads_itself(image.shape, geometry(len(pads), padding=tuple(pads)), image.dtype.size):
        return None
    total = _lowered(ops.stored_conv, image, taps, windowed, **attributes)
    if _is_zero(zero):
        return total
    sums = w.sums(tuple(range(1, w.bytes.rank)), signed=True)
    return total - ops.reshape(sums, shape=(w.bytes.shape[0], *(1,) * len(pads))) * zero


def _padded_with(x: Value, around: Value, pads: Sequence[tuple[int, int]]) -> Value:
    """Return an image of bytes or words with one around it."""
    low, high = ((0, 0, *side) for side in zip(*pads, strict=True))
    constant = splat(around)
    if constant is not None:
        return ops.pad(x, low=low, high=high, value=constant.item())
    return ops.bitwise_xor(ops.pad(ops.bitwise_xor(x, around), low=low, high=high), around)


def _byte_around(x: QuantizedOperand) -> Value | None:
    """Return the zero point as a byte like those of `x`; None where it may be none."""
    graph, dtype = x.bytes.graph, x.bytes.dtype
    if isinstance(x.zero, int):
        return graph.constant(x.zero, dtype) if x.zero in range(*_RANGES[dtype]) else None
    found, (low, end) = range_of(x.zero), _RANGES[dtype]
    if found is None or not low <= found.low <= found.high < end or x.zero.shape[0] != 1:
        return None
    return ops.cast(ops.reshape(x.zero, shape=()), to=dtype)


def _has_small_sums(node: Node) -> bool:
    """True if sums of what a window of a convolution reads are exact in f32."""
    x, w = node.operands
    found = range_of(x)
    return found is not None and found.magnitude * upper(product(w.shape[1:])) <= EXACT


def _sums_of_pixels(node: Node) -> Value:
    """Return the sums of what each window of a convolution of i32 reads, `[N, C_out or 1, ...]`.

    Channels are summed first.
    """
    x, w = node.operands
    groups, outputs = node.attribute("groups"), upper(w.shape[0])
    parts = (x.shape[0], groups, upper(w.shape[1]), *x.shape[2:])
    planes = ops.cast(ops.reduce_sum(ops.reshape(x, shape=parts), axes=(2,)), to=DType.F32)
    ones = x.graph.constant(np.ones((groups, 1, *w.shape[2:]), np.float32))
    (total,) = x.graph.append(node.op, (planes, ones), node.attrs)
    total = ops.cast(total, to=DType.I32)
    if groups == 1:
        return total
    each = (x.shape[0], groups, outputs // groups, *total.shape[2:])
    spread = ops.expand(ops.reshape(total, shape=(*each[:2], 1, *each[3:])), shape=each)
    result: Value = ops.reshape(spread, shape=node.result.shape)
    return result


def _sums_of_windows(
    node: Node, x: QuantizedOperand, w: QuantizedOperand, around: Value | None, target: Target
) -> Value | None:
    """Return a convolution over words of channels; None where no tile fits."""
    tile, sliding, groups = (
        choose_image_tile(node, target, per_word=BYTES),
        sliding_of(node),
        node.attribute("groups"),
    )
    if tile is None:
        return None
    words = _padded_words(node, x, around, signed=not target.dots_unsigned_bytes)
    weights = words_of_bytes(w.bytes, axis=1, signed=True)
    panels = ops.pack_panels(weights, layout=ChannelPanels(tile.columns, groups))
    attributes = {**attributes_of(undilated(sliding)), "groups": groups}
    return _lowered(ops.stored_conv, words, panels, tile, elements="bytes", **attributes)


def _padded_words(node: Node, x: QuantizedOperand, around: Value | None, *, signed: bool) -> Value:
    """Return the image of a convolution in words of channels, padded with its zero point."""
    words = words_of_bytes(x.bytes, axis=1, signed=signed, groups=node.attribute("groups"))
    if around is None:
        return words
    pads = [(axis.low, axis.high) for axis in sliding_of(node)]
    return _padded_with(words, _word_around(around, signed=signed), pads)


def _word_around(around: Value, *, signed: bool) -> Value:
    """Return a word of four equal bytes; where channels are missing, weights are zero."""
    byte = splat(around)
    if byte is None:
        four = ops.expand(around, shape=(BYTES,))
        return ops.reshape(words_of_bytes(four, axis=0, signed=signed), shape=())
    bits = np.full(BYTES, byte).view(np.uint8) ^ SIGN * (signed is not (around.dtype is DType.I8))
    return around.graph.constant(bits.astype(np.uint8).view(np.int32 if signed else np.uint32)[0])


def _gathers_windows(node: Node, target: Target) -> bool:
    """True if a matrix unit multiplies what the windows of a convolution read, tap by tap.

    These are as many copies of the image as there are taps, which the cache must hold.
    """
    _, w = node.operands
    taps, count = product(w.shape[2:]), product(node.result.shape[2:])
    words = upper(taps) * -(-upper(w.shape[1]) // BYTES)
    if node.attribute("groups") != 1 or BYTES * words * upper(count) > target.l2 // 2:
        return False
    tile = matrix_unit_tile(upper(w.shape[0]), upper(count), words, target, whole=True)
    return tile is not None and taps != 1


def _gathered(node: Node, words: Value) -> Value:
    """Return what each window reads of a padded image: its taps, then the words of channels."""
    sliding, extents = sliding_of(node), node.operands[1].shape[2:]
    positions = tuple(map(upper, node.result.shape[2:]))
    step = (1, 1, *(axis.stride for axis in sliding))
    taps = []
    for tap in itertools.product(*(range(upper(extent)) for extent in extents)):
        first = tuple(at * axis.dilation for at, axis in zip(tap, sliding, strict=True))
        ends = (
            at + (count - 1) * axis.stride + 1
            for at, count, axis in zip(first, positions, sliding, strict=True)
        )
        taps.append(
            ops.slice(words, start=(0, 0, *first), stop=(*words.shape[:2], *ends), step=step)
        )
    result: Value = ops.concat(*taps, axis=1)
    return result


def _products_of_pixels(
    node: Node, x: QuantizedOperand, w: QuantizedOperand, around: Value | None, target: Target
) -> Value:
    """Return a convolution as products: weights, as words, by what windows of an image read.

    Those of single taps read its pixels. Lanes are along them, as they do in memory, so that whole
    vectors are stored.
    """
    signed, count = not target.dots_unsigned_bytes, product(node.result.shape[2:])
    weights = words_of_bytes(w.bytes, axis=1, signed=True)
    outputs, steps = weights.shape[0], product(weights.shape[1:])
    if is_pointwise(node):
        words = words_of_bytes(every_window(x.bytes, sliding_of(node)), axis=1, signed=signed)
    else:
        words = _gathered(node, _padded_words(node, x, around, signed=signed))
        weights = ops.transpose(weights, perm=(0, *range(2, weights.rank), 1))
    words = ops.reshape(words, shape=(words.shape[0], steps, count))
    rows = ops.reshape(weights, shape=(outputs, steps))
    height, columns = upper(rows.shape[0]), upper(words.shape[-1])
    registers, lanes = target.vector_registers, target.lanes(BYTES)
    tile = matrix_unit_tile(height, columns, upper(rows.shape[-1]), target, whole=True)
    if tile is None:
        tile = choose_matrix_tile(height, columns, lanes, registers, whole=True)
    images, inner = upper(words.shape[0]), upper(rows.shape[-1])
    schedule = loops_around(
        replace(tile, right="in_place"),
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
    if not (a and b and isinstance(depth, int)) or not _is_zero(b.zero) or b.bytes.rank > 2:
        return None
    if not a.is_uniform_along(-1):
        return None
    total = ops.stored_matmul(a.bytes, b.bytes, elements="integers")
    sums = ops.reduce_sum(ops.cast(b.bytes, to=DType.I32), axes=(0,))
    return total if _is_zero(a.zero) else total - sums * a.zero


def convolution_of_codes(node: Node) -> Value | None:
    """Return `node`, a convolution of i32, by weights as stored; None for other operands."""
    x, w = node.operands[0], quantized_operand_of(node.operands[1])
    if w is None or not _is_zero(w.zero):
        return None
    codes = quantized_operand_of(x)
    image = codes.bytes if codes is not None and _is_zero(codes.zero) else x
    return ops.stored_conv(image, w.bytes, elements="integers", **node.attrs.as_dict())


def _lowered(definition: OpDef, a: Value, b: Value, lowering: Lowering, **attributes: Any) -> Value:
    attrs = make_attrs(definition, attributes)
    return a.graph.append(definition, (a, b), attrs, lowering=lowering)[0]
