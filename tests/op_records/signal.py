"""Uses of the Fourier transform."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.ops.fourier import prime_tables
from tests.record_data import exactly, normal, uniform
from tests.records import Operand, OpRecord


def _fft(name: str, n: int, **attributes: object) -> list[OpRecord]:
    planes = OpRecord(
        ops.fft, f"{name}-planes", (Operand((2, 2 * n), normal),), attributes,
        (DType.F32, DType.F64), smooth=n < 40, growth=16.0,
    )  # fmt: skip
    numbers = OpRecord(
        ops.fft, f"{name}-complex", (Operand((2, n), normal),), attributes, (DType.C64, DType.C128),
        growth=16.0,
    )  # fmt: skip
    return [planes, numbers]


def _dft(shape: tuple[int, int, int], *, inverse: bool = False, scale: float = 1.0) -> OpRecord:
    exponents = np.arange(shape[1]) * 2j * np.pi / shape[1]
    roots = np.exp(exponents if inverse else -exponents)
    parts = tuple(
        Operand((2, shape[1]), exactly(np.stack([roots.real, roots.imag])), part)
        for part in (DType.F32,)
    )
    return OpRecord(
        ops.dft, "x".join(map(str, shape)), (Operand(shape, normal), *parts),
        {"inverse": inverse, "scale": scale}, (DType.C64,), growth=16.0,
    )  # fmt: skip


def _dft_of_prime(shape: tuple[int, int, int], *, inverse: bool = False) -> OpRecord:
    dtypes = (DType.F32, DType.F32, DType.I32, DType.I32)
    tables = (
        Operand(table.shape, exactly(table), dtype)
        for table, dtype in zip(prime_tables(shape[1], inverse=inverse), dtypes, strict=True)
    )
    return OpRecord(
        ops.dft_of_prime, "x".join(map(str, shape)), (Operand(shape, normal), *tables),
        {"inverse": inverse, "scale": 0.5}, (DType.C64,), growth=16.0,
    )  # fmt: skip


def _real(name: str, shape: tuple[int, ...], axis: int, **attributes: object) -> list[OpRecord]:
    """Both directions of a transform of reals along an axis of so many."""
    n = shape[axis]
    half = tuple(n // 2 + 1 if place == axis else extent for place, extent in enumerate(shape))
    forward = OpRecord(
        ops.rfft, name, (Operand(shape, normal),), {"axis": axis, **attributes},
        (DType.F32, DType.F64), growth=16.0,
    )  # fmt: skip
    inverse = OpRecord(
        ops.irfft, name, (Operand(half, normal),), {"n": n, "axis": axis, **attributes},
        (DType.C64, DType.C128), growth=16.0,
    )  # fmt: skip
    return [forward, inverse]


def _dft_real(shape: tuple[int, int, int]) -> list[OpRecord]:
    outer, n, inner = shape
    roots = np.exp(-2j * np.pi * np.arange(n) / n)
    tables = [
        Operand((2, n), exactly(np.stack([each.real, each.imag])), DType.F32)
        for each in (roots, np.conj(roots))
    ]
    name, half = "x".join(map(str, shape)), (outer, n // 2 + 1, inner)
    return [
        OpRecord(
            ops.dft_of_reals, name, (Operand(shape, normal), tables[0]), {"scale": 0.5},
            (DType.F32,), growth=16.0,
        ),
        OpRecord(
            ops.dft_to_reals, name, (Operand(half, normal), tables[1]), {"scale": 0.5},
            (DType.C64,), growth=16.0,
        ),
    ]  # fmt: skip


RECORDS: list[OpRecord] = [
    *_real("halves", (3, 12), 1, scale=0.25),
    *_real("odd", (2, 9), 1),
    *_real("convolution", (2, 134), 1),
    *_real("taken apart", (1, 512), 1),
    *_real("middle axis", (2, 6, 3), 1),
    *_real("columns", (8, 17), 0),
    *(
        record
        for shape in ((3, 4, 1), (17, 40, 1), (2, 30, 19), (1, 34, 16), (3, 2, 1))
        for record in _dft_real(shape)
    ),
    *_fft("product", 6),
    *_fft("mixed", 36, inverse=True, scale=0.25),
    *_fft("convolution", 67),
]
RECORDS += [
    OpRecord(
        ops.fft, "middle axis", (Operand((2, 6, 3), normal),), {"axis": 1}, (DType.C64,),
        growth=16.0,
    ),
    *(_dft(shape) for shape in ((3, 4, 1), (21, 40, 1), (2, 15, 21), (1, 17, 16), (3, 1, 1))),
    *(_dft_of_prime(shape) for shape in ((3, 5, 1), (19, 13, 1), (2, 23, 19))),
    _dft_of_prime((2, 11, 1), inverse=True),
    _dft((2, 64, 3), inverse=True, scale=0.5),
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
