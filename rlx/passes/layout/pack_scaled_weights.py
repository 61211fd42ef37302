"""Packing of quantized weights: codes and their scales as blocks, where both are params.

    %2 = scaled_dequant_matmul %x, %codes, %scale {scheme = "int8/32"}
    ->  %2 = ..  the rows of the transposed matrix as blocks, u8[N, bytes], once, in setup
        %3 = dequant_matmul %x, %2 {scheme = "int8/32"}

So weights with separate scales use the kernels of every other block type, and are never decoded
as a whole. Others are decoded by their formula. Run it before formulas are spelled out.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.block_scaled import FP8_BLOCK
from rlx.ir.block_type import ROUNDED, block_type
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.ops.linalg import swapped
from rlx.ir.ops.packed_int8 import rounded_to_bytes
from rlx.ir.ops.scaled_weights import nibbles, padded_rows, parse_scheme
from rlx.passes.layout.prepared import is_prepared
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite

_OF_PAIRS = ("int4", "nvfp4")
"""Schemes with two codes to a byte."""
_IN_PAIRS = (*_OF_PAIRS, "uint4", "uint4a")
"""Schemes whose blocks have two codes to a byte."""


@graph_pass
def pack_scaled_weights(graph: Graph) -> Rewritten:
    """Use the kernels of packed weights for those with separate scales."""
    return apply_rewrites(graph, [_product, _integer_product, _decoded])


@rewrite(ops.scaled_dequant_matmul)
def _product(node: Node) -> Value | None:
    x, *weights = node.operands
    scheme, rows = str(node.attribute("scheme")), x.shape[-1]
    if x.rank < 2 or not isinstance(rows, int) or not _packs(weights, scheme, rows):
        return None
    size = _block_rows(scheme)
    blocks = _rows_of_blocks(weights, scheme, rows, size)
    product = ops.dequant_matmul(padded_rows(x, size), blocks, scheme=scheme)
    return _scaled(product, weights, scheme)


@rewrite(ops.int8_scaled_dequant_matmul)
def _integer_product(node: Node) -> Value | None:
    x, *weights = node.operands
    scheme, rows = str(node.attribute("scheme")), x.shape[-1]
    if x.rank < 2 or not isinstance(rows, int) or not _packs(weights, scheme, rows):
        return None
    integers = block_type(scheme).integers
    kind = integers and integers()
    if kind is None:
        rounded = rounded_to_bytes(padded_rows(x, ROUNDED))
        x = ops.narrow(rounded, axis=-1, start=0, length=rows)
        plain: Value = ops.scaled_dequant_matmul(x, *weights, scheme=scheme)
        return plain
    blocks = _rows_of_blocks(weights, scheme, rows, kind.elements)
    padded = padded_rows(x, kind.elements)
    result: Value = ops.int8_dequant_matmul(padded, blocks, scheme=scheme)
    return result


@rewrite(ops.decode_weights)
def _decoded(node: Node) -> Value | None:
    weights, rows = list(node.operands), int(node.attribute("rows"))
    scheme = str(node.attribute("scheme"))
    if not _packs(weights, scheme, rows):
        return None
    blocks = _rows_of_blocks(weights, scheme, rows, _block_rows(scheme))
    whole = swapped(ops.dequantize_blocks(blocks, scheme=scheme))
    return _scaled(ops.narrow(whole, axis=0, start=0, length=rows), weights, scheme)


def _block_rows(scheme: str) -> int:
    return parse_scheme(scheme)[1] or FP8_BLOCK


def _packs(weights: list[Value], scheme: str, rows: int) -> bool:
    """True if all is known before the first run, and codes in pairs fill whole bytes."""
    odd = parse_scheme(scheme)[0] in _IN_PAIRS and _block_rows(scheme) % 2 == 1
    return all(map(is_prepared, weights)) and not odd and rows > 0


def _scaled(result: Value, weights: list[Value], scheme: str) -> Value:
    """Multiply by what scales whole columns, or the whole matrix."""
    family = parse_scheme(scheme)[0]
    if family.startswith("fp8"):
        return result * weights[1]
    return result * weights[2] if family == "nvfp4" else result


def _rows_of_blocks(weights: list[Value], scheme: str, rows: int, multiple: int) -> Value:
    """Return the columns of the matrix as rows of blocks: what scales them, then their codes.

    Rows of zeros are appended up to a multiple.
    """
    codes, scale, *zero_point = weights
    family, size = parse_scheme(scheme)[0], _block_rows(scheme)
    columns = _count(codes if family.startswith("fp8") else scale)
    if family in _OF_PAIRS:
        codes = nibbles(codes, rows, columns)
    whole = -(-rows // multiple) * multiple
    parts = [_below(head, whole // size, axis=1) for head in _heads(family, scale, zero_point)]
    codes = _below(codes, whole, axis=0)
    parts.append(_blocks_of_codes(codes, family, columns, size))
    joined = ops.concat(*parts, axis=2) if len(parts) > 1 else parts[0]
    return ops.reshape(joined, shape=(columns, -1))


def _count(of: Value) -> int:
    columns = of.shape[-1]
    assert isinstance(columns, int)
    return columns


def _heads(family: str, scale: Value, zero_point: list[Value]) -> list[Value]:
    """Return the bytes in front of a block's codes, each part `[N, blocks, bytes]`."""
    if family.startswith("fp8"):
        return []
    if family == "nvfp4":
        column = swapped(scale)
        return [ops.reshape(column, shape=(*column.shape, 1))]
    if family == "int4" and not zero_point:
        zero_point = [scale * 0.0]
    return [_bytes_of(swapped(number)) for number in (scale, *zero_point)]


def _bytes_of(number: Value) -> Value:
    """Return f32 as their bytes, the low ones first, along a new last axis."""
    bits = ops.bitcast(number, to=DType.U32)
    parts = [
        ops.cast(ops.bitwise_and(ops.shift_right(bits, 8 * at), 255), to=DType.U8)
        for at in range(4)
    ]
    shape = (*number.shape, 1)
    return ops.concat(*(ops.reshape(part, shape=shape) for part in parts), axis=-1)


def _below(x: Value, extent: int, axis: int) -> Value:
    """Return `x` with zeros appended along an axis, up to an extent."""
    length = x.shape[axis]
    assert isinstance(length, int)
    high = tuple((extent - length) * (at == axis) for at in range(x.rank))
    return ops.pad(x, low=(0,) * x.rank, high=high) if any(high) else x


def _blocks_of_codes(codes: Value, family: str, columns: int, size: int) -> Value:
    if codes.dtype is DType.I8:
        codes = ops.bitcast(codes, to=DType.U8)
    blocks = ops.reshape(swapped(codes), shape=(columns, -1, size))
    if family not in _IN_PAIRS:
        return blocks
    low, high = (
        ops.narrow(blocks, axis=2, start=start, length=size // 2) for start in (0, size // 2)
    )
    return ops.bitwise_or(low, ops.shift_left(high, 4))
