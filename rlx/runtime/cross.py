"""Compilers for an artifact's target: this machine's, a cross compiler, or Zig's.

For this machine it is the C compiler that the runtime uses; where there is none, Zig's.

For a triple such as `aarch64-linux-gnu` the compiler is the one that the user names, else
`RLX_CC`, else `<triple>-gcc` from the path, else the wheel `ziglang`, which compiles for
anything.

Bare metal and WebAssembly have no shared libraries: there the archive is all. Microcontrollers are
named by their core, `cortex-m4`, or by a triple such as `thumbv7em-none-eabihf`; their compiler is
`arm-none-eabi-gcc` or Zig's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import shutil
import sys
from pathlib import Path

from rlx.codegen.aot.linking import is_path, link_words
from rlx.codegen.aot.options import PORTABLE_FLAGS
from rlx.dataclass import dataclass
from rlx.errors import ToolchainError
from rlx.runtime.probe import prove
from rlx.runtime.toolchain import (
    Toolchain,
    command_words,
    describe,
    find_toolchain,
    has_toolchain,
    refuse_msvc,
    run_tool,
)
from rlx.target import ARCHITECTURES, GENERIC, Target, detect_target, named_target

_ARCHITECTURES = {
    "x86_64": "x86-64",
    "aarch64": "aarch64",
    "riscv64": "riscv64",
    "arm": "arm",
    "i686": "portable",
    "powerpc64le": "portable",
    "riscv32": "riscv32",
    "thumbv6m": "cortex-m0",
    "thumbv7m": "cortex-m3",
    "thumbv7em": "cortex-m4",
    "wasm32": "wasm32",
}
"""Generic targets by the first word of a triple."""


@dataclass(frozen=True, slots=True)
class _Level:
    """Flags for a level of a processor."""

    flags: tuple[str, ...]
    """GCC's and clang's."""
    zig: tuple[str, ...] = ()
    """Zig's, which names processors otherwise."""


_LEVELS = {
    "native": _Level(("-march=native",)),
    "x86-64": _Level(("-march=x86-64",)),
    "x86-64-v3": _Level(("-march=x86-64-v3",)),
    "x86-64-v4": _Level(("-march=x86-64-v4",)),
    "x86-64-v4-vnni": _Level(("-march=x86-64-v4", "-mavx512vnni")),
    "x86-64-v4-bf16": _Level(("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16")),
    "x86-64-v4-amx": _Level(("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16")),
    "riscv64-v": _Level(("-march=rv64gcv",), ("-mcpu=baseline_rv64+v",)),
    "aarch64-dotprod": _Level(("-march=armv8.2-a+dotprod",), ("-mcpu=generic+dotprod",)),
    "aarch64-i8mm": _Level(("-march=armv8.2-a+dotprod+i8mm",), ("-mcpu=generic+dotprod+i8mm",)),
    **{
        f"aarch64-sve{bits}": _Level(
            ("-march=armv8.2-a+dotprod+i8mm+bf16+sve", f"-msve-vector-bits={bits}"),
            ("-mcpu=generic+dotprod+i8mm+bf16+sve", f"-msve-vector-bits={bits}"),
        )
        for bits in (256, 512)
    },
    "aarch64-bf16": _Level(("-march=armv8.2-a+dotprod+bf16",), ("-mcpu=generic+dotprod+bf16",)),
}
_GCC_OF_ARM = "arm-none-eabi"


@dataclass(frozen=True, slots=True)
class _Core:
    """What compiles for a processor without an operating system."""

    triple: str
    """Zig's name of it."""
    zig: tuple[str, ...]
    gcc: str = ""
    """What GCC's command starts with."""
    flags: tuple[str, ...] = ()
    """GCC's."""


