"""Integer products by words of four bytes: the same integers, whatever the operands are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import DTypeError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.byte_products import words_of_bytes
from rlx.passes.lowering.exact_products import exact_products
from rlx.runtime.lower import lower_for
from rlx.target import Target, detect_target, named_target
from tests.fuzz.native import lower_on

VNNI, DOTPROD = named_target("x86-64-v4-vnni"), named_target("aarch64-dotprod")
BYTES = {"i8": np.int8, "u8": np.uint8}


def operand(graph: Graph, name: str, shape: tuple[Any, ...], dtype: str, zero: int) -> Value:
    """An input, widened and centered; `w` is a param."""
    make = graph.param if name == "w" else graph.input
    wide = graph.cast(make(name, shape, dtype), to="i32")
    return wide - zero if zero else wide


def codes(dtype: str, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8).view(BYTES[dtype])


def lowered(graph: Graph, target: Target) -> list[str]:
    return [node.op.name for node in exact_products(target)(graph).nodes]


def agree(graph: Graph, given: dict[str, Any]) -> None:
    """Compare the reference, the lowered graphs of both machines, and both back ends here.

    LLVM's code of words runs on any machine: without the instruction it multiplies one by one.
    """
    inputs = {name: array for name, array in given.items() if name != "w"}
    params = {name: array for name, array in given.items() if name == "w"}
    expected = rlx.compile(graph, params=params, backend="reference").run(inputs)[0]
    for target, backends in ((VNNI, ("reference", "llvm")), (DOTPROD, ("reference",))):
        found = exact_products(target)(graph)
        for backend in backends:
            made = rlx.compile(found, params=params, backend=backend).run(inputs)[0]
            np.testing.assert_array_equal(made, expected)
    for backend in ("c", "llvm"):
        made = rlx.compile(graph, params=params, backend=backend).run(inputs)[0]
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("x", "w", "x_zero", "w_zero"),
    [("i8", "i8", 0, 0), ("i8", "i8", -7, 0), ("u8", "i8", 128, 0), ("i8", "u8", 3, 131)],
)
@pytest.mark.parametrize("depth", [64, 67])
def test_products_are_exact(x: str, w: str, x_zero: int, w_zero: int, depth: int) -> None:
    graph = Graph("product")
    a = operand(graph, "x", (2, 5, depth), x, x_zero)
    b = operand(graph, "w", (depth, 19), w, w_zero)
    graph.set_outputs([graph.matmul(a, b)])
    assert "stored_matmul" in lowered(graph, VNNI)
    assert "stored_matmul" in lowered(graph, DOTPROD)
    agree(graph, {"x": codes(x, (2, 5, depth)), "w": codes(w, (depth, 19))})


@pytest.mark.parametrize("batch", [(1,), (3,), (2, 3)])
@pytest.mark.parametrize("zeros", [(0, 0), (7, -3)])
def test_products_of_batches_are_exact(batch: tuple[int, ...], zeros: tuple[int, int]) -> None:
    graph, shapes = Graph("batches"), {"x": (*batch, 9, 67), "w": (*batch, 67, 19)}
    a, b = (
        operand(graph, name, shapes[name], kind, zero)
        for name, kind, zero in zip("xw", ("u8", "i8"), zeros, strict=True)
    )
    graph.set_outputs([graph.matmul(a, b)])
    assert "stored_matmul" in lowered(graph, VNNI)
    assert "stored_matmul" in lowered(graph, DOTPROD)
    agree(graph, {"x": codes("u8", shapes["x"]), "w": codes("i8", shapes["w"])})


def centered(graph: Graph, name: str, shape: tuple[Any, ...], dtype: str, zeros: Any) -> Value:
    """An operand less zero points that are bytes of the same dtype, known when the program runs."""
    points = graph.input(f"{name}_zero", zeros, dtype)
    return operand(graph, name, shape, dtype, 0) - graph.cast(points, to="i32")


def with_zeros(shapes: dict[str, Any], zeros: dict[str, Any], dtypes: dict[str, str]) -> Any:
    given = {name: codes(dtypes[name], shape) for name, shape in shapes.items()}
    for name, shape in zeros.items():
        given[f"{name}_zero"] = codes(dtypes[name], (7, *shape))[3]
    return given


@pytest.mark.parametrize(
    ("x", "w", "x_zero", "w_zero"),
    [("u8", "i8", (), ()), ("u8", "u8", (5, 1), (19,)), ("i8", "i8", (2, 5, 1), (1, 19))],
)
def test_products_with_computed_zero_points_are_exact(
    x: str, w: str, x_zero: Any, w_zero: Any
) -> None:
    graph, shapes = Graph("product"), {"x": (2, 5, 67), "w": (67, 19)}
    a = centered(graph, "x", shapes["x"], x, x_zero)
    b = centered(graph, "w", shapes["w"], w, w_zero)
    graph.set_outputs([graph.matmul(a, b)])
    for target in (VNNI, DOTPROD):
        assert "stored_matmul" in lowered(graph, target)
    agree(graph, with_zeros(shapes, {"x": x_zero, "w": w_zero}, {"x": x, "w": w}))


@pytest.mark.parametrize(
    ("groups", "kernel", "attributes", "w_zero"),
    [
        (1, 3, {"padding": ((1, 1), (1, 2))}, ()),
        (2, 3, {"stride": (2, 2), "padding": ((1, 1), (1, 1))}, (18, 1, 1, 1)),
        (1, 1, {}, (18, 1, 1, 1)),
    ],
)
@pytest.mark.parametrize("w", ["i8", "u8"])
def test_convolutions_with_computed_zero_points_are_exact(
    groups: int, kernel: int, attributes: dict[str, Any], w_zero: Any, w: str
) -> None:
    graph, shapes = Graph("conv"), {"x": (2, 12, 9, 8), "w": (18, 12 // groups, kernel, kernel)}
    x = centered(graph, "x", shapes["x"], "u8", ())
    weights = centered(graph, "w", shapes["w"], w, w_zero)
    graph.set_outputs([graph.conv(x, weights, groups=groups, **attributes)])
    assert {"stored_matmul", "stored_conv"} & set(lowered(graph, VNNI))
    agree(graph, with_zeros(shapes, {"x": (), "w": w_zero}, {"x": "u8", "w": w}))


def test_padding_with_zero_points_that_may_be_no_bytes_is_left_alone() -> None:
    graph = Graph("wide")
    x = operand(graph, "x", (2, 12, 9, 8), "u8", 0) - graph.input("zero", (), "i32")
    w = operand(graph, "w", (18, 12, 3, 3), "i8", 0)
    graph.set_outputs([graph.conv(x, w, padding=((1, 1), (1, 1)))])
    assert "stored_conv" not in lowered(graph, VNNI)
    shapes = {"x": (2, 12, 9, 8), "w": (18, 12, 3, 3)}
    agree(graph, {**with_zeros(shapes, {}, {"x": "u8", "w": "i8"}), "zero": np.array(1000, "i4")})


def test_the_largest_products_are_exact() -> None:
    """Sums of pairs do not fit 16 bits: instructions that saturate there would fail."""
    graph = Graph("largest")
    a, b = operand(graph, "x", (8, 2048), "i8", 0), operand(graph, "w", (2048, 8), "i8", 0)
    graph.set_outputs([graph.matmul(a, b)])
    agree(graph, {"x": np.full((8, 2048), -128, np.int8), "w": np.full((2048, 8), -128, np.int8)})


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_pairs_of_products_are_exact_without_vnni(level: str, backend: str) -> None:
    """Bytes of 255 by -128: pairs of these products do not fit the 16 bits of `pmaddubsw`."""
    target = named_target(level)
    if not all(map(detect_target().has, target.features)):
        pytest.skip(f"this machine is no {level}")
    graph, shapes = Graph("pairs"), {"x": (7, 12, 9, 8), "w": (40, 12, 3, 3), "v": (67, 35)}
    x = operand(graph, "x", shapes["x"], "u8", 0)
    w = operand(graph, "w", shapes["w"], "i8", 0)
    v = graph.cast(graph.param("v", shapes["v"], "i8"), to="i32")
    rows = graph.cast(graph.input("rows", (7, 67), "u8"), to="i32")
    graph.set_outputs([graph.conv(x, w, padding=((1, 1), (1, 1))), graph.matmul(rows, v)])
    assert {"stored_conv", "stored_matmul"} <= set(lowered(graph, target))
    compiled = lower_on(target, graph).loaded(backend, 0)
    for fill in (None, 255):
        given = {"x": codes("u8", shapes["x"]), "rows": codes("u8", (7, 67))}
        params = {name: codes("i8", shapes[name]) for name in "wv"}
        if fill is not None:
            given = {name: np.full_like(array, 255) for name, array in given.items()}
            params = {name: np.full_like(array, -128) for name, array in params.items()}
        for name, array in params.items():
            compiled.set_param(name, array)
        expected = rlx.compile(graph, params=params, backend="reference").run(given)
        for found, right in zip(compiled.run(given), expected, strict=True):
            np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize(
    ("groups", "kernel", "attributes", "op"),
    [
        (1, 3, {"padding": ((1, 1), (1, 2))}, "stored_conv"),
        (2, 3, {"stride": (2, 2), "padding": ((1, 1), (1, 1))}, "stored_conv"),
        (1, 1, {}, "stored_matmul"),
        (1, 1, {"stride": (1, 2)}, "stored_matmul"),
        (1, 1, {"stride": (2, 2)}, "stored_conv"),  # few positions
        (1, 3, {"dilation": (2, 1)}, "stored_conv"),
    ],
)
@pytest.mark.parametrize("zero", [0, 5])
def test_convolutions_are_exact(
    groups: int, kernel: int, attributes: dict[str, Any], op: str, zero: int
) -> None:
    graph = Graph("conv")
    shapes = {"x": (2, 12, 9, 8), "w": (18, 12 // groups, kernel, kernel)}
    x = operand(graph, "x", shapes["x"], "i8", zero)
    w = operand(graph, "w", shapes["w"], "i8", 0)
    graph.set_outputs([graph.conv(x, w, groups=groups, **attributes)])
    assert op in lowered(graph, VNNI)
    agree(graph, {name: codes("i8", shape) for name, shape in shapes.items()})


ROWS: dict[str, Any] = {
    "narrow": ((24, 12, 12), 1, (3, 3), {"padding": ((1, 1), (1, 1))}),
    "rows of 16, 8, 4 and 3": ((24, 9, 31), 1, (3, 3), {"padding": ((1, 1), (1, 1))}),
    "every second": ((24, 28, 47), 1, (3, 3), {"stride": (2, 2), "padding": ((0, 1), (0, 1))}),
    "two words": ((24, 20, 37), 1, (5, 5), {"padding": ((2, 2), (2, 2))}),
    "two channels each": ((24, 17, 16), 2, (3, 7), {"stride": (1, 2), "dilation": (2, 1)}),
    "a line": ((24, 1000), 1, (9,), {"padding": ((4, 4),)}),
    "many taps": ((8, 40, 40), 1, (11, 11), {}),
}


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.parametrize("zero", [0, 5])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_depthwise_convolutions_are_exact(case: str, zero: int, dtype: str) -> None:
    (channels, *spatial), each, taps, attributes = ROWS[case]
    graph = Graph("depthwise")
    shapes = {"x": (2, channels, *spatial), "w": (channels * each, 1, *taps)}
    x = operand(graph, "x", shapes["x"], dtype, zero)
    w = operand(graph, "w", shapes["w"], "i8", 0)
    graph.set_outputs([graph.conv(x, w, groups=channels, **attributes)])
    assert "stored_conv" in lowered(graph, VNNI)
    assert "stored_conv" in lowered(graph, DOTPROD)
    agree(graph, {"x": codes(dtype, shapes["x"]), "w": codes("i8", shapes["w"])})


def test_depthwise_convolutions_that_words_do_not_suit_are_left_alone() -> None:
    graph = Graph("depthwise")
    x = operand(graph, "x", (1, 8, 20, 20), "u8", 0)
    w = operand(graph, "w", (8, 1, 3, 3), "i8", 0)
    large = operand(graph, "large", (1, 8, 260, 260), "u8", 0)  # no stack holds an image
    for given, factors, apart in ((x, w, 2), (x, w - 3, 1), (large, w, 1)):
        graph.set_outputs([graph.conv(given, factors, groups=8, dilation=(1, apart))])
        assert "stored_conv" not in lowered(graph, VNNI)


def test_images_of_two_channels_are_words() -> None:
    for channels, op in ((1, "conv"), (2, "stored_conv"), (3, "stored_conv")):
        graph = Graph("conv")
        shapes = {"x": (1, channels, 20, 20), "w": (16, channels, 3, 3)}
        x = operand(graph, "x", shapes["x"], "u8", 3)
        w = operand(graph, "w", shapes["w"], "i8", 0)
        graph.set_outputs([graph.conv(x, w, padding=((1, 1), (1, 1)))])
        assert op in lowered(graph, VNNI)
        agree(graph, {"x": codes("u8", shapes["x"]), "w": codes("i8", shapes["w"])})


def test_other_machines_and_operands_keep_their_products() -> None:
    graph = Graph("others")
    a, b = operand(graph, "x", (8, 64), "i8", 0), operand(graph, "w", (64, 8), "i8", 0)
    graph.set_outputs([graph.matmul(a, b)])
    assert "stored_matmul" not in lowered(graph, named_target("x86-64"))
    graph.set_outputs([graph.matmul(a, b * 3)])
    assert "stored_matmul" not in lowered(graph, VNNI)


def test_symbolic_rows_are_products_of_words() -> None:
    graph = Graph("rows")
    a = operand(graph, "x", (rlx.Dim("n", max=40), 32), "i8", 0)
    graph.set_outputs([graph.matmul(a, operand(graph, "w", (32, 16), "i8", 0))])
    assert "stored_matmul" in lowered(graph, VNNI)
    agree(graph, {"x": codes("i8", (7, 32)), "w": codes("i8", (32, 16))})


def test_words_hold_elements_a_quarter_of_the_axis_apart() -> None:
    graph = Graph("words")
    x = graph.input("x", (1, 6), "i8")
    graph.set_outputs([words_of_bytes(x, axis=1, signed=signed) for signed in (True, False)])
    for backend in ("reference", "c", "llvm"):
        run = rlx.compile(graph, backend=backend)
        signed, unsigned = run.run({"x": np.array([[1, 2, 3, 4, -1, -2]], np.int8)})
        bytes_of = signed.view(np.int8).reshape(2, 4)
        np.testing.assert_array_equal(bytes_of, [[1, 3, -1, 0], [2, 4, -2, 0]])
        moved = [[129, 131, 127, 0], [130, 132, 126, 0]]
        np.testing.assert_array_equal(unsigned.view(np.uint8).reshape(2, 4), moved)


@pytest.mark.parametrize(
    ("shape", "axis", "groups"),
    [
        ((3, 5), 1, 1),
        ((2, 12, 7), 1, 2),
        ((9,), 0, 1),
        ((2, 3, 4), 0, 1),
        ((1, 6, 2, 3, 4), 1, 1),
    ],
)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("neighbors", [False, True])
def test_words_of_any_axis_hold_its_bytes(
    dtype: str, shape: tuple[int, ...], axis: int, groups: int, neighbors: bool
) -> None:
    graph = Graph("pack")
    x = graph.input("x", shape, dtype)
    kinds: Any = {"axis": axis, "groups": groups, "neighbors": neighbors}
    graph.set_outputs([words_of_bytes(x, signed=signed, **kinds) for signed in (True, False)])
    given = codes(dtype, shape)
    for backend in ("reference", "c", "llvm"):
        found = rlx.compile(graph, backend=backend)(given)
        for signed, made in zip((True, False), found, strict=True):
            stored = given.astype(np.int32) + 128 * ((dtype == "i8") - signed)
            wanted = packed(stored, axis, groups, neighbors=neighbors)
            np.testing.assert_array_equal(made.view(np.uint32), wanted)


def packed(x: Any, axis: int, groups: int, *, neighbors: bool) -> Any:
    """Pack numbers by loops over groups, words and places."""
    lines = np.moveaxis(x, axis, 0)
    extent = len(lines) // groups
    count = -(-extent // 4)
    words = np.zeros((groups * count, *lines.shape[1:]), np.uint32)
    for at, line in enumerate(lines):
        group, own = divmod(at, extent)
        word, place = divmod(own, 4) if neighbors else (own % count, own // count)
        words[group * count + word] |= ((line & 255) << 8 * place).astype(np.uint32)
    return np.moveaxis(words, 0, axis)


def test_words_of_neighbors_are_the_bytes_in_place() -> None:
    graph = Graph("neighbors")
    x = graph.input("x", (3, 8), "i8")
    bits = graph.bitcast(graph.neg(x), to="u8")
    graph.set_outputs([
        ops.bytes_as_words(bits) + 0,
        words_of_bytes(graph.neg(x), axis=1, signed=True, neighbors=True),
    ])  # fmt: skip
    given = np.arange(24, dtype=np.int8).reshape(3, 8)
    for backend in ("reference", "c", "llvm"):
        viewed, packed = rlx.compile(graph, backend=backend).run({"x": given})
        np.testing.assert_array_equal(viewed.view(np.int8), -given)
        np.testing.assert_array_equal(packed.view(np.int8), -given)


def test_words_of_other_types_are_errors() -> None:
    graph = Graph("wrong")
    x = graph.input("x", (4, 6), "i8")
    with pytest.raises(ShapeError, match="its rows are no words of 4 bytes"):
        ops.bytes_as_words(x)
    with pytest.raises(DTypeError, match="f32"):
        ops.bytes_as_words(graph.input("z", (4, 8), "f32"))
    with pytest.raises(DTypeError, match="words of four bytes have dtype i8"):
        ops.stored_matmul(x, x, elements="bytes")


def test_rounding_and_packing_are_one_pass_over_the_input() -> None:
    graph = Graph("rounded")
    x, w = graph.input("x", (8, 64), "f32"), graph.param("w", (64, 32), "i8")
    q = graph.quantize(x, scales=(0.05,), zero_points=(3,))
    graph.set_outputs([graph.matmul(graph.cast(q, to="i32") - 3, graph.cast(w, to="i32"))])
    program = str(lower_for(graph, VNNI).schedule)
    run = program[program.index("run:") :]
    assert "2 calls" in run
    assert "i8[8, 64]" not in run
    given = {"w": codes("i8", (64, 32)), "x": np.linspace(-8, 8, 512, dtype="f4").reshape(8, 64)}
    agree(graph, given)


def run_of(graph: Graph) -> str:
    """Return what the program does in every run, on a machine with VNNI."""
    program = str(lower_for(graph, VNNI).schedule)
    return program[program.index("run:") :]


def products_of(graph: Graph, x: Value, count: int) -> list[Value]:
    """Multiply what `x` is rounded to by some matrices."""
    codes = graph.cast(graph.quantize(x, scales=(0.05,)), to="i32")
    weights = [graph.param(f"w{i}", (64, 32), "i8") for i in range(count)]
    return [graph.cast(graph.matmul(codes, graph.cast(w, to="i32")), to="f32") for w in weights]


def agree_with_reference(graph: Graph, given: dict[str, Any], params: dict[str, Any]) -> None:
    expected = rlx.compile(graph, params=params, backend="reference").run(given)
    for backend in ("c", "llvm"):
        made = rlx.compile(graph, params=params, backend=backend).run(given)
        for own, wanted in zip(made, expected, strict=True):
            np.testing.assert_allclose(own, wanted, rtol=1e-6)


def test_products_of_one_input_share_its_bytes() -> None:
    graph = Graph("shared")
    graph.set_outputs(products_of(graph, graph.input("x", (8, 64), "f32"), 3))
    run = run_of(graph)
    assert "4 calls" in run
    assert run.count("-> u8[8, 64]") == 1
    params = {f"w{i}": codes("i8", (64, 32)) - np.int8(i) for i in range(3)}
    agree_with_reference(graph, {"x": np.linspace(-8, 8, 512, dtype="f4").reshape(8, 64)}, params)


def test_the_kernel_before_a_product_stores_the_bytes_that_it_reads() -> None:
    """After a norm and after a product with its activation: no pass rounds or packs alone."""
    graph = Graph("chain")
    x, gain = graph.input("x", (8, 64), "f32"), graph.param("gain", (64,), "f32")
    (first,) = products_of(graph, graph.rms_norm(x, gain, axis=-1, eps=1e-6), 1)
    last = graph.param("last", (32, 16), "i8")
    hidden = graph.cast(graph.quantize(graph.relu(first * 1e-3), scales=(0.05,)), to="i32")
    graph.set_outputs([graph.matmul(hidden, graph.cast(last, to="i32"))])
    run = run_of(graph)
    assert "3 calls" in run
    assert "-> u8[8, 64]" in run
    assert "-> u8[8, 32]" in run
    params = {"gain": np.linspace(0.5, 2, 64, dtype="f4"), "w0": codes("i8", (64, 32))}
    params["last"] = codes("i8", (32, 16))
    agree_with_reference(graph, {"x": np.linspace(-8, 8, 512, dtype="f4").reshape(8, 64)}, params)


def test_images_are_rounded_padded_and_packed_in_one_pass() -> None:
    graph = Graph("image")
    x, w = graph.input("x", (1, 16, 8, 8), "f32"), graph.param("w", (24, 16, 3, 3), "i8")
    codes_of_x = graph.quantize(x, scales=(0.05,), zero_points=(-9,))
    centered = graph.cast(codes_of_x, to="i32") + 9
    total = graph.conv(centered, graph.cast(w, to="i32"), padding=((1, 1), (0, 2)))
    graph.set_outputs([graph.cast(total, to="f32") * 0.01])
    run = run_of(graph)
    assert "2 calls" in run
    assert "-> u32[1, 4, 10, 10]" in run
    given = {"w": codes("i8", (24, 16, 3, 3)), "x": np.linspace(-6, 6, 1024, dtype="f4")}
    agree(graph, {**given, "x": given["x"].reshape(1, 16, 8, 8)})


def test_a_zero_that_no_byte_holds_is_not_put_around_an_image() -> None:
    graph = Graph("far")
    x, w = operand(graph, "x", (1, 8, 9, 8), "i8", 200), operand(graph, "w", (9, 8, 3, 3), "i8", 0)
    graph.set_outputs([graph.conv(x, w, padding=((1, 1), (1, 1)))])
    agree(graph, {"x": codes("i8", (1, 8, 9, 8)), "w": codes("i8", (9, 8, 3, 3))})


def test_single_taps_round_pack_and_scale_in_two_kernels() -> None:
    """No pass rounds alone, and none scales the sums alone."""
    graph = Graph("taps")
    x, w = graph.input("x", (1, 16, 8, 8), "f32"), graph.param("w", (24, 16, 1, 1), "i8")
    q = graph.quantize(x, scales=(0.05,))
    total = graph.conv(graph.cast(q, to="i32"), graph.cast(w, to="i32"))
    scales = graph.constant(np.linspace(0.01, 0.02, 24, dtype="f4").reshape(24, 1, 1))
    graph.set_outputs([graph.relu(graph.cast(total, to="f32") * scales)])
    program = str(lower_for(graph, VNNI).schedule)
    run = program[program.index("run:") :]
    assert "2 calls" in run
    assert "i8[1, 16, 8, 8]" not in run
    given = {"w": codes("i8", (24, 16, 1, 1)), "x": np.linspace(-6, 6, 1024, dtype="f4")}
    agree(graph, {**given, "x": given["x"].reshape(1, 16, 8, 8)})


@pytest.mark.parametrize("elements", ["bytes", "bf16", "integers"])
def test_products_of_words_without_a_schedule_take_their_formula(elements: Any) -> None:
    graph = Graph("words")
    x, w = graph.input("x", (4, 3), "u32"), graph.input("w", (3, 16), "u32")
    if elements != "bf16":
        w = graph.bitcast(w, to="i32")
    if elements == "integers":
        x = graph.bitcast(x, to="i32")
    graph.set_outputs([ops.stored_matmul(x, w, elements=elements)])
    rng = np.random.default_rng(0)
    high = 0x4000 if elements == "bf16" else 1 << 32
    given = {name: rng.integers(0, high, shape).astype("u4") for name, shape in
             (("x", (4, 3)), ("w", (3, 16)))}  # fmt: skip
    agree_with_reference(graph, given, {})
