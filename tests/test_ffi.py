"""Ops from functions: registered by name, in C or in Python, replaced, saved, refused."""

from __future__ import annotations

import ctypes
import gc
import struct
import weakref
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.codegen.llvm.linker import link
from rlx.codegen.llvm.loader import LoadedCode
from rlx.errors import ForeignCallError, GraphError
from rlx.ir.digest import graph_digest
from rlx.ir.dtype import DType
from rlx.ir.foreign import TARGETS, TYPE_NUMBERS, callback
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.runtime.c_backend import CBackend, CModule
from rlx.runtime.toolchain import has_toolchain
from rlx.target import detect_target

each_backend = pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
Struct = rlx.ShapeDtypeStruct
SOURCE = """
#include <stdint.h>
#include <string.h>

int32_t ffi_scale(const double *x, double *y, const int64_t *shapes, const uint8_t *attributes,
                  int64_t attribute_bytes) {
  double factor = 0;
  if (attribute_bytes != sizeof factor || shapes[0] != 1 || shapes[1] != 1) return 11;
  if (shapes[2] != 12 || shapes[3] != 1 || shapes[4] != shapes[7]) return 12;
  memcpy(&factor, attributes, sizeof factor);
  for (int64_t i = 0; i < shapes[4]; ++i) y[i] = factor * x[i];
  return x[0] < 0 ? 7 : 0;
}

int32_t ffi_negate(const double *x, double *y, const int64_t *shapes, const uint8_t *attributes,
                   int64_t attribute_bytes) {
  (void)attributes;
  for (int64_t i = 0; i < shapes[4]; ++i) y[i] = -x[i];
  return attribute_bytes < 0;
}
"""


@pytest.fixture(scope="module")
def library() -> CModule:
    if not has_toolchain():
        pytest.skip("no C compiler")
    return CBackend().load_text(SOURCE, detect_target())


def scaled(x: Any, factor: float = 2.0) -> Any:
    call = rlx.ffi.ffi_call("ffi_scale", Struct(x.shape, x.dtype), vmap_method="sequential")
    return call(x, attributes=struct.pack("<d", factor))


@each_backend
def test_a_c_function_gets_arrays_shapes_and_attributes(backend: str, library: CModule) -> None:
    rlx.ffi.register_ffi_target("ffi_scale", library.address("ffi_scale"))
    f = rlx.jit(lambda x: scaled(x + 1, 3.0), backend=backend)
    for _ in range(3):
        np.testing.assert_array_equal(f(np.arange(4.0)), [3, 6, 9, 12])
    batched = rlx.jit(rlx.vmap(scaled), backend=backend)
    np.testing.assert_array_equal(batched(np.ones((3, 2))), np.full((3, 2), 2.0))


@each_backend
def test_a_code_of_a_c_function_is_an_error_at_the_call(backend: str, library: CModule) -> None:
    rlx.ffi.register_ffi_target("ffi_scale", library.address("ffi_scale"))
    f = rlx.jit(scaled, backend=backend)
    with pytest.raises(ForeignCallError, match=r"ffi_scale returned 7(.|\n)*test_ffi.py"):
        f(np.array([-1.0]))
    np.testing.assert_array_equal(f(np.ones(1)), [2.0])


def test_a_function_that_ctypes_found_is_registered_by_itself() -> None:
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.c_int64)

    def fill(x: int, y: int, *_: Any) -> int:
        ctypes.memmove(y, x, 16)
        return 0

    rlx.ffi.register_ffi_target("ffi_copy", signature(fill))
    f = rlx.jit(lambda x: rlx.ffi.ffi_call("ffi_copy", x)(x), backend="llvm")
    np.testing.assert_array_equal(f(np.array([1.0, 2.0])), [1.0, 2.0])


@each_backend
def test_a_target_registered_again_is_called_by_programs_compiled_before(
    backend: str, library: CModule
) -> None:
    rlx.ffi.register_ffi_target("ffi_replaced", lambda x: x + 1)
    f = rlx.jit(lambda x: rlx.ffi.ffi_call("ffi_replaced", x)(x), backend=backend)
    x = np.ones(2)
    np.testing.assert_array_equal(f(x), [2.0, 2.0])
    rlx.ffi.register_ffi_target("ffi_replaced", lambda x: x + 2)
    np.testing.assert_array_equal(f(x), [3.0, 3.0])
    rlx.ffi.register_ffi_target("ffi_replaced", library.address("ffi_negate"))
    np.testing.assert_array_equal(f(x), [-1.0, -1.0])
    rlx.ffi.register_ffi_target("ffi_replaced", lambda x: x + 4)
    np.testing.assert_array_equal(f(x), [5.0, 5.0])


