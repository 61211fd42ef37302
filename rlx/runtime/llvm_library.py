"""Loading of LLVM on a thread of its own, while passes run.

Its library is some 180 MB. To relocate it, and to read the code that a first compilation executes,
takes as long as the passes and kernels of a small program.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from rlx.codegen.llvm.optimize import Options, Pipeline
from rlx.errors import RlxError
from rlx.locks import importing, unforkable
from rlx.runtime.native import ffi, system_function

_NAMES = {"linux": "libllvmlite.so", "darwin": "libllvmlite.dylib"}
_SAMPLE = """
define internal <8 x float> @add(<8 x float> %a, <8 x float> %b) alwaysinline {
  %c = fadd <8 x float> %a, %b
  ret <8 x float> %c
}
define float @sum(ptr noalias %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sums = phi <8 x float> [ zeroinitializer, %entry ], [ %more, %loop ]
  %at = getelementptr inbounds float, ptr %p, i64 %i
  %row = load <8 x float>, ptr %at, align 4
  %more = call <8 x float> @add(<8 x float> %sums, <8 x float> %row)
  store <8 x float> %more, ptr %at, align 4
  %next = add nsw i64 %i, 8
  %is_left = icmp slt i64 %next, %n
  br i1 %is_left, label %loop, label %end
end:
  %first = extractelement <8 x float> %more, i64 0
  ret float %first
}
"""


def load_early(vector_bytes: int) -> None:
    """Begin to load what compiles for vectors of this size; where that is impossible, do nothing.

    The thread that compiles loads it, too, and reports what went wrong here.
    """
    if "llvmlite.binding" not in sys.modules:
        _load_early(os.getpid(), vector_bytes)


@functools.cache
def _load_early(process: int, vector_bytes: int) -> None:
    del process  # a forked child has none of its parent's threads
    path = library_path()
    if path is not None:
        with suppress(RuntimeError):  # there may be no more threads
            threading.Thread(target=_load, args=(path, vector_bytes), name="rlx-llvm").start()


def library_path() -> Path | None:
    """Return the file of LLVM's library; None where it is not known."""
    spec = importlib.util.find_spec("llvmlite")
    name = _NAMES.get(sys.platform)
    if spec is None or spec.origin is None or name is None:
        return None
    path = Path(spec.origin).parent / "binding" / name
    return path if path.is_file() else None


def _load(path: Path, vector_bytes: int) -> None:
    with unforkable(), suppress(RlxError, ImportError, OSError, RuntimeError):
        # Without the interpreter's lock, which `ctypes.CDLL` holds.
        system_function("dlopen", "void *(*)(char *, int)")(os.fsencode(path), ffi.RTLD_NOW)
        with importing():
            from rlx.codegen.llvm import binding
        binding.compile_object(
            _SAMPLE, binding.host_machine(vector_bytes), Options(Pipeline.LIGHT, 2)
        )
