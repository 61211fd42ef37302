"""Sines and cosines of scalars in f32 become halves of one function."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import Kernel, Prim
from rlx.codegen.loops.passes.pair_sines import pair_sines
from rlx.codegen.loops.scalar import scalar_function
from rlx.codegen.loops.verify import verify_kernel
from tests.codegen.loops.passes.cases import text

ANGLES = np.array([0.5, -3.0, 2.0**20, np.inf], np.float32)


def sines(prim: Prim, lanes: int = 1) -> Kernel:
    k = KernelBuilder("kernel")
    x, y = k.argument("x", prim), k.argument("y", prim, writable=True)
    with k.loop("i", len(ANGLES) // lanes) as i:
        angle = k.load(x, i * lanes, lanes)
        both = [k.let(name, scalar_function(name)(angle)) for name in ("sin", "cos")]
        for place, value in enumerate(both):
            k.store(y, i * lanes + place * len(ANGLES), value)
    return k.build()


def values(kernel: Kernel) -> np.ndarray:
    y = np.zeros(2 * len(ANGLES), np.float32)
    run_kernel(kernel, {"x": ANGLES.copy(), "y": y})
    return y


@pytest.mark.parametrize("single", [False, True])
def test_sine_and_cosine_are_halves_of_one_function(*, single: bool) -> None:
    before = sines(Prim.F32)
    after = pair_sines(single=single)(before)
    verify_kernel(after)
    assert text(after).splitlines()[1:3] == [
        "  let sin: f32 = bits_f32(i32(sin_cos_f32(x[i]) >> 32))",
        "  let cos: f32 = bits_f32(i32(sin_cos_f32(x[i]) >> 0))",
    ]
    np.testing.assert_allclose(values(after), values(before), rtol=2e-7, atol=1e-7)


@pytest.mark.parametrize(
    "kernel", [sines(Prim.F64), sines(Prim.F32, lanes=2)], ids=["f64", "vectors"]
)
def test_doubles_and_vectors_keep_their_functions(kernel: Kernel) -> None:
    assert text(pair_sines(single=False)(kernel)) == text(kernel)
