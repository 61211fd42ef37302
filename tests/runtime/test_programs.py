"""Programs between compilations: what counts as the same one, and what is done about damage."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.codegen.c.sources import SOURCES
from rlx.codegen.kernels.registry import KERNELS
from rlx.ir.digest import graph_digest
from rlx.ir.op import OPS
from rlx.ir.types import TensorType
from rlx.runtime import compile as compile_module
from rlx.runtime import programs
from rlx.runtime.cache import Cache
from rlx.runtime.executable import Executable
from rlx.runtime.interface import Interface, NamedGraph, interface_fields, interface_of
from rlx.runtime.lower import lower_for
from rlx.runtime.signature import Array
from rlx.target import detect_target

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(-2, 1, 20, dtype=np.float32).reshape(4, 5)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the graphs that went through the passes."""
    names: list[str] = []

    def spy(graph: rlx.Graph, *args: object, **options: object) -> object:
        names.append(graph.name)
        return lower_for(graph, *args, **options)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(compile_module, "lower_for", spy)
    return names


def dense(slope: float = 0.5, name: str = "dense") -> rlx.Graph:
    g = rlx.Graph(name)
    x, w = g.input("x", (3, 4)), g.param("w", (4, 5))
    table = g.constant(np.arange(300, dtype=np.float32).reshape(60, 5))
    g.set_outputs([g.tanh(g.matmul(x, w)) * slope + g.narrow(table, axis=0, start=2, length=3)])
    return g


def expected(slope: float = 0.5) -> Array:
    table = np.arange(300, dtype=np.float32).reshape(60, 5)
    result: Array = np.tanh(X @ W) * np.float32(slope) + table[2:5]
    return result


def compiled(backend: str = "llvm", threads: int = 1, slope: float = 0.5) -> Executable:
    f = rlx.compile(dense(slope), backend=backend, threads=threads, params={"w": W})
    assert isinstance(f, Executable)
    return f


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_an_equal_graph_is_loaded_and_not_compiled(backend: str, lowered: list[str]) -> None:
    first = compiled(backend)(X)[0]
    second = compiled(backend)(X)[0]
    assert lowered == ["dense"]
    assert first.tobytes() == second.tobytes()
    np.testing.assert_allclose(second, expected(), rtol=1e-5)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_loaded_program_shows_what_a_compiled_one_shows(backend: str) -> None:
    first, second = compiled(backend), compiled(backend)
    assert second.c_source == first.c_source
    assert second.llvm_ir == first.llvm_ir
    assert second.native.text == first.native.text
    assert second.schedule == first.schedule
    assert second.plan.arena_bytes == first.plan.arena_bytes
    assert second.clone()(X)[0].tobytes() == first(X)[0].tobytes()


def test_a_loaded_program_shows_the_graph_that_was_compiled(lowered: list[str]) -> None:
    compiled()
    graph = dense()
    second = rlx.compile(graph, backend="llvm", threads=1, params={"w": W})
    assert lowered == ["dense"]
    graph.set_outputs([graph.exp(graph.outputs[0])])
    assert isinstance(second, Executable)
    assert "exp" not in second.plan.graph.nodes[-1].op.name
    assert len(second.plan.graph.outputs) == 1


def test_another_constant_backend_or_thread_count_is_another_program(lowered: list[str]) -> None:
    for options in ({}, {"slope": 0.25}, {"threads": 2}, {"backend": "c"}):
        compiled(**options)
    assert len(lowered) == 4
    np.testing.assert_allclose(compiled(slope=0.25)(X)[0], expected(0.25), rtol=1e-5)
    assert len(lowered) == 4


def summed(name: str, built: list[str], bound: int = 8) -> tuple[Executable, ...]:
    """Return the programs of two graphs that have names, over one arena."""

    def build(rows: int | rlx.Dim) -> rlx.Graph:
        built.append(name)
        g = rlx.Graph("summed")
        kept = g.param("kept", (4,))
        g.set_outputs([g.reduce_sum(g.input("x", (rows, 4)), axes=(0,)) + kept])
        return g

    extents = (1, rlx.Dim("n", max=bound))
    graphs = [
        NamedGraph(f"{name} {rows}", partial(build, rows), takes_all_extents=True)
        for rows in extents
    ]
    return compile_module.compile_together(graphs, params={"kept": np.ones(4, np.float32)})


