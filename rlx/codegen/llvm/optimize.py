"""What LLVM is asked to do with a module: the knobs, chosen by measurement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Optimization levels as LLVM numbers them.

    Our own emitter has already inlined nothing, widened `simd` loops and numbered values, so
    level 1 with an optimizing code generator gives the speed of level 3 (see
    `bench/llvm_pipeline.py`) in half of the time.
    """

    speed_level: int = 2
    codegen_level: int = 2
    slp_vectorization: bool = False
    loop_vectorization: bool = True
    loop_unrolling: bool = True
