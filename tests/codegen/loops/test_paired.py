"""The function of sine and cosine has the values of both, bit by bit of the near or the far one."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.evaluate import evaluate_function
from rlx.codegen.loops.math.define import build_function
from rlx.codegen.loops.math.near import near_function, near_limit
from rlx.codegen.loops.math.paired import sine_and_cosine_function
from rlx.codegen.loops.nodes import Prim
from rlx.codegen.loops.verify import verify_function
from tests.codegen.loops.test_near import angles


@pytest.mark.parametrize("single", [False, True])
def test_halves_are_the_sine_and_the_cosine(*, single: bool) -> None:
    x = np.append(
        angles(Prim.F32, 2.0**30), np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    )
    function = sine_and_cosine_function(single=single)
    verify_function(function)
    both = evaluate_function(function, x)
    is_near = np.abs(x) <= near_limit(single=single)
    for name, half in (("sin", both >> 32), ("cos", both)):
        near = evaluate_function(near_function(name, Prim.F32, single=single), x)
        far = evaluate_function(build_function(name, Prim.F32), x)
        found = half.astype(np.int32).view(np.float32)
        np.testing.assert_array_equal(found, np.where(is_near, near, far))
        np.testing.assert_array_equal(np.signbit(found[x == 0]), np.signbit(far[x == 0]))
