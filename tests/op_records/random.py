"""Uses of counter-based generators."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.records import Operand, OpRecord


def words(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> NDArray[np.uint32]:
    return rng.integers(0, 2**32, shape, np.uint32).astype(dtype.numpy)


def _threefry(word: str) -> OpRecord:
    operands = (Operand((), words), Operand((1,), words), Operand((3, 1), words))
    return OpRecord(
        ops.threefry2x32, f"{word}-word", (*operands, Operand((17,), words)), {"word": word},
        (DType.U32,), growth=0.0,
    )  # fmt: skip


def _philox(word: int) -> OpRecord:
    counter = (Operand((3, 1), words), Operand((), words), Operand((17,), words))
    return OpRecord(
        ops.philox4x32, f"word-{word}",
        (Operand((), words), Operand((), words), *counter, Operand((1,), words)), {"word": word},
        (DType.U32,), growth=0.0,
    )  # fmt: skip


RECORDS: list[OpRecord] = [_threefry(word) for word in ("first", "second", "both")]
RECORDS += [_philox(word) for word in (0, 3)]
