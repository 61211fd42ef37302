"""Loops and branches: the reference, LLVM and C agree, in registers and outside."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.lower import Program
from rlx.codegen.schedule import LoopThunk, Thunk
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.lowering import OneKernel
from rlx.passes.autodiff import grad_with_loss
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.loop_programs import (
    Types,
    everywhere,
    f64,
    graph_of,
    growing,
    recurrent,
    recurrent_feeds,
)


def lowered(graph: Graph) -> Program:
    return lower_for(graph, detect_target())


def running_sum(length: int, *, reverse: bool = False) -> Graph:
    row = {"c": ((3,), "f64"), "x": ((3,), "f64")}
    body = graph_of("sum", row, lambda c, x: [c + x, c * 2.0])

    def loop(c: Value, xs: Value) -> list[Value]:
        return list(ops.scan(c, xs, body=body, length=length, num_carries=1, reverse=reverse))

    return graph_of("running_sum", {"c": ((3,), "f64"), "xs": ((length, 3), "f64")}, loop)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_reads_rows_and_stacks_rows(reverse: bool) -> None:
    xs = np.arange(1.0, 13.0).reshape(4, 3)
    last, rows = everywhere(running_sum(4, reverse=reverse), {"c": np.zeros(3), "xs": xs})
    np.testing.assert_allclose(last, [22, 26, 30])
    before = np.cumsum(xs[::-1], 0)[::-1] - xs if reverse else np.cumsum(xs, 0) - xs
    np.testing.assert_allclose(rows, 2 * before)


def test_a_scan_without_steps_returns_its_first_carries() -> None:
    last, rows = everywhere(running_sum(0), {"c": np.arange(3.0), "xs": np.zeros((0, 3))})
    np.testing.assert_array_equal(last, [0, 1, 2])
    assert rows.shape == (0, 3)


@pytest.mark.parametrize("size", [3, 40, 100])
def test_large_and_small_bodies_agree(size: int) -> None:
    """Size 3 runs in registers, 40 as a nest on local buffers, 100 as a loop around kernels."""
    everywhere(recurrent(size), recurrent_feeds(size), rtol=1e-10)


def test_carries_that_change_places_do_so_at_once() -> None:
    types: Types = {"a": ((2,), "f64"), "b": ((2,), "f64")}
    body = graph_of("swap", types, lambda a, b: [b, a])
    graph = graph_of(
        "swaps", types, lambda a, b: ops.scan(a, b, body=body, length=3, num_carries=2)
    )
    a, b = everywhere(graph, {"a": f64(1, 2), "b": f64(3, 4)})
    assert (a.tolist(), b.tolist()) == ([3, 4], [1, 2])


@pytest.mark.parametrize("size", [200, 20_000])
def test_large_carries_that_change_places_do_so_at_once(size: int) -> None:
    """Size 200 is a nest on local buffers, 20,000 a loop around kernels."""
    types: Types = {"a": ((size,), "f64"), "b": ((size,), "f64")}
    body = graph_of("swap", types, lambda a, b: [b, ops.reverse(a, axes=(0,))])
    graph = graph_of(
        "swaps", types, lambda a, b: ops.scan(a, b, body=body, length=3, num_carries=2)
    )
    feeds = {"a": np.arange(float(size)), "b": -np.arange(float(size))}
    thunks = lowered(graph).schedule.thunks
    assert any(isinstance(thunk, LoopThunk) for thunk in thunks) == (size > 200)
    everywhere(graph, feeds)


def test_an_integer_counter_and_a_float_carry() -> None:
    types: Types = {"c": ((3,), "f64"), "n": ((), "i32")}
    body = graph_of("count", types, lambda c, n: [c * 0.5, n + 1])
    graph = graph_of(
        "counted", types, lambda c, n: ops.scan(c, n, body=body, length=7, num_carries=2)
    )
    _, count = everywhere(graph, {"c": np.ones(3), "n": np.int32(2)})
    assert count == 9


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "i64", "c64"])
def test_carries_of_every_kind_keep_their_bits(dtype: str) -> None:
    types: Types = {"c": ((4,), dtype), "x": ((4,), dtype)}
    body = graph_of("add", types, lambda c, x: [c + x, c])
    graph = graph_of(
        "adds",
        {"c": ((4,), dtype), "xs": ((5, 4), dtype)},
        lambda c, xs: ops.scan(c, xs, body=body, length=5, num_carries=1),
    )
    numpy = graph.inputs[0].dtype.numpy
    feeds = {"c": np.arange(4).astype(numpy), "xs": np.arange(20).reshape(5, 4).astype(numpy)}
    compiled = compile_graph(graph, backend="c", threads=1)
    plain = [np.asarray(x).view(np.uint8) for x in compiled.run(feeds)]
    reference = compile_graph(graph, backend="reference").run(feeds)
    for found, wanted in zip(plain, reference, strict=True):
        np.testing.assert_array_equal(found, wanted.view(np.uint8))


def test_scans_nest_in_scans() -> None:
    inner = graph_of(
        "inner",
        {"c": ((3,), "f64"), "k": ((3,), "f64"), "x": ((3,), "f64")},
        lambda c, k, x: [c * k + x, c],
    )

    def outer_step(c: Value, k: Value, xs: Value) -> list[Value]:
        last, rows = ops.scan(
            c, k, xs, body=inner, length=5, num_carries=1, num_consts=1, reverse=True
        )
        return [last, rows, c]

    types: Types = {"c": ((3,), "f64"), "k": ((3,), "f64")}
    outer = graph_of("outer", types | {"xs": ((5, 3), "f64")}, outer_step)
    graph = graph_of(
        "nested",
        types | {"xs": ((4, 5, 3), "f64")},
        lambda c, k, xs: ops.scan(c, k, xs, body=outer, length=4, num_carries=1, num_consts=1),
    )
    rng = np.random.default_rng(0)
    shapes = {"c": (3,), "k": (3,), "xs": (4, 5, 3)}
    feeds = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    everywhere(graph, feeds)
    step = grad_with_loss(
        graph_of("loss", types | {"xs": ((4, 5, 3), "f64")}, lambda *a: _norm(graph, a)),
        ["c", "k", "xs"],
    )
    everywhere(step, feeds | {"d_output": f64(1.0)}, rtol=1e-10)


def _norm(graph: Graph, operands: tuple[Value, ...]) -> Value:
    last, rows, _ = operands[0].graph.inline(graph, operands)
    total = ops.reduce_sum(last, axes=(0,))
    squares = ops.reduce_sum(rows * rows, axes=(0, 1, 2))
    return total + squares


# Conditional loops


@pytest.mark.parametrize(("start", "bound", "stop"), [(0, 20, 10), (0, 5, 5), (12, 20, 12)])
def test_a_while_loop_stops_early_or_at_its_bound(start: int, bound: int, stop: int) -> None:
    types: Types = {"c": ((), "f64")}
    condition = graph_of("below", types, lambda c: ops.lt(c, 10.0))
    body = graph_of("up", types, lambda c: c + 1.0)
    graph = graph_of(
        "counting",
        types,
        lambda c: ops.while_loop(c, condition=condition, body=body, max_trips=bound),
    )
    value, trips = everywhere(graph, {"c": f64(start)})
    assert (value, trips) == (stop, stop - start)


@pytest.mark.parametrize("size", [2, 300])
def test_a_condition_of_several_elements_requires_all(size: int) -> None:
    types: Types = {"c": ((size,), "f64")}
    condition = graph_of("all_small", types, lambda c: ops.lt(c, 8.0))
    body = graph_of("double", types, lambda c: c * 2.0)
    graph = graph_of("doubling", types, lambda c: ops.while_loop(c, condition=condition, body=body))
    _, trips = everywhere(graph, {"c": np.linspace(0.1, 1.0, size)})
    assert trips == 3


def test_a_while_loop_in_a_scan_starts_anew_at_every_step() -> None:
    graph = growing()

    def step(c: Value, k: Value) -> list[Value]:
        value, trips = c.graph.inline(graph, [c, k])
        return [value * 0.1, trips]

    body = graph_of("restart", {"c": ((), "f64"), "k": ((), "f64")}, step)
    outer = graph_of(
        "restarts",
        {"c": ((), "f64"), "k": ((), "f64")},
        lambda c, k: ops.scan(c, k, body=body, length=6, num_carries=1, num_consts=1),
    )
    everywhere(outer, {"c": f64(0.7), "k": f64(1.3)}, rtol=1e-10)


# Branches


@pytest.mark.parametrize("size", [4, 200])
@pytest.mark.parametrize(("selector", "taken"), [(-1, 0), (0, 0), (1, 1), (2, 2), (9, 2)])
def test_a_switch_takes_the_branch_of_its_selector(size: int, selector: int, taken: int) -> None:
    types: Types = {"x": ((size,), "f32")}
    branches = (
        graph_of("same", types, lambda x: x),
        graph_of("twice", types, lambda x: x * 2.0),
        graph_of("plus", types, lambda x: ops.exp(x) + np.arange(size, dtype=np.float32)),
    )
    graph = graph_of(
        "choice",
        {"s": ((), "i32")} | types,
        lambda s, x: ops.switch(s, x, branches=branches),
    )
    x = np.linspace(0, 1, size, dtype=np.float32)
    (found,) = everywhere(graph, {"s": np.int32(selector), "x": x}, rtol=1e-5)
    wanted = [x, 2 * x, np.exp(x) + np.arange(size, dtype=np.float32)][taken]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_rows_may_be_views_of_what_a_step_computes() -> None:
    """Of all of a value, of a part of it, and of one that the carry takes, too."""

    def step(c: Value, x: Value) -> list[Value]:
        following = ops.tanh(c + x)
        wide = ops.exp(ops.concat(c, x, axis=0))
        return [
            following,
            ops.reshape(following, shape=(1, 3)),
            ops.reshape(wide, shape=(2, 3)),
            ops.narrow(ops.sin(ops.concat(x, c, axis=0)), axis=0, start=2, length=3),
        ]

    body = graph_of("views", {"c": ((3,), "f64"), "x": ((3,), "f64")}, step)
    for size in (2, 400):
        types: Types = {"c": ((3,), "f64"), "xs": ((size, 3), "f64")}

        def loop(c: Value, xs: Value, length: int = size) -> list[Value]:
            return list(ops.scan(c, xs, body=body, length=length, num_carries=1))

        graph = graph_of("viewed", types, loop)
        xs = np.linspace(-1, 1, 3 * size).reshape(size, 3)
        everywhere(graph, {"c": f64(1, 2, 3), "xs": xs})


def test_results_of_branches_may_be_views_of_what_they_compute() -> None:
    types: Types = {"x": ((400,), "f64")}
    branches = (
        graph_of("all", types, lambda x: ops.reshape(ops.sin(x), shape=(20, 20))),
        graph_of(
            "part",
            types,
            lambda x: ops.reshape(
                ops.narrow(ops.cos(ops.concat(x, x, axis=0)), axis=0, start=9, length=400),
                shape=(20, 20),
            ),
        ),
    )
    graph = graph_of(
        "viewed", {"s": ((), "bool")} | types, lambda s, x: ops.switch(s, x, branches=branches)
    )
    for selector in (False, True):
        everywhere(graph, {"s": np.bool_(selector), "x": np.linspace(0, 3, 400)})


def test_a_branch_in_a_scan_is_chosen_at_every_step() -> None:
    types: Types = {"c": ((2,), "f64")}
    branches = (
        graph_of("down", types, lambda c: c - 1.0),
        graph_of("up", types, lambda c: c * 3.0),
    )
    body = graph_of(
        "step",
        types | {"x": ((), "bool")},
        lambda c, x: ops.switch(x, c, branches=branches),
    )
    graph = graph_of(
        "walk",
        types | {"xs": ((5,), "bool")},
        lambda c, xs: ops.scan(c, xs, body=body, length=5, num_carries=1),
    )
    xs = np.array([1, 0, 0, 1, 1], np.bool_)
    (found,) = everywhere(graph, {"c": f64(1, 2), "xs": xs})
    np.testing.assert_allclose(found, [(3 - 2) * 9, (6 - 2) * 9])


# What they compile to


def test_a_small_scan_is_one_kernel_and_its_gradient_two() -> None:
    value = lowered(chain(10)).schedule.thunks
    assert isinstance(value[0], Thunk)
    assert value[0].lowering == OneKernel()
    assert len(value) == 2
    gradient = lowered(grad_with_loss(chain(10), ["c", "w"])).schedule.thunks
    lowerings = [thunk.lowering for thunk in gradient if isinstance(thunk, Thunk)]
    assert lowerings.count(OneKernel()) == 2


def test_code_does_not_grow_with_the_number_of_steps() -> None:
    def statements(length: int) -> int:
        module = lowered(grad_with_loss(chain(length), ["c", "w"])).module
        return sum(len(str(kernel)) for kernel in module.kernels)

    assert abs(statements(100_000) - statements(10)) < 100


def test_instances_side_by_side_run_in_lanes() -> None:
    """64 rows that do not mix are 64 lanes, and their shared parameter's gradient is a sum."""
    types: Types = {"s": ((64, 3), "f64"), "p": ((3,), "f64")}
    body = graph_of("decay", types, lambda s, p: s - ops.sin(s) * p)

    def loss(s: Value, p: Value) -> Value:
        (last,) = ops.scan(s, p, body=body, length=20, num_carries=1, num_consts=1)
        return ops.reduce_sum(last * last, axes=(0, 1))

    step = grad_with_loss(graph_of("trajectories", types, loss), ["s", "p"])
    thunks = lowered(step).schedule.thunks
    assert not any(isinstance(thunk, LoopThunk) for thunk in thunks)
    rng = np.random.default_rng(2)
    feeds = {"s": rng.standard_normal((64, 3)), "p": f64(0.1, 0.2, 0.3), "d_output": f64(1.0)}
    everywhere(step, feeds, rtol=1e-9)


