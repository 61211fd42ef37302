"""First and second derivatives of functions of one number or two, at zero and elsewhere.

A derivative is the slope of a chord, and at a point where it is continuous it is what those on
both sides tend to. Formulas by cases (`abs`, `where`, `round`) break that without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.errors import RlxError
from rlx.ir.dtype import DType
from rlx.ir.reference import evaluate
from rlx.scipy import special

Array = NDArray[np.float64]
POINTS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, -0.3, 7.3])
STEP = 1e-5
STEPS = {"comb", "nextafter"}
"""Next floats have no derivative."""
POLES = {"beta", "betaln", "poch", "polygamma"}
"""Quotients and differences of gamma functions, NaN where both have poles."""


def derivatives(f: Callable[[Any], Any]) -> list[Array] | None:
    """Return `f` and two derivatives before, at and after the points; None if it has none."""
    found = []
    points = np.concatenate([POINTS - STEP, POINTS, POINTS + STEP])
    try:
        if np.shape(f(np.float64(0.3))) != () or f(np.float64(0.3)).dtype != np.float64:
            return None
        for _ in range(3):
            graph = rlx.jit(rlx.vmap(f)).graph(rlx.TensorType(DType.F64, points.shape))
            with np.errstate(all="ignore"):
                (result,) = evaluate(graph, {str(graph.inputs[0].node.name): points})
            found.append(np.asarray(result).reshape(3, -1))
            f = rlx.grad(f)
    except (RlxError, TypeError, ValueError, AttributeError, IndexError):
        return None
    return found


def breaks(lower: Array, higher: Array) -> Iterator[str]:
    """Say where a derivative is neither the chord's slope nor the mean of its neighbours."""
    left, at, right = higher
    with np.errstate(all="ignore"):
        slope = (lower[2] - lower[0]) / (2 * STEP)
        scale = 1 + np.abs(left) + np.abs(right)
        near_pole = ~(scale < 1000) | ~(np.abs(slope) < 100 * scale)
        smooth = (np.abs(right - left) < 100 * STEP * scale) & ~near_pole
        wrong = smooth & ~(np.abs(at - (left + right) / 2) < 100 * STEP * scale)
        wrong |= smooth & ~(np.abs(slope - at) < 1e-3 * scale)
    for point, found, expected in zip(POINTS[wrong], at[wrong], slope[wrong], strict=True):
        yield f"{found} at {point}, the chord has {expected}"


def functions_of(module: ModuleType) -> list[str]:
    return [
        name for name, f in sorted(vars(module).items())
        if name[0] != "_" and name not in STEPS | POLES and callable(f) and not isinstance(f, type)
    ]  # fmt: skip


HAVE = {
    rnp: """
abs absolute acos acosh add amax amin angle arccos arccosh arcsin arcsinh arctan arctan2
arctanh around array asarray asin asinh atan atan2 atanh average block cbrt ceil clip conj
conjugate copy copysign corrcoef cos cosh cov deg2rad degrees divide dot empty_like exp exp2
expm1 fabs fix flip float_power floor floor_divide fmax fmin fmod full_like heaviside hypot
imag inner kron ldexp log log10 log1p log2 logaddexp logaddexp2 max maximum mean median min
minimum mod multiply nan_to_num nanmax nanmean nanmedian nanmin nanpercentile nanprod
nanquantile nanstd nansum nanvar negative ones_like percentile permute_dims positive pow
power prod ptp quantile rad2deg radians real reciprocal remainder rint round sign sin sinc
sinh spacing sqrt square squeeze std subtract sum tan tanh transpose true_divide trunc var
vdot zeros_like
""",
    nn: """
elu erf gelu hard_sigmoid hard_swish huber leaky_relu log_sigmoid logsumexp
mean_squared_error mish relu relu6 selu sigmoid sigmoid_cross_entropy silu soft_sign
softplus squared_error swish tanh
""",
    special: """
boxcox boxcox1p dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit expn factorial
gamma gammaln i0 i0e i1 i1e kl_div log_ndtr loggamma logit ndtr ndtri rel_entr sinc
xlog1py xlogy
""",
}
"""Functions that have two derivatives by one number: the test must not pass by finding none."""
SLOW = {"exp1", "expi", "expn", "gammainc", "gammaincc"}  # to trace, three times


def case(module: ModuleType, name: str) -> Any:
    marks = [pytest.mark.slow] if module is special and name in SLOW else []
    return pytest.param(module, name, id=f"{module.__name__}.{name}", marks=marks)


CASES = [case(module, name) for module in HAVE for name in functions_of(module)]


@pytest.mark.whole
@pytest.mark.parametrize(("module", "name"), CASES)
def test_derivatives_are_the_slopes_of_chords(module: ModuleType, name: str) -> None:
    f, wrong, checked = getattr(module, name), [], 0
    for of_one in (f, lambda x: f(x, np.float64(1)), lambda x: f(np.float64(1), x)):
        found = derivatives(of_one)
        if found is not None:
            checked += 1
            wrong += [text for k in (0, 1) for text in breaks(*found[k : k + 2])]
    assert not wrong, "\n".join(wrong)
    assert checked or name not in HAVE[module].split()


@pytest.mark.parametrize("module", HAVE, ids=lambda module: module.__name__)
def test_functions_that_have_derivatives_are_cases(module: ModuleType) -> None:
    assert set(HAVE[module].split()) <= set(functions_of(module))
