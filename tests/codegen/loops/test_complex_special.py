"""Complex functions of zeros, infinities and NaNs: the same in the reference, LLVM and C."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.runtime.compile import compile as compile_graph

PARTS = (0.0, -0.0, 1.0, -1.0, -2.5, 3e20, np.inf, -np.inf, np.nan)
Array = NDArray[Any]


def numbers() -> Array:
    z = np.empty(len(PARTS) ** 2, np.complex64)
    z.real, z.imag = zip(*itertools.product(PARTS, PARTS), strict=True)
    return z


def same(one: Array, other: Array) -> Array:
    return np.isclose(one, other, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "reciprocal"])
def test_special_values_of_one_operand(name: str, backend: str) -> None:
    graph = Graph(name)
    z = numbers()
    graph.set_outputs([OPS[name](graph.input("z", z.shape, DType.C64))])
    (expected,) = evaluate(graph, {"z": z})
    (found,) = compile_graph(graph, backend=backend).run({"z": z})
    assert np.all(same(found.real, expected.real) & same(found.imag, expected.imag))
    if name != "reciprocal":
        # The cut of the square root belongs to the upper half plane, also from -0 below.
        with np.errstate(all="ignore"):
            exact = getattr(np, name)(z + np.complex64(0) if name == "sqrt" else z)
        assert np.all(same(expected.real, exact.real) & same(expected.imag, exact.imag))


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
def test_a_number_divided_by_an_infinity_is_zero(backend: str) -> None:
    graph = Graph("quotient")
    a, b = (graph.input(name, (3,), DType.C64) for name in "ab")
    graph.set_outputs([a / b])
    infinities = np.empty(3, np.complex64)
    infinities.real, infinities.imag = (np.inf, 1.0, np.nan), (0.0, -np.inf, np.inf)
    (found,) = compile_graph(graph, backend=backend).run(
        {"a": np.full(3, 2 + 1j, np.complex64), "b": infinities}
    )
    np.testing.assert_array_equal(found, 0)
