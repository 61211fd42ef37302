"""Uses of run-time indexing. Out-of-range indices have tests of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.reference import indexing as reference
from tests.record_data import edges, exactly, indices, normal, separate, ties, uniform
from tests.records import Operand, OpRecord, over_all_dtypes

_INDEX_DTYPES = (DType.I32, DType.I64, DType.F32)
_SUM_GROWTH = 8.0

_GATHERS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
    "rows": ((9, 4), (5,), 0),
    "embedding": ((11, 7), (2, 3), 0),
    "last-axis": ((3, 9), (5,), -1),
    "middle-axis": ((2, 5, 3), (2, 2), 1),
    "scalar-index": ((6, 3), (), 0),
    "no-index": ((6, 3), (0,), 0),
    "vector": ((17,), (33,), 0),
}


def _gathers(
    name: str, table: tuple[int, ...], index: tuple[int, ...], axis: int
) -> list[OpRecord]:
    position = axis % len(table)
    size = table[position]
    taken = (*table[:position], *index, *table[position + 1 :])
    found = []
    for dtype in _INDEX_DTYPES:
        chosen = Operand(index, indices(size), dtype)
        found.append(
            over_all_dtypes(
                ops.gather,
                f"{name}-{dtype}",
                Operand(table, normal),
                chosen,
                smooth=True,
                growth=0.0,
                axis=axis,
            )
        )
        found.append(
            over_all_dtypes(
                ops.gather_backward,
                f"{name}-{dtype}",
                Operand(taken, normal),
                chosen,
                smooth=True,
                growth=_SUM_GROWTH,
                axis=axis,
                size=size,
            )
        )
    return found  # fmt: skip


_SCATTERS = [
    over_all_dtypes(
        ops.scatter_add, f"{name}-{dtype}", Operand((*index, *row), normal),
        Operand(index, indices(size), dtype), smooth=True, growth=_SUM_GROWTH, size=size,
    )
    for name, index, row, size in [
        ("rows", (5,), (4,), 3),
        ("embedding", (2, 3), (7,), 11),
        ("scalars", (33,), (), 6),
        ("no-index", (0,), (3,), 2),
    ]
    for dtype in _INDEX_DTYPES
]  # fmt: skip

_SCATTER_FOLDS = [
    over_all_dtypes(
        op, f"{name}-{dtype}", Operand((*index, *row), make), Operand(index, indices(size), dtype),
        smooth=True, growth=0.0 if op is not ops.scatter_mul else _SUM_GROWTH, size=size,
    )
    for op, make in {
        ops.scatter_mul: uniform(0.8, 1.2), ops.scatter_max: separate, ops.scatter_min: separate
    }.items()
    for name, index, row, size, dtype in [
        ("rows", (5,), (4,), 3, DType.I32),
        ("embedding", (2, 3), (7,), 11, DType.I64),
        ("scalars", (33,), (), 6, DType.F32),
        ("no-index", (0,), (3,), 2, DType.I64),
    ]
]  # fmt: skip

_TOPKS = [
    over_all_dtypes(ops.topk, name, Operand(shape, make), smooth=smooth, growth=0.0, k=k)
    for name, shape, make, k, smooth in [
        ("rows", (7, 17), separate, 5, True),
        ("ties", (3, 9), ties, 4, False),
        ("all", (2, 6), separate, 6, True),
        ("none", (2, 6), separate, 0, False),
        ("edges", (1, 24), edges, 24, False),
        ("vector", (33,), normal, 1, False),
        ("empty-batch", (0, 5), normal, 2, False),
        ("many-ties", (3, 90), ties, 60, False),
        ("many-edges", (2, 72), edges, 72, False),
    ]
]

_SORTS = [
    over_all_dtypes(op, name, Operand(shape, make), smooth=smooth, growth=0.0)
    for op in (ops.sort, ops.argsort)
    for name, shape, make, smooth in [
        ("rows", (7, 17), separate, True),
        ("long-rows", (3, 100), separate, True),
        ("ties", (3, 90), ties, False),
        ("edges", (2, 24), edges, False),
        ("long-edges", (1, 72), edges, False),
        ("one", (4, 1), normal, True),
        ("empty", (0, 5), normal, False),
        ("empty-rows", (2, 0), normal, False),
    ]
]

_MIXED = np.array([0.5, np.nan, -0.0, 3.0, 0.0, -np.inf, 0.5, -2.0, np.inf], np.float32)
_BITS = (_MIXED + 0.0).view(np.int32)
_KEYS = np.where(np.isnan(_MIXED), -1, _BITS ^ (_BITS >> 31 | -(2**31))).astype(np.int32)
_RECORDS = _KEYS.astype(np.int64) << 32 | np.arange(len(_KEYS))
_DIGIT = {"start": 37, "bits": 3}
_COUNTS = reference.radix_counts(_RECORDS, **_DIGIT, blocks=2)
_PLACES = (np.cumsum(_COUNTS.T) - _COUNTS.T.reshape(-1)).reshape(_COUNTS.T.shape).T


def _fixed(array: NDArray[Any], dtype: DType) -> Operand:
    return Operand(array.shape, exactly(array), dtype)


_SORT_STAGES = [
    OpRecord(ops.radix_counts, "wide", (_fixed(_RECORDS, DType.I64),), {**_DIGIT, "blocks": 2},
             (DType.F32,)),
    OpRecord(ops.radix_counts, "narrow", (_fixed(_KEYS, DType.I32),),
             {"start": 24, "bits": 8, "blocks": 4}, (DType.F32,)),
    OpRecord(ops.radix_move, "blocks", (_fixed(_RECORDS, DType.I64), _fixed(_PLACES, DType.I32)),
             _DIGIT, (DType.F32,)),
    OpRecord(ops.sorted_values, "edges", (_fixed(np.sort(_KEYS.view(np.uint32)).view(np.int32),
                                                 DType.I32), _fixed(_MIXED, DType.F32)),
             {}, (DType.F32,)),
]  # fmt: skip

_TREES = {
    # two trees in one chain, of three leaves and of one, and one of two leaves in another
    DType.I32: [(9, 0, 0, 3), (5, 0, 2, 0), (9, 0, 6, 0), (0, 2, 4, 0), (9, 0, 6, 0), (9, 0, 6, 0),
                (9, 0, 0, 1), (-2, 1, 8, 2), (9, 0, 0, 2), (9, 0, 0, 2)],
    DType.I64: [(9, 0, 0, 2, -1), (0, 1, 3, 0, 5), (0, 0, 5, 1, 2), (9, 0, 2, 0, -1),
                (9, 0, 2, 0, -1), (9, 0, 0, 1, -1), (9, 0, 0, 1, -1)],
}  # fmt: skip
"""Records of a limit, a column, a child, a tree, and a mask."""


def _trees(dtype: DType, starts: list[int], trees: int) -> OpRecord:
    records = np.array(_TREES[dtype])
    width = records.shape[1]
    records[:, 2] *= width
    keys = np.random.default_rng(0).integers(-9, 10, (7, 3))
    return OpRecord(
        ops.walk_trees, f"{len(starts)}-chains-{dtype}",
        (_fixed(keys, dtype), _fixed(records.ravel(), dtype),
         _fixed(width * np.array(starts), DType.I32)),
        {"trees": trees, "width": width}, (DType.F32,),
    )  # fmt: skip


_WALKS = [_trees(DType.I32, [1, 7], 3), _trees(DType.I64, [1], 2)]
_STARTS = {"inside": (1, 2), "clamped-low": (-3, 0), "clamped-high": (9, 9)}
_DYNAMIC = [
    record
    for name, starts in _STARTS.items()
    for dtype in (DType.I32, DType.I64)
    for record in (
        over_all_dtypes(
            ops.dynamic_slice, f"{name}-{dtype}", Operand((5, 7), normal),
            Operand((2,), exactly(starts), dtype), smooth=True, growth=0.0, sizes=(2, 3),
        ),
        over_all_dtypes(
            ops.dynamic_update_slice, f"{name}-{dtype}", Operand((5, 7), normal),
            Operand((2, 3), normal), Operand((2,), exactly(starts), dtype), smooth=True,
            growth=0.0,
        ),
    )
]  # fmt: skip

RECORDS: list[OpRecord] = [
    *(record for name, case in _GATHERS.items() for record in _gathers(name, *case)),
    *_SCATTERS,
    *_SCATTER_FOLDS,
    *_TOPKS,
    *_SORTS,
    *_SORT_STAGES,
    *_WALKS,
    *_DYNAMIC,
]
