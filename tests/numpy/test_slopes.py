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
    """Return `f` and two derivatives before, at and behind the points; None if it has none."""
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


@pytest.mark.slow
@pytest.mark.parametrize(("module", "count"), [(rnp, 50), (nn, 15), (special, 25)])
def test_derivatives_are_the_slopes_of_chords(module: ModuleType, count: int) -> None:
    wrong, checked = [], 0
    for name, f in sorted(vars(module).items()):
        if name[0] == "_" or name in STEPS | POLES or not callable(f) or isinstance(f, type):
            continue
        for of_one in (f, lambda x, f=f: f(x, np.float64(1)), lambda x, f=f: f(np.float64(1), x)):
            found = derivatives(of_one)
            if found is not None:
                checked += 1
                wrong += [f"{name}: {text}" for k in (0, 1) for text in breaks(*found[k : k + 2])]
    assert not wrong, "\n".join(wrong)
    assert checked >= count
