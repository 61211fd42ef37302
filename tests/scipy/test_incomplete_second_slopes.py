"""Second derivatives of the incomplete gamma and beta functions by their orders.

The numbers are second differences, with a step of 1e-12 of the order, of mpmath 1.3's regularized
`gammainc(a, 0, x)` and `betainc(a, b, 0, x)` of 60 digits.
"""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.scipy.special import betainc, gammainc

GAMMA = np.array([
    (0.7, 0.4, 0.4739137373713449), (2, 9, -0.00359916414750417),
    (30, 25.5, 0.008863813643347858), (800, 810, -0.0001636971396190705),
    (3000, 2950, 8.100642033815555e-5), (3000, 3100, -4.600891492373887e-5),
    (20000, 20100, -1.093927779606854e-5),
]).T  # fmt: skip
"""Order, argument, and the second derivative by the order."""

BETA = np.array([
    (0.7, 0.4, 0.3, 0.8123297981943771, -0.4873217141715748),
    (2, 9, 0.2, 0.005130136914278342, 0.01551838838041933),
    (900, 1200, 0.43, -2.837440247024547e-5, 2.550120127378029e-5),
    (4000, 2500, 0.62, -2.127051638467432e-5, 3.495529162062408e-5),
]).T  # fmt: skip
"""Orders, argument, the second derivative by the first order, and the mixed one."""


@pytest.mark.slow
def test_those_of_the_gamma_function_hold_at_large_orders() -> None:
    found = rlx.jit(rlx.vmap(rlx.grad(rlx.grad(gammainc))))(*GAMMA[:2])
    np.testing.assert_allclose(found, GAMMA[2], rtol=2e-11)


@pytest.mark.slow
def test_those_of_the_beta_function_hold_at_large_orders() -> None:
    run = rlx.jit(rlx.vmap(rlx.grad(rlx.grad(betainc), argnums=(0, 1))))
    for found, expected in zip(run(*BETA[:3]), BETA[3:], strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-11)
