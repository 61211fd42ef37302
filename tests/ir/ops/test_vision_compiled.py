"""Neural-network ops in compiled programs: operands of every rank, layout and label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx import blocks
from rlx.codegen.kernels.build import has_kernel, has_lowered_kernel
from rlx.codegen.kernels.registry import REASONS
from rlx.errors import IndexOutOfRangeError, ShapeError
from rlx.ir.graph import Graph
from rlx.ir.op import OPS, Trait
from rlx.ir.reference import evaluate

RANDOM = np.random.default_rng(12)
NATIVE = ("llvm", "c")


def normal(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def agree(g: Graph, arrays: dict[str, Any], backend: str) -> list[Any]:
    """Return the compiled results, which must be those of the reference."""
    found = rlx.compile(g, backend=backend)(**arrays)
    for given, wanted in zip(found, evaluate(g, arrays), strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)
    return list(found)


@pytest.mark.parametrize("backend", NATIVE)
def test_a_transformer_layer_of_eight_operands_is_computed(backend: str) -> None:
    g = Graph("layer")
    shapes = {
        "hidden": (1, 3, 4), "qkv": (4, 12), "out": (4, 4), "gamma1": (4,),
        "up": (4, 8), "down": (8, 4), "gamma2": (4,), "mask": (1, 3),
    }  # fmt: skip
    x = {name: g.input(name, shape) for name, shape in shapes.items()}
    y = blocks.packed_transformer_layer(
        x["hidden"], x["qkv"], x["out"], (x["gamma1"], None), x["up"], x["down"],
        (x["gamma2"], None), x["mask"], num_heads=2, head_dim=2, eps=(1e-5, 1e-5),
    )  # fmt: skip
    g.set_outputs([y])
    arrays = {name: normal(*shape) for name, shape in shapes.items()}
    arrays["mask"] = np.ones((1, 3), np.float32)
    (found,) = agree(g, arrays, backend)
    assert np.ptp(found) > 0


def test_every_op_has_a_kernel_a_formula_or_a_reason() -> None:
    """No executor has a default arm: what has none of the three cannot be declared."""
    without = [
        name
        for name, op in OPS.items()
        if not (has_kernel(op) or has_lowered_kernel(op) or op.decompose or op.has(Trait.LEAF))
    ]
    assert set(without) <= set(REASONS)


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_parts_that_feed_attention_keep_their_axis_and_other_readers(
    backend: str, layout: str
) -> None:
    """Cut along the last axis or along heads, and one part is a result of its own."""
    g = Graph("parts")
    shape = (1, 6, 5, 4) if layout == "bhsd" else (1, 5, 24)
    axis, width = (1, 2) if layout == "bhsd" else (2, 8)
    qkv = g.input("qkv", shape)
    q, k, v = (g.narrow(qkv, axis=axis, start=n * width, length=width) for n in range(3))
    y = g.attention(q, k, v, num_heads=2, head_dim=4, mask_kind="causal", layout=layout)
    g.set_outputs([y, k])
    given = normal(*shape)
    found = agree(g, {"qkv": given}, backend)
    np.testing.assert_array_equal(found[1], np.split(given, 3, axis)[1])


@pytest.mark.parametrize("backend", NATIVE)
def test_rope_writes_every_element_of_every_rank(backend: str) -> None:
    """Rank 4 is head-major, short tables repeat, what is beyond the last whole head is copied."""
    g = Graph("rope")
    cos, sin = g.input("cos", (2, 2)), g.input("sin", (2, 2))
    x, tail = g.input("x", (1, 3, 5, 4)), g.input("tail", (5, 6))
    y = g.rope(x, cos, sin, head_dim=4)
    heads = g.reshape(g.transpose(x, perm=(0, 2, 1, 3)), shape=(5, 12))
    g.set_outputs([y, g.rope(heads, cos, sin, head_dim=4), g.rope(tail, cos, sin, head_dim=4)])
    arrays = {"cos": normal(2, 2), "sin": normal(2, 2), "x": normal(1, 3, 5, 4)}
    arrays["tail"] = normal(5, 6)
    by_head, by_row, with_tail = agree(g, arrays, backend)
    np.testing.assert_allclose(by_head[0].transpose(1, 0, 2).reshape(5, 12), by_row, rtol=1e-6)
    np.testing.assert_array_equal(with_tail[:, 4:], arrays["tail"][:, 4:])


@pytest.mark.parametrize("backend", NATIVE)
def test_resizing_repeats_pixels_and_not_the_image(backend: str) -> None:
    g = Graph("resize")
    g.set_outputs([g.resize_nearest_2x(g.input("x", (2, 3, 5, 7)))])
    given = normal(2, 3, 5, 7)
    (found,) = agree(g, {"x": given}, backend)
    np.testing.assert_array_equal(found, given.repeat(2, axis=2).repeat(2, axis=3))
    with pytest.raises(ShapeError, match=r"must be \[N, C, H, W\]"):
        g.resize_nearest_2x(g.input("line", (1, 3, 7)))


@pytest.mark.parametrize("backend", [*NATIVE, "reference"])
@pytest.mark.parametrize("label", [-1.0, 3.0, np.nan])
@pytest.mark.parametrize("backward", [False, True])
def test_labels_out_of_range_are_faults_in_both_directions(
    backend: str, label: float, backward: bool
) -> None:
    g = Graph("labels")
    logits, labels = g.input("logits", (2, 3)), g.input("labels", (2,))
    if backward:
        y = g.softmax_cross_entropy_backward(logits, labels, g.input("d_loss", (2,)))
    else:
        y = g.softmax_cross_entropy_with_logits(logits, labels)
    g.set_outputs([y])
    arrays = {"logits": normal(2, 3), "labels": np.array([0, label], np.float32)}
    if backward:
        arrays["d_loss"] = normal(2)
    with pytest.raises(IndexOutOfRangeError):
        rlx.compile(g, backend=backend)(**arrays)
    arrays["labels"][1] = 2.9
    (found,) = rlx.compile(g, backend=backend)(**arrays)
    arrays["labels"][1] = 2
    np.testing.assert_array_equal(found, rlx.compile(g, backend=backend)(**arrays)[0])
