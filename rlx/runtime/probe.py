"""What a C compiler must get right before it is used.

A program of known answers (`templates/probe.c.j2`) is compiled with the flags that real code would
get, and run. The verdict is kept in the cache, by the compiler's identity. A compiler that fails
gets flags under which it passes; one for which there are none is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.dataclass import dataclass
from rlx.errors import ToolchainError
from rlx.homes import later
from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.runtime.toolchain import Toolchain, run_tool
from rlx.target import Target, detect_target

if TYPE_CHECKING:
    import shlex
    import shutil
    import subprocess
else:
    shlex, shutil, subprocess = later("shlex", "shutil", "subprocess")

_TEMPLATES = Path(__file__).parents[1] / "codegen" / "templates"
_NARROW = ("-mprefer-vector-width=256",)
_PLAIN = ("-O1", "-fno-openmp-simd", "-fno-tree-vectorize")
"""Flags that switch off what compilers get wrong most: they come last, and the last one counts."""
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a compiler passed with some flags, and its answers: those it got wrong, if any."""

    passed: bool
    words: str


@dataclass(frozen=True, slots=True)
class Proof:
    """Flags under which a compiler is right, what it said, and what it got wrong without them."""

    flags: tuple[str, ...]
    words: str
    more: tuple[str, ...] = ()
    """The last of the flags: what was added to those asked about."""
    fault: str = ""


def proven_flags(toolchain: Toolchain, target: Target) -> tuple[str, ...]:
    """Return the flags for a shared library with which the compiler passes; ToolchainError if none.

    They are the usual ones for a compiler without faults.
    """
    return prove(toolchain, toolchain.flags(target)).flags


def prove(toolchain: Toolchain, flags: tuple[str, ...]) -> Proof:
    """Return `flags`, safer ones where the compiler fails with them, or raise ToolchainError."""
    return _prove(toolchain, _identity(toolchain), flags)


@functools.cache
def _prove(toolchain: Toolchain, identity: tuple[str, ...], flags: tuple[str, ...]) -> Proof:
    fault = ""
    for more in _attempts(flags):
        verdict = _verdict(toolchain, identity, (*flags, *more))
        if verdict.passed:
            return Proof((*flags, *more), verdict.words, more, fault)
        fault = fault or verdict.words
    raise ToolchainError(
        f"the C compiler `{shlex.join(toolchain.command)}` ({toolchain.version}) gives wrong "
        f"results: it fails at: {fault}",
        remedy="name another one in RLX_CC, or use backend='llvm'",
    )


def _attempts(flags: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield ()
    if any(flag.startswith("-mprefer-vector-width") for flag in flags):
        yield _NARROW
    yield _PLAIN


def _verdict(toolchain: Toolchain, identity: tuple[str, ...], flags: tuple[str, ...]) -> Verdict:
    key = content_key("probe", _raw_text(), *identity, *flags)

    def make(path: Path) -> None:
        path.write_text(_tried(toolchain, flags, path.parent), encoding="utf-8")

    text = Cache(cache_directory()).fetch(key, ".probe", make).read_text(encoding="utf-8")
    passed, _, words = text.partition("\n")
    return Verdict(passed == "passed", words.strip())


def _tried(toolchain: Toolchain, flags: tuple[str, ...], directory: Path) -> str:
    """Compile and run the program in `directory`; return the verdict as text."""
    source, program = directory / "probe.c", directory / "probe"
    source.write_text(_text(), encoding="utf-8")
    building = [flag for flag in flags if flag != "-shared"]
    run_tool([*toolchain.command, *building, "-o", str(program), str(source), "-lm"])
    try:
        done = subprocess.run(
            [str(program)], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(
            f"`{shlex.join(toolchain.command)}` made no program that runs: {error}",
            remedy="name a C compiler for this machine in RLX_CC",
        ) from error
    words = ", ".join(done.stdout.split("\n")).strip(", ")
    if done.returncode < 0:
        words = f"running at all (signal {-done.returncode})"
    return f"{'passed' if done.returncode == 0 else 'failed'}\n{words}\n"


def _identity(toolchain: Toolchain) -> tuple[str, ...]:
    """Identify a compiler: its file, its version, and the machine it runs on."""
    found = shutil.which(toolchain.command[0])
    if found is None:
        return (*toolchain.command, toolchain.version)
    path = Path(found).resolve()
    status = path.stat()
    size, time = str(status.st_size), str(status.st_mtime_ns)
    return (*toolchain.command, str(path), size, time, toolchain.version, *_machine())


@functools.cache
def _machine() -> tuple[str, ...]:
    target = detect_target()
    return (target.architecture, target.cpu, *sorted(target.features))


@functools.cache
def _raw_text() -> str:
    """Return what the program is made of, without the engine that lays it out."""
    return "".join(
        (_TEMPLATES / f"{name}.c.j2").read_text(encoding="utf-8")
        for name in ("probe", "vector_width")
    )


def _text() -> str:
    from rlx.codegen.c.templates import (
        environment,  # the C printer is not needed for a known verdict
    )

    return environment().get_template("probe.c.j2").render()
