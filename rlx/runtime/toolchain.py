"""Finding and running the C compiler.

`RLX_CC` names the compiler, then `CC`; otherwise the first of cc, gcc and clang on the path.
Both variables may hold arguments, such as `ccache gcc`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from rlx.dataclass import dataclass
from rlx.errors import ToolchainError
from rlx.homes import later
from rlx.target import Target

if TYPE_CHECKING:
    import shlex
    import shutil
    import subprocess
    import tempfile
else:
    shlex, shutil, subprocess, tempfile = later("shlex", "shutil", "subprocess", "tempfile")

_CANDIDATES = ("cc", "gcc", "clang")
_MICROSOFT = ("cl", "clang-cl")
_TIMEOUT_SECONDS = 600
_POLL_SECONDS = 0.004
_WORDS_KEPT = 4000


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler: the command that runs it and what it says it is."""

    command: tuple[str, ...]
    version: str

    def flags(self, target: Target) -> tuple[str, ...]:
        """Return the flags for a shared library on this machine.

        No contraction and no fast-math: results do not depend on the compiler's taste. Errno and
        trapping are given up, as nothing reads them and they keep loops from vectorizing.
        """
        flags = ["-std=c11", "-O3", "-march=native", "-fPIC", "-shared"]
        flags += ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
        if target.has("avx512f"):
            flags.append("-mprefer-vector-width=512")
        if target.scalable_bytes:
            flags.append(f"-msve-vector-bits={8 * target.scalable_bytes}")
        return tuple(flags)

    def compile_library(self, source: Path, library: Path, flags: tuple[str, ...]) -> None:
        """Compile `source` into the shared library `library`, or raise ToolchainError."""
        run_tool([*self.command, *flags, "-o", str(library), str(source), "-lm"])

    def compile_objects(
        self, sources: Sequence[Path], flags: tuple[str, ...], processes: int
    ) -> list[Path]:
        """Compile each source to an object next to it, by up to so many processes at a time."""
        only_objects = [flag for flag in flags if flag != "-shared"]
        objects = [source.with_suffix(".o") for source in sources]
        run_tools(
            [
                [*self.command, *only_objects, "-c", "-o", str(made), str(source)]
                for source, made in zip(sources, objects, strict=True)
            ],
            processes,
        )
        return objects

    def link_library(self, objects: Sequence[Path], library: Path, flags: tuple[str, ...]) -> None:
        """Link objects into the shared library `library`, or raise ToolchainError."""
        run_tool([*self.command, *flags, "-o", str(library), *map(str, objects), "-lm"])


def find_toolchain() -> Toolchain:
    """Return the C compiler of this environment, or raise ToolchainError."""
    return _toolchain(os.environ.get("RLX_CC"), os.environ.get("CC"), os.environ.get("PATH"))


def has_toolchain() -> bool:
    """True if there is a C compiler that runs."""
    try:
        find_toolchain()
    except ToolchainError:
        return False
    return True


@functools.cache
def has_llvm() -> bool:
    """True if llvmlite is installed; nothing is loaded."""
    return importlib.util.find_spec("llvmlite") is not None


def require_llvm() -> None:
    """Raise ToolchainError where llvmlite is missing."""
    if not has_llvm():
        raise ToolchainError(
            "the LLVM backend needs llvmlite, which is not installed",
            remedy="pip install llvmlite" + (", or use backend='c'" if has_toolchain() else ""),
        )


def run_tool(command: list[str]) -> str:
    """Run a tool and return what it printed; a failure quotes its own words."""
    with _named_failures(command):
        done = _run_with_children(command)
    _check(command, done.returncode, done.stderr or done.stdout)
    return done.stdout


def run_tools(commands: Sequence[list[str]], processes: int) -> None:
    """Run tools, up to `processes` at a time; where one fails, or is interrupted, all are ended."""
    waiting = list(reversed(commands))
    running: list[_RunningTool] = []
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                running.append(_RunningTool(waiting.pop()))
            time.sleep(_POLL_SECONDS)
            running = [tool for tool in running if not tool.has_ended()]
    finally:
        for tool in running:
            _kill(tool.process)
            tool.process.wait()


