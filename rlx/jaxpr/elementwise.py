"""Rules of elementwise primitives, and of those that change types."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.lax as lax
from rlx.jaxpr.internals import JaxprEqn
from rlx.jaxpr.interpret import rule
from rlx.jaxpr.types import dtype_of
from rlx.tracing.trace import element_type

_SAME = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e",
    "bessel_i1e", "cbrt", "ceil", "clamp", "clz", "complex", "cos", "cosh", "div",
    "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma",
    "igamma_grad_a", "igammac", "imag", "is_finite", "le", "lgamma", "log", "log1p", "logistic",
    "lt", "max", "min", "mulhi", "ne", "neg", "nextafter", "polygamma", "population_count",
    "random_gamma_grad", "real", "rem", "rsqrt", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square",
    "sub", "tan", "tanh", "zeta",
)  # fmt: skip
"""Primitives whose rule is the function of `rlx.lax` of the same name."""
_RENAMED = {
    "add_any": "add",
    "and": "bitwise_and",
    "conj": "conj",
    "eq_to": "total_order_eq",
    "le_to": "total_order_le",
    "lt_to": "total_order_lt",
    "not": "bitwise_not",
    "or": "bitwise_or",
    "regularized_incomplete_beta": "betainc",
    "xor": "bitwise_xor",
}


def _applied(name: str) -> Any:
    function = getattr(lax, name)

    def apply(_: JaxprEqn, *operands: Any) -> Any:
        return function(*operands)

    return apply


for _primitive, _name in {**{name: name for name in _SAME}, **_RENAMED}.items():
    rule(_primitive)(_applied(_name))


@rule("mul")
def mul(equation: JaxprEqn, x: Any, y: Any) -> Any:
    """A product, of operands in the dtype of the result: it may be wider than they are."""
    dtype = dtype_of(equation.outvars[0].aval)
    return lax.mul(lax.convert_element_type(x, dtype), lax.convert_element_type(y, dtype))


@rule("digamma")
def digamma(_: JaxprEqn, x: Any) -> Any:
    """The slope of `lgamma`; of zeros NaN, where SciPy has infinities."""
    found = lax.digamma(x)
    at_zero = lax.select(lax.eq(x, 0), lax.full_like(found, np.nan), lax.full_like(found, 0))
    return lax.add(found, at_zero)


@rule("select_n")
def select_n(_: JaxprEqn, which: Any, *cases: Any) -> Any:
    """One of the cases for each element; the case itself where `which` is one constant."""
    if isinstance(which, np.ndarray) and not which.ndim:
        return cases[int(which)]
    return lax.select_n(which, *cases)


@rule("integer_pow")
def integer_pow(equation: JaxprEqn, x: Any) -> Any:
    return lax.integer_pow(x, equation.params["y"])


@rule("pow")
def pow(_: JaxprEqn, x: Any, y: Any) -> Any:
    """A power; integer exponents of floats are exact as floats up to their precision."""
    if element_type(y).dtype.is_int and not element_type(x).dtype.is_int:
        y = lax.convert_element_type(y, element_type(x).dtype.numpy)
    return lax.pow(x, y)


@rule("round")
def round(equation: JaxprEqn, x: Any) -> Any:
    return lax.round(x, int(equation.params["rounding_method"]))


@rule("convert_element_type")
def convert_element_type(equation: JaxprEqn, x: Any) -> Any:
    return lax.convert_element_type(x, dtype_of(equation.outvars[0].aval))


@rule("bitcast_convert_type")
def bitcast_convert_type(equation: JaxprEqn, x: Any) -> Any:
    x = lax.stop_gradient(x)  # also where it is of that dtype already
    return lax.bitcast_convert_type(x, np.dtype(equation.params["new_dtype"]))


@rule("reduce_precision")
def reduce_precision(equation: JaxprEqn, x: Any) -> Any:
    return lax.reduce_precision(
        x, equation.params["exponent_bits"], equation.params["mantissa_bits"]
    )


@rule(
    "copy", "copy_p", "device_put", "layout_constraint", "mesh_cast", "optimization_barrier",
    "preduced", "pvary", "reduced_vary_cast_p", "reshard", "sharding_constraint", "stage",
    "vary_unreduced_cast_p", "with_memory_space_constraint", takes_keys=True,
)  # fmt: skip
def identity(equation: JaxprEqn, *operands: Any) -> Any:
    """Return the array: there is one device to move it to or to constrain it on."""
    return list(operands) if equation.primitive.multiple_results else operands[0]


@rule("tie", takes_keys=True)
def tie(_: JaxprEqn, __: Any, x: Any) -> Any:
    return x


@rule("dce_sink", "inspect_sharding", takes_keys=True)
def nothing(_: JaxprEqn, *__: Any) -> Any:
    """Return no results: the primitive only keeps or shows a value."""
    return []


@rule("stop_gradient")
def stop_gradient(_: JaxprEqn, x: Any) -> Any:
    return lax.stop_gradient(x)
