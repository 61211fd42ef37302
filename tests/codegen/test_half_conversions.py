"""f16 is converted by instruction where the target has one, to the bits of the arithmetic."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.codegen.c.emit import emit_module
from rlx.codegen.c.half_conversions import half_instruction
from rlx.codegen.llvm.objects import compile_kernels
from rlx.codegen.loops.math.storage import f16_to_f32, f32_to_f16
from rlx.codegen.loops.nodes import Module
from rlx.ir.graph import Graph
from rlx.runtime.lower import lower_for
from rlx.target import named_target
from tests.codegen.c.native import COMPILERS

Array = np.ndarray[Any, Any]
on_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64" or not COMPILERS, reason="there is no compiler for x86"
)


def casts(shape: tuple[int, ...], source: str, to: str) -> Graph:
    graph = Graph("casts")
    graph.set_outputs([graph.cast(graph.input("x", shape, source), to=to)])
    return graph


def product_module(target: str) -> Module:
    graph = Graph("product")
    x, w = graph.input("x", (32, 64), "f16"), graph.param("w", (64, 48), "f16")
    graph.set_outputs([graph.matmul(x, w)])
    return lower_for(graph, named_target(target)).module


def agree(graph: Graph, x: Array, expected: Array) -> None:
    for backend in ("c", "llvm"):
        (made,) = rlx.compile(graph, backend=backend).run({"x": x})
        np.testing.assert_array_equal(np.isnan(made), np.isnan(expected))
        known = ~np.isnan(expected)
        bits = f"u{made.dtype.itemsize}"
        np.testing.assert_array_equal(made[known].view(bits), expected[known].view(bits))


def test_every_f16_widens_to_its_value() -> None:
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    agree(casts(x.shape, "f16", "f32"), x, x.astype(np.float32))


def test_f32_rounds_to_the_nearest_f16() -> None:
    """Among the numbers are all ties between neighbors, which go to even, and subnormals."""
    exact = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (exact[1:] + exact[:-1]) / 2
    neighbors = [np.nextafter(ties, side, dtype=np.float32) for side in (0, np.inf)]
    x = np.concatenate(
        [exact, ties, *neighbors, np.array([65519, 65520, 1e9, np.inf, np.nan], np.float32)]
    )
    x = np.concatenate([x, -x]).astype(np.float32)
    with np.errstate(over="ignore"):
        agree(casts(x.shape, "f32", "f16"), x, x.astype(np.float16))


@on_x86
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_compilers_of_c_convert_f16_by_instruction(target: str, tmp_path: Path) -> None:
    source = tmp_path / "product.c"
    source.write_text(emit_module(product_module(target)))
    command = [COMPILERS[0], "-std=c11", "-O2", f"-march={target}", "-S", "-o", "-", str(source)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    assert "vcvtph2ps" in text
    assert "vcvtps2ph" in text
    assert "hfsf2" not in text


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_llvm_converts_f16_by_instruction(target: str) -> None:
    machine, module = named_target(target), product_module(target)
    exported = [kernel.name for kernel in module.entries]
    triple = f"{machine.architecture}-unknown-linux-gnu"
    code = compile_kernels(module, machine, triple=triple, exported=exported, symbols={})
    assert b"hfsf2" not in code
    if machine.architecture == "x86_64":
        assert re.search(rb"\xc4[\x42\x62\xc2\xe2][\x79\x7d]\x13|\x62.\x7d.\x13", code, re.DOTALL)
    else:
        words = np.frombuffer(code[: len(code) // 4 * 4], np.uint32)
        assert np.any(words & 0xBFFFFC00 == 0x0E217800)  # fcvtl


def test_four_halves_ask_for_registers_of_64_bits() -> None:
    """32-bit x86 with F16C has no `_mm_cvtsi64_si128`, nor its inverse."""
    for function in (f16_to_f32, f32_to_f16):
        when = half_instruction(function, 4).splitlines()[0]
        assert when == "#if defined(__F16C__) && defined(__x86_64__)"
