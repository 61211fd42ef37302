"""Run rlx's tests, or any program, by Python for aarch64 under QEMU's user-mode emulation.

    python tools/arm64.py make build/arm64
    python tools/arm64.py test build/arm64 [--draw 16] [--jobs 2] [--seconds 1200] [tests/codegen]
    build/arm64/python -m pytest -n 0 tests/runtime/test_arrays.py

`make aarch64` does the first two. `test` runs each test file in a fork of one process that has
imported and compiled before: forks inherit what QEMU translated, so that a file does not begin with
twelve seconds of it. It prints a line for each file and their sum, and fails where a test failed,
or where a process took more than its seconds of processor time.

`make` needs the network and Debian's `qemu-user`, `gcc-aarch64-linux-gnu` and `apt-get`; it takes
660 MB. Python and its libraries are Debian's, packages are wheels. The C compiler is a cross
compiler, which is not emulated; programs that it makes are. The processor has `dotprod`, `i8mm` and
`bf16`, and no SVE.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
VERSION = "3.11"
PACKAGES = ("python3.11", "libpython3.11-dev", "libstdc++6", "libffi8", "libasan8", "libubsan1")
EXTRAS = ("llvm", "test")
LEFT_OUT = ("cppcheck", "httpx", "starlette", "wasmtime")
"""Packages that tests of runtime, codegen, passes, ONNX and GGUF do without."""
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
"""Debian's own, as this machine has them."""
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
FEATURES = "fp asimd evtstrm crc32 atomics fphp asimdhp asimdrdm asimddp i8mm bf16"
EMULATED = 'exec "{qemu}" -cpu max,sve=off -L "{root}"'
PYTHON = """#!/bin/sh
# Python for aarch64; it and what it starts by sys.executable are emulated.
export PATH="{directory}/bin:$PATH" RLX_CC="{directory}/bin/gcc" RLX_CACHE_DIR="{directory}/cache"
export PYTHONPATH="{tree}" PYTHONPYCACHEPREFIX="{directory}/bytecode" PYTHONDONTWRITEBYTECODE=
export CPATH="{root}/usr/include"
{emulated} -0 "{root}/usr/bin/emulated" "{root}/usr/bin/python{version}" "$@"
"""
COMPILER = """#!/bin/sh
# A cross compiler as the C compiler of the emulated machine: programs become scripts that run them.
program=yes out= before=
for word; do
  shift
  case $word in
    -march=native) word=-march=armv8.2-a+dotprod+i8mm+bf16 ;;
    -shared|-c|-E|-S|--version|-dumpmachine) program= ;;
  esac
  [ "$before" = -o ] && out=$word
  before=$word
  set -- "$@" "$word"
done
[ "$program" ] && [ "$out" ] || exec aarch64-linux-gnu-gcc "$@"
aarch64-linux-gnu-gcc "$@" -o "$out.elf" || exit
printf '#!/bin/sh\\n%s "%s.elf" "$@"\\n' '{emulated}' "$out" > "$out"
chmod +x "$out"
"""


ONNX = ("session", "load", "files", "trees")
CHOSEN = (
    *("tests/runtime", "tests/gguf"),
    *(f"tests/onnx/test_{name}.py" for name in ONNX),
    *("tests/passes", "tests/codegen"),
)
"""What `test` runs by default."""
NOTHING_COLLECTED = 5
"""Pytest's exit status where no test was drawn."""
WAITED = 20
"""Seconds that a file may take for each of its seconds of processor time: others compute, too."""
COUNTED = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=["make", "test"])
    parser.add_argument("directory", type=Path, help="of the emulated system")
    parser.add_argument("paths", nargs="*", default=CHOSEN, help="test files, or directories")
    parser.add_argument("--draw", default="16", help="of each test's cases run one in DRAW")
    parser.add_argument("--jobs", type=int, default=1, help="files that run at the same time")
    parser.add_argument("--seconds", type=int, default=600, help="of processor time for each file")
    chosen = parser.parse_intermixed_args()
    directory = chosen.directory.absolute()
    if chosen.action == "make":
        make(directory)
    elif sys.executable == str(directory / "root/usr/bin/emulated"):
        sys.exit(test_forked(chosen))
    else:
        os.execv(directory / "python", [str(directory / "python"), *sys.argv])


