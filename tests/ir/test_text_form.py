"""The printer and the parser: what is printed parses to an equal graph."""

from __future__ import annotations

import random
import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.errors import FormatError
from rlx.ir.graph import Graph
from rlx.ir.op import OPS, make_attrs
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph, format_node
from rlx.ir.ranks import RankAxis
from rlx.ir.shape import Dim
from tests.ir.strategies import graphs

PROPERTY = settings(max_examples=80, deadline=None, derandomize=True)


def perceptron() -> Graph:
    graph = Graph("mlp")
    x = graph.input("x", (Dim("n", max=128), 784))
    w = graph.param("w", (784, 10))
    with graph.scope("head"):
        graph.set_outputs([graph.softmax(x @ w, axis=-1)])
    return graph


def everything() -> Graph:
    """A graph that uses every production of the grammar."""
    graph = Graph("all of it")
    n = Dim("n", min=1, max=9)
    x = graph.input("x", (n, 4))
    values, indices = graph.topk(x, k=2)
    padded = graph.pad(graph.reshape(x, shape=(4 * n,)), low=(0,), high=(n,), value=-0.0)
    body = Graph("body")
    body.set_outputs([body.relu(body.input("u", (n, 4))) + 1.5])
    attrs = make_attrs(OPS["fused"], {"body": body})
    (fused,) = graph.append(OPS["fused"], (x,), attrs, name="the end", scope="encoder.0")
    graph.max_pool(x, kernel_size=(1, 3), stride=(2, 2), padding=(0, 1))
    graph.expand(graph.constant(1.0), shape=((2 * n + 1) // 3,))
    graph.constant([True, False])
    graph.constant(np.arange(20, dtype=np.int16))
    graph.constant(np.array([np.nan, -np.inf, 1e-30 + 2j], np.complex64))
    graph.input("ranks", (), "i64")
    graph.connect("ranks", RankAxis("rows", 2, 3))
    graph.set_outputs([fused, values, indices, padded], donated={x: fused})
    return graph


def test_a_graph_prints_in_the_documented_form() -> None:
    assert format_graph(perceptron()) == (
        "graph @mlp {\n"
        "  dim n in 0..128\n"
        '  %0: f32[n, 784] = input "x"\n'
        '  %1: f32[784, 10] = param "w"\n'
        '  %2: f32[n, 10] = matmul %0, %1 in "head"\n'
        '  %3: f32[n, 10] = softmax %2 {axis = -1} in "head"\n'
        "  return %3\n"
        "}"
    )


@pytest.mark.slow
@PROPERTY
@given(graphs())
def test_a_printed_graph_parses_to_an_equal_graph(graph: Graph) -> None:
    text = format_graph(graph)
    parsed = parse_graph(text)
    assert parsed == graph
    assert format_graph(parsed) == text


@PROPERTY
@given(graphs())
def test_source_lines_survive_printing_and_parsing(graph: Graph) -> None:
    parsed = parse_graph(format_graph(graph, sources=True))
    assert [node.source for node in parsed.nodes] == [node.source for node in graph.nodes]


def test_the_graph_of_everything_survives() -> None:
    graph = everything()
    assert parse_graph(format_graph(graph)) == graph


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_special_floats_survive_bit_for_bit(dtype: type[np.generic]) -> None:
    size = np.dtype(dtype).itemsize
    payload = np.array([-1], f"<i{size}").view(dtype)  # a negative NaN, all payload bits set
    numbers = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.1, 1 / 3]).astype(dtype)
    smallest = np.array([1], f"<i{size}").view(dtype)
    array = np.concatenate([numbers, smallest, payload])
    graph = Graph()
    graph.set_outputs([graph.constant(array)])
    literal = parse_graph(format_graph(graph)).nodes[0].attribute("value")
    assert literal.array.tobytes() == array.tobytes()


def test_values_may_have_any_name_and_comments_are_skipped() -> None:
    graph = parse_graph(
        'graph @g { // a comment\n %x: f32[2] = input "x"\n %y: f32[2] = tanh %x\n return %y }'
    )
    assert format_node(graph.nodes[1]) == "%1: f32[2] = tanh %0"


def test_the_short_form_leaves_out_defaults_and_long_literals() -> None:
    graph = Graph()
    graph.cumsum(graph.constant(np.zeros(100, np.float32)), axis=0, reverse=True)
    text = format_graph(graph, full=False)
    assert "constant ..." in text
    assert "{axis = 0, reverse = true}" in text


def test_an_elided_literal_is_refused_with_the_remedy() -> None:
    with pytest.raises(FormatError, match="print the graph in full"):
        parse_graph("graph @g { %0: f32[100] = constant ...\n return %0 }")


