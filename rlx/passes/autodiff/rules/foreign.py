"""External functions have no derivative of their own."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.autodiff.registry import nondifferentiable, zero

nondifferentiable(
    ops.ffi_call,
    because="it is a function from outside: state its derivative with custom_jvp or custom_vjp",
)
zero(ops.effect_call, because="what is called for its effect is given values, not tangents")
