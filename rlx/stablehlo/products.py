"""Rules of products, convolutions, Fourier transforms, factors and solvers."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir.dialects import stablehlo

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.lax import linalg
from rlx.stablehlo.interpret import Operation, rule


@rule("stablehlo.dot_general")
def dot_general(operation: Operation, a: Any, b: Any) -> Any:
    given = stablehlo.DotDimensionNumbers(operation.attribute("dot_dimension_numbers"))
    contracted = tuple(given.lhs_contracting_dimensions), tuple(given.rhs_contracting_dimensions)
    batch = tuple(given.lhs_batching_dimensions), tuple(given.rhs_batching_dimensions)
    return lax.dot_general(
        a, b, (contracted, batch), preferred_element_type=operation.dtype().numpy
    )


@rule("stablehlo.dot")
def dot(operation: Operation, a: Any, b: Any) -> Any:
    return lax.dot(a, b, preferred_element_type=operation.dtype().numpy)


@rule("stablehlo.einsum", "stablehlo.unary_einsum")
def einsum(operation: Operation, *operands: Any) -> Any:
    return rnp.einsum(operation.word("einsum_config"), *operands)


@rule("stablehlo.convolution")
def convolution(operation: Operation, x: Any, taps: Any) -> Any:
    given = stablehlo.ConvDimensionNumbers(operation.attribute("dimension_numbers"))
    image = tuple(given.input_spatial_dimensions)
    window = tuple(given.kernel_spatial_dimensions)
    out = tuple(given.output_spatial_dimensions)
    ones = (1,) * len(image)
    turned = operation.integers("window_reversal", (0,) * len(image))
    if any(turned):
        taps = lax.rev(taps, [axis for axis, turns in zip(window, turned, strict=True) if turns])
    sides = operation.integers("padding", (0, 0) * len(image))
    return lax.conv_general_dilated(
        x,
        taps,
        operation.integers("window_strides", ones),
        list(zip(sides[::2], sides[1::2], strict=True)),
        operation.integers("lhs_dilation", ones),
        operation.integers("rhs_dilation", ones),
        lax.ConvDimensionNumbers(
            (given.input_batch_dimension, given.input_feature_dimension, *image),
            (given.kernel_output_feature_dimension, given.kernel_input_feature_dimension, *window),
            (given.output_batch_dimension, given.output_feature_dimension, *out),
        ),
        operation.integer("feature_group_count", 1),
        operation.integer("batch_group_count", 1),
        preferred_element_type=operation.dtype().numpy,
    )


@rule("stablehlo.fft")
def fft(operation: Operation, x: Any) -> Any:
    return lax.fft(x, operation.word("fft_type"), operation.integers("fft_length"))


@rule("stablehlo.cholesky")
def cholesky(operation: Operation, a: Any) -> Any:
    if operation.flag("lower"):
        return linalg.cholesky(a, symmetrize_input=False)
    lower = linalg.cholesky(_adjoint(a), symmetrize_input=False)
    return _adjoint(lower)


def _adjoint(a: Any) -> Any:
    turned = rnp.swapaxes(a, -1, -2)
    return lax.conj(turned) if rnp.iscomplexobj(a) else turned


@rule("stablehlo.triangular_solve")
def triangular_solve(operation: Operation, a: Any, b: Any) -> Any:
    turned = operation.word("transpose_a")
    return linalg.triangular_solve(
        a,
        b,
        left_side=operation.flag("left_side"),
        lower=operation.flag("lower"),
        transpose_a=turned in ("TRANSPOSE", "ADJOINT"),
        conjugate_a=turned == "ADJOINT",
        unit_diagonal=operation.flag("unit_diagonal"),
    )
