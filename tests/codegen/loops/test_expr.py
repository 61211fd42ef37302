"""Expressions under construction know the type of the node that they wrap."""

from __future__ import annotations

import pytest

from rlx.codegen.loops import expr
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import BinaryOp, Prim, ValueType, Var
from rlx.codegen.loops.scalar import scalar_function

_X = E(Var("x", ValueType(Prim.F32)))
_V = E(Var("v", ValueType(Prim.F32, 8)))


@pytest.mark.parametrize(
    "built",
    [
        *(-_X, abs(_V), _X + 1, _X * _V, _X < _V, _X.cast(Prim.F64), _V.cast(Prim.I32)),
        *(_V.bitcast(Prim.U32), _X.splat(8), _V.lane(3), _V.fold(BinaryOp.ADD)),
        *(_X.cast(Prim.I64).ramp(4), expr.shuffle(_V, _V, (0, 9)), ~(_V < 0)),
        *(expr.select(_X < 0, _V, 1.0), expr.fma(_X, _V, 2.0)),
        *(scalar_function("tanh")(_X), scalar_function("tanh")(_V)),
    ],
    ids=repr,
)
def test_type_is_that_of_the_node(built: E) -> None:
    assert built.type == built.node.type


def test_offsets_of_integers_cancel() -> None:
    start = E(Var("start", ValueType(Prim.I64)))
    assert (start + 256 - start).node == expr.const(256, Prim.I64).node
    assert (start + 256 - 16).node == (start + 240).node