def test_forked(chosen: argparse.Namespace) -> int:
    """Run each file by pytest in a fork of this process, which compiles a program first."""
    import pytest

    _compile_what_tests_do()
    kind = ("-n", "0", "-m", "not slow and not timed", "-p", "no:cacheprovider")
    draw = ("--draw", chosen.draw)
    options = (*kind, *draw, "-W", "ignore::pytest.PytestAssertRewriteWarning")
    files = test_files(chosen.paths)
    return test(lambda file: pytest.main([*options, str(file)]), files, chosen.seconds, chosen.jobs)


def _compile_what_tests_do() -> None:
    """Compile products, reductions, sorts, loops and derivatives, so that QEMU translates those."""
    import numpy as np

    import rlx
    import rlx.numpy as rnp

    def f(x: Any) -> Any:
        image = rlx.nn.conv(x[None, None], x[None, None, :3, :3])
        rows = rlx.nn.softmax(rnp.sort(x @ x.T)[x.argmax(axis=0)] / rnp.cumsum(x, axis=1))
        last, _ = rlx.lax.scan(lambda c, row: (rnp.tanh(c @ x) * row, c), x[0], rows)
        return last.sum() + image.max() + rnp.where(x > 0, x.astype("int8"), x).mean()

    for name in ("hypothesis", "onnx", "scipy.special"):
        importlib.import_module(name)
    x = np.random.default_rng(0).random((8, 8), "f4")
    for backend in ("c", "llvm"):
        rlx.jit(rlx.value_and_grad(f), backend=backend)(x)


def test_files(paths: Iterable[str]) -> list[Path]:
    """Return the test files, relative to the root of the repository."""
    found = (ROOT / path for path in paths)
    files = (file for each in found for file in ([each] if each.is_file() else _tests(each)))
    return [file.relative_to(ROOT) for file in files]


def _tests(directory: Path) -> list[Path]:
    return sorted(directory.rglob("test_*.py"))


def test(run: Callable[[Path], int], files: Iterable[Path], seconds: int, jobs: int) -> int:
    """Run each file in a fork, `jobs` at a time; print its counts, and the sum of all.

    Return 1 if some did not pass.
    """
    total: Counter[str] = Counter()
    bad = 0
    waiting, running = deque(files), list[Fork]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(Fork(run, waiting.popleft(), seconds))
            time.sleep(0.1)
            for fork in [each for each in running if each.has_ended()]:
                running.remove(fork)
                bad += not report(fork, total)
    finally:
        for fork in running:
            fork.stop()
    failed = total["failed"] + total["error"]
    print(f"{bad} files did not pass")
    print(f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped")
    return min(bad, 1)


def report(fork: Fork, total: Counter[str]) -> bool:
    """Print the counts of a file that has ended, and its output if it did not pass."""
    status, output = fork.status, fork.output()
    last = output.rstrip().rpartition("\n")[2]
    counts = {name.rstrip("s"): int(count) for count, name in COUNTED.findall(last)}
    passes = status in (0, NOTHING_COLLECTED)
    total.update(counts)
    words = last.partition(" in ")[0].strip("= ") if counts or passes else "no result"
    stopped = f", stopped after {fork.seconds} s"
    ending = stopped if status is None else f", exit status {status}"
    took = f"({fork.used:.0f} s of {time.monotonic() - fork.begin:.0f} s)"
    print(f"{fork.file}: {words}{'' if passes else ending} {took}")
    if not passes:
        print(output)
    sys.stdout.flush()
    return passes


class Fork:
    """A fork of this process that runs `run(file)`: its exit status, output and processor time.

    There is no status where it took more than `seconds` of processor time, or where it waited for
    twenty times as long: it and what it began are killed.
    """

    def __init__(self, run: Callable[[Path], int], file: Path, seconds: int) -> None:
        self.file, self.seconds = file, seconds
        self.status: int | None = None
        self.used = 0.0
        self.begin = time.monotonic()
        self._output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._child = os.fork()
        if self._child == 0:
            self._run(run)

    def _run(self, run: Callable[[Path], int]) -> NoReturn:
        os.setsid()
        os.chdir(ROOT)
        os.dup2(self._output.fileno(), 1)
        os.dup2(self._output.fileno(), 2)
        sys.stdout = sys.stderr = self._output
        resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds + 1))
        status = 1
        try:
            status = run(self.file)
        except BaseException:
            traceback.print_exc()
        finally:
            self._output.flush()
            os._exit(status)

    def has_ended(self) -> bool:
        """Return whether the fork has ended; stop it where it waits for too long."""
        child, status, usage = os.wait4(self._child, os.WNOHANG)
        if child:
            self.used = usage.ru_utime + usage.ru_stime
            code = os.waitstatus_to_exitcode(status)
            self.status = None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code
        elif time.monotonic() - self.begin > WAITED * self.seconds:
            self.stop()
            return True
        return child != 0

    def stop(self) -> None:
        """Kill the fork and what it began."""
        os.killpg(self._child, signal.SIGKILL)
        usage = os.wait4(self._child, 0)[2]
        self.used = usage.ru_utime + usage.ru_stime

    def output(self) -> str:
        """Return what the fork has printed."""
        with self._output:
            self._output.seek(0)
            return self._output.read()


