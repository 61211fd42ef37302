"""Divisions by whole numbers in multiply-adds: the bits are those of the division."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import evaluate_function, numpy_dtype
from rlx.codegen.loops.math.division import divide_by, has_exact_quotient
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.passes.divide_by_whole_numbers import divide_by_whole_numbers
from rlx.codegen.loops.passes.target_passes import target_passes
from rlx.target import named_target
from tests.codegen.loops.passes.cases import check, kernel_of, unchanged

FUSED = divide_by_whole_numbers(frozenset((Prim.F32, Prim.F64)))
DIVISORS = (3.0, 6.0, 7.0, 9.0, 10.0, 49.0, 255.0, 65535.0, 2.0**20 - 2.0)


def sixths(k: KernelBuilder, x: Buffer, y: Buffer, lanes: int = 4) -> None:
    k.store(y, 0, k.load(x, 0, lanes) / 6.0)


def test_a_vector_divided_by_six_is_a_call() -> None:
    check(FUSED, sixths, "y[0; 4] = divide_by_6_f64(x[0; 4])")


def test_scalars_fractions_and_powers_of_two_stay() -> None:
    unchanged(FUSED, lambda k, x, y: sixths(k, x, y, lanes=1))
    for divisor in (0.1, 2.5, 8.0, -6.0, float("inf"), float("nan"), 0.0):

        def divided(k: KernelBuilder, x: Buffer, y: Buffer, by: float = divisor) -> None:
            k.store(y, 0, k.load(x, 0, 4) / by)

        unchanged(FUSED, divided)


def test_a_target_without_multiply_adds_divides() -> None:
    for name, divides in (("x86-64", True), ("x86-64-v3", False)):
        kernel = kernel_of(sixths)
        for each in target_passes(named_target(name)):
            kernel = each(kernel)
        assert (kernel == kernel_of(sixths)) == divides, name


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("prim", [Prim.F32, Prim.F64], ids=str)
@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_have_the_bits_of_the_division(divisor: float, prim: Prim) -> None:
    assert has_exact_quotient(divisor, prim)
    x = _samples(prim, int(divisor))
    with np.errstate(all="ignore"):
        expected = x / x.dtype.type(divisor)
        result = evaluate_function(divide_by(divisor, prim), x)
    integer = f"u{x.dtype.itemsize}"
    same = (result.view(integer) == expected.view(integer)) | (np.isnan(x) & np.isnan(result))
    assert same.all(), x[~same][:4]


def _samples(prim: Prim, divisor: int) -> np.ndarray:
    """Return random bits, subnormals and their ties, special numbers, neighbors of multiples."""
    dtype = numpy_dtype(prim)
    integer = np.dtype(f"u{dtype.itemsize}")
    random = np.random.default_rng(divisor)
    anything = random.integers(0, np.iinfo(integer).max, 60_000, integer)
    subnormal = np.arange(30_000, dtype=integer)
    ties = (2 * np.arange(10_000, dtype=integer) + 1) * integer.type(max(1, divisor // 2))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max], dtype)
    multiples = divisor * random.integers(1, 1 << 20, 10_000).astype(dtype)
    near = [np.nextafter(multiples, dtype.type(to)) for to in (-np.inf, np.inf)]
    bits = [each.view(dtype) for each in (anything, subnormal, ties)]
    x = np.concatenate([*bits, special, multiples, *near])
    return np.concatenate([x, -x])
