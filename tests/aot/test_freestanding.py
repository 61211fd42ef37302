"""Artifacts without libm: nothing left to link, and the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

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