_THUMB = "thumb-freestanding"
_SINGLE = ("-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
_CORES = {
    "cortex-m0": _Core(
        f"{_THUMB}-eabi", ("-mcpu=cortex_m0",), _GCC_OF_ARM, ("-mcpu=cortex-m0", "-mthumb")
    ),
    "cortex-m3": _Core(
        f"{_THUMB}-eabi", ("-mcpu=cortex_m3",), _GCC_OF_ARM, ("-mcpu=cortex-m3", "-mthumb")
    ),
    "cortex-m4": _Core(
        f"{_THUMB}-eabihf",
        ("-mcpu=cortex_m4+vfp4d16sp",),
        _GCC_OF_ARM,
        ("-mcpu=cortex-m4", "-mthumb", *_SINGLE),
    ),
    "cortex-m7": _Core(
        f"{_THUMB}-eabihf",
        ("-mcpu=cortex_m7+fp_armv8d16",),
        _GCC_OF_ARM,
        ("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"),
    ),
    "riscv32": _Core(
        "riscv32-freestanding-none",
        ("-mcpu=generic_rv32+m+c",),
        "riscv64-unknown-elf",
        ("-march=rv32imc", "-mabi=ilp32"),
    ),
    "wasm32": _Core("wasm32-wasi", ()),
    "wasm32-simd128": _Core("wasm32-wasi", ("-msimd128",)),
}
_TRIPLES = {
    "thumbv6m-none-eabi": "cortex-m0",
    "thumbv7m-none-eabi": "cortex-m3",
    "thumbv7em-none-eabi": "cortex-m3",
    "arm-none-eabi": "cortex-m3",
    "thumbv7em-none-eabihf": "cortex-m4",
}
"""Cores by the names that other compilers have for them."""
_ZIG_MODULE = "ziglang"
_NO_UNLOADING = "-Wl,-z,nodelete"
_DLL_ENTRY = Path(__file__).parents[1] / "codegen" / "templates" / "dll_entry.c"
_WITHOUT_MINGW = ("-nostdlib", "-rtlib=compiler-rt", str(_DLL_ENTRY))
"""Libraries of kernels need nothing of mingw's, which takes Zig a minute to build."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that compiles C for one target, and its archiver."""

    command: tuple[str, ...]
    archiver: tuple[str, ...]
    flags: tuple[str, ...] = ()
    links: bool = True
    """False where there are no shared libraries."""
    system: str = ""
    """A triple, or another text that names the system that libraries are for; else this one's."""
    linking: tuple[str, ...] = ()
    """What links a shared library that calls nothing of the system's."""

    def build(
        self,
        directory: Path,
        name: str,
        extra: tuple[str, ...],
        libraries: tuple[str, ...],
        *,
        usual: tuple[str, ...] = PORTABLE_FLAGS,
    ) -> tuple[Path | None, Path]:
        """Compile `<name>.c` in `directory` into an archive, and a shared library if there are any.

        `usual` is what optimizes on any machine.
        """
        source, object_file = directory / f"{name}.c", directory / f"{name}.o"
        command = [*self.command, "-std=c11", *usual, *self.flags, *extra]
        command += ["-fPIC"] if self.links else []
        run_tool([*command, "-c", str(source), "-o", str(object_file)])
        library = directory / _library_name(name, self.system) if self.links else None
        if library is not None:
            linking = [*self.command, *self.flags, *extra, "-shared", "-s", str(object_file)]
            linking += ["-o", str(library)]
            if library.suffix == ".dll":
                linking.append(f"-Wl,--out-implib,{library.with_suffix('.lib')}")
            self._link(linking, _linked(libraries), stays="-fopenmp" in extra)
        archive = directory / f"lib{name}.a"
        archive.unlink(missing_ok=True)
        run_tool([*self.archiver, "rcsD", str(archive), str(object_file)])
        object_file.unlink()
        return library, archive

    def _link(self, command: list[str], libraries: list[str], *, stays: bool) -> None:
        """Link a shared library; one that `stays` is not unloaded, where the linker can say so.

        A library that brings OpenMP's must: closing it would take the code from under the threads
        that OpenMP keeps waiting.
        """
        plain = [*command, *libraries]
        if stays or self.linking:
            first = [*plain, _NO_UNLOADING] if stays else [*command, *self.linking]
            with contextlib.suppress(ToolchainError):  # a format, or a program, may not allow it
                run_tool(first)
                return
        run_tool(plain)


def _library_name(name: str, system: str) -> str:
    """Return what a system calls a shared library; it is Linux's by default, as is the format."""
    words = (system or platform.system()).lower()
    if "windows" in words or "mingw" in words:
        return f"{name}.dll"
    is_apple = any(word in words for word in ("macos", "darwin", "apple"))
    return f"lib{name}.dylib" if is_apple else f"lib{name}.so"


def _linked(libraries: tuple[str, ...]) -> list[str]:
    """Return what links `libraries`; those named by path are found there at run time, too."""
    places = [f"-Wl,-rpath,{Path(each).parent}" for each in libraries if is_path(each)]
    return [*link_words(libraries), *places]


def machine_of(target: str) -> Target:
    """Return the machine that `target`, a level or a triple, describes.

    Programs that link an artifact for "native" need not ask the system for tile registers.
    """
    level = _level_of(target)
    found = named_target(level)
    return found.without_tile_registers if level == "native" else found


_TRIPLE = re.compile(r"[A-Za-z0-9_.-]+")
"""Words of a triple: no separator of paths, for a compiler of that name is looked up and run."""


def find_compiler(target: str, cc: str | None = None) -> Compiler:
    """Return the compiler for `target`, or raise ToolchainError."""
    level = _level_of(target)
    named = cc or os.environ.get("RLX_CC")
    if named:
        return _named(command_words(named), level)
    core = _TRIPLES.get(target, target)
    if core in _CORES:
        return _for_core(_CORES[core])
    triple = triple_of(target)
    if triple is None:
        return _here(level)
    if is_msvc(triple):
        raise ToolchainError(
            f"rlx runs no compiler for {triple}",
            remedy="use backend='llvm', or emit_only=True and compile the C there: its first "
            "lines say how",
        )
    if shutil.which(f"{triple}-gcc"):
        links = not _is_bare(triple)
        return Compiler((f"{triple}-gcc",), (f"{triple}-ar",), _level_flags(level), links, triple)
    return zig_compiler(triple, _LEVELS[level].zig if level in _LEVELS else ())


def is_msvc(target: str) -> bool:
    """True for triples of Microsoft's compiler, whose C has none of GCC's extensions."""
    return target.endswith("-msvc")


def _for_core(core: _Core) -> Compiler:
    if core.gcc and shutil.which(f"{core.gcc}-gcc"):
        return Compiler((f"{core.gcc}-gcc",), (f"{core.gcc}-ar",), core.flags, links=False)
    return zig_compiler(core.triple, core.zig)


def _is_bare(triple: str) -> bool:
    """True where nothing loads libraries."""
    return triple.startswith("wasm32") or any(
        word in ("none", "freestanding") for word in triple.split("-")[1:]
    )


def has_compiler(target: str, cc: str | None = None) -> bool:
    """True if the user names a compiler, working or not, or there is one for `target`."""
    if cc or os.environ.get("RLX_CC"):
        return True
    try:
        find_compiler(target)
    except ToolchainError:
        return False
    return True


def zig_compiler(triple: str, more: tuple[str, ...] = ()) -> Compiler:
    """Return the compiler of the wheel `ziglang` for a triple, with `more` flags."""
    if not _has_zig():
        raise ToolchainError(
            f"no compiler for {triple}: there is no {triple}-gcc and no ziglang",
            remedy="install rlx[cross], or name a compiler in cc= or RLX_CC",
        )
    zig = (sys.executable, "-m", _ZIG_MODULE)
    # Zig's debug checks would need a runtime library of their own.
    flags = ("-target", triple, "-fno-sanitize=undefined", *more)
    linking = _WITHOUT_MINGW if triple.endswith("-windows-gnu") else ()
    links = not _is_bare(triple)
    return Compiler((*zig, "cc"), (*zig, "ar"), flags, links, system=triple, linking=linking)


def _has_zig() -> bool:
    return importlib.util.find_spec(_ZIG_MODULE) is not None


def _level_of(target: str) -> str:
    """Return the name of the generic target that fits; UnsupportedError for an unknown one."""
    if target in _TRIPLES:
        return _TRIPLES[target]
    architecture, dash, _ = target.partition("-")
    is_triple = dash and architecture in _ARCHITECTURES and _TRIPLE.fullmatch(target)
    if is_triple and target not in _CORES and target not in _LEVELS:
        return _ARCHITECTURES[architecture]
    named_target(target)
    return target


def triple_of(target: str) -> str | None:
    """Return the triple that needs a cross compiler, or None for this machine."""
    if target in ("portable", "native"):
        return None
    home = GENERIC[target][0] if target in GENERIC else None
    if home is not None and ARCHITECTURES[home].system is not None:
        return None if home == platform.machine() else f"{home}-linux-gnu"
    return None if target == f"{platform.machine()}-linux-gnu" else target


def _here(level: str) -> Compiler:
    """Return this machine's compiler; without one, Zig's, which has its own archiver."""
    if not has_toolchain() and _has_zig():
        return zig_compiler(f"{platform.machine()}-linux-gnu")
    archiver = next((name for name in ("ar", "llvm-ar") if shutil.which(name)), None)
    if archiver is None:
        raise ToolchainError(
            "no archiver found: neither ar nor llvm-ar is on the path",
            remedy="install binutils or llvm",
        )
    toolchain = find_toolchain()
    return Compiler(toolchain.command, (archiver,), _proven(toolchain, level))


def _named(command: tuple[str, ...], level: str) -> Compiler:
    refuse_msvc(command)
    if shutil.which(command[0]) is None:
        raise ToolchainError(
            f"the C compiler {command[0]!r} is not on the path",
            remedy="correct cc= or RLX_CC, or leave them out",
        )
    named = command[0].removesuffix("gcc") + "ar"
    archiver = named if command[0].endswith("gcc") and shutil.which(named) else "ar"
    system = _system_of(command)
    if not system.startswith(f"{platform.machine()}-") or not _is_run_here(system):
        links = level not in _CORES
        return Compiler(command, (archiver,), _level_flags(level), links=links, system=system)
    return Compiler(command, (archiver,), _proven(describe(command), level))


def _system_of(command: tuple[str, ...]) -> str:
    """Return the triple that a compiler says it compiles for, or nothing."""
    try:
        return run_tool([*command, "-dumpmachine"]).strip()
    except ToolchainError:
        return ""


def _is_run_here(triple: str) -> bool:
    """True if this system loads the libraries of another, going by their names."""
    return _library_name("", triple) == _library_name("", platform.system())


def _proven(toolchain: Toolchain, level: str) -> tuple[str, ...]:
    """Return the level's flags, and safer ones if this machine shows that the compiler needs them.

    What runs nowhere here cannot be tried.
    """
    flags = _level_flags(level)
    if not named_target(level).features <= detect_target().features:
        return flags
    usual = ("-std=c11", *PORTABLE_FLAGS)
    return (*flags, *prove(toolchain, (*usual, *flags)).more)


def _level_flags(level: str) -> tuple[str, ...]:
    """Return what makes a compiler use the level's vectors, as the C backend does."""
    if level not in _LEVELS:
        return ()
    wide = named_target(level).has("avx512f")
    return (*_LEVELS[level].flags, *(("-mprefer-vector-width=512",) if wide else ()))
