"""Every mistake has its own clear error: typed in Python, a status in C."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlx.errors import FormatError, InputError, ToolchainError, UnsupportedError
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim
from rlx.runtime.aot import aot, load_manifest, load_weights, write_weights
from rlx.runtime.rebuild import rebuild_artifact
from tests.aot.building import Loaded, aligned, file_block, needs_compiler
from tests.aot.programs import lookup, mlp, params_of

STATUS = {
    "NULL_ARENA": 1, "MISALIGNED_ARENA": 2, "NOT_SET_UP": 3, "INDEX_OUT_OF_RANGE": 5,
    "SHORT_ARENA": 16, "NO_WEIGHTS": 17, "MISALIGNED_WEIGHTS": 18, "FOREIGN_WEIGHTS": 19,
    "CORRUPT_WEIGHTS": 20,
}  # fmt: skip
EXTENT_OUT_OF_RANGE = 4
NO_TEXTS: tuple[object, ...] = (None, 3, {}, [["-O2"]])


# Python


def test_output_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=r"output directory .*taken"):
        aot(mlp(), tmp_path / "taken", emit_only=True)


def test_missing_compiler_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="'no-such-cc' is not on the path"):
        aot(mlp(), tmp_path, cc="no-such-cc")


def test_unknown_target_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"unknown target 'z80'\n.*x86-64-v3"):
        aot(mlp(), tmp_path, target="z80")


@pytest.mark.parametrize("name", ["my model", "9lives", "for", "-x", "rlx_info", "INT8", "../x"])
def test_name_that_is_no_identifier_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedError, match="cannot be called"):
        aot(mlp(), tmp_path, name=name, emit_only=True)


@pytest.mark.parametrize(
    ("name", "spelled"),
    [("my model", "my_model"), ("9lives", "n9lives"), ("for", "for_"), ("", "unnamed"),
     ("rlx_info", "rlx_info_"), ("../x", "x"), ("main", "main_"), ("check", "check_")],
)  # fmt: skip
def test_name_of_a_graph_is_spelled_as_an_identifier(
    tmp_path: Path, name: str, spelled: str
) -> None:
    assert aot(mlp(name), tmp_path, emit_only=True).name == spelled


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"flags": ["-fplugin=./evil.so"]}, FormatError, "passes '-fplugin=./evil.so'"),
        ({"libraries": ["-Wl,--version"]}, FormatError, "passes '-Wl,--version'"),
        ({"target": "x86_64-./evil"}, UnsupportedError, "unknown target 'x86_64-./evil'"),
        ({"target": "aarch64-/../../tmp/evil"}, UnsupportedError, "unknown target"),
        ({"target": "x86_64-linux gnu"}, UnsupportedError, "unknown target"),
        ({"name": "../x"}, UnsupportedError, "cannot be called"),
        *(({key: wrong}, FormatError, f"damaged: its {key} is")
          for key in ("name", "target", "flags", "libraries") for wrong in NO_TEXTS),
        ({"threads": 3}, FormatError, "damaged: its threads is 3"),
    ],
)  # fmt: skip
def test_rebuild_believes_no_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object],
    kind: type[Exception], said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("rlx.runtime.cross.Compiler.build", lambda *_, **__: pytest.fail("built"))
    artifact = aot(mlp(), tmp_path, emit_only=True)
    manifest = json.loads(artifact.manifest_path.read_text())
    artifact.manifest_path.write_text(json.dumps(manifest | changes))
    with pytest.raises(kind, match=said):
        rebuild_artifact(tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' + "1" * 5000 + "}", "", "[]", "NaN"])
def test_manifest_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(FormatError, match="manifest"):
        load_manifest(tmp_path / "m.json")


def test_unbounded_extent_is_refused(tmp_path: Path) -> None:
    g = Graph("free")
    g.set_outputs([g.neg(g.input("x", (Dim("n"),)))])
    with pytest.raises((UnsupportedError, ValueError), match="upper bound"):
        aot(g, tmp_path, emit_only=True)


def test_unknown_ways_to_keep_params_and_unknown_params_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be kept as 'cloud'"):
        aot(mlp(), tmp_path, weights="cloud", emit_only=True)
    with pytest.raises(InputError, match="'w9', which is not a param"):
        aot(mlp(), tmp_path, weights={"w9": "file"}, emit_only=True)
    with pytest.raises(InputError, match="'w1' is to be embedded and has no value"):
        aot(mlp(), tmp_path, weights={"w1": "embed"}, emit_only=True)
    with pytest.raises(UnsupportedError, match="unknown threads 'green'"):
        aot(mlp(), tmp_path, threads="green", emit_only=True)
    with pytest.raises(InputError, match="cannot make an artifact of a int"):
        aot(3, tmp_path, emit_only=True)  # type: ignore[arg-type]  # the mistake under test


def test_damaged_manifest_is_refused(tmp_path: Path) -> None:
    artifact = aot(mlp(), tmp_path, params=params_of(mlp()), emit_only=True)
    text = artifact.manifest_path.read_text()
    damaged = tmp_path / "damaged.json"
    for content, message in (
        (text[:50], "not JSON"),
        ("{}", "not the manifest"),
        (text.replace('"format_version": 1', '"format_version": 9'), "format version 9"),
    ):
        damaged.write_text(content)
        with pytest.raises(FormatError, match=message):
            load_manifest(damaged)
    manifest = json.loads(text)
    manifest["params"][0]["shape"][0] += 1
    with pytest.raises(FormatError, match="do not match their hash"):
        write_weights(manifest, tmp_path / "w", params_of(mlp()))


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    params = params_of(mlp())
    artifact = aot(mlp(), tmp_path, params=params, emit_only=True)
    assert artifact.weights is not None
    manifest, data = load_manifest(artifact.manifest_path), artifact.weights.read_bytes()
    for name, array in load_weights(manifest, artifact.weights).items():
        np.testing.assert_array_equal(array, params[name])
    damaged = tmp_path / "damaged"
    flipped = data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]
    for content, message in (
        (b"RLX", "lacks its header"),
        (b"PK" + data[2:], "not a weights file"),
        (data[:8] + bytes(8) + data[16:], "another model"),
        (data[:-64], "it must have"),
        (flipped, "damaged"),
    ):
        damaged.write_bytes(content)
        with pytest.raises(FormatError, match=message):
            load_weights(manifest, damaged)


# C


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    graph = mlp()
    artifact = aot(graph, tmp_path_factory.mktemp("mlp"), params=params_of(graph))
    loaded = Loaded(
        artifact,
        "int mlp_load_weights(void *, const void *, size_t); int mlp_run(void *);",
    )
    assert artifact.weights is not None
    loaded.weights = file_block(artifact.weights)
    return loaded


@needs_compiler
def test_null_misaligned_and_short_arenas_have_statuses(native: Loaded) -> None:
    size, null = native.block.size, native.ffi.NULL
    shifted = native.ffi.cast("void *", native.block.ctypes.data + 16)
    assert native.call("init", null, size) == STATUS["NULL_ARENA"]
    assert native.call("init", shifted, size) == STATUS["MISALIGNED_ARENA"]
    assert native.call("init", native.arena, size - 1) == STATUS["SHORT_ARENA"]
    for function in ("setup", "run"):
        assert native.call(function, null) == STATUS["NULL_ARENA"]
        assert native.call(function, shifted) == STATUS["MISALIGNED_ARENA"]


@needs_compiler
def test_steps_out_of_order_have_statuses(native: Loaded) -> None:
    native.block[:] = 0xA5
    assert native.call("run", native.arena) == STATUS["NOT_SET_UP"]
    assert native.call("setup", native.arena) == STATUS["NOT_SET_UP"]
    assert native.call("init", native.arena, native.block.size) == 0
    assert native.call("run", native.arena) == STATUS["NOT_SET_UP"]
    assert native.call("setup", native.arena) == STATUS["NO_WEIGHTS"]


@needs_compiler
def test_bad_weights_have_statuses(native: Loaded) -> None:
    good = native.weights
    assert native.call("init", native.arena, native.block.size) == 0

    def load(data: np.ndarray[tuple[int], np.dtype[np.uint8]], size: int) -> int:
        pointer = native.ffi.cast("void *", data.ctypes.data)
        return native.call("load_weights", native.arena, pointer, size)

    assert native.call("load_weights", native.arena, native.ffi.NULL, 9) == STATUS["NO_WEIGHTS"]
    assert load(good[16:], good.size - 16) == STATUS["MISALIGNED_WEIGHTS"]
    assert load(good, 3) == STATUS["CORRUPT_WEIGHTS"]
    assert load(good, good.size - 64) == STATUS["CORRUPT_WEIGHTS"]
    for byte, status in ((0, "FOREIGN_WEIGHTS"), (9, "FOREIGN_WEIGHTS"), (777, "CORRUPT_WEIGHTS")):
        bad = aligned(good.size)
        bad[:] = good
        bad[byte] ^= 1
        assert load(bad, bad.size) == STATUS[status]
    assert load(good, good.size) == 0
    assert native.call("setup", native.arena) == 0
    assert native.call("run", native.arena) == 0


@needs_compiler
def test_failing_run_names_its_status_and_node(tmp_path: Path) -> None:
    graph = lookup()
    native = Loaded(
        aot(graph, tmp_path, params=params_of(graph), weights="embed"), "int lookup_run(void *);"
    )
    assert native.call("init", native.arena, native.block.size) == 0
    assert native.call("setup", native.arena) == 0
    native.view("inputs", "rows")[...] = [0, 8, 1]
    assert native.call("run", native.arena) == STATUS["INDEX_OUT_OF_RANGE"]
    words = native.ffi.string(native.library.lookup_fault_string(native.arena)).decode()
    assert "gather" in words
    assert "programs.py" in words
    native.view("inputs", "rows")[...] = [0, 7, 1]
    assert native.call("run", native.arena) == 0
    assert native.ffi.string(native.library.lookup_fault_string(native.arena)) == b""


@needs_compiler
def test_every_status_has_a_string_of_its_own(native: Loaded) -> None:
    texts = {native.ffi.string(native.library.mlp_status_string(code)) for code in STATUS.values()}
    assert len(texts) == len(STATUS)
    assert native.ffi.string(native.library.mlp_status_string(99)) == b"unknown status"


@needs_compiler
@pytest.mark.parametrize(
    ("n", "expected"), [*((n, EXTENT_OUT_OF_RANGE) for n in range(3)), (3, 0), (4, 0)]
)
def test_extents_at_which_a_window_does_not_fit_are_refused(
    tmp_path: Path, n: int, expected: int
) -> None:
    """Two negative extents have a positive product: as many elements would be written."""
    graph, extent = Graph("window"), Dim("n", max=9)
    x = graph.input("x", (1, 1, extent, extent))
    weights = graph.constant(np.ones((1, 1, 3, 3), np.float32))
    graph.set_outputs([graph.conv(x, weights)])
    artifact = aot(graph, tmp_path)
    loaded = Loaded(artifact, "int window_call(void *, int64_t, const float *, float *);")
    loaded.call("init", loaded.arena, artifact.arena_bytes)
    loaded.call("setup", loaded.arena)
    given, y = np.ones((1, 1, n, n), np.float32), np.full(16, 7, np.float32)
    status = loaded.call("call", loaded.arena, n, loaded.pointer(given), loaded.pointer(y))
    assert status == expected
    assert (y != 7).sum() == max(n - 2, 0) ** 2


def pooled(x: Value) -> Value:
    pooled: Value = x.graph.max_pool(x, kernel_size=(5,), stride=(2,), ceil_mode=True)
    return pooled


def averaged(x: Value) -> Value:
    mean: Value = x.graph.mean_pool(x, kernel_size=(5,), stride=(2,), ceil_mode=True)
    return mean


def narrowed(x: Value) -> Value:
    narrow: Value = x.graph.narrow(x, axis=2, start=2, length=3)
    return narrow


@needs_compiler
@pytest.mark.parametrize("part", [pooled, averaged, narrowed])
def test_extents_that_an_op_refuses_are_out_of_range(
    tmp_path: Path, part: Callable[[Value], Value]
) -> None:
    """The results have positive extents; the windows reach outside of the operand."""
    graph = Graph("part")
    graph.set_outputs([part(graph.input("x", (1, 1, Dim("n", max=9)), "f32"))])
    artifact = aot(graph, tmp_path)
    loaded = Loaded(artifact, "int part_call(void *, int64_t, const float *, float *);")
    loaded.call("init", loaded.arena, artifact.arena_bytes)
    loaded.call("setup", loaded.arena)
    for n in range(10):
        given, y = np.ones((1, 1, n), np.float32), np.full(16, 7, np.float32)
        status = loaded.call("call", loaded.arena, n, loaded.pointer(given), loaded.pointer(y))
        assert status == (0 if n >= 5 else EXTENT_OUT_OF_RANGE)
        assert (y != 7).any() == (n >= 5)


def test_an_empty_axis_without_a_largest_element_is_out_of_range(tmp_path: Path) -> None:
    graph = Graph("part")
    x = graph.input("x", (Dim("n", max=9),), "f32")
    graph.set_outputs([graph.cast(graph.argmax(x, axis=0), to="f32")])
    artifact = aot(graph, tmp_path)
    loaded = Loaded(artifact, "int part_call(void *, int64_t, const float *, float *);")
    loaded.call("init", loaded.arena, artifact.arena_bytes)
    loaded.call("setup", loaded.arena)
    given, y = np.arange(9, dtype=np.float32), np.full(1, 7, np.float32)
    found = [
        loaded.call("call", loaded.arena, n, loaded.pointer(given), loaded.pointer(y))
        for n in (0, 3)
    ]
    assert found == [EXTENT_OUT_OF_RANGE, 0]
    assert y == 2
