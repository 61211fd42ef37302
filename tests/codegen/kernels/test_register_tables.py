"""Loops in registers over arrays that stay in memory: elements are read and replaced there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest

from rlx.codegen.c.emit import emit_kernel
from rlx.errors import IndexOutOfRangeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.types import TensorType
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.loop_programs import Types, everywhere, graph_of

Step = Callable[[Value, Value], list[Value]]
SIZE = 100
PLACES = np.array([3, 99, 3, 0, 41, 41, 7, 2])


def at(table: Value, index: Value) -> Value:
    return ops.gather(table, index)


def replaced(table: Value, index: Value, value: Value) -> Value:
    start, one = ops.reshape(index, shape=(1,)), ops.reshape(value, shape=(1,))
    return ops.dynamic_update_slice(table, one, start)


def over_places(step: Step, size: int = SIZE) -> Graph:
    """Return a scan of `step` over indices, with a table as its carry."""
    body = graph_of("body", {"table": ((size,), "f64"), "place": ((), "i64")}, step)

    def loop(table: Value, places: Value) -> list[Value]:
        return list(ops.scan(table, places, body=body, length=8, num_carries=1))

    return graph_of("loop", {"table": ((size,), "f64"), "places": ((8,), "i64")}, loop)


def doubled(table: Value, place: Value) -> list[Value]:
    return [replaced(table, place, at(table, place) * 2.0), at(table, place)]


def added(table: Value, place: Value) -> list[Value]:
    first = ops.scatter_add(at(table, place), place, size=table.shape[0])
    second = ops.gather_backward(at(table, place) * 0.5, place, axis=0, size=table.shape[0])
    return [table + (first + second)]


def replaced_twice(table: Value, place: Value) -> list[Value]:
    once = replaced(table, place, at(table, place) + 1.0)
    return [replaced(once, place, at(once, place) * 3.0)]


def read_in_blocks(table: Value, place: Value) -> list[Value]:
    starts = ops.reshape(place, shape=(1,))
    block = ops.dynamic_slice(table, starts, sizes=(4,))
    return [ops.dynamic_update_slice(table, block * 1.5, starts), block]


def read_at_known_places(table: Value, place: Value) -> list[Value]:
    first = ops.reshape(ops.narrow(table, axis=0, start=2, length=1), shape=())
    padded = ops.pad(
        ops.reshape(first, shape=(1,)), low=(5,), high=(int(table.type.static_shape[0]) - 6,)
    )
    read = at(table, place)
    return [table + padded, read]


def counted(table: Value, place: Value) -> list[Value]:
    count = table.graph.iota(type=TensorType(DType.I64, (SIZE,)), axis=0)
    return [replaced(table, at(count, place), ops.cast(place, to=table.dtype))]


STEPS = [doubled, added, replaced_twice, read_in_blocks, read_at_known_places, counted]


@pytest.mark.parametrize("step", STEPS, ids=[step.__name__ for step in STEPS])
def test_a_table_is_read_and_updated_in_place(step: Step) -> None:
    graph = over_places(step)
    everywhere(graph, {"table": np.linspace(-1, 1, SIZE), "places": PLACES})
    assert is_one_kernel(graph)


def test_a_small_table_is_also_read_as_a_whole() -> None:
    def step(table: Value, place: Value) -> list[Value]:
        total = ops.reduce_sum(table, axes=(0,))
        return [replaced(table, place, total), table * 2.0]

    graph = over_places(step, 5)
    everywhere(graph, {"table": np.arange(5.0), "places": PLACES % 5})


def test_small_tables_change_places() -> None:
    types: Types = {"a": ((5,), "f64"), "b": ((5,), "f64"), "place": ((), "i64")}
    body = graph_of("body", types, lambda a, b, place: [b, replaced(a, place, at(b, place))])

    def loop(a: Value, b: Value, places: Value) -> list[Value]:
        return list(ops.scan(a, b, places, body=body, length=8, num_carries=2))

    given: Types = {"a": ((5,), "f64"), "b": ((5,), "f64"), "places": ((8,), "i64")}
    feeds = {"a": np.arange(5.0), "b": -np.arange(5.0), "places": PLACES % 5}
    everywhere(graph_of("loop", given, loop), feeds)


def test_an_older_version_is_read_in_the_same_kernel() -> None:
    def step(table: Value, place: Value) -> list[Value]:
        new = replaced(table, place, at(table, place) * 2.0)
        return [new, at(table, place) + at(new, place)]

    graph = over_places(step)
    everywhere(graph, {"table": np.linspace(-1, 1, SIZE), "places": PLACES})
    assert is_one_kernel(graph)


def test_a_condition_reads_the_table_that_the_body_changes() -> None:
    types: Types = {"place": ((), "i64"), "table": ((SIZE,), "f64"), "least": ((), "f64")}
    condition = graph_of("going", types, lambda place, table, least: at(table, place) > least)
    body = graph_of(
        "shift",
        types,
        lambda place, table, _: [place - 1, replaced(table, place, at(table, place - 1))],
    )

    def loop(*given: Value) -> list[Value]:
        return list(ops.while_loop(*given, condition=condition, body=body, num_consts=1))

    graph = graph_of("loop", types, loop)
    feeds = {"place": np.array(90), "table": np.linspace(-1, 1, SIZE), "least": np.array(0.25)}
    place, _, trips = everywhere(graph, feeds)
    assert (place, trips) == (61, 29)
    assert is_one_kernel(graph)


@pytest.mark.parametrize("place", [-1, SIZE])
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_an_index_out_of_range_ends_the_loop_with_an_error(place: int, backend: str) -> None:
    compiled = compile_graph(over_places(doubled), backend=backend, threads=1)
    with pytest.raises(IndexOutOfRangeError):
        compiled.run({"table": np.zeros(SIZE), "places": np.full(8, place)})


def test_an_index_is_compared_once_however_often_it_is_used() -> None:
    (kernel,) = kernels_of(over_places(doubled))
    assert kernel.count("if (") == 1
    assert "min_i64" not in kernel


def kernels_of(graph: Graph) -> list[str]:
    program = lower_for(graph, detect_target())
    return [emit_kernel(kernel) for kernel in program.kernels.values()]


def is_one_kernel(graph: Graph) -> bool:
    return len(kernels_of(graph)) == 1


TWO: Types = {"a": ((5,), "f64"), "b": ((5,), "f64"), "place": ((), "i64")}


def over_two(step: Callable[[Value, Value, Value], list[Value]]) -> list[np.ndarray]:
    """Run a scan of `step` over two small tables everywhere."""
    body = graph_of("body", TWO, step)

    def loop(a: Value, b: Value, places: Value) -> list[Value]:
        return list(ops.scan(a, b, places, body=body, length=8, num_carries=2))

    given: Types = {"a": ((5,), "f64"), "b": ((5,), "f64"), "places": ((8,), "i64")}
    feeds = {"a": np.arange(5.0), "b": -np.arange(5.0), "places": PLACES % 5}
    return everywhere(graph_of("loop", given, loop), feeds)


def test_terms_that_are_a_table_are_read_before_they_are_added() -> None:
    def step(a: Value, b: Value, place: Value) -> list[Value]:
        turned = ops.scatter_add(a, a.graph.constant(np.arange(5)[::-1].copy()), size=5)
        return [replaced(a + turned, place, at(b, place)), b]

    over_two(step)


def test_terms_of_an_older_version_are_not_read_from_the_new_one() -> None:
    def step(a: Value, b: Value, place: Value) -> list[Value]:
        new = replaced(a, place, at(b, place))
        return [new, b + ops.scatter_add(a, a.graph.constant(np.arange(5)), size=5)]

    over_two(step)


def test_an_addition_that_is_broadcast_reaches_all_elements() -> None:
    def step(table: Value, place: Value) -> list[Value]:
        one = ops.reshape(ops.cast(place, to=table.dtype), shape=(1,))
        zero = table.graph.constant(np.array([0]))
        return [table + ops.scatter_add(one, zero, size=1)]

    everywhere(over_places(step, 5), {"table": np.arange(5.0), "places": PLACES})


def test_a_greatest_update_is_no_term_of_a_sum() -> None:
    def step(table: Value, place: Value) -> list[Value]:
        ones = ops.expand(ops.reshape(at(table, place), shape=(1,)), shape=(10,))
        places = table.graph.constant(np.arange(10) // 2)
        return [table + ops.scatter_max(ones, places, size=5)]

    everywhere(over_places(step, 5), {"table": np.arange(5.0), "places": PLACES % 5})


def test_a_condition_that_replaces_elements_leaves_the_carry_as_it_is() -> None:
    types: Types = {"table": ((5,), "f64"), "place": ((), "i64")}

    def going(table: Value, place: Value) -> Value:
        tried = replaced(table, place, table.graph.constant(100.0, DType.F64))
        return ops.lt(ops.reduce_sum(tried, axes=(0,)), 150.0)

    condition = graph_of("going", types, going)
    body = graph_of(
        "raise",
        types,
        lambda table, place: [
            replaced(table, place, at(table, place) + 10.0),
            ops.mod(place + 1, 3),
        ],
    )

    def loop(*given: Value) -> list[Value]:
        return list(ops.while_loop(*given, condition=condition, body=body, max_trips=20))

    table, _, trips = everywhere(
        graph_of("loop", types, loop), {"table": np.zeros(5), "place": np.array(0)}
    )
    assert (trips, table.sum()) == (7, 70)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_table_is_read_before_it_changes_also_where_kernels_could_be_inlined(
    backend: Literal["c", "llvm"],
) -> None:
    def step(a: Value, b: Value, i: Value, x: Value) -> list[Value]:
        return [replaced(a, i, x), b + ops.reverse(a, axes=(0,))]

    vectors: Types = {"a": ((5,), "f64"), "b": ((5,), "f64")}
    body = graph_of("body", {**vectors, "i": ((), "i64"), "x": ((), "f64")}, step)
    rows: Types = {"i": ((6,), "i64"), "x": ((6,), "f64")}
    graph = graph_of(
        "loop", {**vectors, **rows}, lambda *v: ops.scan(*v, body=body, length=6, num_carries=2)
    )
    random = np.random.default_rng(0)
    a, b, x = (random.standard_normal(size) for size in (5, 5, 6))
    places = random.integers(0, 5, 6)
    run = compile_graph(graph, backend=backend, threads=1).run
    last_a, last_b = run({"a": a, "b": b, "i": places, "x": x})
    for place, value in zip(places, x, strict=True):
        b = b + a[::-1]
        a[place] = value
    np.testing.assert_array_equal(last_a, a)
    np.testing.assert_array_equal(last_b, b)
