"""Damaged files: each is a typed error, or what it says is right.

Damage alone is caught by hashes; so files are sealed again with a hash that fits, as a file by
another program would be.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.codegen.aot.layout import Keep, Space, Tensor
from rlx.codegen.aot.manifest import parse_manifest, weights_of
from rlx.codegen.aot.weights import read_weights, weights_bytes
from rlx.codegen.program_file import dumps_program, loads_program
from rlx.errors import FormatError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.serialize import dumps, loads
from rlx.ir.verify import verify
from rlx.runtime.cache import Cache
from rlx.runtime.executable import Executable
from rlx.runtime.image import Image, dumps_image, loads_image
from rlx.runtime.llvm_backend import CachedLlvmBackend
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.fuzz.files.graphs import parts_of_graph, sealed_graph
from tests.fuzz.mutations import damaged_bytes, damaged_json, damaged_words

Array = NDArray[Any]
MUTATIONS = 700


def network() -> Graph:
    """Return a graph with constants, a loop, a symbol, a view, integers and scratch."""
    g = Graph("network")
    x = g.input("x", (rlx.Dim("n", max=8), 16))
    w = g.param("w", (16, 8))
    table = g.constant(np.arange(24, dtype=np.float32).reshape(3, 8))
    picked = ops.gather(table, g.constant(np.array([2, 0], np.int64)), axis=0)
    y = g.softmax(g.tanh(g.matmul(x, w)), axis=-1)
    rows, at = g.input("halves", (4, 3), "f16"), g.input("at", (4,), "i64")
    sums = ops.scatter_add(rows, at, size=5)
    g.set_outputs([y, ops.transpose(picked * 2.0, perm=(1, 0)), scan(g), sums])
    return g


def scan(g: Graph) -> Any:
    """Return a sum made by a loop with a body of its own."""
    looped = rlx.jit(lambda x: rlx.scan(lambda c, r: (c * 0.5 + r, c), x[0], x)[1])
    graph = looped.graph(rlx.TensorType(DType("f32"), (4, 3)))
    (result,) = g.inline(graph, [g.input("rows", (4, 3))])
    return result


def feeds() -> dict[str, Array]:
    random = np.random.default_rng(0)
    return {
        "x": random.standard_normal((5, 16)).astype(np.float32),
        "w": random.standard_normal((16, 8)).astype(np.float32),
        "halves": np.ones((4, 3), np.float16),
        "at": np.array([0, 4, 4, 1]),
        "rows": random.standard_normal((4, 3)).astype(np.float32),
    }


def run_is_right(executable: Any) -> bool:
    given = feeds()
    expected = evaluate(network(), given)
    executable.set_param("w", given.pop("w"))
    pairs = zip(executable.run(given), expected, strict=True)
    return all(np.allclose(x, y, rtol=1e-5, atol=1e-6) for x, y in pairs)


def is_right(program: Any) -> bool:
    """Compile and run a program as it was read."""
    native = CachedLlvmBackend().load(program.module, detect_target())
    return run_is_right(Executable(network(), program, native, image=Image.of(program)))


def refused_or(load: Callable[[bytes], Any], content: bytes) -> Any:
    """Return what was loaded, or None where a FormatError refused it."""
    try:
        return load(content)
    except FormatError:
        return None


def test_a_damaged_graph_file_is_refused_or_the_same() -> None:
    graph, pick = network(), random.Random(1)
    content = dumps(graph)
    for _ in range(MUTATIONS):
        loaded = refused_or(loads, damaged_bytes(content, pick))
        assert loaded is None or loaded == graph


@pytest.mark.slow
def test_a_forged_graph_is_refused_or_legal() -> None:
    pick, accepted = random.Random(2), 0
    text, data = parts_of_graph(dumps(network()))
    for _ in range(MUTATIONS):
        loaded = refused_or(loads, sealed_graph(damaged_words(text, pick), data))
        if loaded is not None:
            verify(loaded)
            assert loads(dumps(loaded)) == loaded
            accepted += 1
    assert 0 < accepted < MUTATIONS / 2


@pytest.fixture(scope="module")
def program() -> Any:
    return lower_for(network(), detect_target())


def test_a_moved_value_is_a_sound_plan_and_gives_the_right_result(program: Any) -> None:
    first, rest = dumps_program(program).split(b"\n", 1)
    size = int(first.split()[2])
    plan = json.loads(rest[size:])
    plan["bytes"][2] += 4096
    for row in plan["slots"]:
        if row[-1] is None and row[2] == max(r[2] for r in plan["slots"]):
            row[2] = plan["bytes"][2] - 4096
    loaded = loads_program(sealed_program(rest[:size], json.dumps(plan).encode()))
    assert loaded.schedule != program.schedule
    assert is_right(loaded)
    assert is_right(program)


def test_a_damaged_program_file_is_refused(program: Any) -> None:
    content, pick = dumps_program(program), random.Random(3)
    for _ in range(MUTATIONS):
        loaded = refused_or(loads_program, damaged_bytes(content, pick))
        assert loaded is None or loaded.graph == program.graph


def sealed_program(graph: bytes, plan: bytes) -> bytes:
    digest = hashlib.sha256(graph + plan).hexdigest()
    return f"rlx-program 1 {len(graph)} {len(plan)} {digest}\n".encode() + graph + plan


@pytest.mark.slow
def test_a_forged_plan_is_refused_or_sound(program: Any) -> None:
    pick = random.Random(4)
    first, rest = dumps_program(program).split(b"\n", 1)
    graph, plan = rest[: int(first.split()[2])], json.loads(rest[int(first.split()[2]) :])
    for _ in range(MUTATIONS):
        forged = json.dumps(damaged_json(plan, pick)).encode()
        loaded = refused_or(loads_program, sealed_program(graph, forged))
        assert loaded is None or loaded.schedule == program.schedule or is_right(loaded)


@pytest.mark.slow
def test_a_forged_graph_in_a_program_is_refused_or_legal(program: Any) -> None:
    pick = random.Random(5)
    first, rest = dumps_program(program).split(b"\n", 1)
    size = int(first.split()[2])
    text, data = parts_of_graph(rest[:size])
    for _ in range(MUTATIONS // 4):
        graph = sealed_graph(damaged_words(text, pick), data)
        loaded = refused_or(loads_program, sealed_program(graph, rest[size:]))
        if loaded is not None:
            verify(loaded.graph)


def tensors() -> tuple[Tensor, ...]:

    def of(name: str, dtype: str, shape: tuple[int, ...], offset: int) -> Tensor:
        type = rlx.TensorType(DType(dtype), shape)
        return Tensor(name, name, type, Space.WEIGHTS, offset, Keep.FILE)

    return of("w", "f32", (5, 7), 64), of("b", "f64", (3,), 256)


def test_a_damaged_weights_file_is_refused_or_the_same() -> None:
    pick, kinds = random.Random(6), tensors()
    values: dict[str, Array] = {"w": np.arange(35, dtype=np.float32).reshape(5, 7), "b": np.ones(3)}
    content = weights_bytes(kinds, 320, values)
    for _ in range(MUTATIONS):
        loaded = refused_or(
            lambda data: read_weights(data, kinds, 320), damaged_bytes(content, pick)
        )
        if loaded is not None:
            assert all(np.array_equal(loaded[name], values[name]) for name in values)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    g = Graph("mlp")
    g.set_outputs([g.tanh(g.matmul(g.input("x", (3, 4)), g.param("w", (4, 5))))])
    values = {"w": np.ones((4, 5), np.float32)}
    directory = tmp_path_factory.mktemp("mlp")
    artifact = rlx.aot(g, directory, name="mlp", params=values, emit_only=True)
    return json.loads((Path(directory) / "mlp.json").read_text()) if artifact else {}


def test_a_damaged_manifest_is_refused_or_gives_the_same_places(manifest: dict[str, Any]) -> None:
    pick, expected = random.Random(7), weights_of(manifest)

    def places(content: bytes) -> Any:
        return weights_of(parse_manifest(content.decode(errors="replace")))

    text = json.dumps(manifest).encode()
    for _ in range(MUTATIONS):
        for content in (
            damaged_bytes(text, pick),
            json.dumps(damaged_json(manifest, pick)).encode(),
        ):
            loaded = refused_or(places, content)
            assert loaded is None or [t.type for t in loaded[0]] == [t.type for t in expected[0]]


def test_a_damaged_image_is_refused_or_an_image() -> None:
    graph, pick = network(), random.Random(8)
    image = Image.of(lower_for(graph, detect_target()))
    content = dumps_image(image, graph)
    line = len(b"rlx-image 1\n")
    facts, _, rest = content[line:].partition(b"\n")
    for _ in range(MUTATIONS):
        forged = json.dumps(damaged_json(json.loads(facts), pick)).encode()
        for damaged in (damaged_bytes(content, pick), content[:line] + forged + b"\n" + rest):
            loaded = refused_or(lambda data: loads_image(data, graph), damaged)
            assert loaded is None or isinstance(loaded, Image)


def test_a_damaged_cache_entry_is_made_again(tmp_path: Path) -> None:
    pick, cache = random.Random(9), Cache(tmp_path / "cache")
    good = pick.randbytes(200)
    for _ in range(60):
        cache.keep("a" * 64, ".bin", good)
        victim = pick.choice([p for p in cache.directory.glob("??/*") if p.is_file()])
        victim.write_bytes(damaged_bytes(victim.read_bytes(), pick))
        found = cache.read("a" * 64, ".bin")
        assert found is None or found == good
        cache.keep("a" * 64, ".bin", good)
        assert cache.read("a" * 64, ".bin") == good


@pytest.mark.slow
def test_a_program_compiles_anew_where_its_entries_are_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    pick, graph = random.Random(10), network()
    for _ in range(12):
        assert run_is_right(rlx.compile(graph, backend="llvm"))
        entries = sorted(p for p in tmp_path.glob("??/*") if p.is_file())
        assert entries
        for victim in pick.sample(entries, min(3, len(entries))):
            victim.write_bytes(damaged_bytes(victim.read_bytes() or b"\0", pick))
