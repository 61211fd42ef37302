"""Programs of many equal small kernels: what they cost the compiler."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from rlx.codegen.c.emit import _MOST_INLINED, emit_module
from rlx.codegen.lower import lower_graph
from rlx.ir.graph import Graph
from rlx.passes.pipeline import pipeline
from rlx.runtime.lower import claimed_ops
from rlx.target import named_target
from tests.codegen.c.forms import Form, form_of, largest_of_each_form
from tests.codegen.kernels.native import case_of
from tests.codegen.uses import ALL, build


def scaled(leaves: int) -> Graph:
    graph = Graph("scaled")
    inputs = [graph.input(f"x{i}", (16,)) for i in range(leaves)]
    graph.set_outputs([x * 0.9 for x in inputs])
    return graph


def source(graph: Graph) -> str:
    target = named_target("x86-64-v3")
    return emit_module(lower_graph(pipeline(claimed_ops(), target).run(graph), target).module)


def calls(leaves: int) -> int:
    """Return how many Python functions are called to compile so many leaves."""
    graph = scaled(leaves)
    profile = cProfile.Profile()
    profile.runcall(source, graph)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("leaves", "is_inlined"), [(3, True), (_MOST_INLINED + 1, False)])
def test_a_kernel_that_is_called_many_times_is_not_inlined(leaves: int, is_inlined: bool) -> None:
    text = source(scaled(leaves))
    (head,) = [line for line in text.splitlines() if " mul_16(" in line and "static" in line]
    assert ("noinline" not in head) is is_inlined


@pytest.mark.slow
def test_calls_of_python_functions_are_linear_in_leaves() -> None:
    source(scaled(50))
    few, many = calls(250), calls(1000)
    assert many < 4.4 * few


def form(op: str, dtype: str, size: int) -> Form:
    graph = Graph("one")
    graph.set_outputs([getattr(graph, op)(graph.input("x", (size, 3), dtype))])
    return form_of(case_of(graph, f"{op}_{dtype}_{size}").kernel)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (("neg", "i32", 40), ("neg", "i32", 170), True),
        (("neg", "i16", 40), ("neg", "i64", 40), True),
        (("neg", "i32", 40), ("neg", "u32", 40), False),
        (("neg", "i32", 40), ("neg", "f32", 40), False),
        (("neg", "f32", 40), ("neg", "f64", 40), False),
        (("neg", "f16", 40), ("neg", "bf16", 40), False),
        (("neg", "f32", 40), ("abs", "f32", 40), False),
        (("exp", "f32", 40), ("exp2", "f32", 40), False),
    ],
)
def test_forms_differ_in_more_than_numbers(
    one: tuple[str, str, int], other: tuple[str, str, int], is_same: bool
) -> None:
    assert (form(*one) == form(*other)) == is_same


def test_one_use_of_each_form_is_found() -> None:
    built = [build(use) for use in ALL["reverse"]]
    found = largest_of_each_form(built)
    forms = [form_of(use.case.kernel) for use in built]
    assert {form_of(use.case.kernel) for use in found} == set(forms)
    assert len(found) == len(set(forms)) < len(built)