def test_a_symbol_with_a_bound_is_declared_and_restored() -> None:
    assert parse_graph(format_graph(perceptron())).symbols == perceptron().symbols


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1:1: expected 'graph', found the end of the text"),
        ("graph g", "1:7: expected '@', found 'g'"),
        ("graph @g { return %1 }", "1:19: value %1 is not defined above"),
        ("graph @g { %0: f33[] = input", "1:16: unknown dtype f33"),
        ('graph @g { %0: f32[n] = input "x"', "1:20: symbol n is not declared"),
        ("graph @g { %0: f32[] = fly %1", "1:24: unknown op fly"),
        (
            'graph @g { %0: f32[2] = input "x" %1: f32[3] = tanh %0',
            "declared f32[3], inferred f32[2]",
        ),
        ('graph @g { %0: f32[2] = input "x" %0: f32[2] = tanh %0', "value %0 is defined twice"),
        ('graph @g { %0: f32[2] = input "x" %1: f32[2] = softmax %0', "needs attribute 'axis'"),
        (
            'graph @g { %0: f32[2] = input "x" %1: f32[2] = softmax %0 {axis = "a"}',
            "attribute axis is 'a'; it must be int",
        ),
        ("graph @g { %0: i8[1] = constant [300]", "300 does not fit i8"),
        ("graph @g { %0: i8[2] = constant [1]", "i8[2] takes 2 numbers, not 1"),
        ('graph @g { %0: i8[2] = constant hex "00"', "i8[2] takes 2 bytes, not 1"),
        ("graph @g { %0: i8[2] = constant raw 0", "ends outside the 0 bytes of data"),
        ("graph @g { dim n in 5..2", "bounds 5..2"),
        ("graph @g { $", "unexpected character '$'"),
        ('graph @g { return\n donate "x" -> 0', "there is no output 0"),
        ('graph @g { return\n connect "x" -> "r" 0 by 1', "an axis has one rank at least"),
        (
            'graph @g { %0: f32[] = input "x" return\n connect "x" -> "r" 2 by 1',
            "'x' of type f32[] cannot be the communicator of axis 'r'",
        ),
    ],
)
def test_malformed_text_is_refused_at_its_place(text: str, complaint: str) -> None:
    with pytest.raises(FormatError, match=re.escape(complaint)):
        parse_graph(text)


def test_bodies_and_tuples_nest_only_so_deep() -> None:
    opening = 'graph @g { %0: f32[1] = input "x" %1: f32[1] = fused %0 {body = '
    with pytest.raises(FormatError, match="the limit nesting is 32"):
        parse_graph(opening * 5000)
    with pytest.raises(FormatError, match="the limit nesting is 32"):
        parse_graph(
            'graph @g { %0: f32[1] = input "x" %1: f32[1] = transpose %0 {perm = ' + "(" * 100_000
        )


@PROPERTY
@given(st.text(max_size=200))
def test_any_text_parses_or_is_a_format_error(text: str) -> None:
    _parses_or_complains(text)


@pytest.mark.parametrize("part", range(6))
def test_mutated_text_parses_or_is_a_format_error(part: int) -> None:
    rng = random.Random(20 + part)
    original = format_graph(everything(), sources=True)
    pieces = re.findall(r"\w+|\s+|.", original)
    for _ in range(250):
        mutated = list(pieces)
        for _ in range(rng.randint(1, 4)):
            _mutate(mutated, rng)
        _parses_or_complains("".join(mutated))


def test_every_prefix_is_a_format_error() -> None:
    text = format_graph(everything())
    for length in range(0, len(text) - 1, 7):
        with pytest.raises(FormatError):
            parse_graph(text[:length])


def _mutate(pieces: list[str], rng: random.Random) -> None:
    odd = ["0", "-1", "99999999999999999999", "n", "none", "(", "{", '"', "nan(0xff)", "1e999", ""]
    place = rng.randrange(len(pieces))
    other = rng.choice([*odd, rng.choice(pieces)])
    if rng.random() < 0.3:
        pieces.insert(place, other)
    else:
        pieces[place] = other


def _parses_or_complains(text: str) -> None:
    complaint = "<text>:1:1: "
    try:
        parse_graph(text)
    except FormatError as error:
        complaint = error.message
    assert re.match(r"<text>:\d+:\d+: ", complaint)


def test_the_error_marks_the_place_in_the_line() -> None:
    with pytest.raises(FormatError) as caught:
        parse_graph("graph @g {\n  %0: f32[2] = imput\n}", file="model.rlx")
    assert caught.value.message == (
        "model.rlx:2:16: unknown op imput\n      %0: f32[2] = imput\n                   ^"
    )
    assert caught.value.remedy is not None
    assert "import the package that declares it" in caught.value.remedy