class _RunningTool:
    """A process whose words are read once it has ended."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._limit = time.monotonic() + _TIMEOUT_SECONDS
        self._words = tempfile.TemporaryFile()  # a pipe that is not read would be full
        with _named_failures(command):
            self.process = subprocess.Popen(command, stdout=self._words, stderr=self._words)

    def has_ended(self) -> bool:
        """True if it has ended well; a failure is an error."""
        code = self.process.poll()
        if code is None:
            if time.monotonic() > self._limit:
                with _named_failures(self._command):
                    raise subprocess.TimeoutExpired(self._command, _TIMEOUT_SECONDS)
            return False
        with self._words:
            self._words.seek(0)
            _check(self._command, code, self._words.read().decode(errors="replace"))
        return True


def _check(command: list[str], code: int, words: str) -> None:
    if code != 0:
        raise ToolchainError(
            f"`{shlex.join(command)}` failed with exit code {code}:\n{words.strip()[:_WORDS_KEPT]}",
            remedy='set CC to another compiler, or use backend="llvm"',
        )


@contextlib.contextmanager
def _named_failures(command: list[str]) -> Iterator[None]:
    """Turn what keeps a tool from running into errors that name it."""
    shown = shlex.join(command)
    try:
        yield
    except OSError as error:
        raise ToolchainError(
            f"cannot run `{shown}`: {error.strerror}", remedy="set CC to a compiler that runs"
        ) from error
    except UnicodeError as error:
        raise ToolchainError(
            f"`{shown!r}` cannot be passed on in this locale: {error}",
            remedy="set LC_ALL to a UTF-8 locale",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(
            f"`{shown}` did not end in {_TIMEOUT_SECONDS} s",
            remedy='compile a smaller program, or with optimize="size"',
        ) from error


def _run_with_children(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a process of which nothing is left running after an interrupt or too long a time.

    It stays in this one's group: what ends the whole group (a closed terminal, `timeout`) ends it.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            printed, words = process.communicate(timeout=_TIMEOUT_SECONDS)
        except BaseException:
            _kill(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, printed, words)


def _kill(process: subprocess.Popen[Any]) -> None:
    """End a process, if it runs still, and what it started: a compiler's driver runs others."""
    started = _descendants(process.pid) if process.poll() is None else []
    process.kill()
    for each in started:
        with contextlib.suppress(OSError):  # it has ended
            os.kill(each, signal.SIGKILL)


def _descendants(process: int) -> list[int]:
    """Return what a process started, by Linux's account; elsewhere clang compiles by itself."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = path.read_text(errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(path.parent.name))
    found = [process]
    for each in found:
        found += children.get(each, [])
    return found[1:]


@functools.cache
def _toolchain(rlx_cc: str | None, cc: str | None, path: str | None) -> Toolchain:
    """Cached by the environment it was asked in; `path` only serves as part of the key."""
    del path
    for variable, value in (("RLX_CC", rlx_cc), ("CC", cc)):
        if value:
            return _named(variable, _words(variable, value))
    for name in _CANDIDATES:
        if shutil.which(name):
            return describe((name,))
    raise ToolchainError(
        f"no C compiler found: none of {', '.join(_CANDIDATES)} is on the path",
        remedy="install gcc or clang, set RLX_CC, or "
        + ("use backend='llvm'" if has_llvm() else "pip install llvmlite for backend='llvm'"),
    )


def command_words(text: str, *, on_windows: bool = os.name == "nt") -> tuple[str, ...]:
    """Split a command with its arguments; the path of a program is one word, whatever is in it.

    On Windows backslashes separate directories and quote nothing. ValueError for an open quote.
    """
    if shutil.which(text):
        return (text,)
    return tuple(word.strip('"') for word in shlex.split(text, posix=not on_windows))


def refuse_msvc(command: tuple[str, ...]) -> None:
    """Raise ToolchainError for a compiler that takes the options of Microsoft's."""
    name = PureWindowsPath(command[0]).stem.lower()
    if name in _MICROSOFT:
        raise ToolchainError(
            f"{command[0]!r} takes Microsoft's options, and rlx compiles with those of GCC",
            remedy="name gcc or clang, or leave the compiler out and use backend='llvm'; C for "
            f"{name} is what rlx.aot(..., target='x86_64-windows-msvc', emit_only=True) writes",
        )


def _words(variable: str, value: str) -> tuple[str, ...]:
    try:
        words = command_words(value)
    except ValueError as error:
        raise ToolchainError(
            f"{variable} is not a command: {value!r}: {error}",
            remedy=f"correct or unset {variable}",
        ) from error
    if not words:
        raise ToolchainError(
            f"{variable} names no command: {value!r}", remedy=f"correct or unset {variable}"
        )
    return words


def _named(variable: str, command: tuple[str, ...]) -> Toolchain:
    if shutil.which(command[0]) is None:
        raise ToolchainError(
            f"{variable} names the C compiler {command[0]!r}, which is not on the path",
            remedy=f"correct or unset {variable}",
        )
    return describe(command)


def describe(command: tuple[str, ...]) -> Toolchain:
    """Return the compiler that `command` runs, or raise ToolchainError."""
    refuse_msvc(command)
    text = run_tool([*command, "--version"])
    return Toolchain(command, text.partition("\n")[0].strip())
