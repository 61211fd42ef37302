"""Properties of the target machine, read once into a `Target`.

Lowering and kernels take their tile shapes from it, the toolchain its flags, the runtime its
thread count. `detect_target` describes this machine, `named_target` a generic one by name.
Kernels depend on the features and vector width only, never on the cores, so that results do not
change with the number of threads.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rlx.cores import usable_cores
from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError

_SINGLE = 4
_CACHE_ROOT = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True, slots=True)
class Architecture:
    """What all processors of an architecture have."""

    has_vectors: bool = True
    vector_feature: str = ""
    """What brings vectors to an architecture that has none."""
    registers: int = 16
    """Vector registers, if they have at most 32 bytes; without vectors, those that hold floats."""
    fuses: bool = False
    """True if all have `a * b + c` with one rounding, for f32 and f64."""
    word_bytes: int = 8
    """Size of an address."""
    system: tuple[str, str, str] | None = None
    """LLVM's CPU, features and calling convention that its systems assume; None for bare metal,
    where LLVM makes no objects and there are no shared libraries."""


ARCHITECTURES: dict[str, Architecture] = {
    "portable": Architecture(),
    "x86_64": Architecture(system=("x86-64", "", "")),
    "aarch64": Architecture(registers=32, fuses=True, system=("generic", "", "")),
    "riscv64": Architecture(
        has_vectors=False,
        vector_feature="v",
        registers=32,
        fuses=True,
        system=("generic", "+m,+a,+f,+d,+c", "lp64d"),
    ),
    "riscv32": Architecture(has_vectors=False, registers=32, word_bytes=4),
    "wasm32": Architecture(has_vectors=False, vector_feature="simd128", word_bytes=4),
    "arm": Architecture(has_vectors=False, registers=32, word_bytes=4),
}
"""By what `platform.machine` says. Others are taken for processors like "portable"."""


@dataclass(frozen=True, slots=True)
class Target:
    """One machine. Sizes are in bytes; `features` are LLVM's names, such as `avx512f`."""

    architecture: str
    vendor: str
    cpu: str
    features: frozenset[str]
    cores: int
    l1: int
    l2: int
    l3: int
    has_vectors: bool = True
    """False where there are no vector registers, or code must do without them."""
    is_small: bool = False
    """True if code and memory count for more than time."""
    is_smallest: bool = False
    """True if that was asked for: loops are chosen where they take longer, too."""
    scalable_bytes: int = 0
    """Width of scalable vectors (SVE) for which alone code is made; 0 if other vectors are used."""
    multiply_units: int = 2
    """Multiply-adds of whole vectors that start in a cycle."""
    is_strict: bool = False
    """True if convolutions sum the products of their formula, and nothing that rounds otherwise."""
    is_serial: bool = False
    """True if one thread runs the code: no kernel keeps scratch for each of several."""

    shares_panels: bool = False
    """True if panels of weights are as wide for few rows as for many: programs share them."""

    schedules: str = ""
    """Schedules of contractions, as `rlx.ir.schedules` reads them, in place of chosen ones."""
    requires_schedules: bool = False
    """True if one of these that no contraction takes is an error."""
    disabled_passes: tuple[str, ...] = ()
    """Names of passes that the pipeline leaves out, in order."""

    @property
    def common(self) -> Architecture:
        """What all processors of its architecture have."""
        return ARCHITECTURES.get(self.architecture, ARCHITECTURES["portable"])

    @property
    def vector_bytes(self) -> int:
        """Width of the widest vector registers (64 with AVX-512, 32 with AVX, SVE's, or 16)."""
        if not self.has_vectors:
            return 0
        if self.scalable_bytes:
            return self.scalable_bytes
        if "avx512f" in self.features:
            return 64
        return 32 if "avx" in self.features else 16

    @property
    def vector_registers(self) -> int:
        """How many of them there are; without them, how many hold a float."""
        return 32 if self.has("avx512f") else self.common.registers

    @property
    def alignment(self) -> int:
        """Of tensors in memory: a cache line, which is the widest vector, or the widest number."""
        return 64 if self.has_vectors else 8

    def lanes(self, element_bytes: int) -> int:
        """Return how many elements fit a vector register; 1 where there are none."""
        return max(1, self.vector_bytes // element_bytes)

    @property
    def has_doubles(self) -> bool:
        """True if the processor computes with f64 itself."""
        return self.architecture not in ("arm", "riscv32") or self.has("fma")

    def multiplies_and_adds(self, element_bytes: int) -> bool:
        """True if there is an instruction for `a * b + c` with one rounding."""
        if self.common.fuses:
            return True
        return self.has("fma") or (element_bytes == _SINGLE and self.has("vfp4sp"))

    @property
    def dots_unsigned_bytes(self) -> bool:
        """True if whole vectors sum four products of an unsigned by a signed byte exactly.

        One instruction with VNNI; elsewhere two, each of which sums pairs of products of 16 bits.
        """
        if self.vector_bytes == 64:
            return self.has("avx512bw") or self.has("avx512vnni")
        return self.vector_bytes == 32 and (self.has("avx2") or self.has("avxvnni"))

    @property
    def dots_bytes(self) -> bool:
        """True if vectors sum four products of bytes: unsigned by signed, or signed."""
        signed = self.architecture == "aarch64" and self.has("dotprod")
        return self.has_vectors and (self.dots_unsigned_bytes or signed)

    @property
    def dots_bf16(self) -> bool:
        """True if one instruction sums two products of bf16 in f32."""
        wide = self.vector_bytes == 64 and self.has("avx512bf16")
        return self.has_vectors and (wide or (self.architecture == "aarch64" and self.has("bf16")))

    @property
    def multiplies_byte_matrices(self) -> bool:
        """True if tile registers multiply matrices of bytes: 16 times as much as a vector."""
        return self.vector_bytes == 64 and self.has("amx-int8")

    @property
    def multiplies_byte_squares(self) -> bool:
        """True if an instruction multiplies two rows of eight signed bytes by two (`smmla`)."""
        return self.architecture == "aarch64" and self.vector_bytes == 16 and self.has("i8mm")

    @property
    def has_slow_bf16_dots(self) -> bool:
        """True if that instruction takes longer than the two multiply-adds that it replaces.

        Intel's cores start a `vdpbf16ps` every second cycle, and two multiply-adds in each: 0.76
        and 0.19 ns, measured on one of the Sapphire Rapids class. What they multiply fast are
        tiles (AMX). Zen 4 starts a `vdpbf16ps` for every multiply-add.
        """
        return self.vendor == "GenuineIntel"

    @property
    def scalar_budget(self) -> int:
        """Scalar operations that one function may spell out, of some 6 bytes of code each.

        Chips whose code is small have some tens of KB of flash.
        """
        return 1200 if self.is_small else 3000

    @property
    def scalar_axis(self) -> int:
        """Elements along an axis that code may spell out; where code counts, a loop is shorter.

        A quadratic program of 12 unknowns and 24 bounds takes 26 kB spelled out on a Cortex-M4,
        7 kB in loops.
        """
        return 8 if self.is_small else 64

    @property
    def most_locals(self) -> int:
        """Elements of an array that are variables of their own; loops store larger ones.

        A controller of four states takes 9.1 kB in variables on a Cortex-M4, 8.1 kB in loops.
        """
        return 8 if self.is_smallest else 64

    @property
    def scalar_fold(self) -> int:
        """Terms of all sums of one node that may be spelled out; more are faster in vectors.

        Products of 4x4 matrices take as long either way on AVX-512; of 6x6, twice as long spelled
        out, of 8x8, twelve times.
        """
        return 64 if self.has_vectors else self.scalar_budget

    def has(self, feature: str) -> bool:
        return feature in self.features

    @property
    def without_tile_registers(self) -> Target:
        """This target for processes that have not asked Linux for tile registers (AMX)."""
        return replace(self, features=_without_tiles(self.features))


@functools.cache
def detect_target() -> Target:
    """Return this machine's target."""
    fields = _first_cpu()
    flags = fields.get("flags", fields.get("Features", "")).split()
    return Target(
        architecture=platform.machine(),
        vendor=fields.get("vendor_id", "unknown"),
        cpu=fields.get("model name", "unknown"),
        features=_permitted(frozenset(_llvm_spelling(flag) for flag in flags)),
        cores=usable_cores(),
        l1=_cache_size(1, 32 * 1024),
        l2=_cache_size(2, 512 * 1024),
        l3=_cache_size(3, 8 * 1024**2),
        multiply_units=_multiply_units(fields, flags),
    )


_AVX2 = ("sse4.2", "avx", "avx2", "fma", "bmi", "bmi2", "f16c")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_TILES = ("amx-tile", "amx-int8")
_SVE = ("neon", "dotprod", "i8mm", "bf16", "sve")
GENERIC: dict[str, tuple[str, tuple[str, ...]]] = {
    "portable": ("portable", ()),
    "x86-64": ("x86_64", ()),
    "x86-64-v3": ("x86_64", _AVX2),
    "x86-64-v4": ("x86_64", _AVX512),
    "x86-64-v4-vnni": ("x86_64", (*_AVX512, "avx512vnni")),
    "x86-64-v4-bf16": ("x86_64", (*_AVX512, "avx512vnni", "avx512bf16")),
    "x86-64-v4-amx": ("x86_64", (*_AVX512, "avx512vnni", "avx512bf16", *_TILES)),
    "aarch64": ("aarch64", ("neon",)),
    "aarch64-dotprod": ("aarch64", ("neon", "dotprod")),
    "aarch64-i8mm": ("aarch64", ("neon", "dotprod", "i8mm")),
    "aarch64-bf16": ("aarch64", ("neon", "dotprod", "bf16")),
    "aarch64-sve256": ("aarch64", _SVE),
    "aarch64-sve512": ("aarch64", _SVE),
    "riscv64": ("riscv64", ()),
    "riscv64-v": ("riscv64", ("v",)),
    "riscv32": ("riscv32", ()),
    "wasm32": ("wasm32", ()),
    "wasm32-simd128": ("wasm32", ("simd128",)),
    "arm": ("arm", ()),
    "cortex-m0": ("arm", ()),
    "cortex-m3": ("arm", ()),
    "cortex-m4": ("arm", ("vfp4sp",)),
    "cortex-m7": ("arm", ("vfp4sp", "fma")),
}
"""Architecture and features by name. `vfp4sp` fuses multiply-adds of f32 alone."""

_SCALABLE = {"aarch64-sve256": 32, "aarch64-sve512": 64}
"""Bytes of scalable vectors."""

_SMALL = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "riscv32")


