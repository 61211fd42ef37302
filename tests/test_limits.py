"""Limits of loaders, and files that are none."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx.cli.arrays import read_arrays
from rlx.cli.main import main
from rlx.errors import FormatError, InputError, LimitError, RlxError
from rlx.gguf import read as read_gguf
from rlx.ir.graph import Graph
from rlx.ir.parser import parse_graph
from rlx.ir.serialize import dumps, load, loads
from rlx.limits import Budget, LoadLimits, current_budget, default_limits, loading
from rlx.runtime.aot import load_manifest
from rlx.safetensors_file import read_safetensors
from rlx.splat.ply import read_ply
from tests.gguf.files import gguf_file


def chain(nodes: int) -> Graph:
    g = Graph("chain")
    x = g.input("x", (4,), "f32")
    for _ in range(nodes - 1):
        x = g.tanh(x)
    g.set_outputs([x])
    return g


TEXT = str(chain(5))
NESTED = 'graph @g { %0: f32[1] = input "x" %1: f32[1] = fused %0 {body = '


@pytest.mark.parametrize(
    ("limit", "least", "text"),
    [("nodes", 5, TEXT), ("bytes", len(TEXT), TEXT), ("seconds", 1e-9, TEXT)],
)
def test_a_text_that_passes_a_limit_names_it(limit: str, least: Any, text: str) -> None:
    below = least if limit == "seconds" else least - 1
    with pytest.raises(LimitError, match=f"the limit {limit} is {below}") as caught:
        parse_graph(text, limits=LoadLimits(**{limit: below}))
    assert (caught.value.limit, caught.value.allowed) == (limit, below)
    assert caught.value.value is not None
    assert caught.value.value > below
    assert f"rlx.LoadLimits({limit}=...)" in str(caught.value)
    if limit != "seconds":
        assert parse_graph(text, limits=LoadLimits(**{limit: least})) == chain(5)


@pytest.mark.parametrize("nesting", [3, 32, 100_000])
def test_a_text_that_nests_too_deeply_is_a_limit_error(nesting: int) -> None:
    """Where the limit is above what Python's stack takes, too."""
    with pytest.raises(LimitError, match="nest") as caught:
        parse_graph(NESTED * 900, limits=LoadLimits(nesting=nesting))
    assert caught.value.limit == "nesting"


def test_a_serialized_graph_has_the_limits_of_its_text(tmp_path: Path) -> None:
    content = dumps(chain(5))
    path = tmp_path / "g.rlx"
    path.write_bytes(content)
    assert loads(content, limits=LoadLimits(nodes=5)) == chain(5)
    with pytest.raises(LimitError, match="at least 5 nodes; the limit nodes is 4"):
        loads(content, limits=LoadLimits(nodes=4))
    assert load(path, limits=LoadLimits(nodes=5)) == chain(5)
    with pytest.raises(LimitError, match="at least 5 nodes; the limit nodes is 4"):
        load(path, limits=LoadLimits(nodes=4))
    with pytest.raises(LimitError, match="the limit bytes is 10"):
        load(path, limits=LoadLimits(bytes=10))


@pytest.mark.parametrize(
    "wrong", [{"nodes": 0}, {"seconds": -1.0}, {"bytes": "many"}, {"nesting": float("nan")}]
)
def test_limits_are_positive_numbers(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"the limit {next(iter(wrong))} is"):
        LoadLimits(**wrong)
    with pytest.raises(InputError, match="limits= is 5"):
        parse_graph(TEXT, limits=5)  # type: ignore[arg-type]


def test_a_limit_error_keeps_its_fields_where_a_context_is_added() -> None:
    error = Budget(LoadLimits(nodes=2), "m").exceeded("nodes", 3).located("Loop", None)
    assert (error.limit, error.value, error.allowed) == ("nodes", 3, 2)
    assert error.message.startswith("Loop: m: takes at least 3 nodes")


