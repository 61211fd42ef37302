"""The error function."""

from __future__ import annotations

from rlx.codegen.loops.expr import E, fma, minimum, select
from rlx.codegen.loops.math import coefficients
from rlx.codegen.loops.math.define import FunctionBuilder, math_function
from rlx.codegen.loops.math.exponential import exponential

_CENTER = 1.0  # where the polynomial for log(erfc) is expanded


@math_function(f32=1.5, f64=1.0)
def erf(m: FunctionBuilder, x: E) -> E:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    Below 1 an odd polynomial; above, 1 - exp(polynomial), until the result is 1.
    """
    a = m.let("a", abs(x))
    small = fma(a, m.polynomial(m.let("y", a * a), coefficients.ERF_SMALL), a)
    t = m.let("t", minimum(m.choose(3.95, 6.0), a) - _CENTER)
    log_erfc = m.polynomial(t, coefficients.ERFC_LOG)
    large = 1.0 - exponential(m, log_erfc)
    return m.with_sign_of(select(a < 1.0, small, large), x)
