"""Test files on an emulated machine: `tools/arm64.py`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import arm64
from tools.arm64 import ROOT

SYSTEM = ROOT / "build" / "arm64"


def run(file: Path) -> int:
    """Return the status of the file's program."""
    try:
        exec(file.read_text())
    except SystemExit as stop:
        return int(str(stop))
    return 0


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("print('3 passed, 1 skipped in 0.1s')", "f.py: 3 passed, 1 skipped ("),
        (
            "print('1 failed, 2 passed in 0.1s'); raise SystemExit(1)",
            "f.py: 1 failed, 2 passed, exit status 1",
        ),
        ("print('8 deselected in 0.1s'); raise SystemExit(5)", "f.py: 8 deselected ("),
        ("raise ValueError('why')", "f.py: no result, exit status 1 ("),
        ("import os; os.kill(os.getpid(), 11)", "f.py: no result, exit status -11"),
        ("while True: pass", "f.py: no result, stopped after 1 s"),
        ("import time; time.sleep(999)", "f.py: no result, stopped after 1 s"),
    ],
)
def test_each_file_has_its_counts_and_what_ended_it(
    program: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "sleep" in program:
        monkeypatch.setattr(arm64, "WAITED", 2)
    file = tmp_path / "f.py"
    file.write_text(program)
    status = arm64.test(run, [file], seconds=1, jobs=1)
    output = capsys.readouterr().out
    assert line in output
    passes = line.endswith("(") and "exit" not in line
    assert status == (not passes)
    assert f"{not passes:d} files did not pass" in output


def test_files_run_at_the_same_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    begun = tmp_path / "begun"
    first.write_text(
        "import time\n"
        f"while not Path({str(begun)!r}).exists():\n"
        "    time.sleep(0.01)\n"
        "print('2 passed in 0.1s')"
    )
    second.write_text(f"Path({str(begun)!r}).touch(); print('1 passed in 0.1s')")
    assert arm64.test(run, [first, second], seconds=20, jobs=2) == 0
    assert capsys.readouterr().out.endswith("3 passed, 0 failed, 0 skipped\n")


def test_folders_are_walked() -> None:
    found = arm64.test_files(["tests/codegen/llvm", "tests/test_target.py"])
    assert Path("tests/codegen/llvm/test_jit.py") in found
    assert found[-1] == Path("tests/test_target.py")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is not installed")
@pytest.mark.skipif(not (SYSTEM / "python").exists(), reason="`make aarch64` has not been run")
def test_a_file_runs_to_its_end_on_aarch64() -> None:
    file = "tests/codegen/llvm/test_calls.py"
    command = [sys.executable, str(ROOT / "tools/arm64.py"), "test", str(SYSTEM), file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout
    assert "\n0 files did not pass\n" in done.stdout
    assert " passed" in done.stdout.splitlines()[0]
