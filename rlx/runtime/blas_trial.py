"""Print how fast one library multiplies small matrices: a program of its own, run by `blas_cores`.

OpenBLAS chooses its kernels while it is loaded, so that each choice takes a process.
"""

from __future__ import annotations

import ctypes
import sys
import time

_SIZE = 192
_TRIALS = 60
_ROW_MAJOR, _AS_IS = 101, 111


def best_gflops(path: str) -> float:
    """Return the best of many products of `_SIZE` squared matrices, on one thread."""
    library = ctypes.CDLL(path)
    prefix = "" if hasattr(library, "cblas_sgemm") else "scipy_"
    product, one, zero = library[f"{prefix}cblas_sgemm"], ctypes.c_float(1), ctypes.c_float(0)
    a, b, c = ((ctypes.c_float * _SIZE**2)(*[0.5] * _SIZE**2) for _ in range(3))
    best = float("inf")
    for _ in range(_TRIALS):
        started = time.perf_counter()
        product(
            _ROW_MAJOR, _AS_IS, _AS_IS, _SIZE, _SIZE, _SIZE, one, a, _SIZE, b, _SIZE, zero, c, _SIZE
        )
        best = min(best, time.perf_counter() - started)
    return 2e-9 * _SIZE**3 / best


if __name__ == "__main__":
    print(best_gflops(sys.argv[1]))
