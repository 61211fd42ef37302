"""Building graphs: coercion, promotion, sources, scopes, inlining, donation, equality."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.digest import graph_digest
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.inspect import bytes_text, summary
from rlx.ir.literal import Literal
from rlx.ir.op import OPS, make_attrs
from rlx.ir.ranks import RankAxis
from rlx.ir.shape import Dim


def test_python_numbers_take_the_dtype_of_the_other_operand() -> None:
    graph = Graph()
    half = graph.input("h", (2,), "f16")
    whole = graph.input("i", (2,), "i8")
    assert (half * 2).dtype is DType.F16
    assert (whole + 1).dtype is DType.I8
    assert (whole * 0.5).dtype is DType.F32
    assert (half + 1j).dtype is DType.C64


def test_values_of_different_dtypes_are_joined_by_casts() -> None:
    graph = Graph()
    total = graph.input("i", (2,), "i64") + graph.input("f", (2,), "f32")
    assert total.dtype is DType.F64
    assert [node.op.name for node in graph.nodes].count("cast") == 2


def test_arrays_become_constants_on_either_side() -> None:
    graph = Graph()
    x = graph.input("x", (3,))
    for y in (np.ones(3, np.float32) + x, x * np.float32(2), ops.add(np.ones(3, np.float32), x)):
        assert isinstance(y, Value)
        assert y.shape == (3,)


def test_dtype_strings_and_lists_are_attributes_too() -> None:
    graph = Graph()
    x = graph.input("x", (2, 3))
    assert graph.cast(x, to="f16").dtype is DType.F16
    assert graph.transpose(x, perm=[1, 0]).shape == (3, 2)


def test_attributes_are_equal_only_bit_for_bit() -> None:
    def pad(value: float) -> object:
        return make_attrs(OPS["pad"], {"low": (0,), "high": (0,), "value": value})

    assert pad(math.nan) == pad(math.nan)
    assert hash(pad(1.0)) == hash(pad(1.0))
    assert pad(0.0) != pad(-0.0)
    assert pad(1) != pad(1.0)


def test_the_source_of_a_node_is_the_users_line() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    y = graph.silu(x)  # a composite: its formula runs inside rlx
    source = y.node.source
    assert source is not None
    assert (source.file, source.function) == (
        __file__,
        "test_the_source_of_a_node_is_the_users_line",
    )
    first = x.node.source
    assert first is not None
    assert source.line == first.line + 1


def test_a_directory_that_only_starts_like_rlx_is_the_users(tmp_path: Path) -> None:
    import rlx

    package = Path(str(rlx.__file__)).parent
    module = _load(tmp_path / f"{package.name}_models.py", f"{package}_models/model.py")
    graph = Graph()
    node = module.build(graph).node
    assert node.source.file == f"{package}_models/model.py"


def _load(path: Path, pretended: str) -> ModuleType:
    """Import code that looks as if it stood in the file `pretended`."""
    path.write_text("def build(graph):\n    return graph.input('x', (2,))\n")
    spec = importlib.util.spec_from_file_location("pretended", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(path.read_text(), pretended, "exec"), module.__dict__)
    return module


def test_scopes_nest_and_end() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    with graph.scope("encoder"), graph.scope("0"):
        inner = graph.tanh(x)
    assert inner.node.scope == "encoder.0"
    assert graph.tanh(x).node.scope is None


def test_inlining_copies_nodes_with_their_names_scopes_and_sources() -> None:
    body = Graph("body")
    u = body.input("u", (2,))
    with body.scope("inner"):
        body.set_outputs([body.tanh(u)])
    graph = Graph()
    (result,) = graph.inline(body, [graph.input("x", (2,))])
    assert (result.node.scope, result.node.source) == ("inner", body.outputs[0].node.source)
    assert [node.op.name for node in graph.nodes] == ["input", "tanh"]


def test_iota_is_copied_like_any_node_though_it_has_no_operands() -> None:
    body = Graph("body")
    x = body.input("x", (2,), "i32")
    body.set_outputs([body.iota(type=x.type) + x])
    graph = Graph()
    graph.inline(body, [graph.input("y", (2,), "i32")])
    assert [value.node.name for value in graph.inputs] == ["y"]


def test_users_list_each_reader_once() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    square = x * x
    assert graph.users()[x] == [square.node]


def test_symbols_are_those_of_the_leaves() -> None:
    graph = Graph()
    graph.input("x", (Dim("n", max=4), Dim("m") * 2))
    assert [symbol.name for symbol in graph.symbols] == ["m", "n"]


def test_equality_sees_every_part_but_sources() -> None:
    def build(
        name: str = "x",
        number: float = 1.0,
        scope: str = "s",
        keep: bool = True,
        stride: int = 1,
    ) -> Graph:
        graph = Graph()
        x = graph.input(name, (2,))
        graph.input("ranks", (), "i64")
        graph.connect("ranks", RankAxis("rows", 2, stride))
        with graph.scope(scope):
            y = x + number
        graph.set_outputs([y], donated={x: y} if keep else {})
        return graph

    assert build() == build()
    for other in (
        build("z"),
        build(number=-1.0),
        build(scope="t"),
        build(keep=False),
        build(stride=2),
    ):
        assert other != build()
        assert graph_digest(other) != graph_digest(build())


def test_literals_compare_by_bits_and_cannot_be_written() -> None:
    nan = np.array([np.nan], np.float32)
    assert Literal(nan) == Literal(nan.copy())
    assert Literal(np.array([0.0])) != Literal(np.array([-0.0]))
    assert Literal(np.array([1], np.int32)) != Literal(np.array([1], np.int64))
    with pytest.raises(ValueError, match="read-only"):
        Literal(nan).array[0] = 1


def test_a_summary_counts_ops_and_marks_outputs() -> None:
    graph = Graph("mlp")
    x = graph.input("x", (128, 2))
    graph.set_outputs([graph.tanh(graph.tanh(x))])
    lines = summary(graph).splitlines()
    assert lines[0] == "graph @mlp (3 nodes, 1 outputs, 3.0 KB)"
    assert lines[1] == "  op kinds: tanh=2, input=1"
    assert lines[5].startswith("  %2: f32[128, 2] = tanh %1  // ")
    assert lines[5].endswith("← output")
    assert lines[6] == "  return %2"


def test_sizes_change_unit_at_1024() -> None:
    texts = [bytes_text(size) for size in (0, 1023, 1024, 1536, 1024**2)]
    assert texts == ["0 B", "1023 B", "1.0 KB", "1.5 KB", "1.0 MB"]


def test_copy_over_operands_of_another_type_has_inferred_types() -> None:
    source, target = Graph("source"), Graph("target")
    x, y = source.input("x", (4,)), target.input("y", (8,), "f64")
    doubled = x + x
    value_map = {x: y}
    target.copy_node(doubled.node, value_map)
    assert str(value_map[doubled].type) == "f64[8]"


def test_copy_over_operands_of_equal_type_keeps_its_types() -> None:
    source, target = Graph("source"), Graph("target")
    x, y = source.input("x", (4,)), target.input("y", (4,))
    doubled = x + x
    value_map = {x: y}
    target.copy_node(doubled.node, value_map)
    assert value_map[doubled].type == doubled.type


def test_what_is_found_once_is_found_anew_when_the_graph_changes() -> None:
    graph, asked = Graph("before"), []

    def find(graph: Graph) -> tuple[int, str]:
        asked.append(graph)
        return len(graph.nodes), graph.name

    x, y = graph.input("x", (2,)), graph.input("y", (2,))
    assert graph.once(find) == graph.once(find) == (2, "before")
    total = x + y
    assert graph.once(find) == (3, "before")
    graph.name = "after"
    assert graph.once(find) == (3, "after")
    for donated in ({}, {x: total}, {y: total}):
        before = len(asked)
        graph.set_outputs([total], donated=donated)
        assert graph.once(find) == graph.once(find)
        assert len(asked) == before + 1
    graph.keep([x.node, y.node], {})
    assert graph.once(find) == (2, "after")
    assert len(asked) == 7


def test_hashes_and_digests_of_bodies_follow_what_is_added() -> None:
    first, second = (Graph("body") for _ in range(2))
    for graph in (first, second):
        graph.set_outputs([graph.input("x", (2,)) * 2])
    assert first == second
    assert graph_digest(first) == graph_digest(second)
    second.set_outputs([second.outputs[0] + 1])
    assert first != second
    assert graph_digest(first) != graph_digest(second)
    first.set_outputs([first.outputs[0] + 1])
    assert (first, hash(first)) == (second, hash(second))
    assert graph_digest(first) == graph_digest(second)
