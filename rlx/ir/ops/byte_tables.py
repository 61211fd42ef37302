"""Functions of one byte as tables of 256 results: what passes make of chains of rounded arithmetic.

The formula is a `gather`; the kernel needs no check, for every byte has an entry.
"""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import bitcast, cast
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.requirements import require_dtype
from rlx.ir.types import TensorType

__all__ = ["map_bytes"]

ENTRIES = 256


def _gathered(x: Value, table: Value) -> Value:
    """Take the entries by the bits of `x` as numbers from 0 on."""
    bits = bitcast(x, to=DType.U8) if x.dtype is DType.I8 else x
    result: Value = gather(table, cast(bits, to=DType.I32), axis=0)
    return result


@op("quant", Trait.LAYOUT, decompose=_gathered)
def map_bytes(x: TensorType, table: TensorType) -> TensorType:
    """Replace every byte, i8 or u8, by the entry of a `table` of 256 at its bits, read as u8."""
    require_dtype(x, "i8 u8")
    if table.shape != (ENTRIES,):
        raise ShapeError(
            f"the table has shape {table.describe_shape()}; every byte needs an entry",
            remedy=f"give {ENTRIES} entries, in the order of the bits of bytes",
        )
    return x.with_dtype(table.dtype)
