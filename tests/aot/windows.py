"""Programs for Windows: clang as Microsoft's compiler, and a C library that takes Zig no minute."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest

from rlx.runtime.cross import zig_compiler
from tests.aot.building import require, run

needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="the wheel ziglang is not installed"
)
_LIKE_MICROSOFT_S = (
    "--target=x86_64-pc-windows-msvc", "-fms-compatibility", "-fms-extensions",
    "-fms-compatibility-version=19.40", "-std=c11", "-ffp-contract=off", "-nostdinc",
    # The C sees no clang, and headers declare no names of POSIX.
    "-U__clang__", "-U__GNUC__", "-DNO_OLDNAMES",
)  # fmt: skip
_MINGW_HEADERS = "libc/include/any-windows-any"
_WARNINGS = (
    "-Werror", "-pedantic-errors", "-Wall", "-Wextra", "-Wgnu", "-Wno-unknown-pragmas",
)  # fmt: skip
_EXPORTS = """LIBRARY ucrtbase.dll
EXPORTS
__acrt_iob_func
__stdio_common_vfprintf
_time64
clock
exit
fclose
fopen
fread
fwrite
perror
putchar
puts
"""
_START = """#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv);

void __main(void) {}

void mainCRTStartup(void) {
  static char name[] = "sample", *arguments[] = {name, 0};
  exit(main(1, arguments));
}

int fprintf(FILE *file, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = __stdio_common_vfprintf(0, file, format, NULL, arguments);
  va_end(arguments);
  return count;
}

int printf(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = __stdio_common_vfprintf(0, stdout, format, NULL, arguments);
  va_end(arguments);
  return count;
}

int _fltused;
"""


def compile_as_microsoft_s(*words: str | Path, cwd: Path) -> None:
    """Run clang such that it refuses what Microsoft's compiler refuses: extensions of GCC."""
    spec = importlib.util.find_spec("ziglang")
    assert spec is not None
    assert spec.origin is not None
    zig = Path(spec.origin).parent
    headers = (
        "-isystem",
        zig / "lib/include",
        "-isystem",
        zig / "lib/libc/include/any-windows-any",
    )
    run(zig / "zig", "clang", *_LIKE_MICROSOFT_S, *_WARNINGS, *headers, *words, cwd=cwd)


def run_for_windows(sample: Path, archives: Sequence[Path]) -> None:
    """Build a program and run it under Wine in its directory.

    It calls Windows' own C library by an import library of a few names. Zig would build all of
    mingw's first, once in a cache: 70 s of processor time.
    """
    require("wine")
    directory = sample.parent
    (directory / "ucrt.def").write_text(_EXPORTS)
    (directory / "start.c").write_text(_START)
    zig = zig_compiler("x86_64-windows-gnu")
    flags = (*zig.flags, "-fno-stack-protector", "-O1")
    run(*zig.command[:-1], "dlltool", "-m", "i386:x86-64", "-d", "ucrt.def", "-l", "ucrt.lib",
        cwd=directory)  # fmt: skip
    units = []
    for source in (sample.name, "start.c"):
        units.append(f"{source}.obj")
        run(*zig.command, *flags, "-c", source, "-o", units[-1], cwd=directory)
    libraries: list[str | Path] = [
        *archives,
        "ucrt.lib",
        "-nostdlib",
        "-rtlib=compiler-rt",
        "-Wl,-e,mainCRTStartup",
    ]
    run(*zig.command, *zig.flags, *units, *libraries, "-o", "sample.exe", cwd=directory)
    run("wine", "sample.exe", cwd=directory)
