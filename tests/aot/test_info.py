"""Names, types and sizes of any artifact: one struct for all, only what this program can do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.runtime.aot import Artifact, aot
from tests.aot.building import STRICT, needs_compiler, require, run
from tests.aot.programs import lookup, mlp, params_of, scaled_rows, training_step

pytestmark = needs_compiler
LOADER = Path(__file__).parents[2] / "examples" / "load_in_c" / "load.c"


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled with the header of an artifact that it is not used with."""
    directory = tmp_path_factory.mktemp("loader")
    aot(lookup(), directory, emit_only=True)
    command = (require("gcc"), "-std=c11", *STRICT, f"-I{directory}", LOADER, "-ldl")
    run(*command, "-o", directory / "load")
    return directory / "load"


def loaded(loader: Path, artifact: Artifact) -> list[str]:
    weights = [] if artifact.weights is None else [artifact.weights]
    assert artifact.library is not None
    return run(loader, artifact.library, artifact.name, *weights).splitlines()


def numbers(line: str) -> list[float]:
    return [float(word) for word in line.partition("=")[2].split()]


@pytest.mark.parametrize("weights", ["file", "embed"])
def test_one_program_runs_any_artifact(loader: Path, tmp_path: Path, weights: str) -> None:
    graph = mlp()
    params = params_of(graph)
    lines = loaded(loader, aot(graph, tmp_path / "mlp", params=params, weights=weights))
    (expected,) = evaluate(graph, {"x": np.ones((32, 64), np.float32), **params})
    assert lines[1:3] == ["input x: f32[32, 64]", "output y: f32[32, 10]"]
    np.testing.assert_allclose(numbers(lines[-1]), expected.reshape(-1)[:8], rtol=1e-4)

    graph = scaled_rows()
    params = params_of(graph)
    lines = loaded(loader, aot(graph, tmp_path / "rows", params=params, weights=weights))
    (expected,) = evaluate(graph, {"x": np.ones((16, 5), np.float32), **params})
    assert lines[1:3] == ["input x: f32[n, 5]", "output y: f32[n]"]
    np.testing.assert_allclose(numbers(lines[-1]), expected[:8], rtol=1e-4)


@pytest.mark.slow
def test_params_that_a_run_replaces_are_marked(loader: Path, tmp_path: Path) -> None:
    graph = training_step()
    artifact = aot(graph, tmp_path, params=params_of(graph))
    lines = loaded(loader, artifact)
    assert "param w1: f32[64, 32], replaced by a run" in lines
    header = artifact.header.read_text()
    assert "// w1: f32[64, 32], 8192 bytes; a run replaces it by its next value\n" in header
    assert "// x: f32[32, 64], 8192 bytes; not changed by a run\n" in header


def statuses(artifact: Artifact) -> set[str]:
    prefix = artifact.name.upper()
    return set(re.findall(rf"^  {prefix}_(\w+) = \d+,", artifact.header.read_text(), re.MULTILINE))


def test_statuses_are_those_that_the_program_can_return(tmp_path: Path) -> None:
    always = {"OK", "NULL_ARENA", "MISALIGNED_ARENA", "NOT_SET_UP", "SHORT_ARENA"}
    weights = {"NO_WEIGHTS", "MISALIGNED_WEIGHTS", "FOREIGN_WEIGHTS", "CORRUPT_WEIGHTS"}
    params = params_of(mlp())
    embedded = aot(mlp(), tmp_path, params=params, weights="embed", emit_only=True)
    assert statuses(embedded) == always
    assert statuses(aot(mlp(), tmp_path, params=params, emit_only=True)) == always | weights
    rows = aot(scaled_rows(), tmp_path, emit_only=True)
    assert statuses(rows) == always | {"EXTENT_OUT_OF_RANGE"}
    table = aot(lookup(), tmp_path, emit_only=True)
    assert statuses(table) == always | {"INDEX_OUT_OF_RANGE"}
    assert "STATUS_INDEX_OUT_OF_RANGE = 5,\n};" in table.source.read_text()


def test_the_status_of_a_misaligned_arena_names_the_alignment_of_its_target(tmp_path: Path) -> None:
    small = aot(mlp(), tmp_path, target="cortex-m4", emit_only=True)
    assert '"the arena is not aligned to 8 bytes"' in small.source.read_text()


