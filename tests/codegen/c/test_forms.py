"""Which kernels have one form: those that differ in numbers and in the widths of integers."""

from __future__ import annotations

import pytest

from rlx.ir.graph import Graph
from tests.codegen.c.forms import Form, form_of, largest_of_each_form
from tests.codegen.kernels.native import case_of
from tests.codegen.uses import ALL, build


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
