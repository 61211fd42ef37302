"""Wrong bodies: every error names the body, the value, and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.errors import DTypeError, GraphError, RlxError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Value
from tests.loop_programs import Formula, graph_of

C = {"c": ((3,), "f64")}
HERE = Path(__file__).name


def scan_with(formula: Formula, **attributes: int) -> Callable[[], object]:
    def build() -> object:
        body = graph_of("step", C, formula)
        given = {"length": 4, "num_carries": 1} | attributes
        return graph_of("program", C, lambda c: ops.scan(c, body=body, **given))

    return build


def with_two_inputs() -> object:
    body = graph_of("step", C | {"x": ((3,), "f64")}, lambda c, x: c + x)
    return graph_of("program", C, lambda c: ops.scan(c, body=body, length=4, num_carries=1))


def with_rows(rows: int) -> Callable[[], object]:
    def build() -> object:
        body = graph_of("step", C | {"x": ((3,), "f64")}, lambda c, x: c + x)
        types = C | {"xs": ((rows, 3), "f64")}
        return graph_of(
            "program", types, lambda c, xs: ops.scan(c, xs, body=body, length=4, num_carries=1)
        )

    return build


def branches(*formulas: Formula) -> Callable[[], object]:
    def build() -> object:
        bodies = tuple(graph_of(f"branch_{i}", C, f) for i, f in enumerate(formulas))
        types = {"s": ((), "i32")} | C
        return graph_of("program", types, lambda s, c: ops.switch(s, c, branches=bodies))

    return build


def chosen_by(dtype: str, shape: tuple[int, ...]) -> Callable[[], object]:
    def build() -> object:
        body = graph_of("branch", C, lambda c: c)
        types = {"s": (shape, dtype)} | C
        return graph_of("program", types, lambda s, c: ops.switch(s, c, branches=(body,)))

    return build


def while_with(condition: Formula, body: Formula) -> Callable[[], object]:
    def build() -> object:
        graphs = {
            "condition": graph_of("check", C, condition),
            "body": graph_of("trip", C, body),
        }
        return graph_of("program", C, lambda c: ops.while_loop(c, **graphs))

    return build


def below(c: Value) -> Value:
    return ops.lt(c, 1.0)


def single(c: Value) -> Value:
    return ops.cast(c, to="f32")


WRONG: dict[str, tuple[Callable[[], object], type[RlxError], str]] = {
    "carry changes its dtype": (
        scan_with(single), DTypeError, r"'step' changes the dtype of carry 0 \('c'\).*f64\[3\].*f32"
    ),
    "carry changes its shape": (
        scan_with(lambda c: ops.reshape(c, shape=(1, 3))), ShapeError, "'step' changes the shape"
    ),
    "too few outputs": (
        scan_with(lambda _: []), GraphError, "'step' has 0 outputs and 1 carries"
    ),
    "too many checkpoints": (
        scan_with(lambda c: c, checkpoints=5), GraphError, r"checkpoints is 5; it must be"
    ),
    "negative length": (scan_with(lambda c: c, length=-1), GraphError, "length is -1"),
    "missing input": (with_two_inputs, GraphError, "'step' takes 2 inputs and was given 1"),
    "rows of another count": (with_rows(5), ShapeError, "of length 4 have 4 rows"),
    "while body of more outputs": (
        while_with(below, lambda c: [c, c]), GraphError, "'trip' has 2 outputs and 1 carries"
    ),
    "condition of two outputs": (
        while_with(lambda c: [c, c], lambda c: c), GraphError, "condition 'check' has 2 outputs"
    ),
    "branches of different types": (
        branches(lambda c: c, single), ShapeError, r"output 0 of branch 'branch_1' has type f32"
    ),
    "branches of different counts": (
        branches(lambda c: c, lambda c: [c, c]), GraphError, "'branch_1' has 2 outputs"
    ),
    "no branches": (branches(), GraphError, "no branches"),
    "float selector": (chosen_by("f32", ()), DTypeError, "the selector has dtype f32"),
    "selector of several elements": (chosen_by("i32", (2,)), ShapeError, "must have one element"),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_body_is_refused(name: str) -> None:
    build, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as caught:
        build()
    assert caught.value.source is not None
    assert Path(caught.value.source.file).name in (HERE, "loop_programs.py")


def test_an_error_in_a_body_points_at_the_line_of_the_value() -> None:
    with pytest.raises(DTypeError) as caught:
        scan_with(single)()
    assert caught.value.source is not None
    assert caught.value.source.function == "single"


def test_a_stated_derivative_of_the_wrong_shape_is_refused() -> None:
    types = {"x": ((3,), "f32"), "y": ((3,), "f32"), "d": ((3,), "f32")}
    body = graph_of("double", {"x": ((3,), "f32")}, lambda x: x * 2.0)
    wrong = graph_of("pull", types, lambda *given: ops.reduce_sum(given[2], axes=(0,)))
    with pytest.raises(ShapeError, match="output 0 of body 'pull' has type"):
        graph_of(
            "program",
            {"x": ((3,), "f32")},
            lambda x: ops.custom_call(x, body=body, vjp_body=wrong),
        )
