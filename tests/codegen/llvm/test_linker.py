"""Our linker compared with LLVM's: what it lays out, and what it leaves to LLVM."""

from __future__ import annotations

import ctypes
import math

import pytest

from rlx.codegen.llvm import binding
from rlx.codegen.llvm.linker import PAGE, LinkedObject, link
from rlx.codegen.llvm.loader import LoadedCode, process_symbol
from rlx.codegen.llvm.optimize import Options, Pipeline

pytestmark = pytest.mark.skipif(
    not binding.host_machine(16).is_x86, reason="the linker reads objects for x86-64"
)

_POLYNOMIAL = """
@table = internal constant [4 x double] [double 1.0, double 2.0, double 3.0, double 5.0], align 64
define i32 @lookup(i64 %i, ptr %out) {
  %place = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %value = load double, ptr %place
  %scaled = fmul double %value, 7.5
  %result = call double @helper(double %scaled)
  store double %result, ptr %out
  ret i32 3
}
define internal double @helper(double %x) noinline {
  %y = fadd double %x, 0.25
  ret double %y
}
"""
_CALLING = """
declare double @cbrt(double)
define double @root(double %x) {
  %y = call double @cbrt(double %x)
  %z = fadd double %y, 1.0
  ret double %z
}
"""
_VARIABLE = """
@count = internal global i64 0
define i64 @next() {
  %n = load volatile i64, ptr @count
  %m = add i64 %n, 1
  store volatile i64 %m, ptr @count
  ret i64 %m
}
"""


def _object(text: str) -> bytes:
    return binding.compile_object(text, binding.host_machine(16), Options(Pipeline.LIGHT))


def _linked(text: str) -> LinkedObject:
    linked = link([_object(text)])
    assert linked is not None
    return linked


def test_code_reaches_its_constants_and_functions() -> None:
    linked = _linked(_POLYNOMIAL)
    loaded = LoadedCode(linked, {})
    lookup = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.POINTER(ctypes.c_double))
    result = ctypes.c_double()
    assert lookup(loaded.address("lookup"))(3, ctypes.byref(result)) == 3
    assert result.value == 5.0 * 7.5 + 0.25
    assert linked.code_bytes % PAGE == 0
    assert not linked.imports


def test_code_calls_functions_of_the_process() -> None:
    linked = _linked(_CALLING)
    assert list(linked.imports) == ["cbrt"]
    address = process_symbol("cbrt")
    assert address is not None
    loaded = LoadedCode(linked, {"cbrt": address})
    root = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.address("root"))
    assert math.isclose(root(27.0), 4.0)


def test_only_global_functions_are_exported() -> None:
    assert list(_linked(_POLYNOMIAL).exports) == ["lookup"]


def test_variables_are_left_to_llvm() -> None:
    assert link([_object(_VARIABLE)]) is None


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\xcf\xfa\xed\xfe" + bytes(100)])
def test_what_is_no_object_for_x86_is_left_to_llvm(content: bytes) -> None:
    assert link([content]) is None


def test_linking_gives_the_same_bytes_again() -> None:
    assert _linked(_POLYNOMIAL) == _linked(_POLYNOMIAL)