def make(directory: Path) -> None:
    """Write the root of the emulated system, and the commands `python` and `cc`."""
    _required("aarch64-linux-gnu-gcc")
    root = directory / "root"
    root.mkdir(parents=True)
    for package in _downloaded(directory / "apt"):
        run("dpkg", "-x", package, root)
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cpuinfo").write_text(f"processor\t: 0\nFeatures\t: {FEATURES}\n\n")
    _install(root / "usr/lib/python3/dist-packages")
    emulated = EMULATED.format(root=root, qemu=_required("qemu-aarch64"))
    names = {"directory": directory, "tree": ROOT, "root": root, "version": VERSION}
    python = root / "usr/bin/emulated"
    (directory / "bin").mkdir()
    for path, text in (
        (directory / "python", PYTHON),
        (python, PYTHON),
        (directory / "bin/gcc", COMPILER),
    ):
        path.write_text(text.format(emulated=emulated, **names))
        path.chmod(0o755)


def _required(program: str) -> str:
    """Return the path of a program of Debian's packages: tests hide the PATH."""
    found = shutil.which(program)
    if found is None:
        sys.exit(f"{program} is missing: apt-get install qemu-user gcc-aarch64-linux-gnu")
    return found


def _downloaded(directory: Path) -> list[Path]:
    """Return Debian's packages for arm64 with all that they need; nothing is installed."""
    for part in ("lists/partial", "cache/archives/partial"):
        (directory / part).mkdir(parents=True)
    (directory / "status").touch()
    (directory / SOURCES.name).write_text(SOURCES.read_text())
    settings = {
        "Dir::State::Lists": directory / "lists", "Dir::State::status": directory / "status",
        "Dir::Cache": directory / "cache", "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": directory, "APT::Architecture": "arm64",
        "APT::Architectures": "arm64", "APT::Install-Recommends": "0",
    }  # fmt: skip
    options = [f"-o{name}={value}" for name, value in settings.items()]
    run("apt-get", "-qq", *options, "update")
    run("apt-get", "-qq", *options, "--download-only", "-y", "install", *PACKAGES)
    return sorted((directory / "cache/archives").glob("*.deb"))


def _install(directory: Path) -> None:
    """Install the wheels for aarch64 of rlx's dependencies and of its tests'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (name for extra in EXTRAS for name in project["optional-dependencies"][extra])
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    kinds = ("--only-binary=:all:", "--python-version", VERSION, *platforms)
    wanted = (*project["dependencies"], *(name for name in extras if not name.startswith(LEFT_OUT)))
    run(sys.executable, "-m", "pip", "install", "--quiet", *kinds, "--target", directory, *wanted)


def run(*command: str | Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([str(word) for word in command], check=True, env=environment)


if __name__ == "__main__":
    main()
