"""Program files round-trip; damage and unsound plans are typed errors; schedules are verified."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from rlx.codegen.lower import Program
from rlx.codegen.program_file import dumps_program, loads_program
from rlx.codegen.schedule import Thunk
from rlx.codegen.schedule_printer import format_schedule
from rlx.codegen.schedule_verify import schedule_faults
from rlx.errors import FormatError
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from rlx.runtime.lower import lower_for
from rlx.target import detect_target


@pytest.fixture(scope="module")
def program() -> Program:
    g = Graph("mlp")
    x = g.input("x", (Dim("n", max=8), 32))
    # More columns than one panel has on any target: packing them is a thunk of `setup`.
    w, b = g.param("w", (32, 144)), g.param("b", (144,))
    g.set_outputs([g.softmax(g.tanh(g.matmul(x, w) + b), axis=-1)])
    return lower_for(g, detect_target())


def forged(content: bytes, change: dict[str, object]) -> bytes:
    """Return a program file with another plan and a matching hash."""
    first, rest = content.split(b"\n", 1)
    size = int(first.split()[2])
    graph, plan = rest[:size], {**json.loads(rest[size:]), **change}
    text = json.dumps(plan).encode()
    digest = hashlib.sha256(graph + text).hexdigest()
    return f"rlx-program 1 {size} {len(text)} {digest}\n".encode() + graph + text


def test_a_program_round_trips(program: Program) -> None:
    again = loads_program(dumps_program(program))
    assert again.graph == program.graph
    assert again.schedule == program.schedule
    assert dumps_program(again) == dumps_program(program)
    assert format_schedule(again.schedule, again.kernels) == format_schedule(
        program.schedule, program.kernels
    )
    assert again.module.kernels == program.module.kernels


def test_every_cut_and_flip_is_a_format_error(program: Program) -> None:
    content = dumps_program(program)
    for cut in range(0, len(content), 97):
        with pytest.raises(FormatError):
            loads_program(content[:cut])
        damaged = bytearray(content)
        damaged[cut] ^= 0x55
        with pytest.raises(FormatError):
            loads_program(bytes(damaged))


@pytest.mark.parametrize(
    "change",
    [
        {"slots": []},
        {"bytes": [64, 64]},
        {"order": [999]},
        {"order": [0]},
        {"scratch": [["x", 1]]},
        {"bodies": [[0, [{}]]]},
        {"in_place": [[0, [[-1, 0]]]]},
    ],
)
def test_a_plan_that_is_none_is_a_format_error(program: Program, change: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        loads_program(forged(dumps_program(program), change))


def test_a_plan_in_which_a_softmax_is_a_view_is_refused(program: Program) -> None:
    content = dumps_program(program)
    slots = json.loads(content.split(b"\n", 1)[1][int(content.split()[2]) :])["slots"]
    softmax = program.graph.outputs[0]
    for row in slots:
        if row[0] == softmax.node.index:
            row[-1] = [softmax.node.operands[0].node.index, 0]
    with pytest.raises(FormatError, match="is planned as a view"):
        loads_program(forged(content, {"slots": slots, "in_place": []}))


def test_a_plan_whose_kernel_lacks_scratch_is_refused() -> None:
    g = Graph("sums")
    rows = g.input("rows", (4, 3), "f16")
    g.set_outputs([g.scatter_add(rows, g.input("at", (4,), "i64"), size=5)])
    content = dumps_program(lower_for(g, detect_target()))
    with pytest.raises(FormatError, match="bytes of scratch; it needs"):
        loads_program(forged(content, {"scratch": []}))


def test_a_plan_with_overlapping_values_is_refused(program: Program) -> None:
    content = dumps_program(program)
    plan = json.loads(content.split(b"\n", 1)[1][int(content.split()[2]) :])
    slots = [[*row[:2], 64, *row[3:]] for row in plan["slots"]]
    with pytest.raises(FormatError, match="unsound"):
        loads_program(forged(content, {"slots": slots}))


def test_the_verifier_names_what_is_wrong(program: Program) -> None:
    schedule = program.schedule
    first = schedule.thunks[0]
    assert isinstance(first, Thunk)
    outside = replace(first, results=(replace(first.results[0], offset=10**9),))
    crooked = replace(first, results=(replace(first.results[0], offset=65),))
    clash = replace(first, results=(replace(first.results[0], offset=first.operands[0].offset),))
    for thunk, words in ((outside, "leave the arena"), (crooked, "multiple"), (clash, "overlaps")):
        broken = replace(schedule, thunks=(thunk, *schedule.thunks[1:]))
        assert any(words in fault for fault in schedule_faults(broken)), words
    assert any(
        "comes after" in fault
        for fault in schedule_faults(replace(schedule, thunks=schedule.thunks[::-1]))
    )
    assert schedule_faults(schedule) == []
