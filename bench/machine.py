"""What this machine can do at most: a multiply-add kernel and a copy, in the loop language."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx.codegen.entry import declare_arena
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const, fma
from rlx.codegen.loops.nodes import Kernel, LoopKind, Module, Prim
from rlx.runtime.arena import Arena
from rlx.runtime.compile import choose_backend
from rlx.runtime.native import function_at, pointer_to
from rlx.target import Target, detect_target

_STEPS = 1 << 18
_CHAINS = 12
"""Independent multiply-adds in flight: more than latency times issue width."""

_COPY_BYTES = 64 << 20
_TRIES = 12


@dataclass(frozen=True, slots=True)
class Peak:
    """The best of several tries, with all threads at work."""

    gflops: float
    gigabytes: float


def measure_peak(threads: int) -> Peak:
    target = detect_target()
    module = Module("peak", (), (), (_multiply_add(target), _copy(target)))
    native = choose_backend("auto").load(module, target)
    type = "int (*)(uint8_t *, int64_t, int64_t)"
    compute = function_at(native.address("peak_multiply_add"), type)
    copy = function_at(native.address("peak_copy"), type)
    flops = 2.0 * _STEPS * _CHAINS * target.lanes(4) * threads
    small = [Arena(4096) for _ in range(threads)]
    block = Arena(2 * _COPY_BYTES)
    block.bytes[:] = 1
    share = _COPY_BYTES // threads
    fastest = _best(threads, lambda i: compute(pointer_to(small[i].address), 0, _STEPS))
    copied = _best(
        threads, lambda i: copy(pointer_to(block.address), i * share // 4, (i + 1) * share // 4)
    )
    return Peak(flops / fastest / 1e9, 2.0 * _COPY_BYTES / copied / 1e9)


def describe_machine() -> str:
    target = detect_target()
    return (
        f"{target.cpu}, {target.cores} cores, L2 {target.l2 >> 10} KiB, L3 {target.l3 >> 20} MiB, "
        f"{target.vector_bytes * 8}-bit vectors, {platform.system()} {platform.release()}"
    )


def _multiply_add(target: Target) -> Kernel:
    k = KernelBuilder("peak_multiply_add")
    arena = declare_arena(k)
    begin, end = k.scalar("begin"), k.scalar("end")
    lanes = target.lanes(4)
    sums = k.local("sums", Prim.F32, _CHAINS * lanes)
    one = const(1.0, Prim.F32, lanes)
    with k.loop("i", _CHAINS * lanes, step=lanes, kind=LoopKind.UNROLL) as i:
        start = k.load(arena, 64 + i).cast(Prim.F32)  # chains that look equal would be merged
        k.store(sums, i, start.splat(lanes))
    with (
        k.loop("step", end, start=begin),
        k.loop("i", _CHAINS * lanes, step=lanes, kind=LoopKind.UNROLL) as i,
    ):
        k.store(sums, i, fma(k.load(sums, i, lanes), const(0.5, Prim.F32, lanes), one))
    total = k.mutable("total", const(0.0, Prim.F32, lanes))
    with k.loop("i", _CHAINS * lanes, step=lanes, kind=LoopKind.UNROLL) as i:
        total.set(total + k.load(sums, i, lanes))
    results = k.local("results", Prim.F32, lanes)
    k.store(results, 0, total)
    k.store(arena, 64, k.load(results, 0).cast(Prim.U8))
    return k.build(["Multiply and add in registers."])


def _copy(target: Target) -> Kernel:
    k = KernelBuilder("peak_copy")
    block = k.argument("block", Prim.F32, writable=True, may_alias=True)
    begin, end = k.scalar("begin"), k.scalar("end")
    lanes = target.lanes(4)
    with k.loop("i", end, start=begin, step=lanes) as i:
        k.store(block, i + _COPY_BYTES // 4, k.load(block, i, lanes), streaming=True)
    return k.build(["Copy past the caches."])


def _best(threads: int, work: Callable[[int], Any]) -> float:
    """Return the least seconds in which all threads did their work."""
    return min(_together(threads, work) for _ in range(_TRIES))


def _together(threads: int, work: Callable[[int], Any]) -> float:
    times = np.zeros((threads, 2))
    start = threading.Barrier(threads)

    def run(thread: int) -> None:
        start.wait()
        times[thread, 0] = time.perf_counter()
        work(thread)
        times[thread, 1] = time.perf_counter()

    others = [threading.Thread(target=run, args=(i,)) for i in range(1, threads)]
    for thread in others:
        thread.start()
    run(0)
    for thread in others:
        thread.join()
    return float(times[:, 1].max() - times[:, 0].min())
