"""What an op costs: four lines, one in each room, and the rest of the house follows."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np
import rlx
from rlx.codegen.loops import scalar
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import unary
from rlx.ir.reference.registry import reference
from rlx.passes.autodiff.registry import derivative

cube = unary("cube", "The third power.", "float", Trait.CHEAP)
reference(cube)(lambda x: x * x * x)
derivative(cube, lambda y, x: 3.0 * (x * x))
scalar._TABLE["cube"] = lambda x: x * x * x

example = rlx.Graph("example")
x = example.input("x", (4,), "f64")
example.set_outputs([example.reduce_sum(example.tanh(cube(x) + 1.0), axes=(0,))])
slope = rlx.passes.grad(example, wrt=[x])
batched = rlx.passes.vmap(slope, {"x": 0}, size=3)

def expected(x):
    return (1 - np.tanh(x**3 + 1) ** 2) * 3 * x**2

values = np.linspace(-1, 1, 12).reshape(3, 4)
for backend in ("reference", "c", "llvm"):
    (found,) = rlx.compile(batched, backend=backend)(values, np.ones(()))
    np.testing.assert_allclose(found, expected(values), rtol=1e-12, err_msg=backend)
thunks = len(rlx.compile(batched, backend="c").schedule.thunks)
assert thunks == 1, thunks
"""


def test_an_elementwise_op_is_four_lines_in_four_rooms() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
