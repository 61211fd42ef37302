"""Products of bytes by squares of two rows and two columns (`smmla`): the same integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from bench.embedded.emulation import build
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import dot_bytes
from rlx.codegen.loops.nodes import Prim
from rlx.codegen.loops.verify import verify_kernel
from rlx.errors import InternalError, ShapeError, UnsupportedError
from rlx.ir.graph import Graph
from rlx.ir.lowering import Schedule
from rlx.ir.reference import evaluate
from rlx.passes.lowering.exact_products import exact_products
from rlx.runtime.aot import aot
from rlx.target import Target, named_target
from tests.aot.building import dumping, run, sample_inputs
from tests.aot.windows import needs_zig
from tests.codegen.emulated import cpu_of, needs_emulator
from tests.codegen.kernels.test_matrix_unit import product, schedule_of

ARM = named_target("aarch64-i8mm")
INSTRUCTIONS = {
    "aarch64-i8mm": 0x4E80A400, "aarch64-sve256": 0x44800000, "aarch64-sve512": 0x44800000,
}  # fmt: skip
"""`smmla`, and `sdot` of scalable vectors, without their registers."""


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "tile"),
    [
        (16, 256, 64, (8, 8)), (64, 512, 256, (8, 8)), (2, 64, 64, (2, 16)), (5, 64, 24, (5, 12)),
        (1, 64, 64, None), (16, 252, 64, None),
    ],
)  # fmt: skip
def test_products_of_several_rows_take_squares(
    rows: int, depth: int, columns: int, tile: tuple[int, int] | None
) -> None:
    """Of an even number of words."""
    graph = product(rows, depth, columns)
    found = schedule_of(graph, ARM)
    assert found.unit == ("vectors" if tile is None else "squares")
    assert tile in (None, (found.rows, found.columns))
    assert schedule_of(graph, named_target("aarch64-dotprod")).unit == "vectors"


def several_products() -> Graph:
    """Products of odd and even rows, of columns that fill no panel, and of a batch."""
    graph, random = Graph("products"), np.random.default_rng(2)
    parts = []
    for number, (rows, depth, columns, batch) in enumerate(
        [(16, 64, 24, ()), (7, 40, 19, ()), (2, 136, 50, ()), (9, 24, 6, (3,)), (25, 16, 33, ())]
    ):
        x = graph.input(f"x{number}", (*batch, rows, depth), "f32")
        codes = graph.quantize(x, scales=(0.01,), zero_points=(-5,))
        w = graph.constant(random.integers(-128, 128, (*batch, depth, columns)).astype(np.int8))
        total = graph.matmul(graph.cast(codes, to="i32") + 5, graph.cast(w, to="i32"))
        parts.append(graph.reshape(graph.cast(total, to="f32"), shape=(-1,)))
    graph.set_outputs([graph.concat(*parts, axis=0)])
    return graph


@needs_emulator
@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "target"), [("llvm", "aarch64-i8mm"), *(("c", each) for each in INSTRUCTIONS)]
)
def test_emulated_products_are_exact(target: str, backend: Any, tmp_path: Path) -> None:
    graph = several_products()
    artifact = aot(graph, tmp_path, target=target, backend=backend)
    assert artifact.archive is not None
    program = tmp_path / "sample"
    sources = [dumping(artifact), *tmp_path.glob("*_api.c")]
    build("aarch64-linux-musl", sources, program, archives=[artifact.archive])
    content = program.read_bytes()
    words = np.frombuffer(content[: len(content) // 4 * 4], np.uint32)
    assert np.any((words & 0xFFE0FC00) == INSTRUCTIONS[target])
    run("qemu-aarch64", *cpu_of(target), program, cwd=tmp_path)
    (expected,) = evaluate(graph, sample_inputs(graph))
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y.bin", np.float32), expected)


def test_llvm_makes_no_code_for_scalable_vectors(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"(?s)scalable vectors.*backend=\"c\""):
        aot(product(4, 16, 8), tmp_path, target="aarch64-sve256", backend="llvm")


@pytest.mark.parametrize("backend", ["c", "llvm", "reference"])
def test_schedules_of_squares_run_on_vectors_elsewhere(backend: Any) -> None:
    graph = product(9, 64, 40)
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (9, 64), np.uint8)
    w = random.integers(-128, 128, (64, 40), np.int8)
    lowered = exact_products(ARM)(graph)
    (found,) = rlx.compile(lowered, params={"w": w}, backend=backend).run({"x": x})
    sums = (x.astype(np.int32) - 3) @ w.astype(np.int32)
    np.testing.assert_array_equal(found, np.maximum(sums, 0) * np.float32(0.5))


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize(("depth", "columns", "batch"), [(64, 44, ()), (72, 36, (2,))])
def test_squares_by_their_formula_take_any_number_of_rows(
    depth: int, columns: int, batch: tuple[int, ...], backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Target, "multiplies_byte_squares", property(lambda _: True))
    random = np.random.default_rng(0)
    lowered = exact_products(ARM)(product(rlx.Dim("n", min=1, max=50), depth, columns, batch))
    w = random.integers(-128, 128, (*batch, depth, columns), np.int8)
    f = rlx.compile(lowered, params={"w": w}, backend=backend)
    for rows in (1, 2, 7, 9, 33, 50):
        x = random.integers(0, 256, (*batch, rows, depth), np.uint8)
        sums = (x.astype(np.int32) - 3) @ w.astype(np.int32)
        (found,) = f.run({"x": x})
        np.testing.assert_array_equal(found, np.maximum(sums, 0) * np.float32(0.5))


@pytest.mark.parametrize("change", [{"depth": 16}, {"lanes": 8, "columns": 8}])
def test_schedules_without_squares(change: dict[str, Any]) -> None:
    graph = exact_products(ARM)(product(64, 64, 48))
    (node,) = (n for n in graph.nodes if n.op.name == "stored_matmul")
    fields = {"rows": 8, "columns": 8, "lanes": 4, "order": ("batch", "rows", "panels")}
    lowering = Schedule(**{**fields, "unit": "squares", **change})
    with pytest.raises(ShapeError, match="has no squares"):
        graph.append(node.op, node.operands, node.attrs, lowering=lowering)


def test_squares_are_four_lanes() -> None:
    k = KernelBuilder("pairs")
    x = k.argument("x", Prim.I32, writable=True)
    pair = k.load(x, 0, 2)
    k.store(x, 0, dot_bytes(pair, pair, pair, squares=True))
    with pytest.raises(InternalError, match="4 lanes are a square"):
        verify_kernel(k.build())
