"""Arithmetic of shapes whose extents are symbols: one program, right for all extents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import rlx  # noqa: E402
from rlx.errors import InputError, ShapeError, UnsupportedError  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402

DIMS = {"n": rlx.Dim("n", min=1, max=9)}
WIDTH = """zero = Constant<value_int = 0>()  one = Constant<value_int = 1>()
    two = Constant<value_int = 2>()  ones = Constant<value_ints = [1]>()
    zeros = Constant<value_ints = [0]>()  far = Constant<value_ints = [9223372036854775807]>()
    shape = Shape(x)  w = Gather<axis = 0>(shape, one)  ws = Reshape(w, ones)"""
HALF = "half = Div(w, two)  halves = Reshape(half, ones)"


def parsed(body: str, opset: int = 20) -> Any:
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : {opset}]> g (float[1, n] x) => (y) {{ {body} }}'
    )


def results(made: Any, dims: Any) -> list[Any]:
    session = InferenceSession(made, backend="reference", dims=dims)
    given = (np.arange(1, n + 1, dtype=np.float32)[None] for n in (4, 5, 9))
    found = [session.run(None, {"x": x})[0] for x in given]
    if dims:
        assert len(session._stages) == 1
    return found


def agree(made: Any) -> None:
    """Demand that one program for all extents gives what one for each gives."""
    for found, expected in zip(results(made, DIMS), results(made, None), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "body",
    [
        f"{HALF} wanted = Concat<axis = 0>(ones, halves)  y = ConstantOfShape(wanted)",
        f"{HALF} y = Slice(x, zeros, halves, ones)",
        f"{HALF} rest = Sub(ws, halves)  sizes = Concat<axis = 0>(rest, halves)"
        " y, z = Split<axis = 1>(x, sizes)",
        f"{HALF} y = Range(zero, half, one)",
        "y = Range(one, w, two)",
        "down = Constant<value_int = -2>()  y = Range(w, zero, down)",
        "less = Sub(w, one)  y = Range(zero, less, one)",
        "most = Constant<value_int = 20>()  least = Min(w, most)  y = Range(zero, least, one)",
        "most = Max(w, one, zero)  y = Range(zero, most, one)",
        "twice = Mul(w, two)  y = Range(zero, twice, one)",
        "odd = Mod(w, two)  y = Range(zero, odd, one)",
        "sum = ReduceSum<keepdims = 0>(shape)  y = Range(zero, sum, one)",
        "most = ReduceMax<keepdims = 0>(shape)  y = Range(zero, most, one)",
        "wanted = Concat<axis = 0>(ws, ones)  y = Reshape(x, wanted)",
        "pair = Concat<axis = 0>(ws, ws)  square = ConstantOfShape(pair)  y = Trilu(square)",
        "pair = Concat<axis = 0>(ws, ws)  square = ConstantOfShape(pair)  y = EyeLike(square)",
        "counts = Concat<axis = 0>(ones, ws)  y = Tile(x, counts)",
        "widths = Concat<axis = 0>(zeros, zeros, zeros, ws)  y = Pad(x, widths)",
        "last = Constant<value_ints = [-1]>()  y = Slice(x, last, far, ones)",
        "last = Constant<value_ints = [-1]>()  y = Slice(x, zeros, last, ones)",
        "first = Constant<value_ints = [-9223372036854775808]>()  y = Slice(x, first, far, ones)",
        "twos = Constant<value_ints = [2]>()  y = Slice(x, zeros, far, ones, twos)",
        "values = Constant<value_floats = [0.0, 1.0]>()  places = Range(zero, w, one)"
        " y = OneHot(places, w, values)",
        "values = Constant<value_floats = [0.0, 1.0]>()  last = Constant<value_ints = [-1, 0]>()"
        " y = OneHot<axis = 0>(last, w, values)",
        "ends = Constant<value_ints = [0, -1]>()  y = Gather<axis = 1>(x, ends)",
        "end = Constant<value_int = -1>()  y = Gather<axis = 1>(x, end)",
        "twice = Mul(ws, two)  sizes = Concat<axis = 0>(ones, twice)  y = Resize(x, , , sizes)",
        'sizes = Constant<value_ints = [1, 7]>()  y = Resize<mode = "linear">(x, , , sizes)',
        'scales = Constant<value_floats = [1.0, 1.5]>()  y = Resize<mode = "linear">(x, , scales)',
        "scales = Constant<value_floats = [1.0, 0.4]>()  y = Resize(x, , scales)",
    ],
)
def test_shapes_are_computed_of_extents(body: str) -> None:
    made = parsed(f"{WIDTH} {body}")
    agree(made)
    rlx.onnx.load(made, dims=DIMS)


@pytest.mark.parametrize(
    "body",
    [
        "y = Cast<to = 1>(shape)",
        "y = Cast<to = 6>(shape)",
        "y = Identity(shape)",
        "float = Cast<to = 1>(w)  y = Div(x, float)",
        "float = Cast<to = 1>(w)  root = Sqrt(float)  y = Div(x, root)",
        "negative = Neg(shape)  y = Abs(negative)",
        "is_wide = Greater(w, two)  y = Where(is_wide, x, x)",
        "four = Constant<value_int = 4>()  y = Equal(w, four)",
        "three_by_one = Constant<value_ints = [3, 1]>()  y = Expand(w, three_by_one)",
        "seven = Constant<value_int = 7>()  y = Min(w, seven)",
        "seven = Constant<value_int = 7>()  y = Div(seven, w)",
        "table = Constant<value_ints = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]>()  y = Gather(table, w)",
    ],
)
def test_extents_are_numbers_where_models_compute_with_them(body: str) -> None:
    made = parsed(f"{WIDTH} {body}")
    agree(made)
    run = rlx.compile(rlx.onnx.load(made, dims=DIMS), backend="llvm")
    x = np.arange(1, 6, dtype=np.float32)[None]
    (expected,) = InferenceSession(made, backend="reference").run(None, {"x": x})
    np.testing.assert_allclose(run(x)[0], expected, rtol=1e-6)


def test_a_shape_that_is_no_extent_is_computed_in_stages() -> None:
    root = "float = Cast<to = 1>(w)  root = Sqrt(float)  count = Cast<to = 7>(root)"
    made = parsed(f"{WIDTH} {root} y = Range(zero, count, one)")
    session = InferenceSession(made, backend="reference", dims=DIMS)
    for n in (4, 8, 9):
        (y,) = session.run(None, {"x": np.ones((1, n), np.float32)})
        np.testing.assert_array_equal(y, np.arange(int(n**0.5)))
    with pytest.raises(UnsupportedError, match="'count' decides the shape"):
        rlx.onnx.load(made, dims=DIMS)


def test_what_takes_no_symbolic_extents_names_them() -> None:
    sizes = "wide = Mul(ws, two)  sizes = Concat<axis = 0>(ones, wide)"
    made = parsed(
        f'{WIDTH} {sizes} y = Resize<keep_aspect_ratio_policy = "not_larger">(x, , , sizes)'
    )
    with pytest.raises(UnsupportedError, match=r"(?s)keep their ratio.*numbers .* in dims"):
        rlx.onnx.load(made, dims=DIMS)


def test_a_slice_that_the_bounds_leave_open_is_refused() -> None:
    made = parsed(f"{WIDTH} end = Constant<value_ints = [3]>()  y = Slice(x, zeros, end, ones)")
    with pytest.raises(UnsupportedError, match="whether 3 elements are more than the extent n"):
        rlx.onnx.load(made, dims=DIMS)
    graph = rlx.onnx.load(made, dims={"n": rlx.Dim("n", min=3, max=9)})
    assert graph.outputs[0].shape == (1, 3)


def test_a_range_that_may_be_empty_is_refused() -> None:
    made = parsed(f"{WIDTH} five = Constant<value_int = 5>()  y = Range(five, w, one)")
    with pytest.raises(UnsupportedError, match="open whether the range from 5 to n is empty"):
        rlx.onnx.load(made, dims=DIMS)
    for low, high, count in ((5, 9, "n-5"), (1, 4, "0")):
        graph = rlx.onnx.load(made, dims={"n": rlx.Dim("n", min=low, max=high)})
        assert [str(extent) for extent in graph.outputs[0].shape] == [count]


@pytest.mark.parametrize(
    "body",
    [
        "five = Constant<value_int = 5>()  y = Range(five, w, one)",
        "end = Constant<value_ints = [6]>()  y = Slice(x, zeros, end, ones)",
        "wide = Mul(ws, two)  sizes = Concat<axis = 0>(ones, wide)"
        ' y = Resize<keep_aspect_ratio_policy = "not_larger">(x, , , sizes)',
    ],
)
def test_a_session_compiles_each_shape_where_the_bounds_leave_it_open(body: str) -> None:
    """With a warning; the results are those of sessions without bounds."""
    made = parsed(f"{WIDTH} {body}")
    bounded = InferenceSession(made, backend="reference", dims=DIMS)
    plain = InferenceSession(made, backend="reference")
    for n in (4, 5, 9):
        x = np.arange(n, dtype=np.float32)[None]
        if bounded._is_bounded:
            with pytest.warns(UserWarning, match=r"compiled for each shape .* rlx\.Dim"):
                (found,) = bounded.run(None, {"x": x})
        else:
            (found,) = bounded.run(None, {"x": x})
        np.testing.assert_array_equal(found, plain.run(None, {"x": x})[0])
    assert not bounded._is_bounded
    with pytest.raises(InputError, match=r"sets n = 99; it must be in \["):
        bounded.run(None, {"x": np.zeros((1, 99), np.float32)})


@pytest.mark.filterwarnings("error")
def test_an_operator_that_is_not_known_is_no_matter_of_bounds() -> None:
    """No warning says so, and the session keeps to one program for all extents."""
    made = parsed("y = Strange(x)")
    session = InferenceSession(made, backend="reference", dims=DIMS)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"operator Strange of opset 20 is not known"):
            session.run(None, {"x": np.zeros((1, 4), np.float32)})
    assert session._is_bounded


@pytest.mark.parametrize("opset", [1, 13])
def test_equal_parts_are_equal_below_opset_18(opset: int) -> None:
    made = parsed("y, z = Split<axis = 1>(x)", opset)
    assert rlx.onnx.load(made, dims={"n": 4}).outputs[0].shape == (1, 2)
    for n in (5, rlx.Dim("n", max=9)):
        with pytest.raises(ShapeError, match="not divisible by 2"):
            rlx.onnx.load(made, dims={"n": n})
    graph = rlx.onnx.load(made, dims={"x": (1, 2 * rlx.Dim("n", max=4))})
    assert str(graph.outputs[0].shape[1]) == "n"
