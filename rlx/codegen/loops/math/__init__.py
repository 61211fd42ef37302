"""The math library: pure functions of the loop language, branch-free, with stated bounds.

`build_function("exp", Prim.F32)` returns a `Function`; `MATH_FUNCTIONS` lists them with their
bounds in ulp. They lean on `Fma`; for a target without the instruction a pass rewrites them
(`passes/separate_multiply_adds.py`), within bounds that are stated, too.
"""

from rlx.codegen.loops.math import (
    activation,
    error_function,
    exponential,
    inverse_trigonometry,
    logarithm,
    power,
    trigonometry,
)
from rlx.codegen.loops.math.define import MATH_FUNCTIONS, MathFunction, build_function
from rlx.codegen.loops.visit import functions_of

__all__ = [
    "MATH_FUNCTIONS",
    "MathFunction",
    "activation",
    "build_function",
    "error_function",
    "exponential",
    "functions_of",
    "inverse_trigonometry",
    "logarithm",
    "power",
    "trigonometry",
]
