"""Ops on weights stored as integers or narrow floats with separate scales.

A matrix `[K, N]` is given as codes, a scale for every `size` rows of each column, and maybe a zero
point; the scheme says how codes are read:

| scheme | codes | scale | zero point |
|---|---|---|---|
| `int8/32` | i8 `[K, N]` | f32 `[ceil(K / 32), N]` | none |
| `int8a/32` | i8 `[K, N]` | f32 | f32, as scale |
| `int4/32` | u8, two codes to a byte, row by row, low nibbles first | f32 | f32, or none for 0 |
| `uint4/32` | u8 `[K, N]`, 0 to 15 | f32 | none: 8 |
| `uint4a/32` | u8 `[K, N]`, 0 to 15 | f32 | f32, as scale |
| `fp8e4m3`, `fp8e5m2` | u8 `[K, N]` | f32 `[N]` or `[1]` | none |
| `nvfp4/16` | u8, as int4 | u8 `[ceil(K / 16), N]`, floats E4M3 | f32 `[1]`: the scale of all |
"""

from __future__ import annotations

import numpy as np

from rlx.errors import DTypeError, ShapeError
from rlx.ir.block_type import ROUNDED
from rlx.ir.composite import composite
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import (
    bitcast,
    bitwise_and,
    bitwise_or,
    cast,
    eq,
    shift_left,
    shift_right,
    where,
)
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.packed_int8 import rounded_to_bytes
from rlx.ir.ops.requirements import require_dtype
from rlx.ir.ops.shape import concat, expand, narrow, pad, reshape
from rlx.ir.shape import Shape, format_shape, product

__all__ = ["decode_weights", "int8_scaled_dequant_matmul", "scaled_dequant_matmul"]

_FAMILY = "packed"
_FP4 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
_INT8, _INT8_ZERO, _INT4, _NVFP4 = "int8", "int8a", "int4", "nvfp4"
_UINT4, _UINT4_ZERO = "uint4", "uint4a"
_UINT4_MIDDLE = 8
_FP8 = {"fp8e4m3": False, "fp8e5m2": True}
_NVFP4_BLOCK = 16


@composite(_FAMILY, Trait.ALL_ELEMENTS, Trait.EXPANDS)
def decode_weights(
    codes: Value, scale: Value, zero_point: Value | None = None, *, scheme: str, rows: int
) -> Value:
    """Decode weights with separate scales to f32 `[rows, N]`."""
    family, size = parse_scheme(scheme)
    columns = _columns(codes, scale, family, size, rows)
    _require_zero_point(zero_point, scale, family)
    if family in _FP8:
        floats = _from_float8(codes, wide=_FP8[family])
        return floats * scale
    if family == _NVFP4:
        assert zero_point is not None
        known = where(eq(bitwise_and(scale, 127), 127), _zero_of(scale), scale)
        blocks = _from_float8(known, wide=False)
        return _from_float4(nibbles(codes, rows, columns)) * spread(blocks, size, rows) * zero_point
    integers = codes if family != _INT4 else nibbles(codes, rows, columns)
    floats = cast(integers, to=DType.F32)
    if zero_point is not None:
        floats = floats - spread(zero_point, size, rows)
    elif family == _UINT4:
        floats = floats - _UINT4_MIDDLE
    return floats * spread(scale, size, rows)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def scaled_dequant_matmul(
    x: Value, codes: Value, scale: Value, zero_point: Value | None = None, *, scheme: str
) -> Value:
    """`x @ W` for x f32 `[..., K]` and W `[K, N]` as codes with separate scales.

    Weights that are params are laid out as blocks once, and never decoded as a whole.
    """
    rows = _known_rows(x)
    weights = decode_weights(codes, scale, zero_point, scheme=scheme, rows=rows)
    return matmul(x, weights)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def int8_scaled_dequant_matmul(
    x: Value, codes: Value, scale: Value, zero_point: Value | None = None, *, scheme: str
) -> Value:
    """`scaled_dequant_matmul` of `x` rounded to eight bits in blocks of 32 elements.

    Integers are multiplied where weights are params, and the target has an instruction for it.
    The gradient is that of `scaled_dequant_matmul`: rounding passes it on.
    """
    rows = _known_rows(x)
    rounded = narrow(rounded_to_bytes(padded_rows(x, ROUNDED)), axis=-1, start=0, length=rows)
    weights = decode_weights(codes, scale, zero_point, scheme=scheme, rows=rows)
    return matmul(rounded, weights)


def _known_rows(x: Value) -> int:
    """Return the last extent of f32 `x`: the rows of the weights by which it is multiplied."""
    require_dtype(x.type, "f32", "x")
    rows = x.shape[-1] if x.rank else 0
    if not isinstance(rows, int):
        raise ShapeError(
            f"x has shape {x.type.describe_shape()}; its last extent must be known",
            remedy="bind the symbol of that extent to a number",
        )
    return rows


def padded_rows(x: Value, size: int) -> Value:
    """Return `x` with zeros after its last axis, up to a multiple of `size`."""
    rows = x.shape[-1]
    assert isinstance(rows, int)
    missing, low = -rows % size, (0,) * x.rank
    return pad(x, low=low, high=(*low[1:], missing)) if missing else x


