"""Uses of packing. Packed products are compared with plain ones where passes make them."""

from __future__ import annotations

from rlx.ir import ops
from tests.record_data import normal
from tests.records import Operand, OpRecord, over_all_dtypes

RECORDS: list[OpRecord] = [
    over_all_dtypes(
        ops.pack_panels, name, Operand(shape, normal), smooth=True, growth=0.0, panel=panel,
        transposed=transposed,
    )
    for name, shape, panel, transposed in [
        ("even", (3, 8), 4, False),
        ("padded", (5, 17), 8, False),
        ("transposed", (17, 5), 8, True),
        ("batched", (2, 3, 5), 4, False),
    ]
]  # fmt: skip
