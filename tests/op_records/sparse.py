"""Uses of the ops of sparse factorizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.ir.dtype import DType
from rlx.sparse.factorization import tables_of
from rlx.sparse.ops import sparse_factor, sparse_substitute
from rlx.sparse.ordering import structure_of
from rlx.sparse.pattern import Pattern, from_entries
from tests.record_data import Array, exactly, normal
from tests.records import Operand, OpRecord, over_all_dtypes


def _arrow(size: int) -> Pattern:
    """Return the pattern of a ring of unknowns, all of which are joined to the first."""
    at = np.arange(size)
    pairs = ((at, at), (at, (at + 1) % size), ((at + 1) % size, at), (at, 0 * at), (0 * at, at))
    rows, columns = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    return from_entries(rows, columns, (size, size))


_PATTERN = _arrow(7)
_STRUCTURE = structure_of(_PATTERN)
_ENTRIES = _STRUCTURE.upper.nnz
_SIZES: dict[str, Any] = {"size": 7, "entries": _ENTRIES}


def _dominant(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return values of the pattern with a large diagonal."""
    diagonal = 8 * (_PATTERN.rows == _PATTERN.indices)
    values: Array = rng.uniform(-1, 1, shape) + diagonal
    return values.astype(dtype.numpy)


def _tables(*, symmetric: bool) -> Operand:
    tables = tables_of(_STRUCTURE, symmetric=symmetric)
    return Operand(tables.shape, exactly(tables), DType.I32)


def _factor(name: str, *lead: int, symmetric: bool) -> OpRecord:
    data, tables = Operand((*lead, _PATTERN.nnz), _dominant), _tables(symmetric=symmetric)
    return over_all_dtypes(
        sparse_factor, name, data, tables, growth=8.0, symmetric=symmetric, **_SIZES
    )


def _substitute(name: str, *lead: int, transposed: bool) -> OpRecord:
    shapes = ((*lead, _ENTRIES), (*lead, _ENTRIES), (*lead, 7), (*lead, 7, 2))
    given = [Operand(shape, normal) for shape in shapes]
    return over_all_dtypes(
        sparse_substitute, name, *given, _tables(symmetric=False), growth=1e3,
        transposed=transposed, **_SIZES,
    )  # fmt: skip


RECORDS: list[OpRecord] = [
    _factor("lu", symmetric=False),
    _factor("ldl", symmetric=True),
    _factor("batch", 3, symmetric=False),
    _substitute("plain", transposed=False),
    _substitute("transposed", 2, transposed=True),
]
