"""Element types: their sizes, NumPy counterparts and promotion."""

from __future__ import annotations

import enum
from typing import Any

import ml_dtypes
import numpy as np

from rlx.errors import DTypeError


class DType(enum.Enum):
    """An element type. `DType("f32")` parses a dtype string."""

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"
    C64 = "c64"
    C128 = "c128"
    F8_E4M3FN = "f8_e4m3fn"
    F8_E5M2 = "f8_e5m2"

    __hash__ = object.__hash__  # of the one object that each is: Enum's own is Python code

    @property
    def size(self) -> int:
        """Bytes per element."""
        return self.numpy.itemsize

    @property
    def numpy(self) -> np.dtype[Any]:
        return _NUMPY[self]

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def is_low_precision(self) -> bool:
        """True for floats that are stored narrow and computed in f32."""
        return self in _NARROW

    @property
    def is_storage(self) -> bool:
        """True for storage-only floats (8 bits), which ops only move and convert."""
        return self in _STORED

    @property
    def is_int(self) -> bool:
        return self in _INTS

    @property
    def is_signed_int(self) -> bool:
        return self in _SIGNED

    @property
    def is_unsigned_int(self) -> bool:
        return self in _UNSIGNED

    @property
    def is_complex(self) -> bool:
        return self in (DType.C64, DType.C128)

    @property
    def part(self) -> DType:
        """The dtype of the real and the imaginary part; of other dtypes, themselves."""
        return _PARTS.get(self, self)

    @property
    def with_parts(self) -> DType:
        """The complex dtype whose parts are of this dtype."""
        return next(whole for whole, part in _PARTS.items() if part is self)

    @property
    def is_differentiable(self) -> bool:
        return self.is_float or self.is_complex

    def __str__(self) -> str:
        return self.value


_PARTS = {DType.C64: DType.F32, DType.C128: DType.F64}
_STORED = frozenset({DType.F8_E4M3FN, DType.F8_E5M2})
_NARROW = _STORED | {DType.F16, DType.BF16}
_FLOATS = _NARROW | {DType.F32, DType.F64}
_SIGNED = frozenset({DType.I8, DType.I16, DType.I32, DType.I64})
_UNSIGNED = frozenset({DType.U8, DType.U16, DType.U32, DType.U64})
_INTS = _SIGNED | _UNSIGNED
_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.F8_E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.F8_E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
    DType.C64: np.dtype(np.complex64),
    DType.C128: np.dtype(np.complex128),
}
_FROM_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items()}
_RANK = {
    DType.BOOL: 0,
    DType.U8: 1,
    DType.I8: 1,
    DType.F8_E4M3FN: 1,
    DType.F8_E5M2: 1,
    DType.U16: 2,
    DType.I16: 2,
    DType.BF16: 2,
    DType.F16: 3,
    DType.U32: 4,
    DType.I32: 4,
    DType.U64: 5,
    DType.I64: 5,
    DType.F32: 6,
    DType.F64: 7,
    DType.C64: 8,
    DType.C128: 9,
}


def as_dtype(spec: DType | str | np.dtype[Any] | type[Any]) -> DType:
    """Return the `DType` that a dtype string, NumPy dtype or NumPy scalar type names.

    NumPy's names (`float32`) are strings too, its codes are not: its `i8` has eight bytes.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in DType._value2member_map_:
        return DType(spec)
    try:
        dtype = np.dtype(spec)
        if isinstance(spec, str) and dtype.name != spec:
            raise KeyError(spec)
        return _FROM_NUMPY[dtype]
    except (KeyError, TypeError):
        known = " ".join(dtype.value for dtype in DType)
        raise DTypeError(f"unknown dtype {spec!r}", remedy=f"use one of: {known}") from None


_CODES = {f"{d.numpy.kind}{d.size}": d for d in DType if d.numpy.kind in "iufc"}
"""NumPy's short codes, which count bytes where rlx's names count bits."""
_AMBIGUOUS = frozenset(_CODES) & frozenset(d.value for d in DType)


def as_array_dtype(spec: Any) -> DType:
    """Return the dtype of a name of rlx's (`f32`) or a code of NumPy's (`f4`).

    `i8` and `u8` are refused: they would have eight bits in the one and eight bytes in the other.
    """
    if not isinstance(spec, str) or spec not in _CODES:
        return as_dtype(spec)
    if spec in _AMBIGUOUS:
        kind = "int" if spec[0] == "i" else "uint"
        raise DTypeError(
            f"dtype {spec!r} is {kind}8 among rlx's names and {kind}64 among NumPy's codes",
            remedy=f"use {kind + '8'!r} or {kind + '64'!r}",
        )
    return _CODES[spec]


def promote(left: DType, right: DType) -> DType:
    """Return the smallest dtype to which `left` and `right` both promote."""
    if left is right:
        return left
    if {left, right} == {DType.F16, DType.BF16} or {left, right} <= _STORED:
        return DType.F32
    if left.is_int and right.is_float:
        left, right = right, left
    if {left, right} == {DType.F64, DType.C64}:
        return DType.C128
    if left.is_float and right.is_int:
        return DType.F64 if left is DType.F64 or right.size == 8 else DType.F32
    return left if _RANK[left] >= _RANK[right] else right