def test_a_graph_with_a_name_is_built_where_no_program_has_it() -> None:
    built: list[str] = []
    first = summed("a", built)
    assert built == ["a", "a"]
    again = summed("a", built)
    assert built == ["a", "a"]
    assert [f.signature for f in again] == [f.signature for f in first]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(again[1](x)[0], x.sum(axis=0) + 1)
    with pytest.raises(rlx.errors.InputError, match=r"outside its bounds \[0, 8\]"):
        again[1](np.zeros((9, 4), np.float32))
    summed("b", built, bound=9)[1](np.zeros((9, 4), np.float32))
    assert built[2:4] == ["b", "b"]


def test_a_program_found_by_name_shows_the_graph_that_is_built_then() -> None:
    built: list[str] = []
    (first, _), (second, _) = summed("a", built), summed("a", built)
    assert len(built) == 2
    assert second.c_source == first.c_source
    assert second.schedule == first.schedule
    assert len(built) == 3


def test_extents_that_are_computed_are_not_kept_by_name() -> None:
    g, n = rlx.Graph("computed"), rlx.Dim("n", max=8)
    x, y = g.input("x", (n, 2)), g.input("y", (n + 1, 2))
    g.set_outputs([x, y])
    assert interface_fields(Interface.of(g)) is None
    g.set_outputs([x])
    plain = rlx.Graph("plain")
    plain.set_outputs([plain.tanh(plain.input("x", (n, 2), "f16"))])
    fields = json.loads(json.dumps(interface_fields(Interface.of(plain))))
    assert interface_of(fields) == Interface.of(plain)


def test_another_version_is_another_program(
    lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    monkeypatch.setattr(programs, "versions", lambda: ("0.0.0",))
    compiled()
    assert len(lowered) == 2


def test_a_program_made_without_lapack_is_not_taken_where_there_is_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def solving() -> rlx.Graph:
        g = rlx.Graph("solving")
        a, b = g.input("a", (200, 200), "f64"), g.input("b", (200, 1), "f64")
        g.set_outputs([g.solve(a, b)])
        return g

    def is_known(answer: bool) -> bool:
        lapack = programs.Lapack(lambda: answer)
        target = detect_target()
        cache = programs.ProgramCache.here(compile_module.choose_backend("c"), target, lapack)
        key = cache.key(solving(), 1)
        return compile_module.recall(solving(), cache, key, 1) is not None

    monkeypatch.setattr(compile_module, "has_lapack", lambda *_: False)
    rlx.compile(solving(), backend="c", threads=1)
    assert is_known(False)
    assert not is_known(True)


def _truncate(path: Path) -> None:
    _put(path, path.read_bytes()[:-1])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    _put(path, bytes(content))


def _put(path: Path, content: bytes) -> None:
    """Write a new file: the old one may be a library in use."""
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [_truncate, _flip, Path.unlink])
@pytest.mark.parametrize(("backend", "suffix"), [("llvm", ".rlxi"), ("llvm", ".o"), ("c", ".so")])
def test_a_damaged_entry_is_made_again(
    backend: str, suffix: str, damage: Callable[[Path], None], cache: Path, lowered: list[str]
) -> None:
    compiled(backend)
    for path in cache.glob(f"??/*{suffix}"):
        damage(path)
    np.testing.assert_allclose(compiled(backend)(X)[0], expected(), rtol=1e-5)
    assert len(lowered) == 2
    compiled(backend)
    assert len(lowered) == 2


def test_a_sealed_entry_of_another_kind_is_made_again(cache: Path, lowered: list[str]) -> None:
    compiled()
    (entry,) = cache.glob("??/*.rlxi")
    for content in (b"", b"{}\n", b"[1]\nrlx-image 1\n{}\n", b'{"lapack": null}\nno image'):
        Cache(cache).replace(entry.stem, ".rlxi", partial(Path.write_bytes, data=content))
        np.testing.assert_allclose(compiled()(X)[0], expected(), rtol=1e-5)
    assert len(lowered) == 5


