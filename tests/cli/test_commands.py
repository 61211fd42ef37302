"""Every subcommand does what its help says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from rlx.cli.main import main
from rlx.cli.parser import STAGES
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.serialize import save
from rlx.report.assembly import functions_of
from rlx.runtime.aot import load_manifest
from rlx.runtime.cross import has_compiler
from tests.cli.conftest import mlp

pytestmark = pytest.mark.usefixtures("workspace")
Capture = pytest.CaptureFixture[str]


def expected() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    with np.load("weights.npz") as weights, np.load("inputs.npz") as inputs:
        (result,) = evaluate(mlp(), {**weights, **inputs})
    return result


@pytest.mark.parametrize("backend", ["c", "llvm", "reference"])
def test_run_writes_what_the_reference_computes(backend: str) -> None:
    command = ["run", "model.rlx", "--input", "x=x.npy", "--params", "weights.npz"]
    assert main([*command, "--backend", backend, "--output", "y.npz"]) == 0
    with np.load("y.npz") as outputs:
        np.testing.assert_allclose(outputs["output_0"], expected(), rtol=1e-5, atol=1e-6)


def test_run_writes_one_output_as_npy() -> None:
    command = ["run", "model.rlx", "--input", "inputs.npz", "--params", "weights.npz"]
    assert main([*command, "--output", "y.npy"]) == 0
    np.testing.assert_allclose(np.load("y.npy"), expected(), rtol=1e-5, atol=1e-6)


def test_run_computes_products_in_16_bits_where_asked() -> None:
    command = ["run", "model.rlx", "--input", "x=x.npy", "--params", "weights.npz"]
    assert main([*command, "--precision", "bf16", "--output", "y.npy"]) == 0
    found = np.load("y.npy")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(), atol=2.0**-5)
    assert np.abs(found - expected()).max() > 1e-5


@pytest.mark.parametrize(
    "command", [["inspect", "--stage", "lowered"], ["compile", "-o", "build", "--emit-only"]]
)
def test_products_are_lowered_in_what_is_written(command: list[str], capsys: Capture) -> None:
    assert main([command[0], "model.rlx", *command[1:], "--precision", "bf16"]) == 0
    shown = capsys.readouterr().out
    text = shown if command[0] == "inspect" else Path("build/mlp.c").read_text()
    assert "bf16" in text


def test_inspect_says_why(capsys: Capture) -> None:
    assert main(["inspect", "model.rlx", "--why"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Fused: ")
    assert "Not fused: " in shown
    assert "conftest.py:19 in mlp" in shown


def test_passes_are_left_out_by_name(capsys: Capture) -> None:
    assert main(["inspect", "model.rlx", "--stage", "passes", "--without", "fuse"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "fuse" not in names
    assert "share-bodies" in names
    command = ["compile", "model.rlx", "-o", "build", "--emit-only", "--without", "fuse"]
    assert main(command) == 0
    assert "matmul_add" not in Path("build/mlp.c").read_text()
    assert main([*command, "--without", "fusion"]) == 1
    assert "no pass that can be left out is called 'fusion'" in capsys.readouterr().err


def test_run_shows_each_output_with_its_type(capsys: Capture) -> None:
    assert main(["run", "model.rlx", "--random", "3"]) == 0
    assert capsys.readouterr().out.startswith("output 0: float32[4, 3]\n")


def test_random_runs_with_one_seed_agree(capsys: Capture) -> None:
    assert main(["run", "model.rlx", "--random", "3"]) == 0
    first = capsys.readouterr().out
    assert main(["run", "model.rlx", "--random", "3", "--backend", "llvm"]) == 0
    assert capsys.readouterr().out == first
    assert main(["run", "model.rlx", "--random", "4"]) == 0
    assert capsys.readouterr().out != first


def large_system() -> Graph:
    g = Graph("large")
    g.set_outputs([g.solve(g.input("a", (200, 200)), g.input("b", (200, 1)))])
    return g


@pytest.mark.parametrize("options", [["--stage", "c"], ["--lines"]])
def test_c_that_is_printed_to_be_edited_calls_no_library(
    options: list[str], capsys: Capture
) -> None:
    save(large_system(), Path("large.rlx"))
    assert main(["inspect", "large.rlx", *options]) == 0
    assert "gesv" not in capsys.readouterr().out


def test_inspect_says_what_solves_a_large_system(capsys: Capture) -> None:
    save(large_system(), Path("large.rlx"))
    assert main(["inspect", "large.rlx", "--why"]) == 0
    assert "200 rows" in capsys.readouterr().out


def test_run_takes_edited_c(capsys: Capture) -> None:
    assert main(["inspect", "model.rlx", "--stage", "c"]) == 0
    lines = capsys.readouterr().out.splitlines()
    calls = [i for i, line in enumerate(lines) if line.startswith("  softmax_4x3_in_place(")]
    end = next(i for i in range(calls[0], len(lines)) if lines[i].endswith(";"))
    del lines[calls[0] : end + 1]  # softmax works in place: without it the logits come out
    Path("edited.c").write_text("\n".join(lines))
    command = ["run", "model.rlx", "--input", "inputs.npz", "--params", "weights.npz"]
    assert main([*command, "--code", "edited.c", "--output", "logits.npy"]) == 0
    logits = np.exp(np.load("logits.npy"))
    softmax = logits / logits.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax, expected(), rtol=1e-4, atol=1e-6)
    assert not np.allclose(np.load("logits.npy"), expected(), atol=1e-3)


_STAGES = {
    "graph": "graph @mlp",
    "passes": "fold-constants",
    "lowered": "softmax",
    "schedule": "run: 3 calls",
    "plan": "maximal live set",
    "kernels": "kernel softmax_4x3_in_place(",
    "c": "int mlp_run(",
    "llvm": "define i32 @mlp_run(",
    "asm": "mlp_run",
}


@pytest.mark.parametrize("stage", STAGES)
def test_inspect_prints_each_stage(stage: str, capsys: Capture) -> None:
    assert main(["inspect", "model.rlx", "--stage", stage]) == 0
    assert _STAGES[stage] in capsys.readouterr().out


@pytest.mark.parametrize("target", ["cortex-m4", "aarch64", "wasm32", "x86-64-v3"])
def test_inspect_shows_a_chosen_target(target: str, capsys: Capture, tmp_path: Path) -> None:
    if not has_compiler(target):
        pytest.skip(f"no compiler for {target}")
    page = tmp_path / "report.html"
    arguments = ["--stage", "asm", "--target", target, "--html", str(page)]
    assert main(["inspect", "model.rlx", *arguments]) == 0
    printed = capsys.readouterr().out
    words = {"cortex-m4": "vmov", "aarch64": "fmla", "wasm32": "f32.", "x86-64-v3": "%ymm"}
    assert words[target] in printed
    name = re.search(r'"(softmax_\w+)": ?\{', page.read_text())
    assert name is not None
    assert functions_of(printed)[name[1]].count("\n") > 10
    assert '"assembly"' in page.read_text()


def test_inspect_names_an_unknown_target(capsys: Capture) -> None:
    assert main(["inspect", "model.rlx", "--target", "z80"]) != 0
    assert "unknown target 'z80'" in capsys.readouterr().err


def test_inspect_narrows_to_kernels_by_name(capsys: Capture) -> None:
    assert main(["inspect", "model.rlx", "--stage", "c", "--kernel", "softmax"]) == 0
    printed = capsys.readouterr().out
    assert "softmax_4x3" in printed
    assert "matmul" not in printed


def test_inspect_writes_one_page(capsys: Capture) -> None:
    assert main(["inspect", "model.rlx", "--html", "report.html", "--measure"]) == 0
    assert capsys.readouterr().out == "written to report.html\n"
    page = Path("report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "median of 20 runs" in page


def test_bench_lists_kernels_and_peaks(capsys: Capture) -> None:
    assert main(["bench", "model.rlx", "--repeats", "3", "--top", "1"]) == 0
    printed = capsys.readouterr().out
    assert "peaks of one core" in printed
    assert "and 2 more" in printed
    assert printed.rstrip().endswith("whole run")


def test_profile_writes_a_trace_of_runs_and_kernels(capsys: Capture) -> None:
    assert main(["profile", "model.rlx", "--repeats", "3", "--trace", "trace.json"]) == 0
    assert "whole run" in capsys.readouterr().out
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    names = {event["name"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"process_name": "rlx: mlp", "thread_name": "kernels"}
    spans = [event for event in events if event["ph"] == "X"]
    assert {(event["pid"], event["tid"]) for event in spans} == {(1, 1)}
    runs = [event for event in spans if event["cat"] == "run"]
    kernels = [event for event in spans if event["cat"] == "kernel"]
    assert [run["name"] for run in runs] == ["run 0", "run 1", "run 2"]
    assert len(kernels) % 3 == 0
    assert any("softmax" in kernel["name"] for kernel in kernels)
    assert all(kernel["args"]["bytes"] > 0 for kernel in kernels)
    assert spans[0]["ts"] == 0
    for run in runs:
        own = [k for k in kernels if run["ts"] <= k["ts"] < run["ts"] + run["dur"]]
        assert len(own) == len(kernels) // 3
        assert sum(kernel["dur"] for kernel in own) == pytest.approx(run["dur"])


def test_compile_writes_an_artifact_and_rebuild_compiles_it_again(capsys: Capture) -> None:
    command = ["compile", "model.rlx", "-o", "build", "--params", "weights.npz"]
    assert main([*command, "--name", "perceptron"]) == 0
    printed = capsys.readouterr().out
    assert "perceptron.weights" in printed
    assert "the caller provides an arena of" in printed
    library = Path("build/libperceptron.so")
    library.unlink()
    assert main(["rebuild", "build"]) == 0
    assert library.is_file()


def test_compile_keeps_each_param_as_asked(capsys: Capture) -> None:
    command = ["compile", "model.rlx", "-o", "build", "--params", "weights.npz", "--emit-only"]
    assert main([*command, "--weights", "b1=embed", "--weights", "w2=argument"]) == 0
    kept = {p["name"]: p["keep"] for p in load_manifest("build/mlp.json")["params"]}
    assert kept == {"w1": "file", "b1": "embed", "w2": "argument"}
    assert main([*command, "--weights", "embed", "--weights", "w1=file"]) == 0
    kept = {p["name"]: p["keep"] for p in load_manifest("build/mlp.json")["params"]}
    assert kept == {"w1": "file", "b1": "embed", "w2": "embed"}
    assert main([*command, "--weights", "w9=file"]) == 1
    assert "'w9', which is not a param" in capsys.readouterr().err


def test_compile_with_lines_writes_directives_to_the_program() -> None:
    command = ["compile", "model.rlx", "-o", "build", "--emit-only"]
    assert main(command) == 0
    assert "#line" not in Path("build/mlp.c").read_text()
    assert main([*command, "--lines"]) == 0
    assert re.search(r'^#line \d+ ".*conftest\.py"', Path("build/mlp.c").read_text(), re.MULTILINE)


def test_compile_with_llvm_writes_an_object_and_c_around_it() -> None:
    assert main(["compile", "model.rlx", "-o", "build", "--backend", "llvm"]) == 0
    assert all(Path(f"build/{file}").is_file() for file in ("mlp.o", "libmlp.a", "mlp_api.c"))


def test_rebuild_says_what_is_wrong_with_edited_c(capsys: Capture) -> None:
    assert main(["compile", "model.rlx", "-o", "build"]) == 0
    source = Path("build/mlp.c")
    source.write_text(source.read_text() + "\nint broken(\n")
    assert main(["rebuild", "build"]) == 1
    assert "mlp.c" in capsys.readouterr().err


def test_doctor_finds_what_the_tests_run_on(capsys: Capture) -> None:
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    subjects = [line[9:21].strip() for line in printed.splitlines() if line.startswith("ok ")]
    assert subjects[:5] == ["python", "cpu", "threads", "C compiler", "LLVM"]
    assert subjects[5:8] == ["BLAS", "cache", "packages"]
    assert len(printed.splitlines()) <= 10
    assert re.search(r" vectors of \d+ bits \(\w", printed)
    assert "processors" in printed
    assert "(mode 700)" in printed or "(not made yet)" in printed


def test_doctor_measures_what_multiplies_faster(capsys: Capture) -> None:
    assert main(["doctor"]) == 0
    (line,) = (text for text in capsys.readouterr().out.splitlines() if " BLAS " in text)
    found = re.search(r"256x256x256 in (\d+) us, with the library (\d+) us: (.*)", line)
    assert found is not None
    generated, library = int(found[1]), int(found[2])
    assert min(generated, library) > 0
    if generated != library:
        assert found[3].startswith("generated" if generated < library else "blas='system'")


def test_doctor_says_how_to_get_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("RLX_CC", "no-such-compiler")
    monkeypatch.setenv("RLX_BLAS", "/no/such/library.so")
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "missing  C compiler" in printed
    assert "install gcc or clang" in printed
    assert "pip install scipy-openblas32" in printed
