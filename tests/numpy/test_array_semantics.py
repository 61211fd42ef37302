"""Semantics of array functions: dtypes, axes, batches, known values, wrong uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from rlx import blocks
from rlx.errors import DTypeError, InputError, ShapeError, SingularMatrixError
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.fusion.fuse import fuse
from rlx.passes.rewrites.simplify import simplify

Array = NDArray[Any]
RANDOM = np.random.default_rng(2)


def built(build: Callable[..., Any], *arrays: Array) -> tuple[Graph, dict[str, Array]]:
    graph = Graph("fact")
    values = [graph.input(f"x{i}", x.shape, as_dtype(x.dtype)) for i, x in enumerate(arrays)]
    made = build(*values)
    graph.set_outputs([made] if isinstance(made, Value) else [*made])
    return graph, {f"x{i}": x for i, x in enumerate(arrays)}


def run(build: Callable[..., Any], *arrays: Array) -> list[Array]:
    """Return what compiled code gives, after comparing it with the reference interpreter."""
    graph, feeds = built(build, *arrays)
    expected = evaluate(graph, feeds)
    found = rlx.compile(graph, backend="llvm").run(feeds)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)
    return [np.asarray(each) for each in found]


def c64(*numbers: complex) -> Array:
    return np.array(numbers, np.complex64)


# Operands of every dtype, axis and batch


def test_wrong_permutations_and_ranks_are_errors() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    with pytest.raises(ShapeError):
        built(lambda v: ops.transpose(v, perm=(0, 0, 1)), x)
    with pytest.raises(ShapeError):
        built(lambda v: ops.im2col(v, kernel_size=(2, 2)), x)


def test_inputs_of_a_region_are_read_by_their_strides() -> None:
    columns = [RANDOM.standard_normal((2, 1)).astype(np.float32) for _ in range(20)]
    whole = RANDOM.standard_normal((2, 3)).astype(np.float32)

    def build(x: Any, *rest: Any) -> Any:
        for each in rest:
            x = ops.tanh(x + each)
        return x

    (found,) = run(build, whole, *columns)
    expected = whole
    for column in columns:
        expected = np.tanh(expected + column)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_singular_system_is_an_error() -> None:
    graph, feeds = built(
        lambda a, b: ops.solve(a, b, vector=True), np.ones((3, 2, 2)), np.ones((3, 2))
    )
    with pytest.raises(SingularMatrixError):
        rlx.compile(graph, backend="llvm").run(feeds)


# Known values


def test_two_complex_numbers_have_sixteen_bytes() -> None:
    assert rnp.zeros(2, "complex64").nbytes == 16
    with pytest.raises(DTypeError):
        rnp.zeros(2, "complex64") > 1  # noqa: B015  # what is refused


def test_region_compare_where_add_is_one_chain() -> None:
    x = np.zeros(8, np.float32)
    graph, _ = built(lambda a, b, c: ops.where(ops.gt(a, b), a, b) + c, x, x, x)
    (node,) = [n for n in fuse()(simplify(graph)).nodes if n.op is ops.fused]
    body = [n.op.name for n in node.attribute("body").nodes]
    assert [name for name in body if name in ("gt", "where", "add")] == ["gt", "where", "add"]


def test_fft_helpers_of_real_signals() -> None:
    signal, four = np.array([1, 2, 3], np.float32), np.array([1, 2, 3, 0.5], np.float32)
    re, im = run(blocks.fft_real, signal)
    np.testing.assert_allclose(re + 1j * im, [6, -2 - 2j, 2, -2 + 2j], atol=1e-5)
    re, im = run(blocks.rfft, four)
    np.testing.assert_allclose(re + 1j * im, [6.5, -2 - 1.5j, 1.5], atol=1e-5)
    (power,) = run(
        blocks.psd, np.array([3, 0, 4, 0], np.float32), np.array([0, 1, 0, 2], np.float32)
    )
    np.testing.assert_allclose(power, [9 / 4, 1 / 4, 4, 1], atol=1e-6)
    (power,) = run(blocks.psd_real, four)
    np.testing.assert_allclose(power, np.abs([6.5, -2 - 1.5j, 1.5]) ** 2 / 3, rtol=1e-5)
    (frames,) = run(lambda x: blocks.stft(x, 4, 4), four)
    np.testing.assert_allclose(frames, [[6.5, -2, 1.5, 0, -1.5, 0]], atol=1e-5)
    (frames,) = run(lambda x: blocks.stft(x, 4, 3), RANDOM.standard_normal((2, 10)))
    assert frames.shape == (3, 2, 6)


@pytest.mark.parametrize("n", [1, 2, 8, 13])
def test_fft_real_round_trips_of_batches(n: int) -> None:
    x = RANDOM.standard_normal((2, 3, n)).astype(np.float32)
    (back,) = run(lambda v: blocks.irfft(*blocks.rfft(v, "forward"), n, "forward"), x)
    np.testing.assert_allclose(back, x, atol=1e-4)


@pytest.mark.parametrize("n_fft", [1, 12, 16, 64])
def test_convolutions_by_transforms_take_any_larger_length(n_fft: int) -> None:
    a, b = RANDOM.standard_normal(5), RANDOM.standard_normal(4)
    (found,) = run(lambda a, b: blocks.fft_conv1d(a, b, n_fft), a, b)
    np.testing.assert_allclose(found, np.convolve(a, b), atol=1e-12)


def test_helpers_refuse_what_does_not_fit() -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(ShapeError, match="must have 5"):
        built(lambda v: blocks.irfft(v, v, 8), x)
    with pytest.raises(ShapeError, match="do not fit into 4"):
        built(lambda v: blocks.stft(v, 5, 1), x)
    with pytest.raises(InputError, match="norm is 'both'"):
        built(lambda v: blocks.rfft(v, "both"), x)
    assert [blocks.next_pow2(n) for n in (0, 1, 5, 8)] == [1, 1, 8, 8]
    assert blocks.bit_reverse(0b0011, 4) == 0b1100


def test_fft_tangent_is_the_transform_of_the_tangent() -> None:
    x, t = (RANDOM.standard_normal(8) + 1j * RANDOM.standard_normal(8) for _ in range(2))
    _, found = rlx.jit(lambda x, t: rlx.jvp(rnp.fft.fft, (x,), (t,)))(x, t)
    np.testing.assert_allclose(found, np.fft.fft(t), atol=1e-9)


@pytest.mark.parametrize("exponent", [-1, -2, -3, -4, -5, -8])
def test_negative_powers_of_integers_are_integers(exponent: int) -> None:
    base = np.array([0, 1, -1, 2, -7], np.int32)
    expected = np.array([0, 1, -1 if exponent % 2 else 1, 0, 0], np.int32)
    for power in (exponent, np.int32(exponent)):
        found = np.asarray(rlx.jit(lambda x, power=power: x**power)(base))
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)
