"""Layer and root-mean-square normalization along any axis.

Statistics are taken in two passes: the mean, then the mean of the centered squares. The slice
stays in the cache between them.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.along import along
from rlx.codegen.kernels.folds import sum_fold
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import converted
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import UnaryOp

_ALL_ELEMENTS = ((0,),)
"""The groups of a vector along the normalized axis."""


@kernel("layer_norm")
def layer_norm(
    scope: Scope, x: Reader, gamma: Reader, beta: Reader, y: Writer, *, axis: int, eps: float
) -> None:
    """`(x - mean) / sqrt(variance + eps) * gamma + beta`."""
    k, vectors = scope.k, [vector.grouped(_ALL_ELEMENTS) for vector in (gamma, beta)]
    count = converted(scope.extents(x.shape[axis]), x.prim)
    with along(scope, x, y, axis) as line:
        total = line.fold("mean", sum_fold(x.dtype))
        mean = line.change("mean", total, lambda total: total / count)

        def squared(value: E, j: E) -> E:
            distance = k.let("centered", value - mean(j))
            return distance * distance

        total = line.fold("inverse", sum_fold(x.dtype), squared)
        inverse = line.change("inverse", total, lambda total: inverse_root(total / count + eps))
        line.write(lambda element, at, j: _affine((element() - mean(j)) * inverse(j), vectors, at))


@kernel("rms_norm")
def rms_norm(
    scope: Scope,
    x: Reader,
    gamma: Reader,
    *rest: Reader | Writer,
    axis: int,
    eps: float,
) -> None:
    """`x / sqrt(mean(x * x) + eps) * gamma`, plus `beta` if it is given."""
    *beta, y = rest
    assert isinstance(y, Writer)  # the result follows the operands
    vectors = [v.grouped(_ALL_ELEMENTS) for v in (gamma, *beta) if isinstance(v, Reader)]
    count = converted(scope.extents(x.shape[axis]), x.prim)

    def squared(value: E, _: E) -> E:
        element = scope.k.let("value", value)
        return element * element

    with along(scope, x, y, axis) as line:
        total = line.fold("inverse", sum_fold(x.dtype), squared)
        inverse = line.change("inverse", total, lambda total: inverse_root(total / count + eps))
        line.write(lambda element, at, j: _affine(element() * inverse(j), vectors, at))


def inverse_root(value: E) -> E:
    """Return `1 / sqrt(value)`, rounded twice and no worse."""
    return 1.0 / value.unary(UnaryOp.SQRT)


def _affine(value: E, vectors: list[GroupedReader], at: E) -> E:
    gamma, *beta = vectors
    scaled = value * gamma.read_real(at)
    return scaled + beta[0].read_real(at) if beta else scaled
