"""Finding the compiler, and what is said when it is missing or fails."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from rlx.errors import ToolchainError
from rlx.runtime import toolchain
from rlx.runtime.toolchain import find_toolchain, has_toolchain, run_tool
from rlx.target import detect_target


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment whose path is one empty directory."""
    monkeypatch.delenv("RLX_CC", raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_rlx_cc_comes_before_cc(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(bare / "mine", "echo mine 1.0")
    script(bare / "other", "echo other 2.0")
    monkeypatch.setenv("CC", "other")
    assert find_toolchain().version == "other 2.0"
    monkeypatch.setenv("RLX_CC", "mine -m64")
    assert find_toolchain().version == "mine 1.0"
    assert find_toolchain().command == ("mine", "-m64")


def test_gcc_is_found_when_there_is_no_cc(bare: Path) -> None:
    script(bare / "gcc", "echo gcc 12")
    assert find_toolchain().command == ("gcc",)


def test_no_compiler_names_what_was_tried_and_the_other_backend(bare: Path) -> None:
    assert not has_toolchain()
    with pytest.raises(ToolchainError, match=r"none of cc, gcc, clang.*\n.*backend='llvm'"):
        find_toolchain()
    assert list(bare.iterdir()) == []


@pytest.mark.usefixtures("bare")
def test_a_variable_that_names_nothing_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_CC", "no-such-compiler")
    with pytest.raises(ToolchainError, match="RLX_CC names the C compiler 'no-such-compiler'"):
        find_toolchain()


def test_a_failing_tool_is_quoted_with_command_and_exit_code(tmp_path: Path) -> None:
    tool = script(tmp_path / "tool", "echo 'line 3: no such thing' >&2; exit 4")
    with pytest.raises(ToolchainError) as caught:
        run_tool([str(tool), "-x"])
    message = str(caught.value)
    assert f"`{tool} -x` failed with exit code 4" in message
    assert "line 3: no such thing" in message


def test_a_tool_that_is_no_program_is_reported() -> None:
    with pytest.raises(ToolchainError, match="cannot run `/nonexistent/cc`"):
        run_tool(["/nonexistent/cc"])


def test_flags_forbid_contraction_and_fast_math() -> None:
    if not has_toolchain():
        pytest.skip("there is no C compiler")
    flags = find_toolchain().flags(detect_target())
    assert "-ffp-contract=off" in flags
    assert "-ffast-math" not in flags


def test_output_of_a_tool_is_returned() -> None:
    assert run_tool([sys.executable, "-c", "print('hello')"]) == "hello\n"


@pytest.mark.skipif(os.name != "posix", reason="processes have no groups here")
def test_what_takes_too_long_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver starts the compiler proper, which would run on without it."""
    monkeypatch.setattr(toolchain, "_TIMEOUT_SECONDS", 3)
    started = tmp_path / "started"
    with pytest.raises(ToolchainError, match="did not end in 3 s"):
        run_tool(["sh", "-c", f"sleep 1000 & echo $! > {started}; wait"])
    child = int(started.read_text())
    stop = time.monotonic() + 60
    while _runs(child) and time.monotonic() < stop:
        time.sleep(0.01)
    assert not _runs(child)


def _runs(process: int) -> bool:
    """True for a process that has not ended, or whose end nobody has asked for."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")
