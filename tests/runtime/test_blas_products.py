"""Products by a BLAS library: NumPy's results, from the library that was named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.errors import InputError, ToolchainError
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim
from rlx.runtime import blas_files
from rlx.runtime.blas import find_blas
from rlx.runtime.executable import Executable
from rlx.runtime.toolchain import has_toolchain
from rlx.target import detect_target

NUMPY = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
TOLERANCE = {"f32": 1e-4, "f64": 1e-12, "c64": 1e-4, "c128": 1e-12}
BACKENDS = [
    "llvm",
    pytest.param("c", marks=pytest.mark.skipif(not has_toolchain(), reason="no C compiler")),
]
each_backend = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(autouse=True)
def wheel(monkeypatch: pytest.MonkeyPatch) -> Path:
    package = pytest.importorskip("scipy_openblas32")
    monkeypatch.delenv("RLX_BLAS", raising=False)
    (library,) = Path(package.__file__).parent.glob("lib/libscipy_openblas.*")
    return library


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    parts = rng.standard_normal((2, *shape))
    whole = parts[0] + 1j * parts[1] if dtype.startswith("c") else parts[0]
    result: NDArray[Any] = whole.astype(NUMPY[dtype])
    return result


def swapped(x: Value) -> Value:
    order = tuple(range(x.rank))
    turned: Value = x.graph.transpose(x, perm=(*order[:-2], order[-1], order[-2]))
    return turned


def product(
    a: tuple[int | Dim, ...], b: tuple[int | Dim, ...], dtype: str, *, left: bool, right: bool
) -> Graph:
    g = Graph("product")
    x, y = g.input("a", a, dtype), g.input("b", b, dtype)
    g.set_outputs([g.matmul(swapped(x) if left else x, swapped(y) if right else y)])
    return g


def calls_library(run: Executable) -> bool:
    return 'library = "blas"' in str(run.schedule)


def compiled(graph: Graph, backend: str, blas: str = "system", **options: Any) -> Executable:
    """Return a program that calls the library."""
    run = rlx.compile(graph, backend=backend, blas=blas, **options)
    assert isinstance(run, Executable)
    assert calls_library(run)
    return run


def check(graph: Graph, backend: str, dtype: str, a: Any, b: Any, expected: Any) -> None:
    run = compiled(graph, backend, threads=1)
    for _ in range(2):  # the second run finds the results of the first in the arena
        np.testing.assert_allclose(run(a=a, b=b)[0], expected, atol=TOLERANCE[dtype] * 50)


@each_backend
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_products_of_any_type_and_transpose(
    backend: str, dtype: str, *, left: bool, right: bool
) -> None:
    rng = np.random.default_rng(1)
    a = numbers(rng, (83, 67) if left else (67, 83), dtype)
    b = numbers(rng, (91, 83) if right else (83, 91), dtype)
    expected = (a.T if left else a) @ (b.T if right else b)
    check(product(a.shape, b.shape, dtype, left=left, right=right), backend, dtype, a, b, expected)


@each_backend
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 65, 70), (70, 66)),  # one product of all rows
        ((65, 70), (3, 70, 66)),
        ((2, 3, 65, 70), (2, 3, 70, 66)),
        ((2, 1, 65, 70), (3, 70, 66)),
        ((1, 3, 65, 70), (2, 1, 70, 66)),
        ((0, 65, 70), (0, 70, 66)),
    ],
)
def test_batches(backend: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    x, y = numbers(rng, a, "f32"), numbers(rng, b, "f32")
    check(product(a, b, "f32", left=False, right=False), backend, "f32", x, y, x @ y)
    turned = np.ascontiguousarray(x.swapaxes(-1, -2))
    check(product(turned.shape, b, "f32", left=True, right=False), backend, "f32", turned, y, x @ y)


@each_backend
@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize("inner", [0, 1, 70])
def test_extents_of_a_call_even_none(backend: str, rows: int, inner: int) -> None:
    high, deep = Dim("rows", min=0, max=300), Dim("inner", min=0, max=70)
    graph = product((high, deep), (deep, 66), "f64", left=False, right=False)
    rng = np.random.default_rng(3)
    a, b = numbers(rng, (rows, inner), "f64"), numbers(rng, (inner, 66), "f64")
    check(graph, backend, "f64", a, b, a @ b)


@each_backend
def test_what_was_in_the_memory_of_the_result_is_not_read(backend: str) -> None:
    graph = product((64, 64), (64, 64), "f32", left=False, right=False)
    run = compiled(graph, backend, threads=1)
    nan, ones = np.full((64, 64), np.nan, np.float32), np.ones((64, 64), np.float32)
    assert np.isnan(run(a=nan, b=ones)[0]).all()
    np.testing.assert_array_equal(run(a=ones, b=ones)[0], 64)


@each_backend
def test_nan_and_infinity_are_multiplied(backend: str) -> None:
    graph = product((64, 64), (64, 64), "f32", left=False, right=False)
    run = compiled(graph, backend, threads=1)
    a, b = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    a[3, 4], a[5, 6], b[6, 7] = np.nan, np.inf, 0
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run(a=a, b=b)[0], a @ b)


@each_backend
def test_threads_change_no_bit(backend: str) -> None:
    graph = product((2, 500, 130), (2, 130, 120), "f32", left=False, right=False)
    rng = np.random.default_rng(4)
    feeds = {"a": numbers(rng, (2, 500, 130), "f32"), "b": numbers(rng, (2, 130, 120), "f32")}
    alone, shared = (compiled(graph, backend, threads=n) for n in (1, 4))
    assert (alone.threads, shared.threads) == (1, 4)
    assert alone(**feeds)[0].tobytes() == shared(**feeds)[0].tobytes()


@each_backend
def test_what_follows_a_product_and_its_gradient_agree(backend: str) -> None:
    g = Graph("step")
    x, w = g.input("x", (80, 70)), g.param("w", (70, 90))
    bias = g.param("bias", (90,))
    y = g.tanh(g.add(g.matmul(x, w), g.expand(bias, shape=(80, 90))))
    g.set_outputs([y, g.matmul(swapped(x), y)])
    rng = np.random.default_rng(5)
    given = {n: numbers(rng, s, "f32") for n, s in (("w", (70, 90)), ("bias", (90,)))}
    a = numbers(rng, (80, 70), "f32")
    run = compiled(g, backend, params=given)
    expected = np.tanh(a @ given["w"] + given["bias"])
    np.testing.assert_allclose(run(x=a)[0], expected, atol=1e-4)
    np.testing.assert_allclose(run(x=a)[1], a.T @ expected, atol=1e-3)


@each_backend
def test_products_are_generated_unless_a_library_is_named(backend: str) -> None:
    graph = product((64, 64), (64, 64), "f32", left=False, right=False)
    for blas in ("auto", "none"):
        run = rlx.compile(graph, backend=backend, blas=blas)
        assert isinstance(run, Executable)
        assert not calls_library(run)


@each_backend
def test_a_library_by_path_is_the_one_that_is_called(
    backend: str, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_BLAS", "/no/such/library.so")
    graph = product((64, 70), (70, 66), "f32", left=False, right=False)
    rng = np.random.default_rng(6)
    a, b = numbers(rng, (64, 70), "f32"), numbers(rng, (70, 66), "f32")
    for _ in range(2):  # compiled, and from the cache
        run = compiled(graph, backend, str(wheel))
        np.testing.assert_allclose(run(a=a, b=b)[0], a @ b, atol=1e-4)


def debian_library() -> Path | None:
    return next(blas_files._in_directories("openblas"), None)


@each_backend
@pytest.mark.skipif(debian_library() is None, reason="no libopenblas in a directory of libraries")
def test_two_libraries_in_one_process_are_distinguished(backend: str, wheel: Path) -> None:
    graph = product((64, 70), (70, 66), "f64", left=False, right=False)
    rng = np.random.default_rng(7)
    a, b = numbers(rng, (64, 70), "f64"), numbers(rng, (70, 66), "f64")
    for name in ("openblas", str(wheel), "openblas"):
        run = compiled(graph, backend, name)
        np.testing.assert_allclose(run(a=a, b=b)[0], a @ b, atol=1e-12)
    target = detect_target()
    assert find_blas(target, "openblas").library.path != find_blas(target, str(wheel)).library.path


def test_a_library_by_name_is_found_in_the_directories_that_loaders_search(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libspecial_blas.so.3").symlink_to(wheel)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert find_blas(detect_target(), "special_blas").has("cblas_zgemm")


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_libraries_that_are_not_there_are_named(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = product((64, 64), (64, 64), "f32", left=False, right=False)
    with pytest.raises(ToolchainError, match="no library 'no_such_blas'"):
        rlx.compile(graph, backend=backend, blas="no_such_blas")
    with pytest.raises(InputError, match=r"blas= names /no/libblas\.so, which is not a file"):
        rlx.compile(graph, backend=backend, blas="/no/libblas.so")
    nothing: Any = None
    with pytest.raises(InputError, match="blas= is None, which names no library"):
        rlx.compile(graph, backend=backend, blas=nothing)
    monkeypatch.setenv("RLX_BLAS", "/no/such/library.so")
    with pytest.raises(ToolchainError, match="RLX_BLAS names /no/such/library"):
        rlx.compile(graph, backend=backend, blas="system")
