"""Derivatives of convolution: convolutions again."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.ops.conv_geometry import Geometry, geometry
from rlx.ir.ops.conv_transpose import by_input, by_weight
from rlx.passes.autodiff.registry import bilinear


def conv_left(g: Value, x: Value, w: Value, *, groups: int, **attributes: Any) -> Value:
    return by_input(g, w, x.shape[2:], _sliding(x, attributes), groups)


def conv_right(g: Value, x: Value, w: Value, *, groups: int, **attributes: Any) -> Value:
    return by_weight(x, g, w.shape[2:], _sliding(x, attributes), groups)


def _sliding(x: Value, attributes: dict[str, Any]) -> Geometry:
    return geometry(x.rank - 2, **attributes)


bilinear(ops.conv, conv_left, conv_right)
