"""Uses of attention, its gradient and rotary embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.record_data import Array, exactly, indices, normal, uniform
from tests.records import Maker, Operand, OpRecord, over_all_dtypes

_GROWTH = 32.0
_Shape = tuple[int, ...]

# name, q, k and v, mask, attributes
_CASES: list[tuple[str, _Shape, _Shape, Operand | None, dict[str, Any]]] = [
    ("rank-two", (5, 8), (5, 8), None, {"num_heads": 2, "head_dim": 4}),
    ("rank-three", (2, 5, 12), (2, 5, 12), None, {"num_heads": 3, "head_dim": 4}),
    ("heads-first", (2, 3, 5, 4), (2, 3, 5, 4), None, {"num_heads": 3, "head_dim": 4}),
    ("heads-third", (2, 5, 3, 4), (2, 5, 3, 4), None, {"num_heads": 3, "head_dim": 4}),
    ("ambiguous-bshd", (1, 3, 3, 4), (1, 3, 3, 4), None,
     {"num_heads": 3, "head_dim": 4, "layout": "bshd", "mask_kind": "causal"}),
    ("odd-head", (1, 17, 7), (1, 17, 7), None, {"num_heads": 1, "head_dim": 7}),
    ("causal", (2, 5, 8), (2, 5, 8), None,
     {"num_heads": 2, "head_dim": 4, "mask_kind": "causal"}),
    ("causal-decode", (2, 1, 8), (2, 6, 8), None,
     {"num_heads": 2, "head_dim": 4, "mask_kind": "causal"}),
    ("causal-chunk", (1, 3, 8), (1, 7, 8), None,
     {"num_heads": 2, "head_dim": 4, "mask_kind": "causal"}),
    ("causal-more-queries", (1, 6, 4), (1, 3, 4), None,
     {"num_heads": 1, "head_dim": 4, "mask_kind": "causal"}),
    ("window", (1, 7, 8), (1, 7, 8), None,
     {"num_heads": 2, "head_dim": 4, "mask_kind": "sliding_window", "window": 2}),
    ("window-self", (1, 4, 8), (1, 4, 8), None,
     {"num_heads": 2, "head_dim": 4, "mask_kind": "sliding_window", "window": 0}),
    ("window-decode", (1, 2, 8), (1, 9, 8), None,
     {"num_heads": 2, "head_dim": 4, "mask_kind": "sliding_window", "window": 3}),
    ("window-hides-all", (1, 7, 4), (1, 3, 4), None,
     {"num_heads": 1, "head_dim": 4, "mask_kind": "sliding_window", "window": 1}),
    ("grouped", (2, 5, 16), (2, 5, 8), None,
     {"num_heads": 4, "head_dim": 4, "mask_kind": "causal"}),
    ("grouped-heads-first", (1, 4, 5, 4), (1, 1, 5, 4), None, {"num_heads": 4, "head_dim": 4}),
    ("scaled", (1, 5, 8), (1, 5, 8), None,
     {"num_heads": 2, "head_dim": 4, "score_scale": 0.25}),
    ("capped", (1, 5, 8), (1, 5, 8), None,
     {"num_heads": 2, "head_dim": 4, "softcap": 1.5, "mask_kind": "causal"}),
    ("custom-keys", (2, 5, 8), (2, 5, 8), Operand((2, 5), indices(2), DType.BOOL),
     {"num_heads": 2, "head_dim": 4, "mask_kind": "custom"}),
    ("custom-hides-all", (1, 3, 8), (1, 3, 8), Operand((1, 3), exactly([0, 0, 0])),
     {"num_heads": 2, "head_dim": 4, "mask_kind": "custom"}),
    ("custom-pairs", (2, 3, 8), (2, 5, 8), Operand((2, 3, 5), indices(2)),
     {"num_heads": 2, "head_dim": 4, "mask_kind": "custom"}),
    ("custom-one-row", (2, 3, 8), (2, 5, 8), Operand((1, 1, 1, 5), exactly([1, 0, 1, 1, 0])),
     {"num_heads": 2, "head_dim": 4, "mask_kind": "custom"}),
    ("bias", (2, 3, 8), (2, 5, 8), Operand((2, 2, 3, 5), normal),
     {"num_heads": 2, "head_dim": 4, "mask_kind": "bias"}),
    ("bias-per-head", (2, 3, 8), (2, 5, 8), Operand((1, 2, 1, 5), normal),
     {"num_heads": 2, "head_dim": 4, "mask_kind": "bias", "softcap": 2.0}),
]  # fmt: skip


def _records(
    name: str, q: _Shape, kv: _Shape, mask: Operand | None, attributes: dict[str, Any]
) -> list[OpRecord]:
    operands = (Operand(q, normal), Operand(kv, normal), Operand(kv, normal))
    masks = () if mask is None else (mask,)
    backward = (*operands, Operand(q, normal), *masks)
    return [
        over_all_dtypes(
            ops.attention, name, *operands, *masks, smooth=True, growth=_GROWTH, **attributes
        ),
        over_all_dtypes(
            ops.attention_backward, name, *backward, smooth=True, growth=_GROWTH, **attributes
        ),
    ]


def angles(function: Callable[[Array], Array]) -> Maker:
    """Return a maker of a table of `function` at angles that grow with the position."""

    def make(_rng: np.random.Generator, shape: _Shape, dtype: DType) -> Array:
        rows, columns = shape
        return function(np.outer(np.arange(rows), 0.5 ** np.arange(columns))).astype(dtype.numpy)

    return make


_ROPE_CASES: list[tuple[str, _Shape, _Shape, dict[str, Any]]] = [
    ("rank-two", (5, 8), (5, 2), {"head_dim": 4}),
    ("rank-three", (2, 5, 12), (7, 2), {"head_dim": 4}),
    ("heads-first", (2, 3, 5, 6), (5, 3), {"head_dim": 6}),
    ("partial", (1, 2, 16), (2, 4), {"head_dim": 8, "n_rot": 6}),
    ("none-rotated", (1, 2, 8), (2, 4), {"head_dim": 8, "n_rot": 0}),
    ("table-starts-over", (1, 5, 4), (2, 2), {"head_dim": 4}),
    ("tail", (1, 2, 6), (2, 2), {"head_dim": 4}),
]
_ROPES = [
    over_all_dtypes(
        ops.rope, name, Operand(x, uniform(-1.0, 1.0)), Operand(table, angles(np.cos)),
        Operand(table, angles(np.sin)), smooth=True, growth=4.0, **attributes,
    )
    for name, x, table, attributes in _ROPE_CASES
]  # fmt: skip

RECORDS: list[OpRecord] = [*(record for case in _CASES for record in _records(*case)), *_ROPES]
