"""Uses of convolution, its transpose, its gradients and its windows."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.op import OpDef
from tests.record_data import normal
from tests.records import Operand, OpRecord, over_all_dtypes

_GROWTH = 32.0  # sums of up to 100 products, in any order
_Shape = tuple[int, ...]

# name, x, w, attributes
_CONVS: list[tuple[str, _Shape, _Shape, dict[str, Any]]] = [
    ("one-axis", (2, 3, 9), (4, 3, 3), {}),
    ("two-axes", (2, 3, 6, 7), (4, 3, 3, 2), {"padding": ((1, 1), (1, 0))}),
    ("three-axes", (1, 2, 3, 4, 5), (3, 2, 2, 1, 3),
     {"stride": (1, 2, 2), "padding": ((0, 1), (0, 0), (1, 1))}),
    ("strided", (1, 2, 9, 8), (3, 2, 3, 3), {"stride": (2, 3), "padding": ((1, 2), (2, 1))}),
    ("dilated", (1, 2, 9, 8), (3, 2, 3, 2), {"dilation": (2, 3), "padding": ((2, 2), (0, 1))}),
    ("spread-apart", (1, 2, 4, 3), (3, 2, 3, 2),
     {"input_dilation": (2, 3), "padding": ((2, 2), (1, 2))}),
    ("spread-and-strided", (1, 2, 5), (3, 2, 3),
     {"input_dilation": (3,), "stride": (2,), "padding": ((2, 3),)}),
    ("cropped", (1, 2, 7, 6), (2, 2, 2, 2), {"padding": ((-1, -2), (0, -1))}),
    ("grouped", (2, 6, 5, 4), (4, 3, 3, 3), {"groups": 2, "padding": ((1, 1), (1, 1))}),
    ("depthwise", (1, 5, 6, 6), (10, 1, 3, 3), {"groups": 5, "padding": ((1, 1), (1, 1))}),
    ("one-tap", (2, 4, 3, 3), (5, 4, 1, 1), {}),
    ("whole-image", (2, 2, 4, 3), (3, 2, 4, 3), {}),
    ("padding-beyond-the-window", (1, 2, 2), (2, 2, 2), {"padding": ((4, 3),)}),
    ("stride-beyond-the-window", (1, 2, 8, 7), (2, 2, 2, 1), {"stride": (4, 3)}),
    ("no-images", (0, 2, 4, 4), (3, 2, 3, 3), {}),
    ("no-pixels", (1, 2, 0, 5), (3, 2, 3, 3), {"padding": ((2, 2), (1, 1))}),
    ("no-channels", (2, 0, 4), (3, 0, 3), {}),
]  # fmt: skip
_EVERY_DTYPE = ("two-axes", "depthwise")
_TRANSPOSED: list[tuple[str, _Shape, _Shape, dict[str, Any]]] = [
    ("two-axes", (1, 4, 5, 3), (4, 3, 2, 2), {"stride": (2, 2)}),
    ("grouped", (1, 4, 4, 3), (4, 2, 3, 3),
     {"groups": 2, "stride": (2, 3), "padding": ((1, 1), (0, 2)), "output_padding": (1, 2)}),
    ("one-axis", (2, 2, 4), (2, 3, 3), {"dilation": (2,), "padding": ((5, 1),)}),
]  # fmt: skip


def _two(
    op: OpDef, name: str, a: _Shape, b: _Shape, attributes: dict[str, Any], *, every: bool = False
) -> OpRecord:
    """Return a record over f32 and f64, or over every dtype."""
    both = Operand(a, normal), Operand(b, normal)
    if every:
        return over_all_dtypes(op, name, *both, smooth=True, growth=_GROWTH, **attributes)
    return OpRecord(op, name, both, attributes, smooth=True, growth=_GROWTH)


_GEOMETRY: dict[str, Any] = {"stride": (2, 1), "padding": ((1, 1), (2, 2)), "dilation": (2, 1)}

RECORDS: list[OpRecord] = [
    *(_two(ops.conv, name, x, w, a, every=name in _EVERY_DTYPE) for name, x, w, a in _CONVS),
    *(_two(ops.conv_transpose, name, x, w, a) for name, x, w, a in _TRANSPOSED),
    _two(
        ops.conv_backward_input, "grouped", (2, 6, 3, 7), (6, 2, 2, 3),
        {"spatial": (6, 5), "groups": 2, **_GEOMETRY},
    ),
    _two(
        ops.conv_backward_weight, "grouped", (2, 4, 6, 5), (2, 6, 3, 7),
        {"kernel_size": (2, 3), "groups": 2, **_GEOMETRY},
    ),
    *(
        over_all_dtypes(
            ops.im2col, name, Operand(x, normal), smooth=True, growth=0.0, **attributes
        )
        for name, x, attributes in [
            ("two-axes", (2, 2, 4, 5), {"kernel_size": (2, 3), **_GEOMETRY}),
            ("one-axis", (1, 2, 5), {"kernel_size": (2,)}),
        ]
    ),
    over_all_dtypes(
        ops.col2im, "two-axes", Operand((2 * 2 * 7, 2 * 2 * 3), normal), smooth=True, growth=8.0,
        shape=(2, 2, 4, 5), kernel_size=(2, 3), **_GEOMETRY,
    ),
]  # fmt: skip
