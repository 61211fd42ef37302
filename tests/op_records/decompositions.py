"""Uses of orthogonal decompositions, of matrices whose values are well apart."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.record_data import Array, Generator
from tests.records import Operand, OpRecord, over_all_dtypes

_GROWTH = 256.0  # vectors turn by rounding errors over the gaps of the values


def drawn(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Normal numbers, of complex ones both parts."""
    numbers = rng.standard_normal(shape)
    return numbers + 1j * rng.standard_normal(shape) if dtype.is_complex else numbers


def apart(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Matrices whose singular values are 1, 2, 3, .. in a random basis."""
    rows, columns = shape[-2:]
    count = min(rows, columns)
    left, _ = np.linalg.qr(drawn(rng, (*shape[:-2], rows, count), dtype))
    right, _ = np.linalg.qr(drawn(rng, (*shape[:-2], columns, count), dtype))
    found: Array = (left * (np.arange(count) + 1)) @ np.swapaxes(right.conj(), -1, -2)
    return found.astype(dtype.numpy)


def symmetric(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Matrices with eigenvalues -1, 1, 3, .. whose upper triangle is not to be read.

    Complex ones are Hermitian.
    """
    n = shape[-1]
    basis, _ = np.linalg.qr(drawn(rng, shape, dtype))
    found = (basis * (2.0 * np.arange(n) - 1)) @ np.swapaxes(basis.conj(), -1, -2)
    spoiled: Array = found + np.triu(drawn(rng, shape, dtype), 1)
    return spoiled.astype(dtype.numpy)


def general(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Matrices with eigenvalues 1 + 2i, 2 + 1i, 3 + 2i, .. in a random basis.

    Real ones have pairs of 1 +- 1i, 3 +- 3i, .. instead, after a 1 if there is an odd one, and an
    orthogonal basis.
    """
    n = shape[-1]
    if not dtype.is_complex:
        form = np.diag(np.arange(n) + 1.0)
        for i in range(n % 2, n - 1, 2):
            form[i : i + 2, i : i + 2] = (i + 1) * np.array([[1, 1], [-1, 1]])
        real, _ = np.linalg.qr(rng.standard_normal(shape))
        above = np.triu(rng.standard_normal(shape), 2) * 0.5
        moved: Array = real @ (form + above) @ np.swapaxes(real, -1, -2)
        return moved.astype(dtype.numpy)
    basis = rng.standard_normal(shape) + 1j * rng.standard_normal(shape) + 3 * np.eye(n)
    values = np.arange(n) + 1 + 1j * (2 - np.arange(n) % 2)
    found: Array = (basis * values) @ np.linalg.inv(basis)
    return found.astype(dtype.numpy)


_SQUARES = {"matrix": (4, 4), "one": (2, 1, 1), "batch": (2, 3, 7, 7), "no-batch": (0, 3, 3),
            "no-rows": (2, 0, 0)}  # fmt: skip
_TALL = {"tall": (5, 3), "tall-batch": (3, 9, 4)}

RECORDS: list[OpRecord] = [
    *(
        over_all_dtypes(ops.eigh, name, Operand(shape, symmetric), smooth=shape[-1] > 0,
                        growth=_GROWTH)
        for name, shape in _SQUARES.items()
    ),
    *(
        over_all_dtypes(ops.eig, name, Operand(shape, general), smooth=shape[-1] > 0,
                        growth=_GROWTH)
        for name, shape in _SQUARES.items()
    ),
    *(
        over_all_dtypes(ops.schur, name, Operand(shape, general), growth=_GROWTH)
        for name, shape in _SQUARES.items()
    ),
    *(
        over_all_dtypes(ops.svd, name, Operand(shape, apart), smooth=0 not in shape,
                        growth=_GROWTH)
        for name, shape in {**_SQUARES, **_TALL}.items()
    ),
    over_all_dtypes(ops.svd, "full", Operand((2, 3, 3), apart), growth=_GROWTH, full=True),
    *(
        over_all_dtypes(ops.qr, name, Operand(shape, apart), smooth=0 not in shape, growth=_GROWTH)
        for name, shape in {**_SQUARES, **_TALL, "wide": (2, 3, 5)}.items()
    ),
    over_all_dtypes(ops.qr, "full", Operand((2, 3, 3), apart), growth=_GROWTH, full=True),
]  # fmt: skip