def test_constants_of_the_graph_are_not_stored_again(cache: Path) -> None:
    g = rlx.Graph("looked_up")
    table = g.constant(np.arange(40_000, dtype=np.float32).reshape(400, 100))
    g.set_outputs([g.gather(table, g.input("rows", (2,), "i64"), axis=0)])
    rows = np.array([3, 7])
    results = [rlx.compile(g, backend="llvm")(rows)[0] for _ in range(2)]
    (entry,) = cache.glob("??/*.rlxi")
    assert entry.stat().st_size < 4_000
    assert results[0].tobytes() == results[1].tobytes()
    np.testing.assert_array_equal(results[1][:, 0], [300, 700])


def test_a_cache_that_cannot_be_written_stops_nothing(
    lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()  # its machine code is there, so that only the program is missing
    monkeypatch.setattr(programs, "versions", lambda: ("0.0.0",))

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Cache, "_store", refuse)
    compiled()
    np.testing.assert_allclose(compiled()(X)[0], expected(), rtol=1e-5)
    assert len(lowered) == 3


def test_a_dump_is_written_although_the_program_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    monkeypatch.setenv("RLX_DUMP", str(tmp_path / "dump"))
    compiled()
    assert (tmp_path / "dump" / "90_plan.txt").is_file()


def _compile_often(directory: str) -> None:
    os.environ["RLX_CACHE_DIR"] = directory
    for round in range(4):
        slope = 0.5 + round % 2
        np.testing.assert_allclose(compiled(slope=slope)(X)[0], expected(slope), rtol=1e-5)


@pytest.mark.slow
def test_processes_share_programs(cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_compile_often, args=(str(cache),)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(list(cache.glob("??/*.rlxi"))) == 2


def test_digest_ignores_source_lines_and_object_identity() -> None:
    def shared(text: str) -> rlx.Graph:
        g = rlx.Graph("g")
        x = g.input(text, (2,))
        g.set_outputs([x + x])
        return g

    assert graph_digest(shared("a")) == graph_digest(shared("".join(["a"])))
    assert graph_digest(shared("a")) != graph_digest(shared("b"))


@pytest.mark.parametrize("other", [-0.0, 1, 0.5])
def test_digest_distinguishes_numbers_by_their_bits(other: float) -> None:
    def scaled(value: float) -> rlx.Graph:
        g = rlx.Graph("g")
        g.set_outputs([g.pad(g.input("x", (2,)), low=(1,), high=(0,), value=value)])
        return g

    assert graph_digest(scaled(0.0)) == graph_digest(scaled(0.0))
    assert graph_digest(scaled(0.0)) != graph_digest(scaled(other))


def test_digest_covers_bodies_outputs_and_donations() -> None:
    def counting(step: float, *, donated: bool = False, twice: bool = False) -> rlx.Graph:
        body = rlx.Graph("body")
        carry = body.input("carry", (2,))
        body.set_outputs([carry + step])
        g = rlx.Graph("g")
        x = g.input("x", (2,))
        (y,) = g.scan(x, body=body, length=3, num_carries=1)
        g.set_outputs([y, y] if twice else [y], donated={x: y} if donated else None)
        return g

    graphs = [counting(1.0), counting(2.0), counting(1.0, donated=True), counting(1.0, twice=True)]
    assert len({graph_digest(graph) for graph in graphs}) == 4


def test_a_graph_with_an_op_of_the_users_own_is_compiled_every_time() -> None:
    from rlx.custom import define_op

    def own_halving(x: TensorType) -> TensorType:
        """Half of `x`."""
        return x

    op = define_op(own_halving, reference=lambda x: x / 2, c_source="void own_halving(void);")
    g = rlx.Graph("g")
    g.set_outputs([op(g.input("x", (2,)))])
    digest = graph_digest(g)
    for table in (OPS, KERNELS, SOURCES):
        table.pop("own_halving")
    assert digest is None
