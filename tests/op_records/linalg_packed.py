"""Uses of packing. Packed products are compared with plain ones where passes make them."""

from __future__ import annotations

from rlx.ir import ops
from tests.record_data import normal
from tests.records import Operand, OpRecord, over_all_dtypes

RECORDS: list[OpRecord] = [
    over_all_dtypes(
        ops.pack_panels, name, Operand(shape, normal), smooth=True, growth=0.0, panel=panel,
        transposed=transposed, lanes=lanes,
    )
    for name, shape, panel, transposed, lanes in [
        ("even", (3, 8), 4, False, 1),
        ("padded", (5, 17), 8, False, 1),
        ("transposed", (17, 5), 8, True, 1),
        ("turned", (17, 9), 8, True, 4),
        ("batched", (2, 3, 5), 4, False, 1),
    ]
]  # fmt: skip
