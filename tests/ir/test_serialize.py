"""Graph files: exact round trips, and FormatError for anything that is not one."""

from __future__ import annotations

import contextlib
import hashlib
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.errors import FormatError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.serialize import dumps, fingerprint, load, loads, save
from tests.ir.strategies import graphs
from tests.ir.test_text_form import everything

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)


def sealed(text: bytes, data: bytes) -> bytes:
    """Return a file whose first line is right, whatever text and data are."""
    digest = hashlib.sha256(text + data).hexdigest()
    head = f"rlx-graph 1 {len(text)} {len(data)} {digest}\n".encode() + text
    return head + b"\n" * (-len(head) % 64) + data


@PROPERTY
@given(graphs())
def test_a_graph_survives_with_its_constants_and_sources(graph: Graph) -> None:
    loaded = loads(dumps(graph))
    assert loaded == graph
    assert [node.source for node in loaded.nodes] == [node.source for node in graph.nodes]
    assert dumps(loaded) == dumps(graph)


def test_a_file_survives(tmp_path: Path) -> None:
    save(everything(), tmp_path / "graph.rlx")
    assert load(tmp_path / "graph.rlx") == everything()
    assert [path.name for path in tmp_path.iterdir()] == ["graph.rlx"]


def test_a_failed_save_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "graph.rlx").mkdir()
    with pytest.raises(OSError, match="directory"):
        save(everything(), tmp_path / "graph.rlx")
    assert [path.name for path in tmp_path.iterdir()] == ["graph.rlx"]


def test_long_constants_are_stored_raw_aligned_and_once() -> None:
    graph = Graph()
    weights = np.arange(100, dtype=np.float32)
    for array in (np.ones(33, np.int8), weights, weights):
        graph.constant(array)
    content = dumps(graph)
    assert content.count(weights.tobytes()) == 1
    assert content.index(weights.tobytes()) % 64 == 0


def test_loaded_constants_are_views_that_cannot_be_written() -> None:
    graph = Graph()
    graph.constant(np.arange(100))
    array = loads(dumps(graph)).nodes[0].attribute("value").array
    assert not array.flags.owndata
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not an rlx graph file"),
        (b"\x80\x04pickle", "not an rlx graph file"),
        (b"rlx-graph 1 99999999999999999999999 0 ", "not an rlx graph file"),
        (b"rlx-graph 2 0 0 " + b"0" * 64 + b"\n", "format version 2; this rlx reads version 1"),
        (b"rlx-graph 1 0 999999999999999 " + b"0" * 64 + b"\n", "its first line announces"),
        (sealed(b"", b""), "expected 'graph'"),
        (sealed(b"\xff", b""), "not ASCII"),
        (sealed(b"graph @g {\n%0: f32[99999999999] = constant raw 0", b"1234"), "ends outside"),
        (sealed(b"graph @g {\n%0: f32[1] = constant raw 1", b"1234"), "ends outside"),
        (sealed(b"graph @g {\n%0: bool[1] = constant raw 0", b"\x02"), "neither 0 nor 1"),
        (sealed(b"graph @" * 10_000, b""), "expected"),
    ],
)
def test_a_file_that_is_not_a_graph_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        loads(content)


def test_every_truncation_is_refused() -> None:
    content = dumps(everything())
    for length in range(0, len(content), 5):
        with pytest.raises(FormatError):
            loads(content[:length])


def test_every_flipped_bit_is_refused_or_harmless_padding() -> None:
    graph, content = everything(), bytearray(dumps(everything()))
    rng = random.Random(3)
    for _ in range(400):
        place, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
        content[place] ^= bit
        with contextlib.suppress(FormatError):
            assert loads(bytes(content)) == graph
        content[place] ^= bit


@PROPERTY
@given(st.binary(max_size=300), st.binary(max_size=20))
def test_any_sealed_bytes_load_or_are_a_format_error(text: bytes, data: bytes) -> None:
    for content in (text, sealed(text, data), sealed(b"graph @g {" + text, data)):
        try:
            loads(content)
        except FormatError:
            continue


def test_the_fingerprint_sees_constants_bodies_and_names_but_not_sources() -> None:
    def build(number: float, name: str = "x") -> Graph:
        body = Graph("body")
        body.set_outputs([body.add(body.input("u", (2,)), number)])
        graph = Graph()
        ops.fused(graph.input(name, (2,)), body=body)
        graph.constant(np.full(50, number))
        return graph

    assert fingerprint(build(1.0)) == fingerprint(build(1.0))
    assert len({fingerprint(g) for g in (build(1.0), build(2.0), build(1.0, "y"))}) == 3
