"""Arenas over 2 GiB, whose offsets exceed an int and a linker's static data; nothing is run."""

from __future__ import annotations

import re

import pytest

from rlx.ir.graph import Graph
from rlx.runtime.aot import Artifact, aot
from tests.aot.building import STRICT, needs_compiler, require, run

_ROWS = 3 << 29


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    g = Graph("large")
    x, w = g.input("x", (_ROWS,)), g.param("w", (_ROWS,))
    sums = g.cumsum(g.exp(x) * w, axis=0)
    g.set_outputs([g.cumsum(g.reverse(sums, axes=(0,)), axis=0), sums])
    return aot(g, tmp_path_factory.mktemp("large"), emit_only=True)


def test_offsets_over_an_int_are_numbers_and_no_enumerators(large: Artifact) -> None:
    assert large.arena_bytes > 4 * 4 * _ROWS
    text = large.source.read_text()
    enumerators = [int(value) for value in re.findall(r"^  AT_\w+ = (\d+),", text, re.MULTILINE)]
    assert all(value < 1 << 31 for value in enumerators)
    phase = text[text.index("run_phase(") :]
    phase = phase[: phase.index("\n}\n")]
    assert any(int(number) >= 1 << 31 for number in re.findall(r"\b\d{10,}\b", phase))


@needs_compiler
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c_of_a_large_arena_is_clean_and_its_sample_links(large: Artifact, compiler: str) -> None:
    command = (require(compiler), "-std=c11", *STRICT, "main.c", "large.c", "-lm", "-o", "sample")
    run(*command, cwd=large.directory)
