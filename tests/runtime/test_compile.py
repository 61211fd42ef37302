"""From a graph to results: every backend agrees with the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim, Extent
from rlx.ir.types import TensorType
from rlx.runtime.compile import choose_backend, compile
from rlx.runtime.executable import Executable
from rlx.runtime.thread_count import thread_count
from rlx.runtime.toolchain import has_toolchain
from rlx.target import detect_target

BACKENDS = ("c", "llvm")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))


def skip_without(backend: str) -> None:
    if backend == "c" and not has_toolchain():
        pytest.skip("there is no C compiler")


def block() -> Graph:
    g = Graph("block")
    x = g.input("x", (Dim("n", max=40), 64))
    w = g.param("w", (64, 96))
    b = g.param("b", (96,))
    hidden = g.gelu(x @ w + b)
    g.set_outputs([g.layer_norm(hidden, b, b, axis=-1, eps=1e-5), g.softmax(hidden, axis=-1)])
    return g


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_block_agrees_with_the_reference(backend: str, threads: int) -> None:
    skip_without(backend)
    random = np.random.default_rng(0)
    params = {
        "w": random.standard_normal((64, 96)).astype(np.float32),
        "b": random.standard_normal(96).astype(np.float32),
    }
    f = compile(block(), backend=backend, params=params, threads=threads)
    reference = compile(block(), backend="reference", params=params)
    for n in (1, 17, 40):
        x = random.standard_normal((n, 64)).astype(np.float32)
        for found, expected in zip(f(x), reference(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_the_reference_backend_checks_like_the_others() -> None:
    f = compile(block(), backend="reference")
    with pytest.raises(InputError, match="params not set: w, b"):
        f(np.zeros((3, 64), np.float32))
    with pytest.raises(InputError, match="inputs missing 'x'"):
        f()


def test_auto_is_llvm_and_needs_no_c_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("RLX_CC", "CC"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_backend("auto").name == "llvm"


def test_auto_is_c_without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.runtime.compile.has_llvm", lambda: False)
    assert choose_backend("auto").name == "c"


def test_a_graph_without_shared_work_runs_on_the_callers_thread() -> None:
    graph = Graph("small")
    graph.set_outputs([graph.tanh(graph.input("x", (4,)))])
    f = compile(graph, backend="llvm", threads=2)
    assert isinstance(f, Executable)
    assert f.threads == 1
    assert [entry.name for entry in f.module.entries] == ["small_setup", "small_run"]


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="unknown backend 'cuda'"):
        compile(block(), backend="cuda")


def test_threads_come_from_the_argument_then_the_environment_then_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = detect_target()
    monkeypatch.delenv("RLX_NUM_THREADS", raising=False)
    assert thread_count(None, target) == target.cores
    monkeypatch.setenv("RLX_NUM_THREADS", "3")
    assert thread_count(None, target) == 3
    assert thread_count(2, target) == 2
    with pytest.raises(UnsupportedError, match="cannot run on 0 threads"):
        thread_count(0, target)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_a_symbol_that_no_input_carries_is_named(backend: str) -> None:
    graph = Graph("free")
    n = Dim("n", max=8)
    graph.set_outputs([ops.reduce_sum(graph.iota(type=TensorType(DType.F32, (n,))), axes=(0,))])
    with pytest.raises(ShapeError, match=r"iota: no input has the extent n of f32\[n\]"):
        compile(graph, backend=backend)


def summed(*extents: Extent) -> Graph:
    """Return the sum of all elements of vectors of these extents."""
    g = Graph("summed")
    vectors = [g.input(f"x{number}", (extent,)) for number, extent in enumerate(extents)]
    g.set_outputs([g.reduce_sum(g.concat(*vectors, axis=0), axes=(0,))])
    return g


N, M = Dim("n", max=9), Dim("m", max=9)


@pytest.mark.parametrize("backend", ["reference", "c"])
@pytest.mark.parametrize(
    ("extents", "counts"),
    [((N // 2, N), (3, 7)), (((N + 1) // 2, N), (4, 7)), ((N * M, N, M), (12, 3, 4))],
)
def test_extents_may_be_before_the_symbols_in_them(
    backend: str, extents: tuple[Extent, ...], counts: tuple[int, ...]
) -> None:
    skip_without(backend)
    f = compile(summed(*extents), backend=backend)
    assert f(*(np.ones(count, np.float32) for count in counts))[0] == sum(counts)
    wrong = (counts[0] + 1, *counts[1:])
    with pytest.raises(InputError, match=rf"'x0' has extent {wrong[0]} on axis 0; it must be"):
        f(*(np.ones(count, np.float32) for count in wrong))


@pytest.mark.parametrize("backend", ["reference", "c"])
def test_a_quotient_alone_does_not_determine_a_symbol(backend: str) -> None:
    skip_without(backend)
    f = compile(summed((N + 1) // 2), backend=backend)
    with pytest.raises(InputError, match="no input's shape determines extent n"):
        f(np.ones(3, np.float32))
