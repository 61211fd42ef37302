"""Semantics of array functions in compiled code.

`run` compares compiled code with the reference interpreter; each test compares it with the stated
numbers or with NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import IndexOutOfRangeError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_dtype
from rlx.passes.fusion.fuse import fuse
from rlx.passes.fusion.policy import FusionPolicy
from tests.numpy.test_array_semantics import RANDOM, built, c64, run

NUMBERS = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "float32",
           "float64", "complex64"]  # fmt: skip


def test_halves_are_rounded_to_even() -> None:
    for dtype in (np.float32, np.float64):
        (found,) = run(ops.round, np.array([0.5, 1.5, 2.5, -0.5], dtype))
        np.testing.assert_array_equal(found, [0, 2, 2, 0])
        assert np.signbit(found[3])


@pytest.mark.parametrize("source", NUMBERS)
def test_every_pair_of_dtypes_casts(source: str) -> None:
    x = np.array([0, 1, 7, 96, 0, 1, 7, 96, 3]).astype(source)  # more than a vector of lanes holds
    targets = [t for t in NUMBERS if source != "complex64" or t in ("bool", "float32", "float64")]
    found = run(lambda v: [ops.cast(v, to=as_dtype(np.dtype(t))) for t in targets], x)
    for each, target in zip(found, targets, strict=True):
        assert each.dtype == target
        expected = (x.real if target != "bool" and x.dtype.kind == "c" else x).astype(target)
        np.testing.assert_array_equal(each, expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integer_quotients_and_powers_never_fault(dtype: str) -> None:
    least = np.iinfo(dtype).min
    a, b = np.array([7, -7, 7, 5, least], dtype), np.array([2, 2, -2, 0, -1], dtype)
    base = np.array([3, 2, 5, 0, -3, 1, -1, -1, 0, -2, least, -1], dtype)
    exponent = np.array([5, 200 % 128, -3, 0, 3, -3, -3, -2, -1, least, -1, least], dtype)
    quotients, powers = run(lambda a, b, c, d: [ops.div(a, b), ops.pow(c, d)], a, b, base, exponent)
    np.testing.assert_array_equal(quotients, np.array([3, -3, -3, 0, least], dtype))
    wrapped = [
        x**y if y >= 0 else {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)  # truncated quotients
        for x, y in zip(base.tolist(), exponent.tolist(), strict=True)
    ]
    bits = np.iinfo(dtype).bits
    expected = [(int(n) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for n in wrapped]
    np.testing.assert_array_equal(powers, np.array(expected, dtype))


@pytest.mark.parametrize("exponent", [-1, -2, -3, -4, -5, -8])
def test_negative_powers_of_integers_are_integers(exponent: int) -> None:
    base = np.array([0, 1, -1, 2, -7], np.int32)
    expected = np.array([0, 1, -1 if exponent % 2 else 1, 0, 0], np.int32)
    for power in (exponent, np.int32(exponent)):
        found = np.asarray(rlx.jit(lambda x, power=power: x**power)(base))
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_updates_of_batched_ids_reach_every_row(dtype: str) -> None:
    ids, updates = np.array([[0, 2], [2, 1]], dtype), RANDOM.standard_normal((2, 2, 3))
    (found,) = run(lambda u, i: ops.scatter_add(u, i, size=4), updates, ids)
    expected = np.zeros((4, 3))
    np.add.at(expected, ids, updates)
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    table = RANDOM.standard_normal((4, 3))
    slope = rlx.jit(rlx.grad(lambda t: rnp.sum(t[ids] * updates)))(table)
    np.testing.assert_allclose(slope, expected, rtol=1e-15)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_batched_indices_take_from_their_own_example(axis: int) -> None:
    table, ids = RANDOM.standard_normal((3, 4, 5, 6)), RANDOM.integers(0, 4, (3, 2, 2))
    take = rlx.jit(rlx.vmap(lambda t, i: rnp.take(t, i, axis)))
    expected = [np.take(t, i, axis) for t, i in zip(table, ids, strict=True)]
    np.testing.assert_array_equal(take(table, ids), expected)
    ids[1, 0, 0] = table.shape[axis + 1]  # the first of the next example, if it were not an error
    with pytest.raises(IndexOutOfRangeError):
        take(table, ids)


def test_topk_gives_each_index_once_and_ranks_nan_first() -> None:
    inf, nan = np.inf, np.nan
    for dtype in (np.float32, np.float64):
        x = np.array([[1, nan, inf, 1, -inf, nan], [-inf] * 6], dtype)
        values, indices = run(lambda v: ops.topk(v, k=6), x)
        np.testing.assert_array_equal(indices, [[1, 5, 2, 0, 3, 4], [0, 1, 2, 3, 4, 5]])
        np.testing.assert_array_equal(values, np.take_along_axis(x, indices, -1))


def test_products_over_any_axes() -> None:
    a, b = RANDOM.standard_normal((2, 3, 4, 5)), RANDOM.standard_normal((4, 6, 2, 3))
    (found,) = run(
        lambda a, b: ops.dot_general(
            a, b, lhs_contracting=(1, 2), rhs_contracting=(3, 0), lhs_batch=(0,), rhs_batch=(2,)
        ),
        *(a, b),
    )
    np.testing.assert_allclose(found, np.einsum("bcde,dfbc->bef", a, b), rtol=1e-12)
    x, y = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal((3, 5, 2))
    (found,) = run(lambda x, y: ops.dot_general(x, y, lhs_contracting=(1,), rhs_contracting=(0,)),
                   x, y)  # fmt: skip
    np.testing.assert_allclose(found, np.einsum("acb,cde->abde", x, y), rtol=1e-12)


def test_one_stage_of_butterflies() -> None:
    state = np.array([[1, 0, 2, 0, 3, 0, 4, 0]], np.float32)

    def stage(gate: float, reverse: float) -> list[float]:
        one, zero = np.ones(2, np.float32), np.zeros(2, np.float32)
        flags = [np.full(2, flag, np.float32) for flag in (gate, reverse)]
        (found,) = run(lambda s, *f: ops.fft_butterfly_stage(s, *f, stage=0, n_fft=4),
                       state, flags[0], flags[1], one, zero)  # fmt: skip
        numbers: list[float] = found[0, ::2].tolist()
        return numbers

    assert stage(1, 0) == [3, -1, 7, -1]
    assert stage(0, 0) == [1, 2, 3, 4]
    assert stage(1, 1) == [-1, 3, -1, 7]


def test_complex_numbers() -> None:
    a, b = c64(1 + 2j, 3 - 1j, 5 + 1j), c64(4 - 1j, 0.5 + 0.5j, 2 + 3j)
    found = run(lambda a, b: [a + b, a - b], a, b)
    np.testing.assert_allclose(found[0][:2], [5 + 1j, 3.5 - 0.5j], atol=1e-5)
    np.testing.assert_allclose(found[1][2], 3 - 2j, atol=1e-5)
    z, w = c64(1 + 2j, 1), c64(3 + 4j, 1j)
    product, quotient = run(lambda z, w: [z * w, z / w], z, w)
    np.testing.assert_allclose(product, [-5 + 10j, 1j], atol=1e-5)
    np.testing.assert_allclose(quotient[0], 0.44 + 0.08j, atol=1e-5)
    own = c64(2.5 - 1.5j, -0.7 + 4.2j)
    same, one = run(lambda z, w: [z * w, z / z], own, c64(1, 1))
    np.testing.assert_allclose(same, own, atol=1e-5)
    np.testing.assert_allclose(one, [1, 1], atol=1e-5)
    rows: list[tuple[Any, list[complex], list[complex]]] = [
        (ops.neg, [3.5 - 1.25j], [-3.5 + 1.25j]),
        (ops.exp, [1j * np.pi, 1], [-1, np.e]),
        (ops.log, [1, 1j, -1], [0, 0.5j * np.pi, 1j * np.pi]),
        (ops.sqrt, [4, 3 + 4j], [2, 2 + 1j]),
    ]
    for op, given, expected in rows:
        np.testing.assert_allclose(run(op, c64(*given))[0], expected, atol=1e-5)


def test_norm_square_by_differences() -> None:
    """Real slopes at 3 + 4i are 6 and 8: the gradient is 6 - 8i."""

    def square(z: Any) -> Any:
        return float(run(ops.complex_norm_sq, c64(z))[0][0])

    eps = 1e-3
    slopes = [(square(3 + 4j + eps * d) - square(3 + 4j - eps * d)) / (2 * eps) for d in (1, 1j)]
    np.testing.assert_allclose(slopes, [6, 8], atol=1e-2)
    gradient = rlx.grad(lambda z: rnp.real(z) ** 2 + rnp.imag(z) ** 2)(np.complex64(3 + 4j))
    np.testing.assert_allclose(gradient, 6 - 8j, atol=1e-5)


@pytest.mark.parametrize("n", [3, 5, 6, 7, 10, 12, 13, 15, 16, 17, 100, 1000])
def test_fft_round_trips(n: int) -> None:
    x = RANDOM.standard_normal((2, n)) + 1j * RANDOM.standard_normal((2, n))
    forward = rlx.jit(rnp.fft.fft)
    back = rlx.jit(lambda y: rnp.fft.ifft(y, norm="forward"))
    np.testing.assert_allclose(forward(x), np.fft.fft(x), atol=1e-9)
    np.testing.assert_allclose(back(forward(x)), n * x, atol=1e-9)
    small = x.astype(np.complex64)
    np.testing.assert_allclose(back(forward(small)) / n, small, atol=1e-5)


@pytest.mark.parametrize(("n", "tolerance"), [(6, 1e-8), (8, 5e-8)])
def test_fft_derivative_and_l16_in_both_precisions(n: int, tolerance: float) -> None:
    def loss(x: Any) -> Any:
        return rnp.sum(rnp.real(rnp.fft.fft(x)) ** 2)

    x = RANDOM.standard_normal(n) + 1j * RANDOM.standard_normal(n)
    expected = np.fft.ifft(2 * np.fft.fft(x).real, norm="forward")
    gradient = rlx.jit(rlx.grad(loss))
    np.testing.assert_allclose(gradient(x), expected.conj(), atol=tolerance)
    small = gradient(x.astype(np.complex64))
    assert small.dtype == np.complex64
    np.testing.assert_allclose(small, expected.conj(), atol=1e-3)
    turned = x * 1j
    ortho = rlx.jvp(lambda x: rnp.fft.fft(x, norm="ortho"), (x,), (turned,))[1]
    np.testing.assert_allclose(ortho, np.fft.fft(turned, norm="ortho"), atol=1e-6)


def test_region_of_forty_steps_is_split_at_thirty_two() -> None:
    def chain(x: Any) -> Any:
        for _ in range(40):
            x = ops.tanh(x)
        return x

    graph, _ = built(chain, np.ones(4, np.float32))
    bodies = [n.attribute("body").nodes for n in fuse(FusionPolicy(largest_body=32))(graph).nodes
              if n.op is ops.fused]  # fmt: skip
    steps = [sum(node.op is ops.tanh for node in nodes) for nodes in bodies]
    assert sum(steps) == 40
    assert max(steps) <= 32
    run(chain, np.linspace(-1, 1, 4, dtype=np.float32))


def test_casts_of_masks_are_zeros_and_ones() -> None:
    (found,) = run(lambda m: ops.cast(m, to=DType.F32), np.array([True, False, True] * 7))
    np.testing.assert_array_equal(found, [1, 0, 1] * 7)
