"""Artifacts without libm, and for processors without double precision."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as jnp
from rlx.errors import UnsupportedError
from rlx.ir.graph import Graph
from rlx.runtime.aot import aot
from tests.aot.building import STRICT, needs_compiler, run
from tests.aot.programs import params_of, training_step

SOURCE = Path(__file__).parents[2] / "rlx" / "codegen" / "templates" / "freestanding.c"


def rounding(dtype: str) -> Graph:
    """Every operation that is libm's in C."""
    g = Graph("rounding")
    x = g.input("x", (8,), dtype)
    rounded = g.floor(x) + g.ceil(x) + g.trunc(x) + g.round(x)
    g.set_outputs([rounded + g.sqrt(g.abs(x)) + g.exp(x)])
    return g


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("flags", [(), ("-O3", "-fno-math-errno", "-fno-trapping-math")])
def test_sample_links_without_libm_and_prints_the_same(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    for graph in (rounding("f32"), training_step()):
        outputs = []
        for math in ("libm", "none"):
            directory = tmp_path / graph.name / math
            artifact = aot(graph, directory, params=params_of(graph), math=math)
            source = f"{graph.name}.c"
            libraries = ("-lm",) if math == "libm" else ()
            run("cc", "-std=c11", *STRICT, *flags, "main.c", source, *libraries, cwd=directory)
            outputs.append(run("./a.out", cwd=directory))
        assert outputs[0] == outputs[1]
        assert artifact.archive is not None
        undefined = {
            line.split()[-1] for line in run("nm", "-u", artifact.archive).splitlines()[1:]
        }
        assert undefined <= {"", "memcpy", "memset", "memmove", f"{graph.name}.o:"}


@needs_compiler
@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fno-math-errno")])
def test_own_functions_have_the_bits_of_libm(tmp_path: Path, flags: tuple[str, ...]) -> None:
    (tmp_path / "freestanding.c").write_text(SOURCE.read_text())
    (tmp_path / "compare.c").write_text((Path(__file__).parent / "compare.c").read_text())
    run("cc", *flags, "compare.c", "-lm", cwd=tmp_path)
    assert run("./a.out", cwd=tmp_path) == "0 differences\n"


@needs_compiler
def test_code_without_libm_includes_no_math_h_and_never_asks_for_a_multiply_add(
    tmp_path: Path,
) -> None:
    artifact = aot(rounding("f64"), tmp_path, math="none")
    assert "math.h" not in artifact.source.read_text()
    assert artifact.archive is not None
    assert "fma" not in run("nm", "-u", artifact.archive)
    fused = aot(rounding("f64"), tmp_path, math="none", target="x86-64-v3", emit_only=True)
    assert "__builtin_fma(" in fused.source.read_text()


def test_unknown_math_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="unknown math 'fast'"):
        aot(rounding("f32"), tmp_path, math="fast", emit_only=True)


@needs_compiler
@pytest.mark.parametrize("math", ["libm", "none"])
def test_bit_casts_and_multiply_adds_are_no_calls_without_a_hosted_library(
    tmp_path: Path, math: str
) -> None:
    g = Graph("waves")
    g.set_outputs([g.sin(g.sqrt(g.abs(g.input("x", (3,)))))])
    aot(g, tmp_path, math=math, target="x86-64-v3", emit_only=True)
    flags = ("-O2", "-march=x86-64-v3", "-fno-math-errno")
    run("cc", "-std=c11", *STRICT, *flags, "-ffreestanding", "-c", "waves.c", cwd=tmp_path)
    undefined = {line.split()[-1] for line in run("nm", "-u", tmp_path / "waves.o").splitlines()}
    assert undefined.isdisjoint({"fabsf", "fma", "fmaf", "sqrtf", "memcpy"})


P = np.eye(4, dtype=np.float32)


def messages(function: Callable[..., Any], x: Any, target: str, directory: Path) -> list[str]:
    """Return the warnings of an export that are about f64."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rlx.aot(
            rlx.jit(function), directory, name="f", example_inputs=(x,), target=target,
            emit_only=True,
        )  # fmt: skip
    assert all(each.filename == __file__ for each in caught if "f64" in str(each.message))
    return [str(each.message) for each in caught if "f64" in str(each.message)]


def widened(p: Any) -> Any:
    q = p @ p
    return jnp.eye(4) - q


def test_the_line_that_widens_is_named(tmp_path: Path) -> None:
    (message,) = messages(widened, P, "cortex-m4", tmp_path)
    line = widened.__code__.co_firstlineno + 2
    assert f"{__file__}:{line} " in message
    assert "dtype='float32'" in message


def test_an_input_is_named(tmp_path: Path) -> None:
    (message,) = messages(lambda p: p, P.astype(float), "cortex-m0", tmp_path)
    assert "input p" in message


@pytest.mark.parametrize("target", ["x86-64", "aarch64", "cortex-m7", "portable"])
def test_processors_with_doubles_use_them(target: str, tmp_path: Path) -> None:
    assert messages(widened, P, target, tmp_path) == []


def test_what_is_folded_while_compiling_is_no_double(tmp_path: Path) -> None:
    def single(p: Any) -> Any:
        return jnp.eye(4).astype(np.float32) - p

    assert messages(single, P, "cortex-m4", tmp_path) == []
