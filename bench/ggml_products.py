"""Products of packed matrices by ggml, the library under llama.cpp, called through ctypes.

The package `llama-cpp-python` brings the library and offers no product by itself: here one is a
graph of one node. Rows of `x` are rounded to eight bits inside of the product, as llama.cpp does.
"""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import byref, c_bool, c_char, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

_F32 = 0
_SPARE = 1 << 20
"""Bytes for what ggml keeps next to the tensors."""


class _InitParams(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("memory", c_void_p), ("no_alloc", c_bool))


class _Plan(ctypes.Structure):
    """`ggml_cplan`, with room for what later versions add."""

    _fields_ = (
        ("work_size", c_size_t),
        ("work", c_void_p),
        ("threads", c_int),
        ("rest", c_char * 128),
    )


class GgmlProduct:
    """`x @ W.T` for rows of packed blocks `W`, on some threads."""

    def __init__(self, kind: int, packed: np.ndarray, x: np.ndarray, threads: int) -> None:
        base, cpu = _libraries()
        rows, columns = packed.shape[0], x.shape[1]
        size = packed.nbytes + x.nbytes + 4 * x.shape[0] * rows + _SPARE
        self._cpu = cpu
        self._context = base.ggml_init(_InitParams(size, None, False))
        if not self._context:
            raise MemoryError(f"ggml has no {size} bytes")
        weights = base.ggml_new_tensor_2d(self._context, kind, columns, rows)
        given = base.ggml_new_tensor_2d(self._context, _F32, columns, x.shape[0])
        for tensor, array in ((weights, packed), (given, x)):
            ctypes.memmove(base.ggml_get_data(tensor), array.ctypes.data, array.nbytes)
        result = base.ggml_mul_mat(self._context, weights, given)
        self._graph = base.ggml_new_graph(self._context)
        base.ggml_build_forward_expand(self._graph, result)
        self._plan = cpu.ggml_graph_plan(self._graph, threads, None)
        self._work = ctypes.create_string_buffer(max(1, self._plan.work_size))
        self._plan.work = ctypes.addressof(self._work)
        shape = (x.shape[0], rows)
        place = (ctypes.c_float * (shape[0] * shape[1])).from_address(base.ggml_get_data(result))
        self.result = np.frombuffer(place, np.float32).reshape(shape)
        """What the last run gave: no longer valid once the product is closed."""

    def run(self) -> None:
        status = self._cpu.ggml_graph_compute(self._graph, byref(self._plan))
        if status != 0:
            raise RuntimeError(f"ggml: status {status}")

    def close(self) -> None:
        _libraries()[0].ggml_free(self._context)


def has_ggml() -> bool:
    return importlib.util.find_spec("llama_cpp") is not None


def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """Return ggml's libraries: tensors and graphs, and what computes these."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("llama_cpp")
    place = Path(spec.origin).parent / "lib"
    base, cpu = (
        ctypes.CDLL(str(place / f"libggml-{part}.so"), mode=ctypes.RTLD_GLOBAL)
        for part in ("base", "cpu")
    )
    for name, result, *arguments in _FUNCTIONS:
        function = getattr(base, name)
        function.restype, function.argtypes = result, arguments
    cpu.ggml_graph_plan.restype = _Plan
    cpu.ggml_graph_plan.argtypes = (c_void_p, c_int, c_void_p)
    cpu.ggml_graph_compute.restype = c_int
    cpu.ggml_graph_compute.argtypes = (c_void_p, c_void_p)
    cpu.ggml_cpu_init()  # its tables of numbers in 16 bits
    return base, cpu


_FUNCTIONS = (
    ("ggml_init", c_void_p, _InitParams),
    ("ggml_free", None, c_void_p),
    ("ggml_new_tensor_2d", c_void_p, c_void_p, c_int, c_int64, c_int64),
    ("ggml_get_data", c_void_p, c_void_p),
    ("ggml_mul_mat", c_void_p, c_void_p, c_void_p, c_void_p),
    ("ggml_new_graph", c_void_p, c_void_p),
    ("ggml_build_forward_expand", None, c_void_p, c_void_p),
)
