"""What an op costs: four lines for an elementwise one, a map and a line for a contraction."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.slow
def test_an_elementwise_op_is_four_lines_in_four_rooms() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


CONTRACTION = """
import numpy as np
import rlx
from rlx.codegen.kernels.contraction.plain import contract
from rlx.custom import define_op
from rlx.ir.fold_maps import FoldMap, contractions
from rlx.ir.index_maps import along

REACH = 1

def correlate(x, w):
    channels, height, width = x.shape
    return x.with_shape((2 * REACH + 1, 2 * REACH + 1, height, width))

def meaning(x, w):
    around = np.pad(x, ((0, 0), (REACH, REACH), (REACH, REACH)))
    steps = range(2 * REACH + 1)
    _, height, width = x.shape
    return np.array([
        [(around[:, d : d + height, e : e + width] * w).sum(0) for e in steps] for d in steps
    ])

def correlate_kernel(scope, x, w, out):
    contract(scope, x, w, out, width=16)

op = define_op(correlate, reference=meaning, kernel=correlate_kernel)

@contractions(op)
def correlation(sources, result):
    d, e, i, j, c = (along(axis, 5) for axis in range(5))
    moved = (c, i.plus(d).shifted(-REACH), j.plus(e).shifted(-REACH))
    return FoldMap(sources[0][:1], (moved, (c, i, j)), result, spacing=(1, 1, 1))

rng = np.random.default_rng(0)
for dtype in ("f32", "f64", "i32"):
    g = rlx.Graph("example")
    x, w = g.input("x", (3, 6, 21), dtype), g.input("w", (3, 6, 21), dtype)
    g.set_outputs([op(x, w) * 2])
    images = [rng.integers(-4, 5, (3, 6, 21)).astype(x.dtype.numpy) for _ in range(2)]
    for backend in ("c", "llvm"):
        (found,) = rlx.compile(g, backend=backend)(*images)
        np.testing.assert_array_equal(found, 2 * meaning(*images), err_msg=backend)
"""


def test_a_contraction_is_a_map_and_a_line() -> None:
    """The correlation of two images under all small displacements, from its map alone."""
    done = subprocess.run(
        [sys.executable, "-c", CONTRACTION], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
