"""Thunks that differ in extents alone call one kernel, which takes the extents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rlx.codegen.cost import thunk_cost
from rlx.codegen.lower import lower_graph
from rlx.codegen.lower.graph import all_thunks
from rlx.codegen.schedule import Thunk
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import RegisterTranspose
from rlx.ir.op import make_attrs
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.lower import lower_for
from rlx.target import detect_target

SHAPES = ((40, 33), (17, 48), (3, 5, 7), (1, 1), (2, 1, 31), (200, 170), (129, 300))
"""Odd tails, full panels, batches, one element; the last two are worth several threads."""


def packs(shapes: Sequence[tuple[int, ...]], *, turned: bool) -> Graph:
    """Pack matrices whose columns, or rows, are given, one after the other."""
    graph = Graph("packs")
    attrs = make_attrs(ops.pack_panels, {"layout": Panels(16), "transposed": turned})
    record = RegisterTranspose(8) if turned else None
    for number, shape in enumerate(shapes):
        b = graph.input(f"b{number}", shape)
        graph.append(ops.pack_panels, (b,), attrs, lowering=record)
    graph.set_outputs([node.results[0] for node in graph.nodes if node.op is ops.pack_panels])
    return graph


def pack_thunks(graph: Graph) -> list[Thunk]:
    thunks = all_thunks(lower_graph(graph).schedule.thunks)
    return [thunk for thunk in thunks if thunk.kind == "pack_panels"]


@pytest.mark.parametrize("turned", [False, True])
def test_kernels_of_small_and_of_large_matrices_are_one_each(turned: bool) -> None:
    keys = [thunk.kernel_key for thunk in pack_thunks(packs(SHAPES, turned=turned))]
    assert len(set(keys[:5])) == 1 == len(set(keys[5:]))
    assert keys[0] != keys[5]


def test_a_kernel_of_one_shape_keeps_its_extents_as_literals() -> None:
    thunks = pack_thunks(packs(((40, 33), (40, 33), (200, 170)), turned=False))
    assert [thunk.symbols for thunk in thunks] == [(), (), ()]
    assert thunks[0].kernel_key == thunks[1].kernel_key != thunks[2].kernel_key


def test_empty_matrices_keep_theirs() -> None:
    thunks = pack_thunks(packs(((0, 33), (40, 33), (17, 48)), turned=False))
    assert [bool(thunk.symbols) for thunk in thunks] == [False, True, True]


def test_the_cost_of_a_thunk_is_that_of_its_own_extents() -> None:
    first, second = pack_thunks(packs(((40, 32), (16, 48)), turned=False))
    assert first.symbols
    assert first.kernel_key == second.kernel_key
    assert thunk_cost(first, {}).bytes == 2 * 4 * 40 * 32
    assert thunk_cost(second, {}).bytes == 2 * 4 * 16 * 48


def products(shapes: Sequence[tuple[int, int]], *, packed_once: bool) -> Graph:
    """Multiply by matrices that passes pack: once, or in every run, where threads share it."""
    graph = Graph("products")
    outputs: list[Value] = []
    for number, (rows, columns) in enumerate(shapes):
        declare = graph.param if packed_once else graph.input
        x, w = graph.input(f"x{number}", (300, rows)), declare(f"w{number}", (rows, columns))
        outputs.append(x @ w)
    graph.set_outputs(outputs)
    return graph


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("packed_once", [True, False])
def test_products_by_matrices_packed_in_one_kernel_are_right(
    backend: str, threads: int, packed_once: bool
) -> None:
    shapes = ((40, 33), (64, 96), (70, 129), (200, 320), (301, 257))
    graph = products(shapes, packed_once=packed_once)
    schedule = lower_for(graph, detect_target()).schedule
    assert any(thunk.symbols for thunk in all_thunks(schedule.thunks)), "some kernel is shared"
    random = np.random.default_rng(3)
    feeds = {
        str(leaf.node.name): random.integers(-4, 5, leaf.type.static_shape).astype(np.float32)
        for leaf in (*graph.inputs, *graph.params)
    }
    executable = compile_graph(graph, backend=backend, threads=threads)
    for leaf in graph.params:
        executable.set_param(str(leaf.node.name), feeds[str(leaf.node.name)])
    results = executable(*(feeds[str(leaf.node.name)] for leaf in graph.inputs))
    for number, found in enumerate(results):
        np.testing.assert_array_equal(found, feeds[f"x{number}"] @ feeds[f"w{number}"])
