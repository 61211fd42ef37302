"""Nodes with random shapes and attributes mean what they mean to ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
peer = pytest.importorskip("onnxruntime")

from rlx.onnx import InferenceSession  # noqa: E402
from tests.onnx.generated import GENERATORS, NodeCase, random_case  # noqa: E402
from tests.onnx.models import model, node  # noqa: E402

ROUNDS = 12
_LEAST = 3
"""Of the rounds, those that ONNX Runtime must take: it has no kernel for some attributes."""


def made(name: str, case: NodeCase) -> tuple[Any, dict[str, Any]]:
    """Return a model of one node, and what it is given."""
    given = {f"x{place}": np.asarray(array) for place, array in enumerate(case.inputs)}
    known = {
        f"k{place}": np.asarray(array)
        for place, array in enumerate(case.known)
        if array is not None
    }
    names = [*given, *(f"k{p}" if a is not None else "" for p, a in enumerate(case.known))]
    outputs = [f"y{place}" for place in range(case.outputs)]
    types = {
        key: (onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for key, array in given.items()
    }
    only = node(name, names, outputs, domain=case.domain, **case.attributes)
    whole = model([only], types, outputs, known, opset=case.opset)
    if case.domain:
        whole.opset_import.append(onnx.helper.make_opsetid(case.domain, 3))
    return whole, given


@pytest.mark.parametrize("name", GENERATORS)
def test_random_nodes_are_those_of_onnx_runtime(name: str) -> None:
    rng = np.random.default_rng(sum(map(ord, name)))
    compared = 0
    for _ in range(ROUNDS):
        case = random_case(name, rng)
        whole, feed = made(name, case)
        options = peer.SessionOptions()
        options.log_severity_level = 4
        try:
            session = peer.InferenceSession(
                whole.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            expected = session.run(None, feed)
        except Exception:  # what the peer has no kernel for
            continue
        compared += 1
        backend = "llvm" if compared == 1 else "reference"
        found = InferenceSession(whole, backend=backend).run(None, feed)
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), case
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5, err_msg=str(case))
    assert compared >= _LEAST


SEQUENCES = {
    "a sequence is made, grown, shrunk and joined": """
        one = Constant<value_int = 1>()  last = Constant<value_int = -1>()
        double = Add(x, x)  made = SequenceConstruct(x, double)
        grown = SequenceInsert(made, double, one)  less = SequenceErase(grown, last)
        y = ConcatFromSequence<axis = 0>(less)""",
    "elements by position, and stacked": """
        last = Constant<value_int = -1>()  double = Add(x, x)
        made = SequenceConstruct(x, double, x)  length = SequenceLength(made)
        at = SequenceAt(made, last)  rows = ConcatFromSequence<axis = 0, new_axis = 1>(made)
        more = Mul(rows, at)  number = Cast<to = 1>(length)  y = Add(more, number)""",
    "an optional value": """
        held = Optional(x)  is_there = OptionalHasElement(held)
        found = OptionalGetElement(held)  flag = Cast<to = 1>(is_there)  y = Add(found, flag)""",
    "a loop that ends by its condition, and what it gathers": """
        count = Constant<value_int = 9>()  go = Constant<value_int = 1>()
        start = Cast<to = 9>(go)
        sum, y = Loop(count, start, x) <body = step (int64 i, bool c, float[2, 3] h)
            => (bool more, float[2, 3] next, float[2, 3] kept) {
            next = Add(h, h)  most = ReduceMax<keepdims = 0>(next)
            limit = Constant<value_float = 20.0>()  more = Less(most, limit)
            kept = Mul(h, h) }>""",
    "a branch in a branch": """
        most = ReduceMax<keepdims = 0>(x)  limit = Constant<value_float = 1.0>()
        high = Greater(most, limit)
        y = If(high) <then_branch = above () => (float[2, 3] a) {
            a = If(high) <then_branch = inner () => (float[2, 3] b) { b = Mul(x, limit) },
                          else_branch = other () => (float[2, 3] d) { d = Neg(x) }> },
            else_branch = below () => (float[2, 3] e) { e = Abs(x) }>""",
    "a scan over columns from the end": """
        first = Constant<value_floats = [0.0, 0.0]>()
        last, y = Scan(first, x) <num_scan_inputs = 1, scan_input_axes = [1],
            scan_input_directions = [1], scan_output_axes = [1],
            body = step (float[2] h, float[2] row) => (float[2] next, float[2] out) {
            next = Add(h, row)  out = Mul(next, row) }>""",
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_and_control_flow_are_those_of_onnx_runtime(name: str) -> None:
    text = (
        '<ir_version: 9, opset_import: ["" : 20]> g (float[2, 3] x) => (float[] y) '
        f"{{ {SEQUENCES[name]} }}"
    )
    whole = onnx.parser.parse_model(text)
    whole.graph.output[0].type.tensor_type.ClearField("shape")
    theirs = peer.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    for backend in ("reference", "llvm"):
        for seed in range(3):
            x = (np.random.default_rng(seed).normal(size=(2, 3)) * (seed + 1)).astype(np.float32)
            (expected,) = theirs.run(None, {"x": x})
            (found,) = InferenceSession(whole, backend=backend).run(None, {"x": x})
            np.testing.assert_allclose(found, expected, rtol=1e-5)
