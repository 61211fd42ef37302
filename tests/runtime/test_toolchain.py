"""Finding the compiler, and what is said when it is missing or fails."""

from __future__ import annotations

import os
import signal
import subprocess
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


@pytest.mark.skipif(
    not any(Path("/proc").glob("[0-9]*/stat")),
    reason="/proc does not list processes, of which descendants of a tool are found",
)
def test_what_takes_too_long_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver starts the compiler proper, which would run on without it."""
    monkeypatch.setattr(toolchain, "_TIMEOUT_SECONDS", 3)
    started = tmp_path / "started"
    with pytest.raises(ToolchainError, match="did not end in 3 s"):
        run_tool(["sh", "-c", f"sleep 1000 & echo $! > {started}; wait"])
    assert _ends(int(started.read_text()))


@pytest.mark.parametrize("then", ["exit", "sleep 1000"])
def test_an_interrupt_stays_one_whether_the_tool_ends_by_itself_or_not(
    then: str, tmp_path: Path
) -> None:
    """`communicate` waits for a tool that ends after an interrupt, and nothing is left to kill."""
    started, interrupted = tmp_path / "started", tmp_path / "interrupted"

    def interrupt(*_: object) -> None:
        if started.exists() and not interrupted.exists():
            interrupted.touch()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    wait = f"until [ -e {interrupted} ]; do sleep 0.01; done"
    try:
        with pytest.raises(KeyboardInterrupt):
            run_tool(["sh", "-c", f"echo $$ > {tmp_path}/pid; touch {started}; {wait}; {then}"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert _ends(int((tmp_path / "pid").read_text()))


def test_a_tool_ends_with_the_group_of_its_process(tmp_path: Path) -> None:
    """As `timeout` ends a command, and a terminal that is closed."""
    started = tmp_path / "started"
    tool = ["sh", "-c", f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 1000"]
    code = f"from rlx.runtime.toolchain import run_tool; run_tool({tool})"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        stop = time.monotonic() + 60
        while not started.exists() and time.monotonic() < stop:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGTERM)
    assert _ends(int(started.read_text()))


def _ends(process: int) -> bool:
    """True as soon as a process has ended; False if it runs for another minute."""
    stop = time.monotonic() + 60
    while _runs(process) and time.monotonic() < stop:
        time.sleep(0.01)
    return not _runs(process)


def _runs(process: int) -> bool:
    """True for a process that has not ended, or whose end was not waited for."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")
