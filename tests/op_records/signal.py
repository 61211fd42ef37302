"""Uses of the Fourier transform."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.record_data import normal
from tests.records import Operand, OpRecord


def _fft(name: str, n: int, **attributes: object) -> list[OpRecord]:
    planes = OpRecord(
        ops.fft, f"{name}-planes", (Operand((2, 2 * n), normal),), attributes,
        (DType.F32, DType.F64), smooth=n < 40, growth=16.0,
    )  # fmt: skip
    numbers = OpRecord(
        ops.fft, f"{name}-complex", (Operand((2, n), normal),), attributes, (DType.C64,),
        growth=16.0,
    )  # fmt: skip
    return [planes, numbers]


RECORDS: list[OpRecord] = [
    *_fft("product", 6),
    *_fft("mixed", 36, inverse=True, scale=0.25),
    *_fft("convolution", 67),
]
