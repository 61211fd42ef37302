"""Edited C, compiled again: for programs that run from Python and for artifacts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlx.errors import FormatError, InputError, ToolchainError, UnsupportedError
from rlx.ir.graph import Graph
from rlx.report.stages import Stages
from rlx.runtime.aot import aot
from rlx.runtime.compile import compile
from rlx.runtime.executable import Executable
from rlx.runtime.rebuild import rebuild_artifact
from rlx.target import detect_target


def scaled() -> Graph:
    g = Graph("scaled")
    x = g.input("x", (3,))
    g.set_outputs([x * x + 7.0])  # fused: the number is in the code
    return g


def executable() -> Executable:
    f = compile(scaled(), backend="c", threads=1)
    assert isinstance(f, Executable)
    return f


def test_edited_c_runs_in_place_of_the_generated(tmp_path: Path) -> None:
    f, x = executable(), np.ones(3, np.float32)
    edited = tmp_path / "edited.c"
    edited.write_text(f.c_source.replace("7.0f", "5.0f"))
    np.testing.assert_array_equal(f.rebuild(edited)(x=x)[0], [6, 6, 6])
    np.testing.assert_array_equal(f(x=x)[0], [8, 8, 8])


def test_c_without_caller_s_buffers_has_large_arrays_in_the_arena(tmp_path: Path) -> None:
    g = Graph("large")
    g.set_outputs([g.input("x", (200, 200)) * 2.0])
    f, x = compile(g, backend="c", threads=1), np.ones((200, 200), np.float32)
    assert isinstance(f, Executable)
    edited = tmp_path / "edited.c"
    stages = Stages.of(g, detect_target(), libraries=False)
    edited.write_text(stages.text("c").replace("x[i] * 2.0f", "x[i] + 2.0f"))
    assert "run_at" in f.c_source
    assert "run_at" not in edited.read_text()
    np.testing.assert_array_equal(f.rebuild(edited)(x=x)[0], x + 2)


def test_c_without_the_entry_points_is_refused(tmp_path: Path) -> None:
    edited = tmp_path / "edited.c"
    edited.write_text("int other(void);\nint other(void) { return 0; }\n")
    with pytest.raises(ToolchainError, match="has no symbol scaled_setup"):
        executable().rebuild(edited)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*absent.c"):
        executable().rebuild(tmp_path / "absent.c")


def test_an_artifact_is_rebuilt_in_place(tmp_path: Path) -> None:
    artifact = aot(scaled(), tmp_path, name="m")
    assert artifact.library is not None
    before = artifact.library.read_bytes()
    artifact.source.write_text(artifact.source.read_text().replace("7.0f", "5.0f"))
    library, archive = rebuild_artifact(tmp_path)
    assert library is not None
    assert (library, archive) == (artifact.library, artifact.archive)
    assert library.read_bytes() != before


def test_a_directory_with_two_artifacts_is_refused(tmp_path: Path) -> None:
    for name in ("first", "second"):
        aot(scaled(), tmp_path, name=name, emit_only=True)
    with pytest.raises(FormatError, match="holds 2 artifacts"):
        rebuild_artifact(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [("flags", ["-O3", "-fplugin=./evil.so"], FormatError),
     ("libraries", ["-B/tmp/evil"], FormatError),
     ("name", "../evil", UnsupportedError)],
)  # fmt: skip
def test_a_manifest_gives_the_compiler_no_options_of_its_own(
    tmp_path: Path, key: str, value: object, error: type[Exception]
) -> None:
    graph = Graph("small")
    graph.set_outputs([graph.exp(graph.input("x", (2,)))])
    artifact = aot(graph, tmp_path, emit_only=True)
    facts = json.loads(artifact.manifest_path.read_text())
    artifact.manifest_path.write_text(json.dumps({**facts, key: value}))
    with pytest.raises(error, match="evil"):
        rebuild_artifact(tmp_path)
