"""Products of bytes in tile registers: the same integers, in the interpreter and on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.codegen.c.emit import emit_module
from rlx.codegen.kernels.contraction.matrix_unit import MatrixTile
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import TileOp
from rlx.codegen.loops.printer import format_kernel
from rlx.codegen.loops.verify import verify_kernel
from rlx.errors import InternalError, ShapeError
from rlx.ir.graph import Graph
from rlx.ir.lowering import Schedule
from rlx.passes.lowering.exact_products import exact_products
from rlx.runtime.cross import machine_of
from rlx.target import detect_target, named_target
from tests.codegen.c.native import sample_module, warn_strictly
from tests.codegen.loops.samples import run_sample
from tests.codegen.loops.tile_samples import SHAPES, SIGNS, TILE_SAMPLES, expected, product_sample

AMX = named_target("x86-64-v4-amx")


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("shape", SHAPES)
def test_tile_registers_sum_products_of_bytes(shape: tuple[int, int, int], sign: str) -> None:
    sample = product_sample(*shape, sign)
    verify_kernel(sample.kernel)
    assert "tiles: configure" in format_kernel(sample.kernel)
    found = run_sample(sample).buffers["out"]
    np.testing.assert_array_equal(found, expected(sample, *shape, sign))


def test_instructions_compile_without_options(tmp_path: Any) -> None:
    text = emit_module(sample_module(TILE_SAMPLES))
    assert "tdpbusd" in text
    assert "tdpbsud" in text
    warn_strictly("gcc", text, tmp_path)


def test_registers_must_be_configured() -> None:
    k = KernelBuilder("unconfigured")
    k.tile_step(TileOp.ZERO, 0)
    with pytest.raises(InternalError, match="not configured"):
        run_kernel(k.build(), {})


@pytest.mark.parametrize("tiles", [(8,), (0, 1)])
def test_instructions_name_registers_that_exist(tiles: tuple[int, ...]) -> None:
    k = KernelBuilder("wrong")
    k.tile_step(TileOp.ZERO, *tiles)
    with pytest.raises(InternalError, match="takes 1 of 8 tile registers"):
        verify_kernel(k.build())


@pytest.mark.parametrize(("rows", "columns", "steps"), [(32, 32, 35), (33, 32, 16), (16, 48, 16)])
def test_tiles_that_registers_have_no_room_for(rows: int, columns: int, steps: int) -> None:
    with pytest.raises(InternalError, match="no registers"):
        MatrixTile(KernelBuilder("wide"), rows, columns, steps, TileOp.DOT_UNSIGNED_SIGNED)


def product(rows: Any, depth: int, columns: int, batch: tuple[int, ...] = ()) -> Graph:
    graph = Graph("product")
    x = graph.input("x", (*batch, rows, depth), "u8")
    w = graph.param("w", (*batch, depth, columns), "i8")
    a, b = graph.cast(x, to="i32") - 3, graph.cast(w, to="i32")
    graph.set_outputs([graph.cast(graph.relu(graph.matmul(a, b)), to="f32") * 0.5])
    return graph


def schedule_of(graph: Graph, target: Any) -> Schedule:
    (node,) = (n for n in exact_products(target)(graph).nodes if n.op.name == "stored_matmul")
    assert isinstance(node.lowering, Schedule)
    return node.lowering


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "unit"),
    [
        (256, 784, 512, "matrix"), (8, 64, 16, "matrix"),
        (7, 64, 16, "vectors"), (64, 16, 64, "vectors"),
    ],
)  # fmt: skip
def test_products_of_several_rows_take_the_matrix_unit(
    rows: int, depth: int, columns: int, unit: str
) -> None:
    graph = product(rows, depth, columns)
    assert schedule_of(graph, AMX).unit == unit
    assert schedule_of(graph, named_target("x86-64-v4-bf16")).unit == "vectors"


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_products_are_exact(backend: Any, threads: int) -> None:
    """By tile registers where there are any; else the schedule for them runs on vectors."""
    random = np.random.default_rng(0)
    n = rlx.Dim("n", min=1, max=50)
    for shape, batch in [
        ((64, 64, 32), ()), ((41, 100, 50), ()), ((9, 260, 77), ()), ((17, 96, 16), (3,)),
        ((n, 64, 40), ()), ((n, 68, 40), (2,)),
    ]:  # fmt: skip
        graph = product(*shape, batch)
        extents: tuple[Any, ...] = (1, 15, 33, 50) if shape[0] is n else (shape[0],)
        for rows in extents:
            x = random.integers(0, 256, (*batch, rows, shape[1]), np.uint8)
            w = random.integers(-128, 128, (*batch, *shape[1:]), np.int8)
            sums = (x.astype(np.int32) - 3) @ w.astype(np.int32)
            for program in (graph, exact_products(AMX)(graph)):
                f = rlx.compile(program, params={"w": w}, backend=backend, threads=threads)
                (found,) = f.run({"x": x})
                np.testing.assert_array_equal(found, np.maximum(sums, 0) * np.float32(0.5))


@pytest.mark.parametrize(
    ("shape", "window", "is_gathered"),
    [
        ((1, 32, 9, 11), {"padding": ((1, 1), (1, 1))}, True),
        ((2, 8, 17, 16), {"padding": ((2, 1), (0, 3)), "stride": (2, 1), "dilation": (1, 2)}, True),
        ((1, 8, 4, 4), {}, False),
    ],
)
def test_convolutions_multiply_what_windows_read(
    shape: tuple[int, ...], window: dict[str, Any], is_gathered: bool
) -> None:
    """As many products of pixels as there are taps, where there are columns for a tile."""
    random, graph = np.random.default_rng(0), Graph("conv")
    x = graph.input("x", shape, "u8")
    w = graph.param("w", (24, shape[1], 3, 3), "i8")
    a, b = graph.cast(x, to="i32") - 7, graph.cast(w, to="i32")
    graph.set_outputs([graph.conv(a, b, **window)])
    lowered = exact_products(AMX)(graph)
    names = {node.op.name for node in lowered.nodes}
    assert ("stored_matmul" if is_gathered else "stored_conv") in names
    given = {"x": random.integers(0, 256, shape, np.uint8)}
    params = {"w": random.integers(-128, 128, (24, shape[1], 3, 3), np.int8)}
    (expected_,) = rlx.compile(graph, params=params, backend="reference").run(given)
    for program, backend in ((graph, "llvm"), (lowered, "reference"), (lowered, "c")):
        (found,) = rlx.compile(program, params=params, backend=backend).run(given)
        np.testing.assert_array_equal(found, expected_)


@pytest.mark.parametrize(
    "change", [{"rows": 48}, {"columns": 48}, {"depth": 16}, {"unit": "matrix", "rows": 17}]
)
def test_schedules_that_do_not_fit_the_registers(change: dict[str, Any]) -> None:
    depth = 68 if "unit" in change else 64
    graph = exact_products(AMX)(product(64, depth, 48))
    (node,) = (n for n in graph.nodes if n.op.name == "stored_matmul")
    fields = {"rows": 16, "columns": 16, "lanes": 16, "order": ("batch", "rows", "panels")}
    lowering = Schedule(**{**fields, "unit": "matrix", **change})
    with pytest.raises(ShapeError, match="registers of a matrix unit"):
        graph.append(node.op, node.operands, node.attrs, lowering=lowering)


def test_floats_have_no_matrix_unit() -> None:
    graph = Graph("floats")
    graph.set_outputs([graph.matmul(graph.input("x", (8, 16)), graph.param("w", (16, 16)))])
    given = {"matmul(f32[8, 16], param f32[16, 16])": Schedule(8, 16, 16, unit="matrix")}
    with pytest.raises(ShapeError, match="multiply words of four bytes alone"):
        rlx.compile(graph, schedules=given)


def test_artifacts_need_no_permission_unless_they_name_the_unit() -> None:
    assert not machine_of("native").multiplies_byte_matrices
    assert machine_of("x86-64-v4-amx").multiplies_byte_matrices
    assert detect_target().without_tile_registers == machine_of("native")
