"""Which images are stored with channels last; results do not change."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.passes.layout.channels_last import channels_last
from rlx.passes.layout.tile_convolutions import tile_convolutions
from rlx.target import named_target

AVX512 = named_target("x86-64-v4")
PAD = ((1, 1), (1, 1))


def conv(x: Value, channels: int, taps: int, **attributes: Any) -> Value:
    """Return a convolution by a param of its own."""
    g, axes = x.graph, x.rank - 2
    name = f"w{len(g.params)}"
    w = g.param(name, (channels, int(str(x.shape[1])), *(taps,) * axes), x.dtype)
    result: Value = g.conv(x, w, **attributes)
    return result


def names(g: Graph) -> Counter[str]:
    """Return how often the pass leaves each op that runs at every call."""
    done = channels_last(AVX512)(g)
    return Counter(node.op.name for node in done.nodes if node.result.rank > 2)


def block(x: Value) -> Value:
    """Return a residual block: single taps, three by three, single taps, a sum."""
    g = x.graph
    y = g.relu(conv(x, 32, 1) + g.param(f"b{len(g.params)}", (32, 1, 1), x.dtype))
    y = g.relu(conv(y, 32, 3, padding=PAD))
    return g.relu(conv(y, int(str(x.shape[1])), 1) + x)


def test_images_are_transposed_where_they_enter_and_leave() -> None:
    g = Graph("blocks")
    g.set_outputs([block(block(g.input("x", (1, 64, 14, 14))))])
    found = names(g)
    weights = 2  # of the convolutions of three by three, in setup
    assert (found["transpose"], found["conv"]) == (2 + weights, 0)
    assert (found["stored_conv"], found["matmul"]) == (2, 4)
    done = channels_last(AVX512)(g)
    images = [n for n in done.nodes if n.op.name == "transpose" and n.result.shape[0] == 1]
    assert images[0].operands == done.inputs
    assert images[-1].results == done.outputs
    assert len(images) == 2


@pytest.mark.parametrize("name", ["reduce_mean", "reduce_max", "reduce_min", "reduce_sum"])
def test_folds_of_pixels_keep_channels_last(name: str) -> None:
    """As in a block that weighs channels by their means: the image is not turned for them."""
    g = Graph("gated")
    y = block(block(g.input("x", (1, 64, 14, 12))))
    gate = g.sigmoid(getattr(g, name)(y, axes=(-2, 3), keepdims=True))
    rows = getattr(g, name)(y, axes=(2,), keepdims=True)
    g.set_outputs([conv(y * gate, 64, 1), rows])
    found = [n for n in channels_last(AVX512)(g).nodes if n.op is ops.transpose]
    images = [n.result.shape for n in found if n.result.shape[0] == 1]
    assert images == [(1, 14, 12, 64), (1, 64, 14, 12), (1, 64, 1, 12)]
    results, expected = run(g)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


def test_one_convolution_is_not_worth_two_transposes() -> None:
    g = Graph("one")
    g.set_outputs([conv(g.input("x", (1, 64, 14, 14)), 64, 1)])
    assert names(g)["conv"] == 1


def test_a_picture_of_one_channel_enters_for_free() -> None:
    """There is nothing to transpose, and the sums over the image have no pixels left."""
    g = Graph("free")
    y = conv(g.input("x", (1, 1, 30, 30)), 32, 3)
    g.set_outputs([g.sum_pool(y, kernel_size=(28, 28))])
    assert names(g)["stored_conv"] == 1


def test_weights_that_change_at_every_call_stay_as_they_are() -> None:
    g = Graph("training")
    x, w = g.input("x", (1, 64, 14, 14)), g.input("w", (64, 64, 3, 3))
    g.set_outputs([g.conv(g.conv(x, w, padding=PAD), w, padding=PAD)])
    assert names(g)["conv"] == 2


def test_groups_stay_as_they_are() -> None:
    g = Graph("groups")
    x, w = g.input("x", (1, 64, 14, 14)), g.param("w", (64, 2, 3, 3))
    g.set_outputs([block(block(g.conv(x, w, groups=32)))])
    assert names(g)["conv"] == 1


def test_joins_after_every_convolution_cost_more_than_they_save() -> None:
    """As in a DenseNet: all that came before is copied again, in pieces of a few channels."""
    g = Graph("dense")
    x = g.input("x", (1, 64, 14, 14))
    for _ in range(3):
        x = g.concat(x, conv(g.relu(conv(g.relu(x), 64, 1)), 16, 3, padding=PAD), axis=1)
    g.set_outputs([x])
    assert names(g)["conv"] == 6


def run(g: Graph, backend: str = "llvm", seed: int = 0, **extents: int) -> tuple[Any, Any]:
    """Return what `g` compiles to, and what it means."""
    random = np.random.default_rng(seed)

    def sample(value: Value) -> Any:
        shape = [e if isinstance(e, int) else e.evaluate(extents) for e in value.shape]
        return (random.standard_normal(shape) / 4).astype(value.dtype.numpy)

    params = {str(v.node.name): sample(v) for v in g.params}
    inputs = {str(v.node.name): sample(v) for v in g.inputs}
    found = rlx.compile(g, backend=backend, params=params)(**inputs)
    return found, evaluate(g, {**params, **inputs})


def everything(x: Value) -> list[Value]:
    """Return a network of all ops that keep a layout: pools, pads, cuts, joins, broadcasts."""
    g = x.graph
    a = g.relu(conv(conv(x, 32, 3, padding=PAD), 16, 3, stride=(2, 2), padding=PAD))
    pooled = g.max_pool(a, kernel_size=(3, 3), stride=(1, 1), padding=PAD)
    joined = g.concat(pooled, conv(a, 16, 1), axis=1)
    cut = g.slice(joined, start=(0, 2, 1, 0), stop=(1, 32, 7, 8), step=(1, 1, 1, 2))
    wide = g.pad(cut, low=(0, 2, 1, 0), high=(0, 0, 0, 1), value=0.5)
    gate = g.sigmoid(g.reduce_mean(wide, axes=(2, 3), keepdims=True))
    y = conv(wide * gate, 24, 1, stride=(2, 1)) * g.param("row", (5,), x.dtype)
    return [y, g.narrow(joined, axis=1, start=3, length=20)]


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_nodes_between_convolutions_get_channels_last(backend: str) -> None:
    g = Graph("everything")
    g.set_outputs(everything(g.input("x", (1, 3, 15, 16))))
    assert names(g)["conv"] == 0
    found, expected = run(g, backend)
    for given, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-5)


def test_blocks_agree_with_the_reference() -> None:
    g = Graph("blocks")
    x = g.input("x", (2, 48, 7, 9))
    g.set_outputs([g.reduce_mean(block(block(x)), axes=(2, 3))])
    assert names(g)["conv"] == 0
    found, expected = run(g)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spatial", [(40,), (4, 6, 5)])
def test_other_numbers_of_axes(spatial: tuple[int, ...]) -> None:
    g = Graph("axes")
    pads = ((1, 1),) * len(spatial)
    y = g.relu(conv(g.input("x", (2, 5, *spatial), "f64"), 17, 3, padding=pads))
    g.set_outputs([conv(g.relu(conv(y, 16, 3, padding=pads)), 16, 1)])
    assert names(g)["conv"] == 0
    found, expected = run(g)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-12)


def test_the_number_of_images_may_be_symbolic() -> None:
    g = Graph("batch")
    g.set_outputs([block(block(g.input("x", (Dim("n", max=3), 16, 6, 6))))])
    assert names(g)["conv"] == 0
    for count in (0, 1, 3):
        found, expected = run(g, n=count)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-4)


def test_rows_of_few_channels_are_padded_in_one_run() -> None:
    """Three channels at a time, padding would take five times as long as the copy."""
    g = Graph("stem")
    x, w = g.input("x", (1, 9, 10, 3)), g.param("w", (5, 5, 3, 32))
    g.set_outputs(
        [ops.stored_conv(x, w, channels_last=True, stride=(2, 2), padding=((2, 2), (2, 1)))]
    )
    done = tile_convolutions(AVX512)(g)
    (padded,) = (node for node in done.nodes if node.op is ops.pad)
    assert padded.result.shape == (1, 13, 13 * 3)
