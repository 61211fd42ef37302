"""Operations that JAX does not export, in text, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx

pytest.importorskip("jaxlib", reason="jaxlib is not installed: pip install 'rlx[jax]'")

X = np.array([[3.0, -1.0, 2.0, -1.0], [0.5, 4.0, -2.5, 1.0]], "f4")
TENSOR = "tensor<2x4xf32>"

_ADD = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
})"""
_SUM_OF_SQUARES = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.multiply %b, %b : tensor<f32>
    %s = stablehlo.add %a, %p : tensor<f32>
    stablehlo.return %s : tensor<f32>
})"""
_LARGER = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.abs %a : tensor<f32>
    %q = stablehlo.abs %b : tensor<f32>
    %t = stablehlo.compare GT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
})"""
_DESCENDING = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
})"""


def normalized(x: Any, mean: Any, variance: Any) -> Any:
    return ((x - mean) / np.sqrt(variance + 0.5)).astype("f4")


CASES: dict[str, tuple[str, str, Any]] = {
    "map": (
        f'"stablehlo.map"(%x, %x) <{{dimensions = array<i64: 0, 1>}}> {_SUM_OF_SQUARES} : '
        f"({TENSOR}, {TENSOR}) -> {TENSOR}", TENSOR, X + X * X),
    "reduce-start": (
        f'"stablehlo.reduce"(%x, %two) <{{dimensions = array<i64: 1>}}> {_ADD} : '
        f"({TENSOR}, tensor<f32>) -> tensor<2xf32>", "tensor<2xf32>", X.sum(1) + 2),
    "reduce-none": (
        f'"stablehlo.reduce"(%x, %two) <{{dimensions = array<i64>}}> {_ADD} : '
        f"({TENSOR}, tensor<f32>) -> {TENSOR}", TENSOR, X + 2),
    "sort-any": (
        f'"stablehlo.sort"(%x) <{{dimension = 1 : i64, is_stable = true}}> {_LARGER} : '
        f"({TENSOR}) -> {TENSOR}", TENSOR,
        np.take_along_axis(X, np.argsort(-np.abs(X), 1, "stable"), 1)),
    "sort-first-axis": (
        f'"stablehlo.sort"(%x) <{{dimension = 0 : i64}}> {_LARGER} : '
        f"({TENSOR}) -> {TENSOR}", TENSOR,
        np.take_along_axis(X, np.argsort(-np.abs(X), 0, "stable"), 0)),
    "sort-descending": (
        f'"stablehlo.sort"(%x) <{{dimension = 1 : i64}}> {_DESCENDING} : '
        f"({TENSOR}) -> {TENSOR}", TENSOR, -np.sort(-X, 1)),
    "batch_norm_inference": (
        '"stablehlo.batch_norm_inference"(%x, %ones, %ones, %ones, %ones) <{epsilon = 0.5 : f32, '
        f"feature_index = 1 : i64}}> : ({TENSOR}, {', '.join(['tensor<4xf32>'] * 4)}) -> {TENSOR}",
        TENSOR, normalized(X, 1, 1) + 1),
    "batch_norm_training": (
        '"stablehlo.batch_norm_training"(%x, %ones, %ones) <{epsilon = 0.5 : f32, '
        f"feature_index = 1 : i64}}> : ({TENSOR}, tensor<4xf32>, tensor<4xf32>) -> "
        f"({TENSOR}, tensor<4xf32>, tensor<4xf32>)", f"{TENSOR}, tensor<4xf32>, tensor<4xf32>",
        (normalized(X, X.mean(0), X.var(0)) + 1, X.mean(0), X.var(0))),
    "case-of-none": (
        '"stablehlo.case"(%nine) ({ stablehlo.return %x : ' f"{TENSOR} }}, {{ %n = "
        f"stablehlo.negate %x : {TENSOR} stablehlo.return %n : {TENSOR} }}) : (tensor<i32>) -> "
        f"{TENSOR}", TENSOR, -X),
    "if": (
        '"stablehlo.if"(%test) ({ stablehlo.return %x : ' f"{TENSOR} }}, {{ %n = "
        f"stablehlo.negate %x : {TENSOR} stablehlo.return %n : {TENSOR} }}) : (tensor<i1>) -> "
        f"{TENSOR}", TENSOR, X),
    "torch_index_select": (
        '"stablehlo.torch_index_select"(%x, %places) <{dim = 1 : i64, batch_dims = 0 : i64}> : '
        f"({TENSOR}, tensor<3xi32>) -> tensor<2x3xf32>", "tensor<2x3xf32>", X[:, [2, 0, 2]]),
    "dot": (
        f"stablehlo.dot %x, %ones : ({TENSOR}, tensor<4xf32>) -> tensor<2xf32>", "tensor<2xf32>",
        X.sum(1)),
    "einsum": (
        '"stablehlo.einsum"(%x, %x) <{einsum_config = "ab,cb->ac"}> : '
        f"({TENSOR}, {TENSOR}) -> tensor<2x2xf32>", "tensor<2x2xf32>", X @ X.T),
    "round_nearest_even": (
        f"stablehlo.round_nearest_even %x : {TENSOR}", TENSOR, np.rint(X)),
    "clamp": (
        f"stablehlo.clamp %two, %x, %two : (tensor<f32>, {TENSOR}, tensor<f32>) -> {TENSOR}",
        TENSOR, np.full_like(X, 2)),
    "chlo.broadcast_add": (
        f"chlo.broadcast_add %x, %ones : ({TENSOR}, tensor<4xf32>) -> {TENSOR}", TENSOR, X + 1),
    "chlo.is_inf": (
        f"chlo.is_inf %x : {TENSOR} -> tensor<2x4xi1>", "tensor<2x4xi1>", np.isinf(X)),
    "convolution-turned": (
        "stablehlo.convolution(%image, %taps) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], "
        "window = {reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} "
        ": (tensor<2x1x4xf32>, tensor<1x1x2xf32>) -> tensor<2x1x3xf32>", "tensor<2x1x3xf32>",
        X[:, None, :-1] * 3 + X[:, None, 1:] * 2),
    "scatter-any": (
        '"stablehlo.scatter"(%x, %places, %twice) <{scatter_dimension_numbers = '
        "#stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1], "
        "scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, unique_indices = true}> "
        f"{_SUM_OF_SQUARES} : ({TENSOR}, tensor<3xi32>, tensor<2x3xf32>) -> {TENSOR}", TENSOR,
        None),
}  # fmt: skip
"""An operation on `%x`, the types of its results, and these."""


def module(operation: str, types: str) -> str:
    """Return a module that applies an operation to `%x` and constants."""
    count = types.count("tensor")
    results = "%y" if count == 1 else ", ".join(f"%y#{i}" for i in range(count))
    return f"""
