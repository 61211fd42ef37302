"""Solvers of many matrices on all threads: same bits, and the first fault is the one reported."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.codegen.entry import can_fail
from rlx.codegen.kernels.slice_tiles import MOST_PARTS
from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.lower import lower_graph
from rlx.codegen.schedule import Thunk
from rlx.codegen.speculative_parallel import attempt_of, take_part
from rlx.codegen.threaded import is_shared
from rlx.errors import SingularMatrixError
from rlx.ir.graph import Graph
from rlx.runtime.toolchain import has_toolchain

BACKENDS = ("llvm", "c") if has_toolchain() else ("llvm",)
SYSTEMS = 5000
Array = NDArray[np.float32]


def _graph() -> Graph:
    graph = Graph("systems")
    a, b = graph.input("a", (SYSTEMS, 3, 3)), graph.input("b", (SYSTEMS, 3))
    x = graph.solve(a, b, vector=True)
    graph.set_outputs([x, graph.tanh(x) + 1.0])
    return graph


def _systems() -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    a = random.standard_normal((SYSTEMS, 3, 3)) + 4 * np.eye(3)
    return a.astype(np.float32), random.standard_normal((SYSTEMS, 3)).astype(np.float32)


def _thunk(graph: Graph) -> tuple[Thunk, Kernel]:
    program = lower_graph(graph)
    thunk = next(thunk for thunk in program.schedule.thunks if isinstance(thunk, Thunk))
    return thunk, program.kernels[thunk.kernel_key]


@pytest.mark.parametrize("backend", BACKENDS)
def test_solutions_have_the_same_bits_for_any_number_of_threads(backend: str) -> None:
    a, b = _systems()
    alone = rlx.compile(_graph(), backend=backend, threads=1)(a, b)
    for threads in (2, 3):
        for given, wanted in zip(
            rlx.compile(_graph(), backend=backend, threads=threads)(a, b), alone, strict=True
        ):
            assert given.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_lowest_position_is_reported_and_later_runs_are_sound(
    backend: str, threads: int
) -> None:
    a, b = _systems()
    run = rlx.compile(_graph(), backend=backend, threads=threads)
    expected = run(a, b)[0].copy()
    for first in (4321, 17, 2600):
        singular = a.copy()
        singular[[first, first + 40, SYSTEMS - 1]] = 0.0
        with pytest.raises(SingularMatrixError, match=rf"at position {first}\b"):
            run(singular, b)
        np.testing.assert_array_equal(run(a, b)[0], expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_slices_report_the_lowest_position_too(threads: int) -> None:
    n, slices = 100, 2 * MOST_PARTS + 1
    graph = Graph("factors")
    graph.set_outputs([graph.cholesky(graph.input("a", (slices, n, n)))])
    a = np.tile(np.eye(n, dtype=np.float32), (slices, 1, 1))
    a[[1, MOST_PARTS]] = -a[0]
    with pytest.raises(SingularMatrixError, match=r"at position 1\b"):
        rlx.compile(graph, backend="llvm", threads=threads)(a)


def test_the_attempt_is_shared_and_the_verdict_alone_can_fail() -> None:
    graph = Graph("systems")
    graph.set_outputs(
        [
            graph.solve(
                graph.input("a", (SYSTEMS, 3, 3)), graph.input("b", (SYSTEMS, 3)), vector=True
            )
        ]
    )
    thunk, kernel = _thunk(graph)
    parts = attempt_of(kernel, 3)
    assert parts is not None
    assert is_shared(parts.attempt)
    assert can_fail(parts.verdict)
    assert not is_shared(kernel)
    taken = take_part(thunk, kernel)
    assert taken is not None
    assert [t.kind for t in taken[1:]] == ["solve_attempt", "solve_verdict"]


def test_a_solver_that_overwrites_its_operand_stays_whole() -> None:
    graph = Graph("systems")
    graph.set_outputs(
        [
            graph.solve(
                graph.input("a", (SYSTEMS, 3, 3)), graph.input("b", (SYSTEMS, 3)), vector=True
            )
        ]
    )
    thunk, kernel = _thunk(graph)
    in_place = Thunk(
        thunk.kind, thunk.attrs, thunk.operands, (thunk.operands[1],), thunk.phase, thunk.node
    )
    assert take_part(in_place, kernel) is None


def test_an_index_out_of_range_is_no_fault_to_go_on_after() -> None:
    graph = Graph("rows")
    table, rows = graph.input("table", (50, 64)), graph.input("rows", (4000,), "i32")
    graph.set_outputs([graph.gather(table, rows, axis=0)])
    assert take_part(*_thunk(graph)) is None