def named_target(name: str) -> Target:
    """Return the generic target called `name`, or this machine for "native".

    "portable" assumes 16-byte vectors and sixteen registers, which every compiler can provide.
    Microcontrollers are small: code and memory count there.
    """
    if name == "native":
        return detect_target()
    if name not in GENERIC:
        raise UnsupportedError(
            f"unknown target {name!r}",
            remedy=f"known targets are native, {', '.join(GENERIC)}, and triples of these "
            "architectures such as aarch64-linux-gnu",
        )
    architecture, features = GENERIC[name]
    common = ARCHITECTURES[architecture]
    return Target(
        architecture=architecture,
        vendor="generic",
        cpu=name,
        features=frozenset(features),
        cores=1,
        l1=32 * 1024,
        l2=512 * 1024,
        l3=8 * 1024**2,
        has_vectors=common.has_vectors or common.vector_feature in features,
        scalable_bytes=_SCALABLE.get(name, 0),
        is_small=name in _SMALL,
    )


def _first_cpu() -> dict[str, str]:
    """Return what /proc says of the first CPU; nothing where there is no /proc."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


_PERMIT_STATE, _TILE_DATA = 0x1023, 18
"""Linux's code for asking for a processor state that is off at first, and that of tile registers.
"""
_ARCH_PRCTL = 158
"""The number of the system call that takes it."""


def _permitted(features: frozenset[str]) -> frozenset[str]:
    """Return the features without tile registers, unless Linux lets this process use them.

    A process must ask once; all of its threads, and forks, may use them from then on.
    """
    without = _without_tiles(features)
    if without == features:
        return features
    import ctypes

    try:
        refused = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _PERMIT_STATE, _TILE_DATA)
    except (OSError, AttributeError):
        refused = -1
    return without if refused else features


def _without_tiles(features: frozenset[str]) -> frozenset[str]:
    return frozenset(feature for feature in features if not feature.startswith("amx-"))


def _multiply_units(fields: dict[str, str], flags: Collection[str]) -> int:
    """Zen 4 has two units of half the width of its AVX-512 registers."""
    halves = fields.get("vendor_id") == "AuthenticAMD" and fields.get("cpu family") == _ZEN_4
    return 1 if halves and "avx512f" in flags else 2


_ZEN_4 = "25"
"""The family of Zen 3, which has no AVX-512, and Zen 4."""


_RENAMED = {
    "pni": "sse3",
    "bmi1": "bmi",
    "abm": "lzcnt",
    "asimddp": "dotprod",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
}


def _llvm_spelling(flag: str) -> str:
    """`sse4_1` is LLVM's `sse4.1`, `avx512_vnni` its `avx512vnni`, `pni` its `sse3`."""
    if flag in _RENAMED:
        return _RENAMED[flag]
    return flag.replace("_", "." if flag.startswith("sse4") else "")


def _cache_size(level: int, default: int) -> int:
    for index in sorted(_CACHE_ROOT.glob("index*")):
        try:
            if int((index / "level").read_text(encoding="utf-8")) != level:
                continue
            if (index / "type").read_text(encoding="utf-8").strip() == "Instruction":
                continue
            text = (index / "size").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            continue
        return int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text)
    return default
