"""Uses of linear systems and factorizations."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.record_data import Array, Generator, normal
from tests.records import Operand, OpRecord, over_all_dtypes

_GROWTH = 64.0  # elimination amplifies rounding by the condition of the matrix


def uniform(rng: Generator, shape: tuple[int, ...], dtype: DType, size: float = 1.0) -> Array:
    """Numbers between -size and size; of complex ones, both parts."""
    drawn = rng.uniform(-size, size, shape)
    return drawn + 1j * rng.uniform(-size, size, shape) if dtype.is_complex else drawn


def well_conditioned(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Random matrices with a heavy diagonal in a random order, so that rows are exchanged."""
    rows, columns = shape[-2:]
    drawn = uniform(rng, shape, dtype) + 2.0 * np.sqrt(columns) * np.eye(rows, columns)
    shuffled: Array = drawn[..., rng.permutation(rows), :]
    return shuffled.astype(dtype.numpy)


def positive_definite(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    drawn = uniform(rng, shape, dtype)
    square = drawn @ np.swapaxes(drawn.conj(), -1, -2) + shape[-1] * np.eye(shape[-1])
    return square.astype(dtype.numpy)


def triangular(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Entries so small relative to the diagonal that unit diagonals do as well; none is zero."""
    drawn = uniform(rng, shape, dtype, 0.3) + 1.5 * np.eye(shape[-1])
    return drawn.astype(dtype.numpy)


def singular_first(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """The first slice repeats a row: elimination leaves a pivot of exactly 0."""
    drawn = well_conditioned(rng, shape, dtype)
    drawn[0, 1] = drawn[0, 0]
    return drawn


_BATCHES: dict[str, tuple[int, ...]] = {
    "matrix": (3, 3), "one-by-one": (1, 1), "two": (3, 2, 2), "batch": (17, 3, 3),
    "four": (9, 4, 4), "six": (2, 4, 6, 6), "nine": (5, 9, 9), "twelve": (11, 12, 12),
    "sixteen": (16, 16), "large": (20, 20), "large-batch": (2, 19, 19), "no-batch": (0, 3, 3),
    "no-rows": (2, 0, 0),
}  # fmt: skip

_SOLVES = [
    over_all_dtypes(
        ops.solve, f"{name}-{form}", Operand(shape, well_conditioned), Operand(sides, normal),
        smooth=True, growth=_GROWTH, vector=vector, transposed=transposed,
    )
    for name, shape in _BATCHES.items()
    for form, vector, transposed, sides in [
        ("vector", True, False, shape[:-1]),
        ("columns", False, False, (*shape[:-1], 2)),
        ("transposed", True, True, shape[:-1]),
    ]
] + [
    over_all_dtypes(
        ops.solve, "many-columns", Operand((4, 4), well_conditioned), Operand((4, 70), normal),
        smooth=True, growth=_GROWTH,
    ),
    over_all_dtypes(
        ops.solve, "no-columns", Operand((2, 3, 3), well_conditioned), Operand((2, 3, 0), normal),
    ),
]  # fmt: skip

_TRIANGULAR = [
    over_all_dtypes(
        ops.triangular_solve, f"{name}-{form}", Operand(shape, triangular),
        Operand((*shape[:-2], *sides), normal), smooth=True, growth=_GROWTH, lower=lower,
        transposed=transposed, unit_diagonal=unit, left=left,
    )
    for name, shape in [("one", (3, 3)), ("batch", (9, 4, 4)), ("large", (2, 19, 19))]
    for form, lower, transposed, unit, left, sides in [
        ("lower", True, False, False, True, (shape[-1], 2)),
        ("upper", False, False, False, True, (shape[-1], 2)),
        ("transposed", True, True, False, True, (shape[-1], 1)),
        ("unit", True, False, True, True, (shape[-1], 2)),
        ("right", True, False, False, False, (2, shape[-1])),
        ("right-upper-transposed", False, True, True, False, (2, shape[-1])),
    ]
]  # fmt: skip

_CHOLESKY = [
    over_all_dtypes(
        ops.cholesky, f"{name}{'' if lower else '-upper'}", Operand(shape, positive_definite),
        smooth=True, growth=_GROWTH, lower=lower,
    )
    for name, shape in _BATCHES.items()
    for lower in (True, False)
]  # fmt: skip

_FACTORS = [
    over_all_dtypes(op, name, Operand(shape, well_conditioned), smooth=True, growth=_GROWTH)
    for name, shape in _BATCHES.items()
    for op in (ops.lu, ops.inv, ops.det, ops.slogdet)
]

_RECTANGLES = [
    over_all_dtypes(
        ops.rectangular_lu, f"{rows}x{columns}", Operand((*batch, rows, columns), well_conditioned),
        smooth=True, growth=_GROWTH,
    )
    for batch, rows, columns in [((), 4, 2), ((3,), 2, 4), ((2, 3), 5, 3), ((), 1, 3), ((2,), 0, 2)]
]  # fmt: skip

_BACKWARD = [
    over_all_dtypes(
        ops.solve_backward, f"{name}{'-transposed' if transposed else ''}",
        Operand(shape, well_conditioned), Operand(shape[:-1], normal), Operand(shape[:-1], normal),
        smooth=True, growth=_GROWTH, transposed=transposed,
    )
    for name, shape in _BATCHES.items()
    for transposed in (False, True)
]  # fmt: skip

_SINGULAR = [
    over_all_dtypes(
        ops.solve, f"singular-{shape[-1]}", Operand(shape, singular_first),
        Operand(shape[:-1], normal), vector=True, on_singular="nan", growth=_GROWTH,
    )
    for shape in [(11, 3, 3), (2, 2, 2), (5, 9, 9), (2, 18, 18)]
] + [
    over_all_dtypes(
        ops.lu, "singular", Operand((3, 3, 3), singular_first), growth=_GROWTH
    ),
    over_all_dtypes(
        ops.cholesky, "indefinite", Operand((9, 4, 4), well_conditioned), on_singular="nan",
        growth=_GROWTH,
    ),
]  # fmt: skip

RECORDS: list[OpRecord] = [
    *_SOLVES, *_TRIANGULAR, *_CHOLESKY, *_FACTORS, *_RECTANGLES, *_BACKWARD, *_SINGULAR,
]  # fmt: skip