def test_memory_and_stack_that_run_out_are_limits() -> None:
    with pytest.raises(LimitError, match="more memory than there is"), loading(None, "file"):
        raise MemoryError
    with pytest.raises(LimitError, match="Python's stack"), loading(None, "file"):
        raise RecursionError


def test_budgets_of_loaders_in_loaders_are_their_own() -> None:
    with default_limits(LoadLimits(nodes=7)):
        with loading(None, "outer") as outer, loading(LoadLimits(nodes=3), "inner") as inner:
            assert current_budget() is inner
        assert (outer.limits.nodes, inner.limits.nodes) == (7, 3)
    assert current_budget().limits == LoadLimits()


def test_products_of_symbolic_extents_have_so_many_terms() -> None:
    total = sum((rlx.Dim(f"n{i}", max=8) for i in range(10)), start=rlx.Dim("n", max=8))
    with pytest.raises(RlxError, match="a product of extents has"):
        total * total * total * total * total * total


# Files that are none

READERS: dict[str, Callable[[Path], Any]] = {
    "g.rlx": load,
    "m.gguf": read_gguf,
    "w.safetensors": read_safetensors,
    "w.npz": read_arrays,
    "w.npy": read_arrays,
    "s.ply": read_ply,
    "m.json": load_manifest,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["a pipe", "a directory", "a device"])
def test_what_is_no_file_is_refused_without_waiting(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=f"{name} is {kind}, not a file"):
        READERS[name](path)


def test_metadata_of_gguf_is_within_the_limits(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file({"general.name": "m", "words": ["a"] * 50}, {}))
    assert read_gguf(path, limits=LoadLimits(nodes=2)).metadata["words"] == ["a"] * 50
    with pytest.raises(LimitError, match="the limit elements is 49"):
        read_gguf(path, limits=LoadLimits(elements=49))
    with pytest.raises(LimitError, match="the limit nodes is 1"):
        read_gguf(path, limits=LoadLimits(nodes=1))


# Arrays


def safetensors(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str, shape: list[Any], *place: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": list(place)}


def test_safetensors_of_every_dtype_are_read(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    data = np.arange(3).astype(ml_dtypes.bfloat16)
    header = {
        "__metadata__": {"a": "b"}, "b": entry("BF16", [3], 0, 6), "s": entry("BOOL", [1, 2], 6, 8),
        "e": entry("F32", [0, 2], 8, 8),
    }  # fmt: skip
    path.write_bytes(safetensors(header, data.tobytes() + b"\1\0"))
    found = read_safetensors(path)
    assert found.metadata == {"a": "b"}
    assert np.array_equal(found.arrays["b"], data)
    assert found.arrays["s"].tolist() == [[True, False]]
    assert found.arrays["e"].shape == (0, 2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1234", "4 bytes"),
        (struct.pack("<Q", 1 << 60), "header takes"),
        (safetensors(b"{"), "header: "),
        (safetensors(b"\xff"), "header: "),
        (safetensors([]), "no JSON object"),
        (safetensors(b'{"a": 1, "a": 2}'), "twice"),
        (safetensors({"__metadata__": {"a": 1}}), "strings by name"),
        (safetensors({"a": 1}), "has dtype"),
        (safetensors({"a": entry("F6", [], 0, 4)}, bytes(4)), "has dtype 'F6'"),
        (safetensors({"a": entry("F32", [-1], 0, 4)}, bytes(4)), "has shape"),
        (safetensors({"a": entry("F32", [1] * 40, 0, 4)}, bytes(4)), "has shape"),
        (safetensors({"a": entry("F32", [True], 0, 4)}, bytes(4)), "has shape"),
        (safetensors({"a": entry("F32", [1], 0)}, bytes(4)), "has offsets"),
        (safetensors({"a": entry("F32", [1], 4, 0)}, bytes(4)), "takes 4 bytes"),
        (safetensors({"a": entry("F32", [2**62, 2**62], 0, 4)}, bytes(4)), "takes"),
        (safetensors({"a": entry("F32", [0, 2**62, 2**62], 0, 0)}), "tensor 'a': "),
        (safetensors({"a": entry("F32", [1], 4, 8)}, bytes(8)), "no or two tensors"),
        (safetensors({"a": entry("F32", [1], 0, 4)}, bytes(8)), "take 4 bytes of data"),
        (safetensors({"a": entry("BOOL", [1], 0, 1)}, b"\7"), "neither 0 nor 1"),
        (safetensors(b'{"a":' * 5000 + b"1" + b"}" * 5000), "stack"),
    ],
)  # fmt: skip
def test_damaged_safetensors_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said):
        read_safetensors(path)


