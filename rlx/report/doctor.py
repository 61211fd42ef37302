"""What rlx found on this machine, in ten lines: found, missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sysconfig
from collections.abc import Callable
from pathlib import Path

import rlx
from rlx.cores import cpu_quotas, usable_processors
from rlx.dataclass import dataclass
from rlx.errors import RlxError
from rlx.ir.inspect import bytes_text
from rlx.report.product_trial import try_products
from rlx.runtime.blas import find_blas
from rlx.runtime.cache import cache_directory
from rlx.runtime.llvm_backend import llvm_version
from rlx.runtime.probe import prove
from rlx.runtime.toolchain import find_toolchain
from rlx.target import Target, detect_target

_VARIABLES = (
    "RLX_CC", "CC", "RLX_BLAS", "RLX_CACHE_DIR", "RLX_NUM_THREADS", "RLX_DUMP",
    "RLX_PROGRESS", "RLX_WAIT", "OPENBLAS_CORETYPE",
)  # fmt: skip
_FEATURES = (
    "sse4.2", "avx2", "fma", "avx512f", "avx512vnni", "avx512bf16", "amx-int8",
    "asimd", "dotprod", "i8mm", "bf16", "sve", "v",
)  # fmt: skip
_OPTIONAL = ("onnx", "safetensors", "tokenizers", "ziglang", "jax", "torch")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. What is missing comes with how to get it."""

    subject: str
    found: bool
    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Checkup:
    """All findings, and whether graphs can be compiled and run here."""

    findings: tuple[Finding, ...]
    is_able: bool

    def __str__(self) -> str:
        lines = [line for finding in self.findings for line in _lines(finding)]
        verdict = "rlx can compile and run here" if self.is_able else "rlx cannot run compiled code"
        return "\n".join([*lines, verdict])


def examine() -> Checkup:
    """Look for everything rlx uses; a compiler is tried out, not only looked for."""
    target = detect_target()
    compiler, llvm = _compiler(target), _llvm()
    blas = _blas(target, tried=compiler.found or llvm.found)
    findings = (
        _python(), _cpu(target), _threads(target), compiler, llvm, blas, _cache(), _packages(),
        *_environment(),
    )  # fmt: skip
    return Checkup(findings, is_able=(compiler.found or llvm.found) and blas.found)


def _lines(finding: Finding) -> list[str]:
    mark = "ok     " if finding.found else "missing"
    lines = [f"{mark}  {finding.subject:<12}{finding.text}"]
    if finding.remedy:
        lines += [f"{'':21}{line}" for line in finding.remedy.splitlines()]
    return lines


def _python() -> Finding:
    build = "free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with the GIL"
    python = f"{platform.python_version()} ({build}), NumPy {_version('numpy')}"
    return Finding("python", True, f"{python}, rlx {rlx.__version__}, {platform.platform()}")


def _cpu(target: Target) -> Finding:
    features = " ".join(name for name in _FEATURES if target.has(name)) or "none"
    vectors = f"vectors of {target.vector_bytes * 8} bits ({features})"
    caches = ", ".join(bytes_text(size) for size in (target.l1, target.l2, target.l3))
    cpu = f"{target.cpu}, {target.architecture}, {vectors}, L1, L2, L3: {caches}"
    return Finding("cpu", True, cpu)


def _threads(target: Target) -> Finding:
    quota = min(cpu_quotas(), default=None)
    limit = "no quota" if quota is None else f"a quota of {quota:g} processors"
    affinity = len(usable_processors()) or target.cores
    text = f"{target.cores} by default: {os.cpu_count()} processors, {affinity} usable, {limit}"
    return Finding("threads", True, text)


def _compiler(target: Target) -> Finding:
    return _attempt(
        "C compiler",
        lambda: _try_compiler(target),
        "install gcc or clang (apt install gcc, dnf install gcc, xcode-select --install),\n"
        "or name one in RLX_CC; without it, the LLVM backend is used",
    )


def _try_compiler(target: Target) -> str:
    toolchain = find_toolchain()
    proof = prove(toolchain, toolchain.flags(target))
    found = f"{toolchain.version} (`{' '.join(toolchain.command)}`), {proof.words}"
    if not proof.fault:
        return found
    return f"{found} with {' '.join(proof.more)}, for without them it fails at: {proof.fault}"


def _llvm() -> Finding:
    remedy = "pip install 'rlx[llvm]'"
    return _attempt("LLVM", lambda: f"{llvm_version()}, through llvmlite", remedy)


def _blas(target: Target, *, tried: bool) -> Finding:
    """Name the library; where kernels can be compiled, time a product by both."""
    return _attempt(
        "BLAS",
        lambda: "; ".join([_describe_blas(target), *([str(try_products())] if tried else [])]),
        "pip install scipy-openblas32, or name a library in RLX_BLAS",
    )


def _describe_blas(target: Target) -> str:
    blas = find_blas(target)
    core = f", kernels for {blas.core}" if blas.core else ""
    named = os.environ.get("OPENBLAS_CORETYPE")
    forced = f" (set: {blas.forced})" if blas.forced else ""
    forced = f" (OPENBLAS_CORETYPE={named})" if named else forced
    return f"{blas.library.path.name}{core}{forced}, in {blas.library.path.parent}"


def _attempt(subject: str, look: Callable[[], str], remedy: str) -> Finding:
    try:
        return Finding(subject, True, look())
    except RlxError as error:
        return Finding(subject, False, error.message, remedy)
    except ImportError as error:
        return Finding(subject, False, str(error), remedy)


def _cache() -> Finding:
    directory = cache_directory()
    if not _is_writable(directory):
        return Finding(
            "cache", False, f"{directory} cannot be written", "name another in RLX_CACHE_DIR"
        )
    rights = f"mode {directory.stat().st_mode & 0o777:o}" if directory.exists() else "not made yet"
    files = [path for path in directory.glob("??/*") if path.is_file()]
    size = bytes_text(sum(path.stat().st_size for path in files))
    programs = sum(path.suffix == ".rlxi" for path in files)
    return Finding("cache", True, f"{directory} ({rights}): {programs} programs, {size}")


def _is_writable(directory: Path) -> bool:
    """True if files can be made there, or if it can itself be made."""
    nearest = next(path for path in (directory, *directory.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def _packages() -> Finding:
    there = [name for name in _OPTIONAL if importlib.util.find_spec(name)]
    absent = [name for name in _OPTIONAL if name not in there]
    versions = ", ".join(f"{name} {_version(name)}" for name in there) or "none"
    return Finding(
        "packages", True, f"{versions}; not installed: {', '.join(absent)}" if absent else versions
    )


def _environment() -> list[Finding]:
    values = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    return [Finding("environment", True, text)] if text else []


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(no version)"
