"""LLVM's pass pipeline and optimization level for a module, chosen by measurement.

The emitter leaves little to optimize: `simd` loops are vectors already, `unroll` loops are
repeated, loops are rotated, values are numbered. A handful of passes then gives the run time of
LLVM's own pipelines. For a module of 30 kernels they took 20 ms, level 2 took 205 ms and level 3
230 ms, most of it in repeated instruction combining; the code generator's 170 ms come on top.
"""

from __future__ import annotations

import enum

from rlx.dataclass import dataclass


class Pipeline(enum.Enum):
    """Which passes run before machine code is generated."""

    QUICK = "quick"
    """Inline the math functions, put variables into registers."""
    LIGHT = "light"
    """Inline the math functions, put variables into registers, clean up once."""
    O2 = "O2"
    O3 = "O3"


_LARGE = 1 << 20
"""Characters of a module whose machine code takes LLVM seconds: level 1 saves a quarter of them.

A text detector and a recognizer (2.3 and 1.5 million) run as fast, within a hundredth.
"""


@dataclass(frozen=True, slots=True)
class Options:
    """`pipeline=None` takes the light one, or LLVM's level 2 for a module with a loop that needs
    LLVM's vectorizer. `code_level` is that of instruction selection and register allocation;
    None takes 2, or 1 for a large module."""

    pipeline: Pipeline | None = None
    code_level: int | None = None

    def resolved(self, size: int, *, needs_vectorizer: bool) -> Options:
        """Return these options with pipeline and level chosen for a module of `size` characters."""
        pipeline = Pipeline.O2 if needs_vectorizer else Pipeline.LIGHT
        level = 1 if size >= _LARGE else 2
        chosen = level if self.code_level is None else self.code_level
        return Options(self.pipeline or pipeline, chosen)

    def quick(self) -> Options:
        """Return what takes LLVM a quarter of the time, for code with the same bits.

        It is up to five times slower. LLVM's vectorizer orders the sums that are left to it.
        """
        is_light = self.pipeline is Pipeline.LIGHT
        return Options(Pipeline.QUICK if is_light else self.pipeline, 0)
