"""Softmax and log-softmax along any axis.

Three passes over a slice that stays in the cache: its maximum, the exponentials and their sum,
the quotient. The exponentials are kept in the result where nothing follows the softmax, else in a
local array, so that each is computed once.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.along import Prepare, Slice, Statistic, along
from rlx.codegen.kernels.folds import peak_fold
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.weights import exp_weight
from rlx.codegen.loops.scalar import scalar_function


@kernel("softmax")
def softmax(scope: Scope, x: Reader, y: Writer, *, axis: int) -> None:
    """`exp(x - max) / sum(exp(x - max))` along `axis`."""
    with along(scope, x, y, axis) as line:
        largest = peak(line, x)
        total, weight = line.sum_kept("weights", exponential(largest))
        scale = line.change("scale", total, lambda total: 1.0 / total)
        line.write(lambda element, at, j: weight(element, at, j) * scale(j))


@kernel("log_softmax")
def log_softmax(scope: Scope, x: Reader, y: Writer, *, axis: int) -> None:
    """`x - max - log(sum(exp(x - max)))` along `axis`."""
    with along(scope, x, y, axis) as line:
        largest = peak(line, x)
        total = line.sum(exponential(largest))
        log_sum = line.change("log_sum", total, scalar_function("log"))
        line.write(lambda element, _, j: element() - largest(j) - log_sum(j))


def peak(line: Slice, x: Reader) -> Statistic:
    """Return the largest element of each slice."""
    return line.fold("largest", peak_fold(x.dtype))


def exponential(largest: Statistic) -> Prepare:
    """Return what computes `exp(x[i] - largest)`."""
    return lambda value, j: exp_weight(value - largest(j))
