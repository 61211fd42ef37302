"""A compiler proves itself before it is used: right ones, wrong ones, and what is said of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.errors import ToolchainError
from rlx.report.doctor import examine
from rlx.runtime.c_backend import CBackend
from rlx.runtime.probe import prove, proven_flags
from rlx.runtime.toolchain import describe, find_toolchain, has_toolchain
from rlx.target import detect_target

pytestmark = pytest.mark.skipif(not has_toolchain(), reason="there is no C compiler")
ALWAYS = 'exec {cc} "$@" -ffast-math'
UNLESS_PLAIN = 'case " $* " in *" -O1 "*) exec {cc} "$@";; *) exec {cc} "$@" -ffast-math;; esac'
WHEN_WIDE = (
    'case " $* " in *=256*) exec {cc} "$@";; *=512*) exec {cc} "$@" -ffast-math;; '
    '*) exec {cc} "$@";; esac'
)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for wrappers, and a cache of this test's own."""
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def wrapper(directory: Path, body: str, name: str = "mycc") -> Path:
    """Write a compiler that counts its calls and does `body`."""
    path = directory / name
    log = directory / f"{name}.log"
    real = shutil.which(find_toolchain().command[0])
    path.write_text(f'#!/bin/sh\necho "$*" >> {log}\n{body.format(cc=real)}\n')
    path.chmod(0o755)
    return path


def calls(directory: Path, name: str = "mycc") -> list[str]:
    return (directory / f"{name}.log").read_text().splitlines()


def test_a_good_compiler_gets_the_usual_flags_and_is_tried_once(directory: Path) -> None:
    toolchain = describe((str(wrapper(directory, 'exec {cc} "$@"')),))
    target = detect_target()
    assert proven_flags(toolchain, target) == toolchain.flags(target)
    prove(toolchain, toolchain.flags(target))
    assert len([line for line in calls(directory) if "probe.c" in line]) == 1


def test_the_verdict_is_kept_for_other_processes(directory: Path) -> None:
    from rlx.runtime import probe

    toolchain = describe((str(wrapper(directory, 'exec {cc} "$@"')),))
    flags = toolchain.flags(detect_target())
    first = prove(toolchain, flags)
    probe._prove.cache_clear()
    assert prove(toolchain, flags) == first
    assert len([line for line in calls(directory) if "probe.c" in line]) == 1


@pytest.mark.slow
def test_another_file_under_the_same_name_is_tried_again(directory: Path) -> None:
    toolchain = describe((str(wrapper(directory, 'exec {cc} "$@"')),))
    flags = toolchain.flags(detect_target())
    assert prove(toolchain, flags).fault == ""
    wrapper(directory, UNLESS_PLAIN)
    assert "NaN is unordered" in prove(toolchain, flags).fault


@pytest.mark.slow
def test_a_compiler_that_is_right_without_optimization_gets_safe_flags(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CC", str(wrapper(directory, UNLESS_PLAIN)))
    x = np.array([np.nan, 1.0, -2.0])
    result = np.asarray(rlx.jit(lambda x: x / abs(x), backend="c")(x))
    np.testing.assert_array_equal(result, [np.nan, 1.0, -1.0])
    assert all("-O1" in line for line in calls(directory) if "-shared" in line)
    text = str(examine())
    assert "all 11 known answers with -O1" in text
    assert "for without them it fails at: " in text
    assert "NaN is unordered" in text


@pytest.mark.skipif(not detect_target().has("avx512f"), reason="only then are vectors so wide")
def test_a_compiler_that_is_wrong_with_wide_vectors_gets_narrower_ones(directory: Path) -> None:
    toolchain = describe((str(wrapper(directory, WHEN_WIDE)),))
    flags = toolchain.flags(detect_target())
    assert prove(toolchain, flags).flags == (*flags, "-mprefer-vector-width=256")


@pytest.mark.slow
def test_a_compiler_that_is_always_wrong_is_refused_by_name(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wrapper(directory, ALWAYS)
    monkeypatch.setenv("RLX_CC", str(path))
    with pytest.raises(ToolchainError, match=r"NaN is unordered.*\n.*backend='llvm'") as caught:
        rlx.jit(lambda x: x + 1, backend="c")(np.ones(3))
    assert str(path) in str(caught.value)
    with pytest.raises(ToolchainError, match="gives wrong results"):
        CBackend().version(detect_target())
    with pytest.raises(ToolchainError, match="gives wrong results"):
        rlx.aot(
            rlx.jit(lambda x: x + 1), directory / "out", example_inputs=(np.ones(3),), name="plus"
        )
    line = next(f for f in examine().findings if f.subject == "C compiler")
    assert not line.found
    assert str(path) in line.text


def test_a_program_that_is_no_compiler_is_refused_by_name(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wrapper(directory, "exit 0", "nocc")
    monkeypatch.setenv("RLX_CC", str(path))
    with pytest.raises(ToolchainError, match=r"nocc` made no program that runs"):
        rlx.jit(lambda x: x + 1, backend="c")(np.ones(3))
