"""Complex functions of zeros, infinities and NaNs: the same in the reference, LLVM and C."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.codegen.loops.complex_functions import complex_function
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import ValueType, Var, storage
from rlx.codegen.loops.visit import walk_expression
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.runtime.compile import compile as compile_graph

PARTS = (0.0, -0.0, 1.0, -1.0, -2.5, 3e20, np.inf, -np.inf, np.nan)
WIDE = (*PARTS, 1e200, -1e-200)
DTYPES = (DType.C64, DType.C128)
Array = NDArray[Any]


def numbers(dtype: DType) -> Array:
    parts = PARTS if dtype is DType.C64 else WIDE
    z = np.empty(len(parts) ** 2, dtype.numpy)
    z.real, z.imag = zip(*itertools.product(parts, parts), strict=True)
    return z


def assert_same(one: Array, other: Array, *, signs: bool) -> None:
    """Assert that parts are near, however small, and with `signs` that zeros have the same."""
    rtol = 1e-5 if one.dtype == np.complex64 else 1e-13
    for found, wanted in ((one.real, other.real), (one.imag, other.imag)):
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=0)
        zero = (wanted == 0) & signs
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "reciprocal"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_of_one_operand(dtype: DType, name: str, backend: str) -> None:
    graph = Graph(name)
    z = numbers(dtype)
    graph.set_outputs([OPS[name](graph.input("z", z.shape, dtype))])
    (expected,) = evaluate(graph, {"z": z})
    (found,) = compile_graph(graph, backend=backend).run({"z": z})
    # The sign of a zero says on which side of the cut of root and logarithm a number is met.
    signs = name in ("log", "sqrt")
    assert_same(found, expected, signs=signs)
    if name != "reciprocal":
        with np.errstate(all="ignore"):
            exact = getattr(np, name)(z)
        assert_same(expected, exact, signs=signs)


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_divided_by_an_infinity_is_zero(dtype: DType, backend: str) -> None:
    graph = Graph("quotient")
    a, b = (graph.input(name, (3,), dtype) for name in "ab")
    graph.set_outputs([a / b])
    infinities = np.empty(3, dtype.numpy)
    infinities.real, infinities.imag = (np.inf, 1.0, np.nan), (0.0, -np.inf, np.inf)
    (found,) = compile_graph(graph, backend=backend).run(
        {"a": np.full(3, 2 + 1j, dtype.numpy), "b": infinities}
    )
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
def test_quotients_of_large_and_small_numbers_neither_overflow_nor_vanish(backend: str) -> None:
    graph = Graph("quotient")
    z = np.array([1e300 + 1e299j, 1e-300 - 3e-301j, 2e200 - 1e-200j])
    a, b = (graph.input(name, (3,), DType.C128) for name in "ab")
    graph.set_outputs([a / b])
    (found,) = compile_graph(graph, backend=backend).run({"a": z * (2 - 1j), "b": z})
    np.testing.assert_allclose(found, 2 - 1j, rtol=1e-14)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_roots_of_subnormal_numbers_keep_their_digits(backend: str) -> None:
    graph = Graph("root")
    parts = (0.0, 5e-324, -1e-320, 3e-310, 1.0)
    z = np.array([complex(re, im) for re, im in itertools.product(parts, parts)])
    graph.set_outputs([graph.sqrt(graph.input("z", z.shape, DType.C128))])
    (found,) = compile_graph(graph, backend=backend).run({"z": z})
    exact = np.sqrt(z)
    np.testing.assert_allclose(found.real, exact.real, rtol=1e-14)
    np.testing.assert_allclose(found.imag, exact.imag, rtol=1e-14)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "reciprocal"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_formulas_written_out_are_short(dtype: DType, name: str) -> None:
    """Whatever a formula reads twice is there twice; roots of f64 were a hundred thousand nodes."""
    z = [E(Var(part, ValueType(storage(dtype)))) for part in ("re", "im")]
    parts = complex_function(name)(z)
    assert isinstance(parts, tuple)
    assert sum(len(list(walk_expression(part.node))) for part in parts) < 600
