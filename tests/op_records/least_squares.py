"""Uses of least squares and pseudo-inverses, of matrices whose values are well apart."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.op_records.decompositions import apart
from tests.record_data import Array, Generator, normal
from tests.records import Operand, OpRecord, over_all_dtypes

_GROWTH = 256.0


def tenth(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """A tenth for each matrix: no singular value here is near that part of the largest."""
    del rng
    return np.full(shape, 0.1, dtype.numpy)


_SHAPES: dict[str, tuple[int, ...]] = {
    "square": (3, 3), "tall": (5, 3), "wide": (2, 3, 4), "batch": (2, 2, 4, 2), "one": (1, 1),
}  # fmt: skip

RECORDS: list[OpRecord] = [
    *(
        over_all_dtypes(
            ops.pseudo_inverse, name, Operand(shape, apart), Operand(shape[:-2], tenth),
            smooth=True, growth=_GROWTH,
        )
        for name, shape in _SHAPES.items()
    ),
    *(
        over_all_dtypes(
            ops.least_squares, name, Operand(shape, apart), Operand((*shape[:-1], 2), normal),
            Operand(shape[:-2], tenth), smooth=True, growth=_GROWTH,
        )
        for name, shape in _SHAPES.items()
    ),
]  # fmt: skip
