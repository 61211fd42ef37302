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


@pytest.mark.whole
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


def test_a_search_that_is_not_there_is_refused_by_name_with_what_to_do() -> None:
    made = parsed("y = com.microsoft.WhisperBeamSearch(x)")
    with pytest.raises(UnsupportedError, match=r"WhisperBeam.* not known[\s\S]*without the search"):
        rlx.onnx.load(made, dims={"n": 3})


@pytest.mark.parametrize("opset", [1, 13])
def test_equal_parts_are_equal_below_opset_18(opset: int) -> None:
    made = parsed("y, z = Split<axis = 1>(x)", opset)
    assert rlx.onnx.load(made, dims={"n": 4}).outputs[0].shape == (1, 2)
    for n in (5, rlx.Dim("n", max=9)):
        with pytest.raises(ShapeError, match="not divisible by 2"):
            rlx.onnx.load(made, dims={"n": n})
    graph = rlx.onnx.load(made, dims={"x": (1, 2 * rlx.Dim("n", max=4))})
    assert str(graph.outputs[0].shape[1]) == "n"


LENGTHS = (2, 5, 9)
BATCHES = (1, 3)
RECURRENT = [(op, way) for op in ("LSTM", "GRU", "RNN") for way in ("reverse", "bidirectional")]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def one_program(made: Any, feeds: list[dict[str, Any]], dims: Any) -> None:
    """Demand that one program for all feeds gives what one for the shapes of each gives."""
    bounded = InferenceSession(made, backend="reference", dims=dims)
    plain = InferenceSession(made, backend="reference")
    for feed in feeds:
        for found, expected in zip(bounded.run(None, feed), plain.run(None, feed), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert bounded._is_bounded
    assert len(bounded._stages) == 1


@pytest.mark.parametrize(("op", "way"), RECURRENT)
def test_recurrent_layers_have_one_program_for_all_lengths_and_batches(op: str, way: str) -> None:
    rng, count, gates = np.random.default_rng(0), 1 + (way == "bidirectional"), 4 * GATES[op]
    made = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, b, 3] x, int32[b] lengths) => (y, h) {{
            y, h = {op}<hidden_size = 4, direction = "{way}">(x, w, r, , lengths) }}"""
    )
    for name, width in (("w", 3), ("r", 4)):
        array = rng.normal(size=(count, gates, width)).astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    feeds = [
        {
            "x": rng.normal(size=(length, batch, 3)).astype(np.float32),
            "lengths": rng.integers(1, length + 1, batch).astype(np.int32),
        }
        for length in LENGTHS
        for batch in BATCHES
    ]
    one_program(made, feeds, {**DIMS, "b": rlx.Dim("b", min=1, max=3)})


@pytest.mark.parametrize(
    ("node", "shape"),
    [
        ("GatherElements<axis = 0>(x, i)", "n, 3"),
        ("GatherElements<axis = 1>(x, i)", "n, 2"),
        ("GatherND(x, i)", "n, 1"),
        ("GatherND<batch_dims = 1>(x, i)", "n, 1"),
    ],
)
def test_gathers_have_one_program_for_all_extents(node: str, shape: str) -> None:
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[n, 3] x, int64[{shape}] i) => (y)'
        f"{{ y = {node} }}"
    )
    rng = np.random.default_rng(0)
    feeds = [
        {
            "x": rng.normal(size=(n, 3)).astype(np.float32),
            "i": rng.integers(-2, 2, (n, int(shape[-1]))),
        }
        for n in LENGTHS
    ]
    one_program(made, feeds, DIMS)


CACHE = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[b, past, 8] cache, float[b, 1, 8] new, int64[b, total] mask) => (y) {
        k = Concat<axis = 1>(cache, new)  whole = Shape(k)  masked = Shape(mask)
        one = Constant<value_ints = [1]>()  heads = Constant<value_ints = [-1, 2]>()
        last = Constant<value_ints = [4]>()
        %s  t = Concat<axis = 0>(length, heads, last)  y = Reshape(k, t) }"""
"""Keys that are appended to those of earlier steps, and split into heads."""


def cached(count: int, batch: int) -> dict[str, Any]:
    x = np.arange(batch * (count + 1) * 8, dtype=np.float32).reshape(batch, count + 1, 8)
    mask = np.ones((batch, count + 1), np.int64)
    return {"cache": x[:, :-1], "new": x[:, -1:], "mask": mask}


def test_a_cache_that_is_concatenated_and_reshaped_has_one_program() -> None:
    past = rlx.Dim("past", min=0, max=9)
    dims = {"b": rlx.Dim("b", min=1, max=3), "past": past, "total": past + 1}
    made = onnx.parser.parse_model(CACHE % "length = Gather<axis = 0>(masked, one)")
    one_program(made, [cached(n, b) for n in (0, 1, 9) for b in BATCHES], dims)


def test_extents_that_only_the_model_relates_are_compiled_one_by_one() -> None:
    """With a warning that names both: the length of the mask is one more than that of the cache."""
    dims = {"b": 1, "past": rlx.Dim("past", max=9), "total": rlx.Dim("total", max=10)}
    made = onnx.parser.parse_model(CACHE % "length = Gather<axis = 0>(masked, one)")
    session = InferenceSession(made, backend="reference", dims=dims)
    with pytest.warns(UserWarning, match=r"8\*past\+8 .* compiled for each shape .* past \+ 1"):
        (found,) = session.run(None, cached(3, 1))
    np.testing.assert_array_equal(found, np.arange(32, dtype=np.float32).reshape(4, 1, 2, 4))
