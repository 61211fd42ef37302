"""What the user of an export chooses, and the flags that its C is compiled with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from rlx.codegen.aot.layout import Keep
from rlx.codegen.kernels.build import WIDEST
from rlx.dataclass import dataclass
from rlx.ir.literal import Literal
from rlx.passes.memory.planner import ALIGNMENT
from rlx.target import Target

PORTABLE_FLAGS = (
    "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"
)  # fmt: skip
"""What optimizes the C and keeps its meaning, on any machine."""

SMALL_FLAGS = ("-Os", *PORTABLE_FLAGS[1:-1], "-ffunction-sections", "-fdata-sections")
"""The same for little code: a linker leaves out functions that nothing calls."""

MSVC_FLAGS = ("/O2", "/fp:precise")
"""Microsoft's; the C itself forbids contraction."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose for one artifact."""

    name: str
    keep: Mapping[str, Keep] = field(default_factory=dict)
    """Per param; others are arguments."""
    values: Mapping[str, Literal] = field(default_factory=dict)
    """The content of embedded params."""
    examples: Mapping[str, Literal] = field(default_factory=dict)
    """What the sample program gives to inputs, and to params that are arguments."""
    output_names: Sequence[str] = ()
    threads: str | None = None
    target: str = "portable"
    libraries: tuple[str, ...] = ("m",)
    """What the C links against."""
    library_calls: tuple[str, ...] = ()
    """The functions of BLAS or LAPACK that it calls, by their names for the linker."""
    without_libm: bool = False
    is_plain: bool = False
    """True for C99 without vectors and attributes, which any compiler takes."""
    is_msvc: bool = False
    """True if a program that Microsoft's compiler compiles calls the artifact."""
    external: Mapping[str, str] = field(default_factory=dict)
    """What the linker calls external functions, where it differs."""
    alignment: int = ALIGNMENT
    """Of the memory plan."""
    flags: tuple[str, ...] = PORTABLE_FLAGS
    line_directives: bool = False
    """True if the C is to lead a debugger to the user's program."""
    machine: Target = WIDEST
    """What the kernels are built for."""
    with_object: bool = False
    """True if kernels are compiled by LLVM, and C is needed for what surrounds them alone."""
