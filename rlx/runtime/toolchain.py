"""Finding and running the C compiler.

`RLX_CC` names the compiler, then `CC`; otherwise the first of cc, gcc and clang on the path.
Both variables may hold arguments, such as `ccache gcc`.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import ToolchainError
from rlx.target import Target

_CANDIDATES = ("cc", "gcc", "clang")
_TIMEOUT_SECONDS = 600
_WORDS_KEPT = 4000


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler: the command that runs it and what it says it is."""

    command: tuple[str, ...]
    version: str

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version

    def flags(self, target: Target) -> tuple[str, ...]:
        """Return the flags for a shared library on this machine.

        No contraction and no fast-math: results do not depend on the compiler's taste. Errno and
        trapping are given up, as nothing reads them and they keep loops from vectorizing.
        """
        flags = ["-std=c11", "-O3", "-march=native", "-fPIC", "-shared"]
        flags += ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
        if target.has("avx512f"):
            flags.append("-mprefer-vector-width=512")
        return tuple(flags)

    def compile_library(
        self, source: Path, library: Path, flags: tuple[str, ...], libraries: tuple[str, ...] = ()
    ) -> None:
        """Compile `source` into the shared library `library`, or raise ToolchainError."""
        run_tool([*self.command, *flags, "-o", str(library), str(source), *libraries, "-lm"])


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


def run_tool(command: list[str]) -> str:
    """Run a tool and return what it printed; a failure quotes its own words."""
    shown = shlex.join(command)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except OSError as error:
        raise ToolchainError(f"cannot run `{shown}`: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"`{shown}` did not end in {_TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()[:_WORDS_KEPT]
        raise ToolchainError(f"`{shown}` failed with exit code {done.returncode}:\n{words}")
    return done.stdout


@functools.cache
def _toolchain(rlx_cc: str | None, cc: str | None, path: str | None) -> Toolchain:
    """Cached by the environment it was asked in; `path` only serves as part of the key."""
    del path
    for variable, value in (("RLX_CC", rlx_cc), ("CC", cc)):
        if value:
            return _named(variable, tuple(shlex.split(value)))
    for name in _CANDIDATES:
        if shutil.which(name):
            return describe((name,))
    raise ToolchainError(
        f"no C compiler found: none of {', '.join(_CANDIDATES)} is on the path",
        remedy="install gcc or clang, set RLX_CC, or use backend='llvm'",
    )


def _named(variable: str, command: tuple[str, ...]) -> Toolchain:
    if shutil.which(command[0]) is None:
        raise ToolchainError(
            f"{variable} names the C compiler {command[0]!r}, which is not on the path",
            remedy=f"correct or unset {variable}",
        )
    return describe(command)


def describe(command: tuple[str, ...]) -> Toolchain:
    """Return the compiler that `command` runs, or raise ToolchainError."""
    text = run_tool([*command, "--version"])
    return Toolchain(command, text.partition("\n")[0].strip())