def test_params_are_reached_where_they_are(tmp_path: Path) -> None:
    graph = mlp()
    params = params_of(graph)
    ways = {"w1": "embed", "b1": "file", "w2": "argument", "b2": "embed"}
    artifact = aot(graph, tmp_path, params=params, weights=ways)
    (tmp_path / "use.c").write_text(
        '#include <stdio.h>\n#include "mlp.h"\n'
        "static _Alignas(64) unsigned char weights[MLP_WEIGHTS_BYTES];\n"
        "int main(void) {\n"
        '  FILE *file = fopen("mlp.weights", "rb");\n'
        "  if (file == NULL || fread(weights, 1, sizeof weights, file) == 0) return 1;\n"
        '  printf("= %.17g %.17g\\n", (double)mlp_embedded_w1()[7],\n'
        "    (double)mlp_weights_b1(weights)[3]);\n  return fclose(file);\n}\n"
    )
    run("cc", "-std=c11", *STRICT, "use.c", "libmlp.a", "-lm", cwd=tmp_path)
    expected = [float(params["w1"].reshape(-1)[7]), float(params["b1"][3])]
    assert numbers(run("./a.out", cwd=tmp_path)) == expected
    header = artifact.header.read_text()
    assert "mlp_arena_w2(" in header
    assert "mlp_arena_w1(" not in header


def test_enumerators_of_different_blocks_differ(tmp_path: Path) -> None:
    ways = {"w1": "embed", "b1": "file", "w2": "argument", "b2": "file"}
    graph = mlp()
    source = aot(graph, tmp_path, params=params_of(graph), weights=ways, emit_only=True).source
    text = source.read_text()
    assert "(constants + CONSTANTS_AT_W1)" in text
    assert "(weights + WEIGHTS_AT_B1)" in text
    assert not re.search(r"\((weights|constants) \+ AT_", text)
    assert not re.search(r"\(arena \+ (WEIGHTS|CONSTANTS)_AT_", text)


def test_updates_in_place_are_seen_in_names_and_comments(tmp_path: Path) -> None:
    text = aot(training_step(), tmp_path, emit_only=True).source.read_text()
    assert re.search(r"// %\d+ .*, in place of w1\n  \w+_64x32_in_place\(", text)
    assert re.search(r"\(void \*\)\(arena \+ AT_\w+_IN_W1\)\);", text)
    assert re.search(r"^// .* -> %\d+.*, in place\n", text, re.MULTILINE)


def test_versions_can_be_compared_by_the_preprocessor(tmp_path: Path) -> None:
    aot(mlp(), tmp_path, emit_only=True)
    (tmp_path / "use.c").write_text(
        '#include "mlp.h"\n#if MLP_ABI_VERSION != RLX_INFO_ABI_VERSION\n#error "another version"\n'
        "#endif\n#if MLP_RLX_VERSION_NUMBER < 100\n#error old\n#endif\n"
        "int main(void) { return sizeof MLP_RLX_VERSION == 0; }\n"
    )
    run("cc", "-std=c11", *STRICT, "-fsyntax-only", "use.c", cwd=tmp_path)


def nested() -> Graph:
    """A lookup in a loop's body and one outside of it: nodes of equal index, if bodies count."""

    def function(table: rlx.Array, rows: rlx.Array) -> rlx.Array:
        first = rlx.numpy.take(table, rows[0], axis=0)

        def step(carry: rlx.Array, row: rlx.Array) -> tuple[rlx.Array, None]:
            return carry + rlx.numpy.take(table, row, axis=0), None

        total: rlx.Array = rlx.scan(step, first * 0.0, rows[1:])[0] + first
        return total

    table = np.ones((4, 3), np.float32)
    return rlx.jit(function).named_graph(table, np.zeros((3, 2), np.int64))[0]


def test_nodes_of_different_bodies_have_numbers_of_their_own(tmp_path: Path) -> None:
    text = aot(nested(), tmp_path, name="nested", emit_only=True).source.read_text()
    calls = re.findall(r"^ +// %(\d+) ", text, re.MULTILINE)
    assert len(calls) == len(set(calls)) > 2
    faults = re.findall(r'case (\d+):\n    return "%(\d+) .*test_info.py:(\d+)"', text)
    assert len(faults) >= 2
    assert all(case == number for case, number, _ in faults)
    lines = Path(__file__).read_text().splitlines()
    assert all("numpy.take" in lines[int(line) - 1] for *_, line in faults)
    assert len({line for *_, line in faults}) == len(faults)