def npy(shape: str, data: bytes = b"", dtype: str = "<f4") -> bytes:
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an array file"),
        (npy("(10000000000000,)"), "takes 40000000000000 bytes; the limit bytes is"),
        (npy("(-4,)"), "negative"),
        (npy("(4,)", bytes(8)), "8 bytes of data, of 16"),
        (npy("(1,)", b"\7", "|b1"), "neither 0 nor 1"),
        (npy("(1,)", bytes(8), "|O"), "Python objects"),
        (npy("4"), "not an array file"),
        (npy("(0, 10**30)"), "not an array file"),
    ],
)
def test_damaged_npy_files_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said):
        read_arrays(path)


def test_an_archive_is_charged_what_it_decompresses_to(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, zeros=np.zeros(1 << 20, np.float32))
    path = tmp_path / "w.npz"
    path.write_bytes(buffer.getvalue())
    assert path.stat().st_size < 1 << 14
    assert read_arrays(path)["zeros"].size == 1 << 20
    with default_limits(LoadLimits(bytes=1 << 20)), pytest.raises(LimitError, match="decompressed"):
        read_arrays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy("(100,)"))
    with pytest.raises(FormatError, match="0 bytes of data, of 400"):
        read_arrays(path)


def archive(method: int, *, flags: int = 0, content: bytes = npy("(4,)", bytes(16))) -> bytes:
    """Return an archive with one array, its flags and its compressed bytes changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        made.writestr("a.npy", content * 40)
    data = bytearray(buffer.getvalue())
    directory = data.index(b"PK\1\2")
    for place in (6, directory + 8):
        data[place] |= flags
    if not flags:
        data[60:80] = bytes(range(200, 220))
    return bytes(data)


@pytest.mark.parametrize(
    "content",
    [
        b"PK\3\4",
        archive(zipfile.ZIP_STORED),
        archive(zipfile.ZIP_DEFLATED),
        archive(zipfile.ZIP_BZIP2),
        archive(zipfile.ZIP_LZMA),
        archive(zipfile.ZIP_DEFLATED, flags=1),
        archive(zipfile.ZIP_DEFLATED, flags=1 << 6),
    ],
    ids=["head", "stored", "deflated", "bzip2", "lzma", "encrypted", "strongly encrypted"],
)
def test_archives_that_cannot_be_unpacked_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="not an array file"):
        read_arrays(path)


def test_arrays_keep_their_order_and_dtype(tmp_path: Path) -> None:
    arrays = {"f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "e": np.zeros((0, 3), np.int8)}
    np.savez(tmp_path / "w.npz", **arrays)  # type: ignore[arg-type]
    found = read_arrays(tmp_path / "w.npz")
    for name, array in arrays.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype


# The command line


def test_commands_take_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.txt"
    path.write_text(TEXT)
    command = ["inspect", str(path), "--stage", "graph"]
    assert main([*command, "--limit", "nodes=5"]) == 0
    assert main([*command, "--limit", "nodes=4", "--limit", "seconds=60.5"]) == 1
    assert "LimitError" in (said := capsys.readouterr().err)
    assert "the limit nodes is 4" in said
    assert main([*command, "--limit", "node=4"]) == 2
    assert main([*command, "--limit", "nodes=-4"]) == 2
