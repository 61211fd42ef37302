"""Row regions: values of all back ends, in place, and what a later pass does not compute again."""

from __future__ import annotations

import random
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
from tests.loop_programs import everywhere, graph_of

TOLERANCES = {"f32": 3e-5, "f64": 1e-12, "bf16": 0.1, "f16": 0.02}


def softmax(x: Any) -> Any:
    weights = rnp.exp(x - rnp.max(x, -1, keepdims=True))
    return weights / rnp.sum(weights, -1, keepdims=True)


def layer_norm(x: Any, scale: Any) -> Any:
    centered = x - rnp.mean(x, -1, keepdims=True)
    return centered / rnp.sqrt(rnp.mean(centered**2, -1, keepdims=True) + 1e-5) * scale


class Drawn:
    """A random program over rows: elements, numbers of rows, and what is made of both."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.graph = Graph("rows")
        self.rows = self.random.choice([(5,), (3, 4), (2, 3, 4), (1,), (), (40,), (9,)])
        length = self.random.choice([8, 9, 16, 33, 64, 256, 300, 4100])
        self.shape, self.dtype = (*self.rows, length), self.random.choice(sorted(TOLERANCES))
        self.full = [self.input("x", self.shape)]
        self.broadcast = [self.input("v", (length,)), self.input("s", (*self.rows, 1))]
        self.numbers: list[Value] = []
        for _ in range(self.random.randint(8, 18)):
            self.random.choice([self.fold, self.change, self.combine, self.combine, self.map])()
        made = [x for x in (*self.full, *self.numbers) if x.node.operands] or self.full
        read = {operand for node in self.graph.nodes for operand in node.operands}
        chosen = {x for x in made if x not in read or self.random.random() < 0.2}
        self.graph.set_outputs(sorted(chosen, key=lambda x: x.node.index))

    def input(self, name: str, shape: tuple[int, ...]) -> Value:
        return self.graph.input(name, shape, self.dtype)

    def fold(self) -> None:
        kind = self.random.choice(["reduce_sum", "reduce_max", "reduce_min", "reduce_mean"])
        keeps, axes = self.random.random() < 0.6, (len(self.rows),)
        folded = getattr(self.graph, kind)(self.random.choice(self.full[-3:]), axes=axes,
                                           keepdims=keeps)  # fmt: skip
        self.numbers.append(folded if keeps else self.graph.reshape(folded, shape=(*self.rows, 1)))

    def change(self) -> None:
        if self.numbers:
            one, other = (self.random.choice(self.numbers) for _ in range(2))
            self.numbers.append(self.graph.add(self.graph.tanh(one), other))

    def combine(self) -> None:
        kind = self.random.choice([self.graph.add, self.graph.sub, self.graph.maximum])
        others = self.random.choice([self.numbers, self.numbers, self.full, self.broadcast])
        other = self.random.choice(others or self.broadcast)
        self.full.append(kind(self.random.choice(self.full[-3:]), other))

    def map(self) -> None:
        kinds: list[Callable[[Value], Value]] = [
            self.graph.tanh,
            self.graph.sin,
            self.graph.sigmoid,
        ]
        self.full.append(self.random.choice(kinds)(self.full[-1]))

    def feeds(self) -> dict[str, Any]:
        numbers = np.random.default_rng(3)
        return {
            str(x.node.name): numbers.standard_normal([int(n) for n in x.shape]).astype(
                x.dtype.numpy
            )
            for x in self.graph.inputs
        }


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("seed", range(40))
def test_drawn_programs_over_rows_agree_with_the_reference(seed: int, backend: str) -> None:
    drawn = Drawn(seed)
    feeds = drawn.feeds()
    found = rlx.compile(drawn.graph, backend=backend)(**feeds)
    for got, want in zip(found, evaluate(drawn.graph, feeds), strict=True):
        a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
        scale = max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, atol=TOLERANCES[drawn.dtype] * scale, rtol=0)


def regions(graph: Graph) -> int:
    """Return how many thunks of a program are row regions."""
    schedule = lower_for(graph, detect_target()).schedule
    return str(schedule).count("row_region(")


def test_drawn_programs_hold_regions() -> None:
    assert sum(regions(Drawn(seed).graph) > 0 for seed in range(20)) >= 10


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
    assert len(re.findall(r"^static void", text, re.MULTILINE)) == 1


def test_an_exponential_is_kept_for_the_pass_that_divides_it() -> None:
    text = rlx.jit(softmax).c_source(np.ones((512, 64), "f4"))
    assert text.count("exp_f32(") == 2, "its definition, and one call"
    assert "float exp_values[64]" in text


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
    x = np.ones((4, length), "f4")
    rlx.aot(rlx.jit(softmax), tmp_path, target="cortex-m4", example_inputs=(x,), emit_only=True)
    text = (tmp_path / "softmax.c").read_text()
    assert ("exp_values[" in text) is is_kept
