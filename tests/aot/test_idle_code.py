"""Exported C has nothing idle: no loop without a step, no copies, no unused widths or params."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from bench.embedded.programs import PROGRAMS as PUBLISHED
from bench.embedded.programs import export
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.runtime.aot import Artifact, aot
from rlx.runtime.cross import machine_of
from tests.aot.programs import encoder_layer, lookup, mlp, scaled_rows, training_step

TARGETS = ("portable", "x86-64-v3", "riscv64", "cortex-m4")
GRAPHS = (mlp, training_step, scaled_rows, lookup, encoder_layer)
_HEAD = re.compile(r"for \(int64_t (\w+) = (-?\d+); \1 < (-?\d+); (?:\1 \+= (\d+))?")
_STEPS = np.arange(32, dtype=np.float32)


def graphs_c(make: Callable[[], Graph], target: str, directory: Path) -> str:
    return aot(make(), directory, target=target, emit_only=True).source.read_text()


def check(text: str, target: str, *, loops: bool = True) -> None:
    idle = [h[0] for h in _HEAD.finditer(text) if int(h[3]) - int(h[2]) <= int(h[4] or 1)]
    assert ("for (int64_t" in text) == loops
    assert idle == []
    widths = {int(size) for size in re.findall(r"vector_size\((\d+)\)", text)}
    assert max(widths, default=0) <= machine_of(target).vector_bytes
    assert not re.search(r"\bparts\b|\bthread_count\b|\bint64_t begin\b", text)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_programs_loop_twice_or_more_in_vectors_of_the_target_on_one_thread(
    name: str, target: str, tmp_path: Path
) -> None:
    is_scalar = name in ("kalman_filter", "finite_filter")  # a function of locals, without loops
    check(export(name, target, tmp_path).source.read_text(), target, loops=not is_scalar)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", GRAPHS)
def test_graphs_loop_twice_or_more_in_vectors_of_the_target_on_one_thread(
    make: Callable[[], Graph], target: str, tmp_path: Path
) -> None:
    check(graphs_c(make, target, tmp_path), target)


@pytest.mark.parametrize(
    ("function", "stored"),
    [
        (lambda x: x * np.full(32, 0.5, np.float32), 0),
        (lambda x: x * _STEPS, 128),
        (lambda x: rnp.tanh(x * _STEPS) @ np.eye(32, dtype=np.float32)[::-1] + _STEPS.copy(), 4224),
    ],
    ids=["one number", "one row", "a row twice and a matrix"],
)
def test_constants_are_stored_once(
    function: Callable[[Any], Any], stored: int, tmp_path: Path
) -> None:
    artifact: Artifact = rlx.aot(
        rlx.jit(function), tmp_path, name="m", example_inputs=(np.zeros((4, 32), np.float32),),
        emit_only=True,
    )  # fmt: skip
    found = re.search(r"^#define M_CONSTANTS_BYTES (\d+)", artifact.header.read_text(), re.M)
    assert (0 if found is None else int(found[1])) == stored


@pytest.mark.parametrize("threads", [None, "callback"])
def test_phases_take_what_they_read(threads: str | None, tmp_path: Path) -> None:
    """Setup alone reads the constant here; what runs on parts of the work has other needs."""
    g = Graph("scaled")
    x, w = g.input("x", (64, 32)), g.param("w", (32, 32))
    scaled = g.mul(w, g.constant(np.arange(1024, dtype=np.float32).reshape(32, 32)))
    g.set_outputs([g.tanh(g.matmul(x, scaled))])
    text = aot(g, tmp_path, threads=threads, emit_only=True).source.read_text()
    assert "static void setup_phase(uint8_t *arena, const uint8_t *constants)" in text
    assert re.search(r"static void run_p\w+\(uint8_t \*arena[,)](?! const)", text)
    assert "(void)constants" not in text


def test_a_constant_is_a_result_like_others(tmp_path: Path) -> None:
    graph = Graph("f")
    x = graph.input("x", (3,))
    row = np.array([4.0, 5.0], np.float32)
    graph.set_outputs([ops.exp(x), graph.constant(row), graph.constant(row)])
    artifact = rlx.aot(graph, tmp_path)
    assert artifact.weights is None
    printed = run_sample(tmp_path)
    assert printed.count("4 5") == 2


def test_the_sample_needs_no_weights_that_nothing_reads(tmp_path: Path) -> None:
    graph = Graph("f")
    x = graph.input("x", (3,))
    graph.param("w", (2,))
    graph.set_outputs([x + 1.0])
    artifact = rlx.aot(graph, tmp_path, params={"w": np.ones(2, np.float32)})
    assert artifact.weights is None
    assert list(tmp_path.glob("*.weights")) == []
    assert run_sample(tmp_path).startswith("y: 1 ")


def run_sample(folder: Path) -> str:
    subprocess.run(
        ["cc", "main.c", "f.c", "-lm", "-o", "sample"], cwd=folder, check=True, timeout=600
    )
    done = subprocess.run(
        ["./sample"], cwd=folder, check=True, capture_output=True, text=True, timeout=600
    )
    return done.stdout