@each_backend
def test_python_gets_the_attributes_as_bytes(backend: str) -> None:
    def host(x: Any, attributes: bytes) -> Any:
        return x + len(attributes), attributes == bytes(range(256))

    rlx.ffi.register_ffi_target("ffi bytes", host)
    call = rlx.ffi.ffi_call("ffi bytes", (Struct((), np.float64), Struct((), bool)))
    f = rlx.jit(lambda x: call(x, attributes=bytes(range(256))), backend=backend)
    total, same = f(1.0)
    assert total == 257.0
    assert same


@each_backend
def test_a_target_with_an_effect_runs_without_readers(backend: str) -> None:
    seen: list[float] = []

    def note(x: Any) -> Any:
        seen.append(float(x))
        return x

    rlx.ffi.register_ffi_target("ffi_noted", note)

    def f(x: Any) -> Any:
        rlx.ffi.ffi_call("ffi_noted", x, has_side_effect=True)(x)
        return x

    rlx.jit(f, backend=backend)(4.0)
    assert seen == [4.0]


@each_backend
def test_names_that_c_spells_the_same_are_two_targets(backend: str) -> None:
    rlx.ffi.register_ffi_target("alike.x", lambda x: x + 1)
    rlx.ffi.register_ffi_target("alike_x", lambda x: x + 100)

    def both(x: Any) -> Any:
        return [rlx.ffi.ffi_call(name, x)(x) for name in ("alike.x", "alike_x")]

    one, other = rlx.jit(both, backend=backend)(np.zeros(2))
    assert (one.tolist(), other.tolist()) == ([1, 1], [100, 100])


@each_backend
def test_a_registered_name_goes_before_that_of_a_callback(backend: str) -> None:
    taken = callback(lambda x: x, "shared_name")
    rlx.ffi.register_ffi_target(str(taken), lambda x: x + 1000)
    f = rlx.jit(lambda x: rlx.ffi.ffi_call(str(taken), x)(x), backend=backend)
    assert f(np.zeros(1)).tolist() == [1000]


@each_backend
def test_a_c_function_may_have_the_name_of_one_that_is_loaded_already(backend: str) -> None:
    def fill(x: int, y: int, *_: Any) -> int:
        ctypes.c_double.from_address(y).value = 5
        return x == 0

    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.c_int64)(fill)
    rlx.ffi.register_ffi_target("printf", function)
    f = rlx.jit(lambda x: rlx.ffi.ffi_call("printf", x)(x), backend=backend)
    assert f(np.float64(1)) == 5


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_a_callable_in_place_of_a_c_function_of_several_signatures_is_refused(
    backend: str,
) -> None:
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.c_int64)
    rlx.ffi.register_ffi_target("many_arrays", function(lambda *_: 0))
    call = rlx.ffi.ffi_call("many_arrays", Struct((), np.float64))
    programs = [
        rlx.jit(lambda x: call(x), backend=backend),
        rlx.jit(lambda x: call(x, x), backend=backend),
    ]
    for program in programs:
        program(np.float64(1))
    rlx.ffi.register_ffi_target("many_arrays", lambda *given: given[0])
    for program in programs:
        with pytest.raises(GraphError, match="several numbers of arrays"):
            program(np.float64(1))


@each_backend
def test_a_target_takes_extents_that_are_known_at_the_call(backend: str) -> None:
    rlx.ffi.register_ffi_target("ffi_twice", lambda x: 2 * x)
    graph = rlx.Graph("symbolic")
    x = graph.input("x", (rlx.Dim("n", max=8), 2), "f64")
    graph.set_outputs(graph.ffi_call(x, target="ffi_twice", result_types=(x.type,)))
    run = rlx.compile(graph, backend=backend)
    for extent in (1, 5, 8):
        (found,) = run(np.ones((extent, 2)))
        np.testing.assert_array_equal(found, np.full((extent, 2), 2.0))


