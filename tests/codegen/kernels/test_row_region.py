"""Row regions: values of all back ends, in place, and what a later pass does not compute again."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import NonFiniteError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.codegen.kernels.row_programs import disagreements, drawn
from tests.loop_programs import everywhere, graph_of


def softmax(x: Any) -> Any:
    weights = rnp.exp(x - rnp.max(x, -1, keepdims=True))
    return weights / rnp.sum(weights, -1, keepdims=True)


def layer_norm(x: Any, scale: Any) -> Any:
    centered = x - rnp.mean(x, -1, keepdims=True)
    return centered / rnp.sqrt(rnp.mean(centered**2, -1, keepdims=True) + 1e-5) * scale


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("seed", range(40))
def test_drawn_programs_over_rows_and_columns_agree_with_the_reference(
    seed: int, backend: str
) -> None:
    graph, feeds, dtypes = drawn(seed)
    found = rlx.compile(graph, backend=backend)(**feeds)
    assert not disagreements(found, evaluate(graph, feeds), dtypes)


@pytest.mark.costly(8)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400, 10))
def test_many_drawn_programs_agree_with_the_reference(seed: int) -> None:
    graph, feeds, dtypes = drawn(*range(seed, seed + 10))
    found = rlx.compile(graph, backend="llvm")(**feeds)
    assert not disagreements(found, evaluate(graph, feeds), dtypes)


def regions(graph: Graph) -> int:
    """Return how many thunks of a program are row regions."""
    schedule = lower_for(graph, detect_target()).schedule
    return str(schedule).count("row_region(")


@pytest.mark.slow
def test_drawn_programs_hold_regions() -> None:
    assert sum(regions(drawn(seed)[0]) > 0 for seed in range(20)) >= 10


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_gradients_of_normalizations_are_one_region_each(backend: str) -> None:
    x, scale = np.random.default_rng(0).standard_normal((2, 7, 40)).astype("f4")[:2]
    scale = scale[0]

    def loss(x: Any) -> Any:
        return rnp.sum(softmax(layer_norm(x, scale)) ** 2)

    slope = rlx.jit(rlx.grad(loss), backend=backend)
    wide = rlx.grad(lambda x: rnp.sum(softmax(layer_norm(x, scale.astype("f8"))) ** 2))
    np.testing.assert_allclose(slope(x), wide(x.astype("f8")), rtol=1e-4, atol=1e-6)
    text = slope.c_source(x)
    assert len(re.findall(r"^static .*void \w+7x40\($", text, re.MULTILINE)) == 1


def test_an_exponential_is_kept_for_the_pass_that_divides_it() -> None:
    text = rlx.jit(softmax).c_source(np.ones((512, 64), "f4"))
    assert text.count("exp_f32(") == 2, "its definition, and one call"
    assert "exp_values" not in text, "the result has room for it"


def test_a_result_keeps_no_value_that_is_read_after_it_is_stored() -> None:
    def made(x: Value) -> list[Value]:
        weights = ops.exp(x - ops.reduce_max(x, axes=(1,), keepdims=True))
        share = weights / ops.reduce_sum(weights, axes=(1,), keepdims=True)
        second = ops.reduce_sum(share * share, axes=(1,), keepdims=True)
        return [share, (weights + 1.0) * second]

    graph = graph_of("rows", {"x": ((8, 64), "f64")}, made)
    assert regions(graph) == 1
    everywhere(graph, {"x": np.random.default_rng(2).random((8, 64))}, rtol=1e-10)


def test_a_softmax_takes_the_memory_of_its_operand() -> None:
    def scores(q: Any, k: Any) -> Any:
        return softmax(q @ k.T) @ k

    arrays = np.ones((256, 8), "f4"), np.ones((512, 8), "f4")
    run = rlx.compile(rlx.make_graph(scores)(*arrays))
    assert run.plan.arena_bytes < 1.2 * 256 * 512 * 4


def test_a_kernel_that_reads_a_row_again_does_not_overwrite_it() -> None:
    def both(x: Any) -> Any:
        y = rnp.tanh(x @ rnp.ones((32, 32), "f4"))
        first = y - rnp.max(y, -1, keepdims=True)
        return first, first / (1 + rnp.sum(first * y, -1, keepdims=True))

    x = np.random.default_rng(1).standard_normal((12, 32)).astype("f4") / 10
    y = np.tanh(x @ np.ones((32, 32), "f4"))
    first = y - y.max(-1, keepdims=True)
    found = rlx.jit(both)(x)
    np.testing.assert_allclose(found[0], first, rtol=1e-4, atol=1e-6)
    second = first / (1 + (first * y).sum(-1, keepdims=True))
    np.testing.assert_allclose(found[1], second, rtol=1e-3, atol=1e-6)


def two_numbers(x: Value, z: Value, n: Value) -> list[Value]:
    """Elements of `n`, a number of each row, are read after one result is stored."""
    largest = ops.reduce_max(x + z, axes=(1,), keepdims=True)
    shifted = largest + n
    return [shifted, (x - shifted) * n]


def a_fold_of_another_operand(x: Value, z: Value, n: Value) -> list[Value]:
    """The pass that stores `z - largest` folds `x`, whose memory that may take."""
    largest = ops.reduce_max(z + n, axes=(1,), keepdims=True)
    return [z, z - largest, ops.reduce_sum(x * largest, axes=(1,), keepdims=True)]


@pytest.mark.parametrize("formula", [two_numbers, a_fold_of_another_operand])
def test_no_operand_is_overwritten_before_its_last_read(
    formula: Callable[..., list[Value]],
) -> None:
    def made(x: Value, z: Value, n: Value) -> list[Value]:
        return formula(*(ops.cumsum(each, axis=0) for each in (x, z, n)))

    types = {"x": ((8, 64), "f64"), "z": ((8, 64), "f64"), "n": ((8, 1), "f64")}
    graph, numbers = graph_of("rows", types, made), np.random.default_rng(2)
    assert regions(graph) == 1
    feeds = {name: numbers.standard_normal(shape) for name, (shape, _) in types.items()}
    everywhere(graph, feeds, rtol=1e-10)


def test_a_number_of_a_row_that_follows_from_no_fold_is_stored() -> None:
    def made(x: Value, n: Value) -> list[Value]:
        shift, number = ops.tanh(n), ops.reduce_sum(x, axes=(0,), keepdims=True)
        return [shift, ops.maximum(number, ops.reshape(shift, shape=(1,))), x - number]

    graph = graph_of("rows", {"x": ((64,), "f64"), "n": ((), "f64")}, made)
    (node,) = (n for n in lower_for(graph, detect_target()).plan.order if n.op is ops.row_region)
    assert len(node.results) == 3
    everywhere(graph, {"x": np.arange(64.0), "n": np.float64(0.5)}, rtol=1e-10)


def test_a_value_is_not_kept_for_reads_of_other_elements() -> None:
    def made(x: Value) -> list[Value]:
        largest, value = ops.reduce_max(x, axes=(1,), keepdims=True), x
        for number in range(3):
            value = ops.abs(value + 1.5) * 1.25 - float(number)
        product = (value - largest) * ops.reverse(value, axes=(1,))
        return [product, ops.tanh(product) * value]

    graph = graph_of("rows", {"x": ((8, 16), "f64")}, made)
    assert regions(graph) == 1
    everywhere(graph, {"x": np.random.default_rng(2).random((8, 16))}, rtol=1e-10)


def test_a_check_for_nan_names_the_op_inside_of_a_region() -> None:
    def shares(x: Any) -> Any:
        return x / rnp.sum(x, -1, keepdims=True)

    x = np.ones((8, 64), "f4")
    f = rlx.compile(rlx.make_graph(shares)(x), nan_check=True)
    x[3] = 0
    with pytest.raises(NonFiniteError, match=r"div: makes a NaN.*\(3, 0\)"):
        f(x)


@pytest.mark.parametrize(("length", "is_kept"), [(64, True), (1024, False)])
def test_the_stack_of_a_chip_holds_short_rows_alone(
    length: int, is_kept: bool, tmp_path: Path
) -> None:
    def rounded(x: Any) -> Any:  # no result has room for the exponentials
        return softmax(x).astype("f2")

    x = np.ones((4, length), "f4")
    rlx.aot(rlx.jit(rounded), tmp_path, target="cortex-m4", example_inputs=(x,), emit_only=True)
    text = (tmp_path / "rounded.c").read_text()
    assert ("exp_values[" in text) is is_kept
