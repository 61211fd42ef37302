"""Derivatives of the ops that are not elementwise: finite differences, first and second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.layout import Panels
from rlx.passes.autodiff.errors import NoDerivativeError
from rlx.tracing.apply import emit
from tests.passes.autodiff.checking import (
    Case,
    check_first_order,
    check_second_order,
    tensors,
)


def call(op: Any, **attributes: Any) -> Any:
    """Return `op` with its attributes fixed."""
    return lambda *operands: op(*operands, **attributes)


def curved(op: Any, **attributes: Any) -> Any:
    """Return `op` applied to sines, so that a linear op has something of second order."""
    return lambda *operands: op(*map(ops.sin, operands), **attributes)


def indexed(op: Any, index: list[Any], dtype: str = "i64", **attributes: Any) -> Any:
    """Return `op` of sines with a constant index as last operand."""

    def build(*operands: Value) -> Any:
        indices = operands[0].graph.constant(np.array(index), dtype)
        return op(*map(ops.sin, operands), indices, **attributes)

    return build


def cases(prefix: str, *given: tuple[str, Any, tuple[tuple[int, ...], ...]]) -> list[Case]:
    return [
        Case(f"{prefix} {name}", build, tensors(seed, *shapes), tolerance=1e-6)
        for seed, (name, build, shapes) in enumerate(given)
    ]


SHAPE = cases(
    "shape",
    ("reshape", curved(ops.reshape, shape=(3, -1)), ((2, 6),)),
    ("transpose", curved(ops.transpose, perm=(2, 0, 1)), ((2, 3, 4),)),
    ("expand new axes", curved(ops.expand, shape=(2, 3, 4)), ((3, 1),)),
    ("expand scalar", curved(ops.expand, shape=(2, 3)), ((),)),
    ("narrow", curved(ops.narrow, axis=-1, start=1, length=2), ((2, 4),)),
    ("narrow to nothing", curved(ops.narrow, axis=0, start=1, length=0), ((3,),)),
    ("concat", curved(ops.concat, axis=1), ((2, 1), (2, 3), (2, 0))),
    ("reverse", curved(ops.reverse, axes=(0, -1)), ((2, 3),)),
    ("pad", curved(ops.pad, low=(1, 0), high=(2, 1), value=5.0), ((2, 3),)),
    ("slice", curved(ops.slice, start=(1, 0), stop=(6, 3), step=(2, 1)), ((7, 3),)),
    ("slice past", curved(ops.slice, start=(0,), stop=(5,), step=(3,)), ((5,),)),
)
REDUCTION = cases(
    "reduction",
    ("sum", curved(ops.reduce_sum, axes=(0, 2)), ((2, 3, 4),)),
    ("sum keepdims", curved(ops.reduce_sum, axes=(-1,), keepdims=True), ((2, 3),)),
    ("sum of nothing", curved(ops.reduce_sum, axes=(0,)), ((0, 3),)),
    ("sum over no axis", curved(ops.reduce_sum, axes=()), ((2, 3),)),
    ("mean", curved(ops.reduce_mean, axes=(1,)), ((2, 3, 4),)),
    ("mean of all", curved(ops.reduce_mean, axes=(0, 1)), ((2, 3),)),
    ("max", curved(ops.reduce_max, axes=(0, 2)), ((2, 3, 2),)),
    ("min keepdims", curved(ops.reduce_min, axes=(1,), keepdims=True), ((2, 3),)),
    ("prod", curved(ops.reduce_prod, axes=(0, 2)), ((2, 3, 2),)),
    ("prod of one", curved(ops.reduce_prod, axes=(0,)), ((1, 3),)),
    ("prod of nothing", curved(ops.reduce_prod, axes=(1,)), ((2, 0),)),
    ("cumsum", curved(ops.cumsum, axis=0), ((4, 2),)),
    ("cumsum exclusive", curved(ops.cumsum, axis=-1, exclusive=True), ((2, 4),)),
    ("cumsum reverse", curved(ops.cumsum, axis=1, exclusive=True, reverse=True), ((2, 4),)),
    ("softmax", call(ops.softmax, axis=-1), ((3, 4),)),
    ("softmax first axis", call(ops.softmax, axis=0), ((3, 2),)),
    ("log_softmax", call(ops.log_softmax, axis=-2), ((3, 4),)),
    ("logsumexp", call(ops.logsumexp, axes=(0, 1)), ((3, 4),)),
    ("logsumexp keepdims", call(ops.logsumexp, axes=(-1,), keepdims=True), ((3, 4),)),
)
LINALG = cases(
    "linalg",
    ("matmul", ops.matmul, ((2, 3), (3, 4))),
    ("matmul batched", ops.matmul, ((2, 3, 4), (2, 4, 5))),
    ("matmul shared right", ops.matmul, ((2, 2, 3, 4), (4, 2))),
    ("matmul shared left", ops.matmul, ((3, 4), (2, 4, 2))),
    ("matmul broadcast", ops.matmul, ((2, 1, 3, 2), (3, 2, 1))),
    ("matmul inner 0", ops.matmul, ((2, 0), (0, 3))),
    (
        "dot_general",
        call(
            ops.dot_general,
            lhs_contracting=(1,),
            rhs_contracting=(2,),
            lhs_batch=(2,),
            rhs_batch=(0,),
        ),
        ((2, 3, 2), (2, 2, 3)),
    ),
    ("pack_panels", curved(ops.pack_panels, layout=Panels(4)), ((3, 6),)),
    (
        "pack_panels transposed",
        curved(ops.pack_panels, layout=Panels(2), transposed=True),
        ((3, 2),),
    ),
)
INDEXING = cases(
    "indexing",
    ("gather", indexed(ops.gather, [2, 0, 2]), ((3, 2),)),
    ("gather of rank 2", indexed(ops.gather, [[2, 0, 2], [1, 1, 0]]), ((3, 2),)),
    ("gather axis 1", indexed(ops.gather, [3, 3, 0], axis=1), ((2, 4, 2),)),
    ("gather by scalar", indexed(ops.gather, 1, axis=-1), ((2, 3),)),  # type: ignore[arg-type]
    ("gather_backward", indexed(ops.gather_backward, [1, 1, 0], axis=1, size=3), ((2, 3, 2),)),
    ("scatter_add", indexed(ops.scatter_add, [1, 1, 3], size=4), ((3, 2),)),
    ("dynamic_slice", indexed(ops.dynamic_slice, [1, 9], sizes=(2, 2)), ((4, 3),)),
    ("dynamic_update_slice", indexed(ops.dynamic_update_slice, [2, -3]), ((4, 3), (2, 2))),
    ("topk", lambda x: ops.topk(ops.sin(x), k=2)[0], ((2, 2, 4),)),
)
NORM = cases(
    "norm",
    ("layer_norm", call(ops.layer_norm, axis=-1, eps=1e-5), ((3, 4), (4,), (4,))),
    ("layer_norm axis 1", call(ops.layer_norm, axis=1, eps=1e-3), ((2, 3, 2), (3,), (3,))),
    ("rms_norm", call(ops.rms_norm, axis=-1, eps=1e-5), ((2, 4), (4,), (4,))),
    ("rms_norm without beta", call(ops.rms_norm, axis=0, eps=1e-3), ((3, 2), (3,))),
)


def turned(x: Value) -> Any:
    cos, sin = (x.graph.constant(table) for table in tensors(20, (3, 2), (3, 2)))
    return ops.rope(ops.sin(x), cos, sin, head_dim=4)


HEADS = {"num_heads": 2, "head_dim": 3}
ATTENTION = cases(
    "attention",
    ("bhsd", call(ops.attention, **HEADS), ((1, 2, 4, 3),) * 3),
    ("causal", call(ops.attention, **HEADS, mask_kind="causal"), ((1, 3, 6),) * 3),
    (
        "window, scale, softcap",
        call(
            ops.attention,
            **HEADS,
            mask_kind="sliding_window",
            window=1,
            score_scale=0.7,
            softcap=1.5,
        ),
        ((4, 6),) * 3,
    ),
    ("bias", call(ops.attention, **HEADS, mask_kind="bias"), (*((2, 3, 6),) * 3, (1, 2, 3, 1))),
    ("shared heads", call(ops.attention, **HEADS), ((1, 2, 6), (1, 3, 3), (1, 3, 3))),
    (
        "backward",
        call(ops.attention_backward, **HEADS, mask_kind="causal"),
        ((1, 2, 6),) * 4,
    ),
    ("rope", call(ops.rope, head_dim=4, n_rot=2), ((1, 3, 9), (3, 2), (3, 2))),
    ("rope by constant tables", turned, ((2, 3, 4),)),
)


def labels(op: Any) -> Any:
    def build(logits: Value, *rest: Value) -> Any:
        return op(logits, logits.graph.constant(np.array([2, 0, 1]), "i32"), *rest)

    return build


LOSS = cases(
    "loss",
    ("cross entropy", labels(ops.softmax_cross_entropy_with_logits), ((3, 4),)),
    ("cross entropy backward", labels(ops.softmax_cross_entropy_backward), ((3, 4), (3,))),
)


def cell(x: Value, w: Value) -> tuple[Value, Value]:
    body = Graph("body")
    a, b = (body.input(f"b{i}", v.shape, v.dtype) for i, v in enumerate((x, w)))
    hidden = ops.tanh(a @ b)
    body.set_outputs([ops.exp(hidden) * 0.5, hidden])
    first, second = ops.checkpoint(x, w, body=body)
    return first, second


CONTROL = cases(
    "control",
    ("checkpoint", cell, ((2, 3), (3, 2))),
    ("barrier", lambda x, y: ops.sin(ops.barrier(x, y)) * y, ((2,), (2,))),
    ("stop_gradient", lambda x: ops.sin(x) + ops.stop_gradient(x) * 0.0, ((3,),)),
)
ALL = [*SHAPE, *REDUCTION, *LINALG, *INDEXING, *NORM, *ATTENTION, *LOSS, *CONTROL]


@pytest.mark.parametrize("transform", [rlx.grad, lambda f: lambda x: rlx.jvp(f, (x,), (x,))])
def test_a_refused_derivative_is_an_error_where_it_is_taken(transform: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        marked = emit(ops.refuse_derivative, x, because="of no use")
        return y * marked + rlx.stop_gradient(marked)

    assert rlx.jit(f)(2.0, 3.0) == 8
    assert rlx.jit(rlx.vmap(f))(np.full(2, 2.0), np.full(2, 3.0)).tolist() == [8, 8]
    assert rlx.jit(rlx.grad(f, 1))(2.0, 3.0) == 2
    with pytest.raises(NoDerivativeError, match="of no use"):
        transform(lambda x: f(x, 3.0))(2.0)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_op_has_its_first_derivatives(case: Case) -> None:
    check_first_order(case)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_op_has_its_second_derivatives(case: Case) -> None:
    check_second_order(case)
