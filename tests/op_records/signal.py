"""Uses of the Fourier transform."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.record_data import normal, uniform
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
RECORDS += [
    OpRecord(
        ops.fft_butterfly_stage, "gated",
        (Operand((2, 16), normal), *(Operand((4,), normal) for _ in range(4))),
        {"stage": 1, "n_fft": 8}, (DType.F32,), growth=4.0,
    ),
    OpRecord(
        ops.log_mel, "bands", (Operand((3, 16), normal), Operand((5, 5), uniform(0.1, 1.0))),
        dtypes=(DType.F32,), growth=4.0,
    ),
]  # fmt: skip
