"""Products in tiles: tiles, tails, edges, transposes and batches against the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.codegen.kernels.build import thunk_body
from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.schedule import Thunk
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import RegisterTranspose, Schedule
from rlx.ir.op import OpDef, make_attrs
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, Shape
from rlx.ir.shape import evaluate as evaluate_extent
from rlx.passes.layout.pack_operands import choose_tile
from rlx.runtime.executable import Executable
from rlx.runtime.reference import ReferenceExecutable
from rlx.target import detect_target
from tests.codegen.kernels.native import case_of, module_of, run_case

BACKENDS = ("c", "llvm")


def check(
    backend: str,
    a_shape: Shape,
    b_shape: Shape,
    build: Callable[[Value, Value], Value],
    dtype: str = "f32",
    binding: dict[str, int] | None = None,
) -> list[str]:
    """Compare `build(a, b)`, b being a param, with the reference; return the thunk kinds."""
    g = Graph("product")
    a, b = g.input("a", a_shape, dtype), g.param("b", b_shape, dtype)
    g.set_outputs([build(a, b)])
    random = np.random.default_rng(7)
    sizes = [evaluate_extent(extent, binding or {}) for extent in a_shape]
    feeds = {
        "a": random.standard_normal(sizes).astype(a.dtype.numpy),
        "b": random.standard_normal(b.type.static_shape).astype(b.dtype.numpy),
    }
    compiled = runtime.compile(g, backend=backend, params={"b": feeds["b"]}, threads=1)
    (expected,) = evaluate(g, feeds)
    (got,) = compiled.run({"a": feeds["a"]})
    exact = np.complex128 if dtype == "c64" else np.float64
    bound = 8 * max(*sizes, 1) * (1e-14 if dtype == "f64" else 1e-6)
    # Sums of 16-bit floats are f32: on the other side of a tie they are rounded to a neighbor.
    step = {"f16": 2.0**-10, "bf16": 2.0**-7}.get(dtype, 1e-7)
    np.testing.assert_allclose(got.astype(exact), expected.astype(exact), rtol=step, atol=bound)
    assert got.dtype == expected.dtype
    return [thunk.kind for thunk in compiled.schedule.thunks]  # type: ignore[union-attr]


def reads_b_unpacked(compiled: Executable | ReferenceExecutable, product: OpDef) -> bool:
    """True if the one kernel of a program is a product in vectors, of a `b` without a layout."""
    assert isinstance(compiled, Executable)
    (thunk,) = compiled.schedule.thunks
    assert isinstance(thunk, Thunk)
    (node,) = (node for node in thunk_body(thunk).nodes if node.op is product)
    return isinstance(node.lowering, Schedule) and node.operands[1].type.layout is None


def _both_transposed(a: Value, b: Value) -> Value:
    return ops.matmul(ops.transpose(a, perm=(1, 0)), ops.transpose(b, perm=(1, 0)))


def _left_transposed(a: Value, b: Value) -> Value:
    return ops.matmul(ops.transpose(a, perm=(1, 0)), b)


def _right_transposed(a: Value, b: Value) -> Value:
    return ops.matmul(a, ops.transpose(b, perm=(1, 0)))


def _layer(a: Value, b: Value) -> Value:
    bias = a.graph.constant(np.linspace(-1, 1, 50, dtype=np.float32))
    return ops.gelu(ops.matmul(a, b) + bias) * 2.0


Case = tuple[Shape, Shape, Callable[[Value, Value], Value]]
CASES: dict[str, Case] = {
    "shared by a batch": ((2, 3, 5, 24), (24, 20), ops.matmul),
    "a matrix for each of a batch": ((3, 8, 24), (3, 24, 20), ops.matmul),
    "matrices by the same rows": ((8, 24), (3, 24, 20), ops.matmul),
    "batches broadcast both ways": ((2, 1, 6, 24), (1, 3, 24, 20), ops.matmul),
    "panels of three vectors": ((61, 40), (40, 240), ops.matmul),
    "rows that crowd the cache": ((101, 1024), (1024, 131), ops.matmul),
    "sums that wait between blocks": ((101, 1100), (1100, 131), ops.matmul),
    "blocks of one size": ((101, 2048), (2048, 131), ops.matmul),
    "columns copied side by side": ((40, 50), (40, 131), _left_transposed),
    "many columns copied": ((1100, 29), (1100, 131), _left_transposed),
    **{
        f"turned in registers {rows} {inner} {columns}": (
            (rows, inner), (columns, inner), _right_transposed,
        )
        for rows, inner, columns in ((40, 50, 130), (16, 33, 31), (7, 16, 32), (70, 100, 96))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_products_agree_with_the_reference(name: str) -> None:
    for dtype in ("f32", "f64"):
        check("llvm", *CASES[name], dtype)


@pytest.mark.parametrize(
    "name",
    [
        "a matrix for each of a batch", "panels of three vectors", "sums that wait between blocks",
        "many columns copied", "turned in registers 16 33 31",
    ],
)  # fmt: skip
def test_c_agrees_with_the_reference(name: str) -> None:
    check("c", *CASES[name])


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [
        (1, 33, 40), (12, 16, 32), (13, 17, 33), (77, 40, 50), (5, 300, 7), (128, 20, 130),
        (16, 16, 16),
    ],
)  # fmt: skip
def test_products_of_every_tile_tail_and_edge(rows: int, inner: int, columns: int) -> None:
    for backend in ("llvm", "c"):
        kinds = check(backend, (rows, inner), (inner, columns), ops.matmul)
        target = detect_target()
        tile = choose_tile(rows, columns, target.lanes(4), target.vector_registers)
        assert (kinds[0] == "pack_panels") == (columns != tile.columns)  # one is packed already


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
def test_products_in_other_float_types(dtype: str) -> None:
    for backend in ("llvm", "c"):
        check(backend, (14, 24), (24, 37), ops.matmul, dtype)


@pytest.mark.parametrize(("inner", "rows"), [
    (24, 1), (24, 11), (24, 12), (24, 29), (24, 40), (2048, 1), (2048, 12), (2048, 17), (2048, 30),
])  # fmt: skip
def test_a_symbolic_number_of_rows(inner: int, rows: int) -> None:
    """Rows of 2048 are copied."""
    a = (Dim("n", max=40 if inner == 24 else 30), inner)
    check("llvm", a, (inner, 50 if inner == 24 else 130), ops.matmul, binding={"n": rows})


def test_transposes_and_what_follows_are_part_of_the_product() -> None:
    for backend in ("llvm", "c"):
        assert "transpose" not in check(backend, (48, 20), (36, 48), _both_transposed)
        assert check(backend, (29, 24), (24, 50), _layer) == ["pack_panels", "fused"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("columns", [1, 3, 5])
@pytest.mark.parametrize(("left", "right"), [(True, False), (False, True), (True, True)])
def test_products_too_small_to_pack_take_transposes_in_place(
    backend: str, columns: int, left: bool, right: bool
) -> None:
    def product(a: Value, b: Value) -> Value:
        swapped = [ops.transpose(x, perm=(1, 0)) if t else x for x, t in ((a, left), (b, right))]
        return ops.matmul(*swapped) + 1.0

    a_shape, b_shape = ((3, 2) if left else (2, 3)), ((columns, 3) if right else (3, columns))
    for dtype in ("f32", "f16", "c64"):
        kinds = check(backend, a_shape, b_shape, product, dtype)
        assert "transpose" not in kinds


def test_tiles_waste_few_rows() -> None:
    for height in range(1, 300):
        tile = choose_tile(height, 384, 16, 32)
        tiles = -(-height // tile.rows)
        assert tiles * tile.rows - height < tiles, (height, tile)
        assert tile.rows * (tile.columns // tile.lanes) <= 24


def test_panels_of_three_vectors_hold_columns_that_those_of_two_would_fill_up() -> None:
    shapes = {columns: choose_tile(960, columns, 16, 32) for columns in (48, 240, 480, 250, 80)}
    assert {n: (tile.rows, tile.columns) for n, tile in shapes.items()} == {
        48: (8, 48), 240: (8, 48), 480: (12, 32), 250: (12, 32), 80: (12, 32),
    }  # fmt: skip
    few_registers = choose_tile(960, 24, 8, 16)
    assert few_registers.rows * few_registers.columns <= 8 * 8  # lower tiles would read too much


@pytest.mark.parametrize("shape", [(127, 333, 259), (64, 1024, 300), (3, 2048, 512)])
def test_any_number_of_threads_gives_the_same_bits(shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    g = Graph("product")
    a, b = g.input("a", (rows, inner)), g.input("b", (inner, columns))
    g.set_outputs([ops.matmul(a, b)])
    random = np.random.default_rng(3)
    feeds = {
        "a": random.standard_normal((rows, inner)).astype(np.float32),
        "b": random.standard_normal((inner, columns)).astype(np.float32),
    }
    results = [
        runtime.compile(g, backend="llvm", threads=threads).run(feeds)[0] for threads in (1, 2, 3)
    ]
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


@pytest.mark.whole
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((1, 96), (96, 64)),
        ((4, 96), (96, 96)),
        ((23, 130), (130, 224)),
        ((2, 3, 70), (70, 96)),
        ((3, 5, 48), (3, 48, 96)),
        ((13, 2048), (2048, 160)),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_matrix_that_changes_is_not_packed_for_few_rows(
    backend: str, dtype: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    g = Graph("product")
    a, b = g.input("a", a_shape, dtype), g.input("b", b_shape, dtype)
    bias = g.input("bias", b_shape[-1:], dtype)
    g.set_outputs([ops.relu(ops.matmul(a, b) + bias)])
    random = np.random.default_rng(5)
    feeds = {
        str(leaf.node.name): random.standard_normal(leaf.type.static_shape).astype(a.dtype.numpy)
        for leaf in g.inputs
    }
    compiled = runtime.compile(g, backend=backend, threads=1)
    (expected,) = evaluate(g, feeds)
    (got,) = compiled.run(feeds)
    np.testing.assert_allclose(got, expected, atol=1e-3 if dtype == "f32" else 1e-11)
    assert reads_b_unpacked(compiled, ops.matmul)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unpacked_matrix_by_a_transposed_operand(backend: str) -> None:
    g = Graph("product")
    a, b = g.input("a", (96, 20)), g.input("b", (96, 192))
    g.set_outputs([ops.matmul(ops.transpose(a, perm=(1, 0)), b)])
    random = np.random.default_rng(6)
    feeds = {
        "a": random.standard_normal((96, 20)).astype(np.float32),
        "b": random.standard_normal((96, 192)).astype(np.float32),
    }
    compiled = runtime.compile(g, backend=backend, threads=1)
    (expected,) = evaluate(g, feeds)
    (got,) = compiled.run(feeds)
    np.testing.assert_allclose(got, expected, atol=1e-4)
    assert reads_b_unpacked(compiled, ops.stored_matmul)


def test_unpacked_panels_divide_the_columns_or_overlap_little() -> None:
    for columns in (64, 96, 100, 160, 208, 3000, 3072):
        for height in range(1, 25):
            tile = choose_tile(height, columns, 16, 32, whole=True)
            panels = -(-columns // tile.columns)
            assert 0 < tile.columns <= columns
            assert tile.columns % 16 == 0
            assert panels * tile.columns - columns < panels * 16
    assert choose_tile(1, 3072, 16, 32, whole=True).columns == 384
    assert choose_tile(4, 12, 16, 32, whole=True).columns == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("columns", [70, 131, 200])
def test_the_last_unpacked_panel_overlaps_its_neighbour_and_stores_its_own_columns(
    backend: str, columns: int
) -> None:
    g = Graph("product")
    a, b, c = g.input("a", (13, 90)), g.input("b", (90, columns)), g.input("c", (13, columns))
    total = ops.matmul(a, b) + c
    g.set_outputs([total], donated={c: total})
    random = np.random.default_rng(5)
    feeds = {
        str(leaf.node.name): random.standard_normal(leaf.type.static_shape).astype(np.float32)
        for leaf in g.inputs
    }
    compiled = runtime.compile(g, backend=backend, threads=2)
    assert reads_b_unpacked(compiled, ops.matmul)
    expected = feeds["a"] @ feeds["b"] + feeds["c"]
    (got,) = compiled.run(feeds)
    np.testing.assert_allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_param", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (2, 40), (12, 64), (3, 2)])
def test_rounding_errors_of_equal_terms_do_not_add_up_over_a_long_sum(
    rows: int, columns: int, is_param: bool, backend: str
) -> None:
    """Added one after another, 65,500 terms of 0.1 differ from their sum by 6e-4 of it."""
    inner = 65_500
    g = Graph("long")
    a = g.input("a", (rows, inner))
    b = (g.param if is_param else g.input)("b", (inner, columns))
    g.set_outputs([ops.matmul(a, b)])
    terms = {"a": np.full(a.type.static_shape, 0.1, "f4"), "b": np.ones((inner, columns), "f4")}
    params = {"b": terms.pop("b")} if is_param else {}
    compiled = runtime.compile(g, backend=backend, params=params, threads=1)
    (got,) = compiled.run(terms)
    np.testing.assert_allclose(got, inner * float(np.float32(0.1)), rtol=(512 + 128) * 2.0**-24)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "bf16"])
@pytest.mark.parametrize(
    ("shape", "width", "lanes"),
    [
        ((3, 8), 4, None),
        ((5, 17), 8, None),
        ((17, 5), 8, 1),
        ((17, 9), 8, 4),
        ((40, 33), 16, 8),
        ((2, 3, 5), 4, None),
    ],
)
def test_panels_hold_the_elements_and_end_in_zeros(
    shape: tuple[int, ...], width: int, lanes: int | None, dtype: str
) -> None:
    """With `lanes` the matrix is given transposed, and turned in squares of so many."""
    graph = Graph("pack")
    b = graph.input("b", shape, dtype)
    attrs = make_attrs(ops.pack_panels, {"layout": Panels(width), "transposed": lanes is not None})
    turned = RegisterTranspose(lanes) if lanes and lanes > 1 and dtype in ("f32", "f64") else None
    graph.set_outputs(graph.append(ops.pack_panels, (b,), attrs, lowering=turned))
    case = case_of(graph, "pack")
    given = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * 9
    given = given.astype(b.dtype.numpy)
    module = LlvmBackend().load(module_of([case]), detect_target())
    status, (stored,) = run_case(case, module.address(case.entry.name), [given])
    matrix = given if lanes is None else np.swapaxes(given, -1, -2)
    assert status == 0
    np.testing.assert_array_equal(Panels(width).elements(stored, matrix.shape), matrix)
    padding = np.moveaxis(stored, -1, -2)[..., -1, matrix.shape[-1] % width or width :, :]
    assert not padding.astype(np.float64).any()
