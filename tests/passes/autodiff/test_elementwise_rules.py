"""Derivatives of elementwise ops against finite differences, broadcasting and kinks."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.op import OPS, OpDef
from tests.passes.autodiff.checking import (
    Case,
    check_first_order,
    check_second_order,
    gradients,
    tensors,
)

ARITHMETIC = ["add", "sub", "mul", "div", "pow", "mod", "atan2", "maximum", "minimum"]
BROADCASTS = [
    ((3,), (3,)),
    ((2, 1), (3,)),
    ((1,), (2, 3)),
    ((), (2,)),
    ((2, 3), (1, 1)),
    ((0, 2), (2,)),
]


@pytest.mark.whole
@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_binary_op_has_its_derivatives_whatever_broadcasts(
    name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    a, b = tensors(5, *shapes)
    case = Case(name, ops_by_name(name), (np.abs(a) + 0.3, np.abs(b) + 0.4), tolerance=1e-6)
    check_first_order(case)
    check_second_order(case)


def ops_by_name(name: str) -> OpDef:
    return OPS[name]


def slope(op: OpDef, *points: float) -> list[float]:
    """Return the partial derivatives at one point."""
    case = Case(op.name, op, tuple(np.array(point) for point in points))
    return [float(g) for g in gradients(case.graph(), case.feeds, case.wrt)]


KINKS = [
    (ops.relu, (0.0,), [0.0]), (ops.abs, (0.0,), [0.0]), (ops.sqrt, (0.0,), [np.inf]),
    (ops.sqrt, (-1.0,), [np.nan]), (ops.rsqrt, (0.0,), [-np.inf]), (ops.rsqrt, (-1.0,), [np.nan]),
    (ops.round, (0.4,), [1.0]), (ops.floor, (0.4,), [0.0]), (ops.sign, (0.4,), [0.0]),
    (ops.maximum, (2.0, 2.0), [0.5, 0.5]), (ops.minimum, (2.0, 2.0), [0.5, 0.5]),
    (ops.maximum, (np.nan, 1.0), [0.0, 0.0]), (ops.maximum, (np.inf, np.inf), [0.5, 0.5]),
    (ops.pow, (0.0, 2.0), [0.0, 0.0]), (ops.pow, (0.0, 1.0), [1.0, 0.0]),
    (ops.pow, (0.0, 0.0), [0.0, -np.inf]), (ops.pow, (3.0, 0.0), [0.0, np.log(3.0)]),
    (ops.softplus, (0.0,), [0.5]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "point", "expected"), KINKS, ids=lambda v: getattr(v, "name", str(v))
)
def test_derivative_at_a_kink_follows_the_convention(
    op: OpDef, point: tuple[float, ...], expected: list[float]
) -> None:
    np.testing.assert_allclose(slope(op, *point), expected, rtol=1e-15)