def parse_scheme(scheme: str) -> tuple[str, int]:
    """Return family and rows that share a scale; a DTypeError names what there is."""
    family, slash, size = scheme.partition("/")
    if family in _FP8 and not slash:
        return family, 0
    sized = (_INT8, _INT8_ZERO, _INT4, _UINT4, _UINT4_ZERO)
    known = family in sized and size.isdecimal() and int(size) > 0
    if known or scheme == f"{_NVFP4}/{_NVFP4_BLOCK}":
        return family, int(size)
    raise DTypeError(
        f"unknown scheme {scheme!r}",
        remedy="use int8/32, int8a/32, int4/32, uint4/32, uint4a/32 (of any number of rows), "
        "fp8e4m3, fp8e5m2 or nvfp4/16",
    )


def spread(scale: Value, size: int, rows: int) -> Value:
    """Repeat `[blocks, N]` for each of `rows` rows."""
    blocks, columns = scale.shape
    apart = expand(reshape(scale, shape=(blocks, 1, columns)), shape=(blocks, size, columns))
    joined = reshape(apart, shape=(product((blocks, size)), columns))
    return narrow(joined, axis=0, start=0, length=rows)


def nibbles(codes: Value, rows: int, columns: int) -> Value:
    """Unpack two codes of each byte, `[rows, columns]`, the low ones first."""
    flat = reshape(codes, shape=(product(codes.shape), 1))
    pairs = reshape(concat(bitwise_and(flat, 15), shift_right(flat, 4), axis=1), shape=(-1,))
    return reshape(narrow(pairs, axis=0, start=0, length=rows * columns), shape=(rows, columns))


def _from_float8(codes: Value, *, wide: bool) -> Value:
    """Decode floats of eight bits by way of f16, which E5M2 is the upper half of."""
    bits = cast(codes, to=DType.U16)
    if wide:
        halves = shift_left(bits, 8)
        return cast(bitcast(halves, to=DType.F16), to=DType.F32)
    magnitude = bitwise_and(bits, 127)
    sign = shift_left(shift_right(bits, 7), 15)
    plain = shift_left(magnitude, 7)
    quiet_nan = codes.graph.constant(0x7E00, DType.U16)
    halves = bitwise_or(where(eq(magnitude, 127), quiet_nan, plain), sign)
    return cast(bitcast(halves, to=DType.F16), to=DType.F32) * 256.0


def _from_float4(codes: Value) -> Value:
    table = np.array([*_FP4, *(-value for value in _FP4)], np.float32)
    return gather(codes.graph.constant(table), cast(codes, to=DType.I32), axis=0)


def _zero_of(codes: Value) -> Value:
    return codes.graph.constant(0, codes.dtype)


def _columns(codes: Value, scale: Value, family: str, size: int, rows: int) -> int:
    """Return N after checking what it must agree with."""
    require_dtype(codes.type, "i8" if family in (_INT8, _INT8_ZERO) else "u8", "codes")
    require_dtype(scale.type, "u8" if family == _NVFP4 else "f32", "scale")
    if family in _FP8:
        columns = codes.shape[-1] if codes.rank == 2 else 0
        wanted: list[Shape] = [(columns,), (1,)]
    else:
        columns = scale.shape[-1] if scale.rank == 2 else 0
        wanted = [(-(-rows // size), columns)]
    if not isinstance(columns, int) or scale.shape not in wanted:
        described = " or ".join(map(format_shape, wanted))
        raise ShapeError(
            f"scale has shape {scale.type.describe_shape()}; for {rows} rows it is {described}",
            remedy="give a scale for every block of rows of each column",
        )
    count = rows * columns
    packed = family in (_INT4, _NVFP4)
    fits = product(codes.shape) == -(-count // 2) if packed else codes.shape == (rows, columns)
    if not fits:
        what = f"{-(-count // 2)} bytes" if packed else f"shape ({rows}, {columns})"
        raise ShapeError(
            f"codes have shape {codes.type.describe_shape()}; {rows} by {columns} weights have "
            f"{what}",
            remedy="pass the codes that belong to these scales",
        )
    return columns


def _require_zero_point(zero_point: Value | None, scale: Value, family: str) -> None:
    takes = {_INT8_ZERO: True, _UINT4_ZERO: True, _NVFP4: True, _INT4: None}.get(family, False)
    if takes is not None and takes != (zero_point is not None):
        raise ShapeError(
            f"{family} {'needs' if takes else 'takes no'} zero point"
            + (": for nvfp4 the scale of the whole tensor" if family == _NVFP4 else ""),
            remedy="see the table of schemes in docs/quantization.md",
        )
    if zero_point is None:
        return
    require_dtype(zero_point.type, "f32", "zero_point")
    wanted = (1,) if family == _NVFP4 else scale.shape
    if zero_point.shape != wanted:
        raise ShapeError(
            f"zero_point has shape {zero_point.type.describe_shape()}, not {wanted}",
            remedy="give one for every scale",
        )
