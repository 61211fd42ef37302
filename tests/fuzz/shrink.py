"""The smallest program that still fails: lines, outputs and the transformation go, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.program import Line, RandomProgram


def shrink(program: RandomProgram, fails: Callable[[RandomProgram], bool]) -> RandomProgram:
    """Return a smaller program for which `fails` still holds; `program` itself fails."""
    while True:
        smaller = next((p for p in candidates(program) if fails(p)), None)
        if smaller is None:
            return program
        program = smaller


def candidates(program: RandomProgram) -> Iterator[RandomProgram]:
    """Yield programs that lack something of `program`, the boldest cuts first."""
    if program.symbolic:
        yield replace(program, symbolic=False)
    if program.transformation != "none":
        yield replace(program, transformation="none")
    for output in program.outputs:
        if len(program.outputs) > 1:
            yield _live(replace(program, outputs=(output,)))
    for line in reversed(program.lines):
        for operand in line.operands:
            yield _live(_without(program, line, operand))
        if program.outputs != (line.target,):
            yield _live(replace(program, outputs=(line.target,)))


def _without(program: RandomProgram, gone: Line, stand_in: int) -> RandomProgram:
    """Return the program with an operand of `gone` in its place."""

    def new(number: int) -> int:
        return stand_in if number == gone.target else number

    lines = tuple(
        replace(line, operands=tuple(map(new, line.operands)))
        for line in program.lines
        if line is not gone
    )
    return replace(program, lines=lines, outputs=tuple(dict.fromkeys(map(new, program.outputs))))


def _live(program: RandomProgram) -> RandomProgram:
    """Return the program without lines that no output depends on."""
    needed = set(program.outputs)
    kept: list[Line] = []
    for line in reversed(program.lines):
        if line.target in needed:
            needed |= set(line.operands)
            kept.append(line)
    return replace(program, lines=tuple(reversed(kept)))
