"""Multiply-adds where the target has no instruction for them."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import evaluate_function, fused_multiply_add, numpy_dtype
from rlx.codegen.loops.expr import call, fma
from rlx.codegen.loops.math import MATH_FUNCTIONS, build_function
from rlx.codegen.loops.math.multiply_add import exact_multiply_add
from rlx.codegen.loops.math.near import NEAR_FUNCTIONS, near_function
from rlx.codegen.loops.nodes import Buffer, Fma, Prim
from rlx.codegen.loops.passes.pipeline import run_passes
from rlx.codegen.loops.passes.separate_multiply_adds import (
    separate_function,
    separate_multiply_adds,
)
from rlx.codegen.loops.passes.target_passes import target_passes
from rlx.codegen.loops.verify import verify_function
from rlx.codegen.loops.visit import all_expressions, functions_of, walk_expression
from rlx.target import named_target
from tests.codegen.loops.passes.cases import check, kernel_of

BOTH = frozenset((Prim.F32, Prim.F64))


def sums(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("i", 4) as i:
        k.store(y, i, fma(k.load(x, i), 2.0, k.load(y, i)))


def test_a_multiply_add_becomes_a_product_and_a_sum() -> None:
    check(
        separate_multiply_adds(frozenset((Prim.F64,))),
        sums,
        """
        for i in 0 .. 4:
          y[i] = x[i] * 2.0 + y[i]
        """,
    )


def test_types_that_the_target_multiplies_and_adds_stay() -> None:
    kernel = kernel_of(sums)
    assert separate_multiply_adds(frozenset((Prim.F32,)))(kernel) == kernel


def test_functions_that_a_kernel_calls_are_rewritten_too() -> None:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with k.loop("i", 4) as i:
            k.store(y, i, call(build_function("exp", Prim.F64), k.load(x, i)))

    kernel = separate_multiply_adds(BOTH)(kernel_of(write))
    for function in functions_of((kernel,)):
        values = [*(let.value for let in function.lets), function.result]
        assert not any(isinstance(e, Fma) for v in values for e in walk_expression(v))


@pytest.mark.whole
@pytest.mark.parametrize("prim", sorted(BOTH, key=str))
@pytest.mark.parametrize("name", sorted(MATH_FUNCTIONS))
def test_every_function_without_multiply_adds_verifies(name: str, prim: Prim) -> None:
    verify_function(separate_function(build_function(name, prim), BOTH))


@pytest.mark.parametrize("prim", sorted(BOTH, key=str))
@pytest.mark.parametrize("name", NEAR_FUNCTIONS)
def test_angles_next_to_multiples_of_half_pi_stay_exact(name: str, prim: Prim) -> None:
    multiples = np.round(np.exp(np.linspace(0, 13, 2000)))
    x = (multiples * np.pi / 2).astype(numpy_dtype(prim))
    function = near_function(name, prim)
    separate = evaluate_function(separate_function(function, BOTH), x)
    np.testing.assert_array_almost_equal_nulp(separate, evaluate_function(function, x), 2)


@pytest.mark.parametrize("prim", sorted(BOTH, key=str))
def test_an_exact_multiply_add_finds_the_rest_of_a_product(prim: Prim) -> None:
    a, b = np.random.default_rng(3).uniform(-9, 9, (2, 999)).astype(numpy_dtype(prim))
    rest = evaluate_function(exact_multiply_add(prim), a, b, -(a * b))
    np.testing.assert_array_equal(rest, fused_multiply_add(a, b, -(a * b)))


def test_the_target_says_which_multiply_adds_it_has() -> None:
    kernel = kernel_of(sums)
    fused = {
        name: any(
            isinstance(e, Fma)
            for e in all_expressions(run_passes(kernel, target_passes(named_target(name))).body)
        )
        for name in ("portable", "x86-64", "x86-64-v3", "aarch64", "riscv64")
    }
    assert [name for name, has in fused.items() if has] == ["x86-64-v3", "aarch64", "riscv64"]
