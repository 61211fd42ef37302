"""Uses of matrix products."""

from __future__ import annotations

from rlx.ir import ops
from tests.record_data import normal
from tests.records import Operand, OpRecord, over_all_dtypes

_GROWTH = 16.0  # sums of up to 70 products, in any order

_MATMULS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "square": ((4, 4), (4, 4)), "tails": ((7, 17), (17, 33)), "tall": ((65, 3), (3, 5)),
    "deep": ((3, 70), (70, 2)), "row-by-matrix": ((1, 17), (17, 9)), "column": ((9, 17), (17, 1)),
    "batched": ((2, 3, 4), (2, 4, 5)), "shared-right": ((2, 3, 4), (4, 5)),
    "shared-left": ((3, 4), (2, 4, 5)), "stretched": ((2, 1, 3, 4), (1, 5, 4, 2)),
    "stretched-left": ((1, 3, 4), (6, 4, 5)), "no-inner": ((3, 0), (0, 4)),
    "no-rows": ((0, 3), (3, 4)), "no-batch": ((0, 2, 3), (0, 3, 4)),
}  # fmt: skip
_GENERAL: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "matrix": ((3, 4), (4, 5), ((1,), (0,), (), ())),
    "transposed": ((4, 3), (5, 4), ((0,), (1,), (), ())),
    "batched": ((2, 3, 4), (5, 2, 4), ((2,), (2,), (0,), (1,))),
    "two-contracting": ((2, 3, 4), (4, 3, 5), ((1, 2), (1, 0), (), ())),
    "outer": ((3,), (4,), ((), (), (), ())),
    "all": ((3, 4), (3, 4), ((0, 1), (0, 1), (), ())),
}

RECORDS: list[OpRecord] = [
    over_all_dtypes(
        ops.matmul, name, Operand(a, normal), Operand(b, normal), smooth=True, growth=_GROWTH
    )
    for name, (a, b) in _MATMULS.items()
] + [
    over_all_dtypes(
        ops.dot_general, name, Operand(a, normal), Operand(b, normal), smooth=True, growth=_GROWTH,
        lhs_contracting=axes[0], rhs_contracting=axes[1], lhs_batch=axes[2], rhs_batch=axes[3],
    )
    for name, (a, b, axes) in _GENERAL.items()
]  # fmt: skip
