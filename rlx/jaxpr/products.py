"""Rules of products, convolutions and Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.jaxpr.internals import JaxprEqn
from rlx.jaxpr.interpret import rule
from rlx.jaxpr.shapes import integers, result_shape
from rlx.jaxpr.types import dtype_of


def _axes(numbers: Any) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(map(integers, pair)) for pair in numbers)


def _dtype(given: Any) -> Any:
    return None if given is None else np.dtype(given)


@rule("dot_general")
def dot_general(equation: JaxprEqn, a: Any, b: Any) -> Any:
    return lax.dot_general(
        a, b, _axes(equation.params["dimension_numbers"]),
        preferred_element_type=dtype_of(equation.outvars[0].aval),
    )  # fmt: skip


@rule("ragged_dot_general")
def ragged_dot_general(equation: JaxprEqn, a: Any, b: Any, sizes: Any) -> Any:
    params = equation.params
    given = params["ragged_dot_dimension_numbers"]
    numbers = lax.RaggedDotDimensionNumbers(
        _axes(given.dot_dimension_numbers),
        list(given.lhs_ragged_dimensions),
        list(given.rhs_group_dimensions),
    )
    return lax.ragged_dot_general(
        a, b, sizes, numbers, preferred_element_type=_dtype(params["preferred_element_type"])
    )


@rule("conv_general_dilated")
def conv_general_dilated(equation: JaxprEqn, x: Any, taps: Any) -> Any:
    if 0 in (shape := result_shape(equation)):
        return rnp.zeros(shape, dtype_of(equation.outvars[0].aval))
    return _convolved(equation, x, taps)


def _convolved(equation: JaxprEqn, x: Any, taps: Any) -> Any:
    params = equation.params
    numbers = params["dimension_numbers"]
    return lax.conv_general_dilated(
        x,
        taps,
        integers(params["window_strides"]),
        [integers(each) for each in params["padding"]],
        integers(params["lhs_dilation"]),
        integers(params["rhs_dilation"]),
        lax.ConvDimensionNumbers(
            integers(numbers.lhs_spec), integers(numbers.rhs_spec), integers(numbers.out_spec)
        ),
        int(params["feature_group_count"]),
        int(params["batch_group_count"]),
        preferred_element_type=dtype_of(equation.outvars[0].aval),
    )


@rule("fft")
def fft(equation: JaxprEqn, x: Any) -> Any:
    kind = lax.FftType(int(equation.params["fft_type"]))
    return lax.fft(x, kind, integers(equation.params["fft_lengths"]))
