"""Integer products by the instructions that multiply four bytes at a time.

    %4: i32[M, N] = matmul (cast %x - zero) (cast %w)
        ->  %5: u32[M, K / 4] = pack_bytes %x, its bytes moved to 0..255 where x86 wants that
            %6: i32[K / 4, N] = pack_bytes %w, in panels: once, in setup
            %7: i32[M, N] = matmul_bytes %5, %6 lowering = tile(...)
            %8: i32[M, N] = %7 - (zero + 128) * columns of %w summed: once, in setup

A word holds elements that lie a quarter of the contracted axis apart, which takes no shuffling:
neighbors in memory stay neighbors, and words are made of whole vectors. What computes the bytes
stores them as bytes: a network of integers stays in eight bits between its layers. Convolutions
have words of four channels, of an input that is padded with its zero point before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.ir.lowering import Lowering
from rlx.ir.op import OpDef, make_attrs
from rlx.ir.ops.byte_products import BYTES, SIGN
from rlx.ir.ops.conv_geometry import Geometry, attributes_of, bare
from rlx.ir.shape import product, upper
from rlx.passes.layout.convolution_tiles import sliding_of
from rlx.passes.layout.pack_operands import choose_tile as choose_matrix_tile
from rlx.passes.layout.pack_operands import in_panels
from rlx.passes.layout.tile_convolutions import choose_tile as choose_image_tile
from rlx.passes.rewrites.scalars import splat
from rlx.target import Target

_FEWEST = 4
"""Terms of a sum, and channels of a group, from which on words pay."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Bytes, and what is taken off each for the integer that it stands for."""

    bytes: Value
    zero: int

    @property
    def are_signed(self) -> bool:
        return self.bytes.dtype is DType.I8

    def zero_among(self, *, signed: bool) -> int:
        """Return the zero once the bytes are stored with a sign, or without."""
        return self.zero + SIGN * (self.are_signed - signed)

    def sums(self, axes: tuple[int, ...], *, signed: bool) -> Value:
        """Return the sums over axes of the bytes as they are stored."""
        wide = ops.cast(self.bytes, to=DType.I32)
        moved = wide + SIGN * (self.are_signed - signed)
        return ops.reduce_sum(moved, axes=axes)


def codes_of(value: Value) -> Codes | None:
    """Return the bytes that an i32 operand is made of: `cast(q)`, or `cast(q)` less a constant.

    Transposes and reshapes move to the bytes.
    """
    if value.op in (ops.transpose, ops.reshape):
        inner, node = codes_of(value.node.operands[0]), value.node
        return inner and Codes(
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
    return Codes(source, zero) if source.dtype in (DType.I8, DType.U8) else None


def product_of_bytes(node: Node, target: Target) -> Value | None:
    """Return `node`, a matmul of i32, by words; None where target or operands do not suit."""
    a, b = map(codes_of, node.operands)
    depth, columns = node.operands[0].shape[-1], node.result.shape[-1]
    known = isinstance(depth, int) and isinstance(columns, int) and depth >= _FEWEST
    if not (target.dots_bytes and known and a and b) or b.bytes.rank > 2 or not columns:
        return None
    signed = not target.dots_unsigned_bytes
    zeros = a.zero_among(signed=signed), b.zero_among(signed=True)
    rows, lanes = upper(product(node.result.shape[:-1])), target.lanes(BYTES)
    tile = choose_matrix_tile(rows, upper(columns), lanes, target.vector_registers)
    words = ops.pack_bytes(a.bytes, axis=a.bytes.rank - 1, signed=signed)
    weights = ops.pack_bytes(b.bytes, axis=0, signed=True)
    panels = in_panels(weights, tile.columns, lanes, transposed=False)
    total = _lowered(ops.matmul_bytes, words, panels, tile)
    if zeros[0]:
        total = total - b.sums((0,), signed=True) * zeros[0]
    if zeros[1]:
        of_rows = ops.reshape(a.sums((-1,), signed=signed), shape=(*a.bytes.shape[:-1], 1))
        total = total - of_rows * zeros[1] + upper(depth) * zeros[0] * zeros[1]
    return total


def convolution_of_bytes(node: Node, target: Target) -> Value | None:
    """Return `node`, a convolution of i32, by words of channels; None where they do not suit."""
    x, w = map(codes_of, node.operands)
    if not (target.dots_bytes and x and w) or w.zero_among(signed=True):
        return None
    shape, sliding, groups = w.bytes.shape, sliding_of(node), node.attribute("groups")
    known = all(isinstance(extent, int) for extent in (*x.bytes.shape[1:], *shape))
    if not known or upper(shape[1]) < _FEWEST or not _only_pads(sliding):
        return None
    tile = choose_image_tile(node, target)
    if tile is None:
        return None
    signed = not target.dots_unsigned_bytes
    image = Codes(_padded(x, sliding), x.zero)
    words = ops.pack_bytes(image.bytes, axis=1, signed=signed, groups=groups)
    weights = ops.pack_bytes(w.bytes, axis=1, signed=True)
    panels = ops.pack_channels(weights, width=tile.columns, groups=groups)
    attributes = {**attributes_of(bare(sliding)), "groups": groups}
    total = _lowered(ops.conv_bytes, words, panels, tile, **attributes)
    column = (shape[0], *(1,) * (len(shape) - 2))
    sums = ops.reshape(w.sums(tuple(range(1, len(shape))), signed=True), shape=column)
    zero = image.zero_among(signed=signed)
    return total - sums * zero if zero else total


def product_of_codes(node: Node) -> Value | None:
    """Return `node`, a matmul of i32, over the codes as they lie; None for other operands.

    Weights stay bytes where they are: in flash, on a microcontroller.
    """
    a, b = map(codes_of, node.operands)
    depth = node.operands[0].shape[-1]
    if not (a and b and isinstance(depth, int)) or b.zero or b.bytes.rank > 2:
        return None
    total = ops.matmul_codes(a.bytes, b.bytes)
    sums = ops.reduce_sum(ops.cast(b.bytes, to=DType.I32), axes=(0,))
    return total - sums * a.zero if a.zero else total


def convolution_of_codes(node: Node) -> Value | None:
    """Return `node`, a convolution of i32, by weights as they lie; None for other operands."""
    x, w = node.operands[0], codes_of(node.operands[1])
    if w is None or w.zero:
        return None
    codes = codes_of(x)
    image = codes.bytes if codes is not None and not codes.zero else x
    return ops.conv_codes(image, w.bytes, **node.attrs.as_dict())


def _padded(x: Codes, sliding: Geometry) -> Value:
    """Return the image with its zero point around it."""
    low = (0, 0, *(axis.low for axis in sliding))
    high = (0, 0, *(axis.high for axis in sliding))
    if not any((*low, *high)):
        return x.bytes
    return ops.pad(x.bytes, low=low, high=high, value=x.zero)


def _only_pads(sliding: Geometry) -> bool:
    """True if no element is spread apart or cropped."""
    return all(min(axis.low, axis.high) >= 0 and axis.input_dilation == 1 for axis in sliding)


def _lowered(definition: OpDef, a: Value, b: Value, lowering: Lowering, **attributes: Any) -> Value:
    attrs = make_attrs(definition, attributes)
    return a.graph.append(definition, (a, b), attrs, lowering=lowering)[0]