@pytest.mark.parametrize("threads", [1, 2])
def test_lanes_have_the_same_bits_on_any_number_of_threads(threads: int) -> None:
    types: Types = {"s": ((2000,), "f32")}
    body = graph_of("decay", types, lambda s: s - ops.sin(s) * 0.1)
    graph = graph_of("many", types, lambda s: ops.scan(s, body=body, length=50, num_carries=1))
    s = np.random.default_rng(1).standard_normal(2000).astype(np.float32)
    (found,) = compile_graph(graph, backend="llvm", threads=threads).run({"s": s})
    (wanted,) = compile_graph(graph, backend="llvm", threads=1).run({"s": s})
    np.testing.assert_array_equal(found, wanted)


def chain(length: int) -> Graph:
    types: Types = {"c": ((3, 3), "f64"), "w": ((3, 3), "f64")}
    body = graph_of("step", types, ops.matmul)

    def product(c: Value, w: Value) -> Value:
        (last,) = ops.scan(c, w, body=body, length=length, num_carries=1, num_consts=1)
        return ops.reduce_sum(last, axes=(0, 1))

    return graph_of("chain", types, product)


def test_a_literal_of_64_bits_is_one_operand_in_c() -> None:
    graph = Graph("least")
    graph.set_outputs([ops.argmin(graph.input("x", (1,), "i64"), axis=0)])
    (found,) = compile_graph(graph, backend="c").run({"x": np.array([-3])})
    assert found == 0
