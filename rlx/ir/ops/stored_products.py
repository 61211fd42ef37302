"""Products of operands as they are stored: transposed, or in words of elements.

Passes make them of `matmul`, where a kernel reads operands without a copy, or several elements with
one instruction. Convolutions hold the same elements (`stored_conv`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.lowering import Schedule, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.bf16_products import sum_of_halves, type_of_halves
from rlx.ir.ops.byte_products import sum_of_bytes, type_of_bytes, type_of_integers
from rlx.ir.ops.elementwise import cast
from rlx.ir.ops.linalg import (
    check_scheduled,
    matmul,
    require_tiled_product,
    swapped,
    swapped_type,
)
from rlx.ir.types import TensorType

__all__ = ["stored_matmul"]

Elements: TypeAlias = Literal["plain", "integers", "bytes", "bf16"]
"""What operands hold: numbers; small integers, widened as they are read; or words of four bytes,
or of two bf16, along the contracted axis."""


def word_products(
    product: Callable[[Value, Value], Any], a: Value, b: Value, elements: Elements
) -> Value:
    """Take words apart, then multiply."""
    if elements == "bytes":
        return sum_of_bytes(product, a, b)
    if elements == "bf16":
        return sum_of_halves(product, a, b)
    if elements == "integers":
        a, b = (cast(operand, to=DType.I32) for operand in (a, b))
    result: Value = product(a, b)
    return result


def summed_types(
    a: TensorType, b: TensorType, elements: Elements, *, signed: bool
) -> tuple[TensorType, TensorType]:
    """Return the types of what is multiplied; bytes of `b` must be `signed` if so."""
    if elements == "bytes":
        return type_of_bytes(a), type_of_bytes(b, signed=signed)
    if elements == "bf16":
        return type_of_halves(a), type_of_halves(b)
    if elements == "integers":
        return type_of_integers(a), type_of_integers(b)
    return a, b


def _formula(a: Value, b: Value, *, left: bool, right: bool, elements: Elements) -> Value:
    """Transpose, take words apart, then multiply."""
    return word_products(matmul, swapped(a) if left else a, swapped(b) if right else b, elements)


@op(
    "linalg",
    *(Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE, Trait.LOWERED),
    decompose=_formula,
)
def stored_matmul(
    a: TensorType,
    b: TensorType,
    *,
    left: bool = False,
    right: bool = False,
    elements: Elements = "plain",
) -> TensorType:
    """`matmul` with `a` given as `[..., K, M]` if `left`, and `b` as `[..., N, K]` if `right`.

    Of small integers (i8, u8, i32) in i32: no operand is widened in memory. Of words of four bytes
    in i32, and K is a quarter; either operand may have unsigned bytes. Of words of two bf16 in
    f32, and K is half.
    """
    a, b = swapped_type(a) if left else a, swapped_type(b) if right else b
    types = summed_types(a, b, elements, signed=a.dtype is DType.U32)
    result: TensorType = matmul.infer(*types)
    return result


@lowered_by(stored_matmul, Schedule, layouts=(1,))
def _scheduled(
    schedule: Schedule,
    a: TensorType,
    b: TensorType,
    *,
    left: bool,
    right: bool,
    elements: Elements,
) -> None:
    """Tiles of words, too; a library multiplies numbers alone."""
    if right and schedule.library == "none":
        raise ShapeError("tiles read b as it is", remedy="pack its transpose, with pack_panels")
    given = swapped_type(a) if left else a
    if schedule.unit != "vectors" and elements == "bytes":
        require = _require_tile_registers if schedule.unit == "matrix" else _require_squares
        require(schedule, given, left=left)
        schedule = replace(schedule, unit="vectors")
    if elements in ("bytes", "bf16") and schedule.library == "none":
        require_tiled_product(schedule, given, b)
    else:
        check_scheduled(schedule, given, swapped_type(b) if right else b)


_REGISTER = 16
"""Rows, columns and words of a row of a tile register."""
_SQUARE = 4
"""Words of two rows of two."""


def _require_tile_registers(schedule: Schedule, a: TensorType, *, left: bool) -> None:
    """Raise a ShapeError unless a tile of bytes fits the registers of a matrix unit."""
    rows, columns, words = schedule.rows, schedule.columns, a.shape[-1]
    most = _REGISTER if not isinstance(words, int) or words % _REGISTER else 2 * _REGISTER
    is_wide = columns in (_REGISTER, 2 * _REGISTER)
    if left or schedule.depth or rows > most or not is_wide or not isinstance(words, int):
        raise ShapeError(
            f"a tile of {rows} rows and {columns} columns, {schedule.depth or 'all'} of {words} "
            f"words at a time, of rows stored as {'columns' if left else 'rows'}, does not fit "
            "the registers of a matrix unit",
            remedy=f"give it at most {most} rows, 16 or 32 columns, and all steps (depth = 0)",
        )


def _require_squares(schedule: Schedule, a: TensorType, *, left: bool) -> None:
    """Raise a ShapeError unless a tile of bytes is made of two rows by two columns."""
    words = a.shape[-1]
    is_even = isinstance(words, int) and words % 2 == 0
    if left or schedule.depth or schedule.lanes != _SQUARE or not is_even:
        raise ShapeError(
            f"a tile in vectors of {schedule.lanes}, {schedule.depth or 'all'} of {words} words at "
            f"a time, of rows stored as {'columns' if left else 'rows'}, has no squares",
            remedy=f"give it {_SQUARE} lanes, an even number of words, and all steps (depth = 0)",
        )
