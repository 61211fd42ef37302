"""Gaussian splatting and long sorts in exported C: equal bits on threads, no races, no warnings."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.sort_stages import argsort_by_digits
from rlx.runtime.aot import aot
from rlx.splat import ops as splat_ops
from tests.aot.building import STRICT, needs_compiler, require, run
from tests.aot.programs import params_of
from tests.splat_scenes import NAMES, camera

pytestmark = needs_compiler
PROGRAM = (Path(__file__).parent / "threads.c").read_text()
SPLATS, NUMBERS = 1100, 1 << 15


def scene_of(x: Value) -> list[Value]:
    """Take a scene of several blocks of splats from an array of numbers between 0 and 1."""
    arrays, start = list[Value](), 0
    for columns, scale, offset in ((3, 2.0, -1.0), (3, 1.0, -4.0), (4, 2.0, -1.0), (1, 0.8, 0.1),
                                   (3, 1.0, 0.0)):  # fmt: skip
        part = x.graph.narrow(x, axis=0, start=start, length=columns * SPLATS)
        arrays.append(part * scale + offset)
        start += columns * SPLATS
    meta = x.graph.constant(camera())
    return [*arrays, x.graph.constant(np.zeros(0, np.float32)), meta]


def fitting_and_sorting() -> Graph:
    """The gradient of an image, and a long sort: what stages share their work in."""
    graph = Graph("large")
    x = graph.input("x", (NUMBERS,))
    size = {"width": 48, "height": 32, "tile_size": 8, "max_list_entries": 1 << 15}
    scene = scene_of(x)
    image = splat_ops.gaussian_splat_render(*scene, **size)
    packed = splat_ops.gaussian_splat_render_backward(*[*scene, image], **size)
    graph.set_outputs([packed, argsort_by_digits(x)])
    return graph


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang: gcc 12 fails here")
def test_gradients_and_sorts_are_clean_under_thread_sanitizer(tmp_path: Path) -> None:
    graph = fitting_and_sorting()
    aot(graph, tmp_path, params=params_of(graph), threads="callback", emit_only=True)
    program = PROGRAM.replace("THREADS = 64", "THREADS = 2")
    (tmp_path / "threads.c").write_text(program)
    flags = ("-O1", "-g", "-fsanitize=thread")
    run("clang", *flags, "threads.c", "large.c", "-pthread", "-lm", cwd=tmp_path)
    assert run("setarch", "-R", "./a.out", cwd=tmp_path) == "equal\n"


@pytest.mark.slow
def test_gradients_and_sorts_have_equal_bits_in_parts_of_any_number() -> None:
    graph = fitting_and_sorting()
    x = ((np.arange(NUMBERS) % 251).astype(np.float32)) / np.float32(251)
    alone = rlx.compile(graph, threads=1).run({"x": x})
    for threads in (2, 3):
        shared = rlx.compile(graph, threads=threads).run({"x": x})
        assert [a.tobytes() for a in shared] == [a.tobytes() for a in alone]
    assert np.isfinite(alone[0]).all()
    assert alone[0].any()
    np.testing.assert_array_equal(alone[1], np.argsort(x, kind="stable"))


def test_clang_does_not_warn_of_vectors_wider_than_its_target_has(tmp_path: Path) -> None:
    """Four doubles at a time, where the flags say that registers hold two."""
    graph = Graph("image")
    shapes = [(8, 3), (8, 3), (8, 4), (8,), (8, 3), (8, 1, 3), (23,)]
    scene = [graph.input(name, shape) for name, shape in zip(NAMES, shapes, strict=True)]
    graph.set_outputs([splat_ops.gaussian_splat_render(*scene, width=16, height=16)])
    artifact = aot(graph, tmp_path, target="portable", emit_only=True)
    assert "f64x4" in artifact.source.read_text()
    run(require("clang"), "-std=c11", *STRICT, "-O0", "-c", artifact.source, cwd=tmp_path)
