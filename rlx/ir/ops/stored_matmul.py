"""Products of matrices as they are stored: transposed, or in words of several elements.

Passes make them of `matmul`, where a kernel reads operands without a copy, or several elements with
one instruction.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

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


def _formula(a: Value, b: Value, *, left: bool, right: bool, elements: Elements) -> Value:
    """Transpose, take words apart, then multiply."""
    a, b = swapped(a) if left else a, swapped(b) if right else b
    if elements == "bytes":
        return sum_of_bytes(matmul, a, b)
    if elements == "bf16":
        return sum_of_halves(matmul, a, b)
    if elements == "integers":
        a, b = (cast(operand, to=DType.I32) for operand in (a, b))
    result: Value = matmul(a, b)
    return result


@op(
    "linalg",
    *(Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE),
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
    result: TensorType = matmul.infer(*_multiplied(a, b, left, right, elements))
    return result


def _multiplied(
    a: TensorType, b: TensorType, left: bool, right: bool, elements: Elements
) -> tuple[TensorType, TensorType]:
    """Return the types of the operands as `matmul` would have them."""
    a, b = swapped_type(a) if left else a, swapped_type(b) if right else b
    if elements == "bytes":
        return type_of_bytes(a), type_of_bytes(b, signed=a.dtype is DType.U32)
    if elements == "bf16":
        return type_of_halves(a), type_of_halves(b)
    if elements == "integers":
        return type_of_integers(a), type_of_integers(b)
    return a, b


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
    if elements in ("bytes", "bf16") and schedule.library == "none":
        require_tiled_product(schedule, given, b)
    else:
        check_scheduled(schedule, given, swapped_type(b) if right else b)
