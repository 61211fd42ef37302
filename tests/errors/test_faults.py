"""What a fault at run time says: the op as the user wrote it, the line, both values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import IndexOutOfRangeError, InternalError, RlxError, Source, blamed
from rlx.ir.graph import Graph
from rlx.ir.numbering import program_nodes

X = np.arange(5.0)
BACKENDS = ["c", "llvm"]


def fault(function: Any, *args: Any, backend: str = "c") -> RlxError:
    with pytest.raises(IndexOutOfRangeError) as caught:
        rlx.jit(function, backend=backend)(*args)
    return caught.value


@pytest.mark.guarantee(
    "Errors",
    "An index out of range is an error that names the index and the extent.",
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_index_out_of_range_is_reported_with_its_extent(backend: str) -> None:
    error = fault(lambda x, i: x[i], X, np.array([1, 7]), backend=backend)
    assert error.message == ("gather: index out of range at position 1: 7 for an axis of extent 5")
    assert error.remedy is not None


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_negative_index_is_reported_as_it_was_written(backend: str) -> None:
    error = fault(lambda x, i: x[i], X, np.int64(-9), backend=backend)
    assert "-9 as a negative index from the end" in error.message


@pytest.mark.parametrize("backend", BACKENDS)
def test_indices_that_pick_together_are_reported_as_such(backend: str) -> None:
    error = fault(lambda x, i: x[i, i], X.reshape(1, 5), np.array([0, 7]), backend=backend)
    assert "at position 1: one of several indices that pick together" in error.message


@pytest.mark.parametrize("backend", [*BACKENDS, "reference"])
@pytest.mark.parametrize("index", [np.int64(7), np.array([1, 7])])
@pytest.mark.parametrize("method", ["set", "add", "multiply"])
def test_an_update_is_called_as_the_user_wrote_it(backend: str, index: Any, method: str) -> None:
    error = fault(lambda x, i: getattr(x.at[i], method)(2.0), X, index, backend=backend)
    written = "x.at[index]" if method == "multiply" else f"x.at[index].{method}"
    assert error.message.startswith(f"{written}: gather: index ")
    assert error.source is not None
    assert error.source.file == __file__


def large_step(carry: Any, i: Any) -> Any:
    grown = rnp.tanh(carry) @ carry
    return grown, rnp.sum(grown[i])  # the line at fault


LARGE_STEP_LINE = large_step.__code__.co_firstlineno + 2


def failing_loop(x: Any, i: Any) -> Any:
    first = x * 2.0
    second = first + x[0]
    third = rnp.cumsum(second, 0)
    return rlx.scan(large_step, third, i)[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fault_in_a_loop_names_the_line_in_its_body(backend: str) -> None:
    error = fault(failing_loop, np.ones((70, 70)), np.array([1, 77]), backend=backend)
    assert error.source is not None
    assert error.source.line == LARGE_STEP_LINE
    assert "77 for an axis of extent 70" in error.message


def test_nodes_of_bodies_have_numbers_of_their_own_in_generated_code() -> None:
    program = rlx.jit(failing_loop, backend="c").executable(np.ones((70, 70)), np.array([1, 2]))
    nodes = program_nodes(program.plan.graph)
    assert len(set(nodes)) == len(nodes)
    assert nodes[: len(program.plan.graph.nodes)] == program.plan.graph.nodes
    calls = [line.split()[1] for line in program.c_source.splitlines() if "// %" in line]
    inside = [
        int(number[1:]) for number in calls if int(number[1:]) >= len(program.plan.graph.nodes)
    ]
    assert inside
    assert len(set(inside)) == len(inside)
    place = f"{Path(__file__).name}:{LARGE_STEP_LINE}"
    assert all(nodes[number].source is not None for number in inside)
    assert any(place in line for line in program.c_source.splitlines() if "// %" in line)


@pytest.mark.guarantee("Errors", "A fault in a loop of exported C names the user's line.")
def test_the_fault_string_of_an_exported_loop_names_the_line_in_its_body(tmp_path: Path) -> None:
    graph = rlx.jit(failing_loop).graph(np.ones((70, 70)), np.array([1, 2]))
    text = rlx.aot(graph, tmp_path, name="loop").source.read_text()
    cases = text.split("loop_fault_string(const void *arena) {")[1].split("default:")[0]
    assert f"gather, {Path(__file__).name}:{LARGE_STEP_LINE}" in cases


def test_an_internal_error_names_the_line_and_says_how_to_report_it() -> None:
    place = Source("model.py", 3, "loss")
    with pytest.raises(InternalError) as caught, blamed("lowering exp", place):
        raise KeyError("n")
    text = str(caught.value)
    assert "lowering exp: KeyError: 'n'" in text
    assert "model.py:3 in loss" in text
    assert "report it" in text
    assert "rlx doctor" in text


def test_a_kernel_builder_that_breaks_is_blamed_on_the_users_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise AssertionError("cells are computed in order")

    monkeypatch.setattr("rlx.codegen.lower.graph.build_kernel", broken)
    with pytest.raises(InternalError) as caught:
        rlx.jit(lambda x: rnp.cumsum(x), backend="c")(np.ones((3, 17)))
    assert caught.value.source is not None
    assert caught.value.source.file == __file__
    assert "building the kernel of cumsum: AssertionError: cells are" in caught.value.message


def test_graphs_plans_and_schedules_print_their_readable_form() -> None:
    program = rlx.jit(lambda x: rnp.tanh(x) @ x, backend="c").executable(np.ones((4, 4)))
    graph = Graph("g")
    graph.set_outputs([graph.exp(graph.input("x", (2,)))])
    assert "%1: f32[2] = exp %0" in str(graph)
    assert str(program.plan).startswith("# arena ")
    assert "%1: f64[4, 4] = tanh" in str(program.plan)
    assert str(program.schedule).startswith("schedule ")
    assert "matmul" in str(program.schedule)
