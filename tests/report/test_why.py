"""`inspect --why`: names, source lines and reasons, as text and in the page."""

from __future__ import annotations

import pytest

from rlx.errors import Source
from rlx.ir.graph import Graph, Value
from rlx.report.data import report_data
from rlx.report.page import render_page
from rlx.report.stages import Stages
from rlx.report.why import format_why, why_sections
from rlx.target import named_target
from tests.passes.models import encoder


def at_line(graph: Graph, line: int, op: str, *operands: Value, **attributes: object) -> Value:
    """Build a node that comes from a line of the user's."""
    with graph.attributed(Source("model.py", line, "mlp")):
        result: Value = getattr(graph, op)(*operands, **attributes)
    return result


def mlp() -> Graph:
    g = Graph("mlp")
    x, w, b = g.input("x", (8, 32)), g.param("w", (32, 48)), g.param("b", (48,))
    hidden = at_line(g, 3, "add", at_line(g, 2, "matmul", x, w), b)
    hidden = at_line(g, 4, "relu", hidden)
    scores = at_line(g, 5, "matmul", hidden, g.input("v", (48, 3)))
    g.set_outputs([at_line(g, 6, "softmax", at_line(g, 6, "exp", scores), axis=-1)])
    return g


def stages_of(graph: Graph, precision: str | None = None) -> Stages:
    return Stages.of(graph, named_target("x86-64-v3"), precision)


RECORD = 'schedule(rows = 4, columns = 16, lanes = 8, order = ("batch", "rows", "panels"))'

TEXT = f"""\
Fused: 2
  matmul + add + relu
    around matmul
    at model.py:2 in mlp, model.py:3 in mlp, model.py:4 in mlp
  matmul + exp
    around matmul
    at model.py:5 in mlp, model.py:6 in mlp

Not fused: 2
  relu, read by matmul
    matmul reads its operands from memory: nothing is fused into its reads
    at model.py:4 in mlp, model.py:5 in mlp
  exp, read by softmax
    softmax reads each element several times: costly work is computed once, before it
    at model.py:6 in mlp

Kernels chosen: 2
  matmul(f32[8, 32], param f32[32, 48]) as {RECORD}
    b is packed in setup: it depends on params and constants only
    estimated thousands of cycles: this schedule 0.768, tiles of 4 rows and 16 \
columns in place 0.768, tiles of 3 rows and 24 columns 0.864, plain loops 2.3
    at model.py:2 in mlp
  matmul(f32[8, 48], f32[48, 3])
    plain loops: 8 rows, 1152 multiply-adds; packing pays from 4 rows, 8192 on
    estimated thousands of cycles: tiles of 8 rows and 8 columns 0.384, these plain loops 0.216
    at model.py:5 in mlp

Calls: 4
  pack_panels_32x48
    in setup
    at model.py:2 in mlp
  matmul_relu_8x48
    in run; {RECORD}; reads panels(width = 16)
    at model.py:2 in mlp, model.py:3 in mlp, model.py:4 in mlp
  matmul_exp_8x3
    in run
    at model.py:5 in mlp, model.py:6 in mlp
  softmax_8x3_in_place
    in run
    at model.py:6 in mlp"""


def test_names_lines_and_reasons_of_a_small_program() -> None:
    assert format_why(stages_of(mlp())) == TEXT


def test_what_a_precision_policy_touched_is_listed() -> None:
    sections = {section.title: section for section in why_sections(stages_of(mlp(), "bf16"))}
    lines = sections["Computed in 16 bits"].lines
    assert [line.what for line in lines] == [
        "matmul(f32[8, 32], f32[32, 48])",
        "matmul(f32[8, 48], f32[48, 3])",
    ]
    assert [line.places for line in lines] == [("model.py:2 in mlp",), ("model.py:5 in mlp",)]
    assert "Computed in 16 bits" not in format_why(stages_of(mlp()))


def test_layers_that_are_alike_are_one_line() -> None:
    one, three = (format_why(stages_of(encoder(layers=count))) for count in (1, 3))
    assert len(three.splitlines()) <= len(one.splitlines()) + 12
    assert "  x3\n" in three


def test_fusions_inside_loops_are_listed() -> None:
    body = Graph("step")
    c, w = body.input("c", (64, 300)), body.input("w", (300, 300))
    body.set_outputs([body.tanh(body.matmul(c, w))])
    g = Graph("rnn")
    first, weights = g.input("c", (64, 300)), g.input("w", (300, 300))
    g.set_outputs(g.scan(first, weights, body=body, length=5, num_carries=1, num_consts=1))
    assert "  matmul + tanh\n" in format_why(stages_of(g))


def test_a_large_system_names_its_library_or_says_that_there_is_none() -> None:
    g = Graph("g")
    g.set_outputs([g.solve(g.input("a", (200, 200)), g.input("b", (200, 1)))])
    text = format_why(stages_of(g))
    assert ("200 rows, from 192 on a library is faster" in text) != ("there is no library" in text)


@pytest.mark.parametrize("words", ["<h2>Why</h2>", "Not fused", "packing pays from 4 rows"])
def test_the_page_has_a_section(words: str) -> None:
    assert words in render_page(report_data(stages_of(mlp())))
