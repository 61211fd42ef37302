"""What one core of this machine can do at most, measured with kernels of our own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import fma
from rlx.codegen.loops.nodes import Kernel, LoopKind, Module, Prim
from rlx.dataclass import dataclass
from rlx.runtime.backend import Backend
from rlx.runtime.native import function_at, pointer_to
from rlx.target import Target

Clock: TypeAlias = Callable[[], float]
"""Seconds since some moment, such as `time.perf_counter`."""
_CHAINS = 12
"""Independent multiply-adds in flight: more than latency times ports of any current core."""
_ROUNDS = 1_000_000
_COPIED_BYTES = 64 << 20
"""Far beyond any last-level cache share of one core."""
_TRIALS = 5


@dataclass(frozen=True, slots=True)
class Peaks:
    """FLOP per second in f32, and bytes per second read plus written by a large copy."""

    flops: float
    bytes: float


def measure_peaks(backend: Backend, target: Target, clock: Clock = time.perf_counter) -> Peaks:
    """Run a loop of multiply-adds in registers and a copy through memory; the best of a few.

    With `time.thread_time` for a clock, other processes that use the core do not count.
    """
    lanes = target.lanes(Prim.F32.size)
    elements = _COPIED_BYTES // 2 // Prim.F32.size
    module = Module("peaks", (), (), (multiply_adds(lanes), copy(elements)))
    native = backend.load(module, target)
    values = np.full(_CHAINS * lanes, 0.5, np.float32)
    source, copied = np.ones(elements, np.float32), np.zeros(elements, np.float32)
    arithmetic = _best(native.address("peak_arithmetic"), values, values.copy(), clock)
    traffic = _best(native.address("peak_copy"), source, copied, clock)
    return Peaks(2 * _CHAINS * lanes * _ROUNDS / arithmetic, _COPIED_BYTES / traffic)


def multiply_adds(lanes: int) -> Kernel:
    """Chains of `x = x * a + b` on whole vectors, everything in registers."""
    k = KernelBuilder("peak_arithmetic")
    values = k.argument("values", Prim.F32)
    results = k.argument("results", Prim.F32, writable=True)
    factor = k.let("factor", k.load(values, 0, lanes))
    chains = [k.mutable("chain", k.load(values, i * lanes, lanes)) for i in range(_CHAINS)]
    with k.loop("round", _ROUNDS):
        for chain in chains:
            chain.set(fma(chain, factor, factor))
    for number, chain in enumerate(chains):
        k.store(results, number * lanes, chain)
    return k.build(["Multiply-adds in registers: the peak of arithmetic."])


def copy(elements: int) -> Kernel:
    """Copy one array to another."""
    k = KernelBuilder("peak_copy")
    source = k.argument("source", Prim.F32)
    target = k.argument("target", Prim.F32, writable=True)
    with k.loop("i", elements, kind=LoopKind.SIMD) as i:
        k.store(target, i, k.load(source, i))
    return k.build(["A large copy: the peak of memory traffic."])


def _best(
    address: int,
    source: np.ndarray[tuple[int], np.dtype[np.float32]],
    target: np.ndarray[tuple[int], np.dtype[np.float32]],
    clock: Clock,
) -> float:
    function: Callable[..., int] = function_at(address, "int (*)(float *, float *)")
    pointers = [pointer_to(array.ctypes.data, "float *") for array in (source, target)]
    times = []
    for _ in range(_TRIALS):
        started = clock()
        function(*pointers)
        times.append(clock() - started)
    return min(times)