def test_the_text_of_a_graph_keeps_name_and_attributes() -> None:
    rlx.ffi.register_ffi_target("ffi_kept", lambda x, attributes: x + attributes[0])
    graph = rlx.Graph("kept")
    x = graph.input("x", (2,), "f64")
    graph.set_outputs(
        graph.ffi_call(x, target="ffi_kept", result_types=(x.type,), attributes=(7, 255))
    )
    again = parse_graph(format_graph(graph))
    assert format_graph(again) == format_graph(graph)
    np.testing.assert_array_equal(rlx.compile(again)(np.zeros(2))[0], [7.0, 7.0])


def test_an_unknown_target_is_an_error_that_names_it() -> None:
    with pytest.raises(GraphError, match=r"'ffi_unknown'(.|\n)*register_ffi_target"):
        rlx.jit(lambda x: rlx.ffi.ffi_call("ffi_unknown", x)(x), backend="llvm")(np.ones(2))


def test_what_cannot_be_registered_is_refused() -> None:
    with pytest.raises(GraphError, match="letters, digits"):
        rlx.ffi.register_ffi_target("no identifier", 4096)
    with pytest.raises(GraphError, match="null pointer"):
        rlx.ffi.register_ffi_target("ffi_null", 0)
    assert "ffi_null" not in TARGETS


def test_types_are_numbered_as_in_xla() -> None:
    assert len(set(TYPE_NUMBERS.values())) == len(TYPE_NUMBERS)
    assert TYPE_NUMBERS[rlx.Graph("g").input("x", (), "f32").dtype] == 11
    assert set(TYPE_NUMBERS) == set(DType)


def test_a_pure_target_without_results_is_refused() -> None:
    graph = rlx.Graph("g")
    x = graph.input("x", (2,), "f64")
    with pytest.raises(GraphError, match="never run"):
        graph.ffi_call(x, target="ffi_kept", result_types=())
    with pytest.raises(GraphError, match="not a byte"):
        graph.ffi_call(x, target="ffi_kept", result_types=(x.type,), attributes=(256,))


def test_calls_through_slots_need_no_linker_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []

    def load(*given: Any) -> LoadedCode:
        loaded.append(given)
        return LoadedCode(*given)

    monkeypatch.setattr("rlx.codegen.llvm.module.LoadedCode", load)
    assert link([b"no object code"]) is None
    f = rlx.jit(lambda x: rlx.pure_callback(np.sin, x, x), backend="llvm")
    np.testing.assert_allclose(f(np.ones(2)), np.sin(np.ones(2)))
    assert any("rlx_python_sin" in name for _, symbols in loaded for name in symbols)


def test_unreferenced_targets_are_forgotten() -> None:
    class Host:
        def __call__(self, x: Any) -> Any:
            return x

    gc.freeze()  # the millions of objects of tests before are not looked at
    host = Host()
    gone = weakref.ref(host)
    graph = rlx.Graph("calls")
    x = graph.input("x", (), "f64")
    graph.set_outputs(graph.ffi_call(x, target=callback(host, "host"), result_types=(x.type,)))
    run = rlx.compile(graph, backend="llvm")
    assert run(np.ones(()))[0] == 1.0
    del graph, x, run, host
    gc.collect()
    assert gone() is None


def test_two_signatures_of_one_c_function_are_refused(library: CModule) -> None:
    rlx.ffi.register_ffi_target("ffi_negate", library.address("ffi_negate"))

    def f(x: Any, y: Any) -> Any:
        call = rlx.ffi.ffi_call
        return call("ffi_negate", x)(x), call("ffi_negate", y)(y)

    g = rlx.jit(f, backend="c")
    with pytest.raises(GraphError, match="two signatures"):
        g(np.ones(2), np.ones(2, np.float32))


def test_programs_that_call_from_outside_are_not_kept_for_other_processes() -> None:
    rlx.ffi.register_ffi_target("ffi_twice", lambda x: 2 * x)
    graph = rlx.Graph("kept")
    x = graph.input("x", (2,), "f64")
    graph.set_outputs(graph.ffi_call(x, target="ffi_twice", result_types=(x.type,)))
    assert graph_digest(graph) is None