module @operations {{
  func.func @main(%x: {TENSOR}, %test: tensor<i1>) -> ({types}) {{
    %two = stablehlo.constant dense<2.0> : tensor<f32>
    %nine = stablehlo.constant dense<9> : tensor<i32>
    %ones = stablehlo.constant dense<1.0> : tensor<4xf32>
    %places = stablehlo.constant dense<[2, 0, 2]> : tensor<3xi32>
    %twice = stablehlo.constant dense<2.0> : tensor<2x3xf32>
    %taps = stablehlo.constant dense<[[[2.0, 3.0]]]> : tensor<1x1x2xf32>
    %image = stablehlo.reshape %x : ({TENSOR}) -> tensor<2x1x4xf32>
    %y{"" if count == 1 else f":{count}"} = {operation}
    return {results} : {types}
  }}
}}"""


@pytest.mark.parametrize("name", [name for name in CASES if name != "scatter-any"])
def test_an_operation_in_text_gives_numpys_numbers(name: str) -> None:
    operation, types, expected = CASES[name]
    found = rlx.from_stablehlo(module(operation, types))(X, np.array(True))
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for mine, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert mine.dtype.kind == np.asarray(theirs).dtype.kind
        np.testing.assert_allclose(mine, theirs, 1e-5, 1e-6)


def test_a_scatter_by_any_region_leaves_out_what_is_outside() -> None:
    operation, types, _ = CASES["scatter-any"]
    text = module(operation, types).replace("[2, 0, 2]", "[2, 0, 7]")
    expected = X.copy()
    expected[:, [2, 0]] += 4
    np.testing.assert_allclose(rlx.from_stablehlo(text)(X, np.array(True)), expected)


def test_a_descending_total_order_begins_with_nan() -> None:
    values = np.array([[1.0, np.nan, -0.0, np.inf]] * 2, "f4")
    region = """({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
        %p = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %q = stablehlo.select %p, %nan, %a : tensor<i1>, tensor<f32>
        %r = stablehlo.compare NE, %b, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %s = stablehlo.select %r, %nan, %b : tensor<i1>, tensor<f32>
        %t = stablehlo.compare GT, %q, %s, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
    })"""
    operation = f'"stablehlo.sort"(%x) <{{dimension = 1 : i64}}> {region} : ({TENSOR}) -> {TENSOR}'
    found = rlx.from_stablehlo(module(operation, TENSOR))(values, np.array(True))
    np.testing.assert_array_equal(found, [[np.nan, np.inf, 1, 0]] * 2)


_CONSTANTS = [
    ("bf16", "dense<[1.0, -2.5]>", [1.0, -2.5]),
    ("f16", "dense<1.5>", [1.5, 1.5]),
    ("f8E4M3FN", "dense<[1.5, 2.0]>", [1.5, 2.0]),
    ("f32", "dense<[0x7F800000, 0xFF800000]>", [np.inf, -np.inf]),
    ("complex<f32>", "dense<[(1.0, 2.0), (3.0, -4.0)]>", [1 + 2j, 3 - 4j]),
    ("complex<f64>", "dense<(1.0, 2.0)>", [1 + 2j, 1 + 2j]),
    ("i1", "dense<[true, false]>", [True, False]),
    ("i8", "dense<[-128, 7]>", [-128, 7]),
    ("ui64", "dense<[18446744073709551615, 7]>", [2**64 - 1, 7]),
    ("bf16", 'dense<"0x803F0040">', [1.0, 2.0]),
]


@pytest.mark.parametrize(("type", "text", "expected"), _CONSTANTS)
def test_constants_have_their_values(type: str, text: str, expected: list[Any]) -> None:
    constant = f"%c = stablehlo.constant {text} : tensor<2x{type}>"
    program = f"module {{ func.func @main() -> tensor<2x{type}> {{ {constant} return %c : " + (
        f"tensor<2x{type}> }} }}"
    )
    found = rlx.from_stablehlo(program)()
    np.testing.assert_array_equal(found.astype(np.asarray(expected).dtype), expected)
