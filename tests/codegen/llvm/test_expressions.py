"""What the samples of the loop language leave open about expressions."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import evaluate_function
from rlx.codegen.loops.expr import call
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.nodes import LoopKind, Prim
from tests.codegen.llvm.native import Array, run, same_bits


def _samples(dtype: type[np.floating]) -> Array:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 90.0, -90.0]
    spread = np.random.default_rng(5).standard_normal(40) * 10
    return np.concatenate([special, spread]).astype(dtype)


@pytest.mark.parametrize("lanes", [2, 8, 16])
@pytest.mark.parametrize(("prim", "dtype"), [(Prim.F32, np.float32), (Prim.F64, np.float64)])
@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_math_function_has_the_same_bits_at_every_width(
    name: str, prim: Prim, dtype: type[np.floating], lanes: int
) -> None:
    function = build_function(name, prim)
    k = KernelBuilder("wide")
    x, y = k.argument("x", prim), k.argument("y", prim, writable=True)
    with k.loop("i", 48, step=lanes) as i:
        k.store(y, i, call(function, k.load(x, i, lanes)))
    values, actual = _samples(dtype), np.zeros(48, dtype)
    run(k.build(), [values, actual])
    assert same_bits(actual, evaluate_function(function, values))


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, LoopKind.SIMD])
def test_a_product_and_a_sum_are_never_contracted(kind: LoopKind) -> None:
    k = KernelBuilder("plain")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 48, kind=kind) as i:
        value = k.let("value", k.load(x, i))
        k.store(y, i, value * value - value)
    values, actual = _samples(np.float32), np.zeros(48, np.float32)
    run(k.build(), [values, actual])
    with np.errstate(all="ignore"):
        assert same_bits(actual, values * values - values)


def test_index_arithmetic_on_literals_is_folded_at_its_own_width_only() -> None:
    k = KernelBuilder("narrow")
    x, y = k.argument("x", Prim.I8), k.argument("y", Prim.I8, writable=True)
    with k.loop("i", 3, kind=LoopKind.UNROLL) as i:
        k.store(y, i, i.cast(Prim.I8) * 100 + k.load(x, i))
    actual = np.zeros(3, np.int8)
    run(k.build(), [np.ones(3, np.int8), actual])
    assert actual.tolist() == [1, 101, -55]
