"""Weights files: swapped without compiling again, read-only, shared by arenas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.codegen.aot.weights import content_hash
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.runtime.aot import aot
from tests.aot.building import Loaded, aligned, file_block, needs_compiler
from tests.aot.programs import mlp, params_of

DECLARATIONS = """
int mlp_load_weights(void *, const void *, size_t);
int mlp_call(void *, const float *, float *);
"""


def predict(native: Loaded, arena: Any, weights: NDArray[np.uint8]) -> NDArray[np.float32]:
    x, y = np.ones((32, 64), np.float32), np.zeros((32, 10), np.float32)
    pointer = native.ffi.cast("void *", weights.ctypes.data)
    assert native.call("init", arena, native.block.size) == 0
    assert native.call("load_weights", arena, pointer, weights.size) == 0
    assert native.call("setup", arena) == 0
    assert native.call("call", arena, native.pointer(x), native.pointer(y)) == 0
    return y


@needs_compiler
def test_other_weights_need_no_new_code_and_arenas_share_them(tmp_path: Path) -> None:
    graph = mlp()
    first, second = params_of(graph, 1), params_of(graph, 2)
    artifact = aot(graph, tmp_path, params=first)
    assert artifact.weights is not None
    native = Loaded(artifact, DECLARATIONS)
    other = aligned(artifact.arena_bytes)
    other_arena = native.ffi.cast("void *", other.ctypes.data)
    x = np.ones((32, 64), np.float32)
    swapped = artifact.write_weights(tmp_path / "second.weights", second)
    for path, params in ((artifact.weights, first), (swapped, second)):
        block = file_block(path)
        block.setflags(write=False)
        before = block.tobytes()
        results = [predict(native, arena, block) for arena in (native.arena, other_arena)]
        assert results[0].tobytes() == results[1].tobytes()
        np.testing.assert_allclose(results[0], evaluate(graph, {"x": x, **params})[0], rtol=1e-5)
        assert block.tobytes() == before


@pytest.mark.parametrize("words", [1, 65536, 65537, 200001])
def test_content_hash_is_horners_rule_at_any_length(words: int) -> None:
    data = np.random.default_rng(words).integers(0, 2**64, words, np.uint64)
    expected = 0
    for word in data.tolist():
        expected = (expected * 0x9E3779B97F4A7C15 + word) % 2**64
    assert content_hash(data.view(np.uint8)) == expected


@needs_compiler
def test_scan_reads_rows_of_a_mapped_param(tmp_path: Path) -> None:
    body = Graph("body")
    carry, row = body.input("carry", (1, 3)), body.input("row", (1, 3))
    shifted = body.matmul(carry, body.constant(np.eye(3, k=1, dtype=np.float32)))
    body.set_outputs([shifted + row])
    graph = Graph("mlp")
    start, table = graph.input("start", (1, 3)), graph.param("table", (4, 1, 3))
    graph.set_outputs(graph.scan(start, table, body=body, length=4, num_carries=1))
    rows = {"table": np.arange(12, dtype=np.float32).reshape(4, 1, 3)}
    artifact = aot(graph, tmp_path, params=rows)
    assert artifact.weights is not None
    native = Loaded(artifact, DECLARATIONS)
    block = file_block(artifact.weights)
    assert native.call("init", native.arena, native.block.size) == 0
    pointer = native.ffi.cast("void *", block.ctypes.data)
    assert native.call("load_weights", native.arena, pointer, block.size) == 0
    assert native.call("setup", native.arena) == 0
    first, y = np.ones((1, 3), np.float32), np.zeros((1, 3), np.float32)
    given = native.pointer(first), native.pointer(y)
    assert native.call("call", native.arena, *given) == 0
    np.testing.assert_allclose(y, evaluate(graph, {"start": first, **rows})[0])


@needs_compiler
def test_a_mapped_file_is_read_where_it_is(tmp_path: Path) -> None:
    """A weight that changes in the file after `setup` shows in the next call: nothing copied it."""
    graph = mlp()
    params = params_of(graph)
    artifact = aot(graph, tmp_path, params=params, optimize="size")
    assert artifact.weights is not None
    native = Loaded(artifact, DECLARATIONS)
    block = file_block(artifact.weights)
    x, y = np.ones((32, 64), np.float32), np.zeros((32, 10), np.float32)
    predict(native, native.arena, block)
    for facts in artifact.manifest["params"]:
        params[facts["name"]] = params[facts["name"]] + np.float32(0.125)
        end = facts["offset"] + facts["bytes"]
        block[facts["offset"] : end].view(np.float32)[:] = params[facts["name"]].reshape(-1)
        assert native.call("call", native.arena, native.pointer(x), native.pointer(y)) == 0
        np.testing.assert_allclose(y, evaluate(graph, {"x": x, **params})[0], rtol=1e-5)


@pytest.mark.parametrize("keep", ["embed", "file"])
def test_large_weights_are_not_copied_into_the_arena(tmp_path: Path, keep: str) -> None:
    graph = mlp()
    params = params_of(graph)
    artifact = aot(
        graph, tmp_path, params=params, weights=keep, target="cortex-m4", math="none",
        emit_only=True,
    )  # fmt: skip
    values = 4 * (32 * 64 + 32 * 32 + 32 * 10)  # the input, what is hidden, the output
    assert artifact.arena_bytes <= values + 128  # the weights are 9640 bytes
    assert "setup_phase" not in artifact.source.read_text()
    arena = artifact.source.read_text().split("enum {\n  AT_")[1].split("};")[0]
    assert not [name for name in params if f"AT_{name.upper()} " in f"AT_{arena}"]


def test_the_header_says_what_codes_take_in_flash_and_in_ram(tmp_path: Path) -> None:
    graph = Graph("codes")
    x, w = graph.input("x", (1, 64), "i8"), graph.param("w", (64, 32), "i8")
    wide = [graph.cast(each, to="i32") for each in (x, w)]
    graph.set_outputs([graph.matmul(*wide)])
    artifact = aot(
        graph, tmp_path, params={"w": np.ones((64, 32), np.int8)}, weights="embed",
        target="cortex-m4", math="none", emit_only=True,
    )  # fmt: skip
    header = artifact.header.read_text()
    assert "#define CODES_CONSTANTS_BYTES 2048 " in header  # a byte for each weight
    assert f"#define CODES_ARENA_BYTES {artifact.arena_bytes}\n" in header
    assert artifact.arena_bytes < 512
    assert "CODES_WEIGHTS_BYTES" not in header
