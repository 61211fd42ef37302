"""The sign of a zero is the reference's, and NumPy's: angles and quotients distinguish them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate

SHAPES = ((), (1,), (2,), (3, 1), (1, 3), (17, 1, 2), (1, 40), (40, 1))
WHOLE = ("sum", "sum of no axes")
"""Folds that scalars have, too."""
FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda np_, x: np_.sum(x),
    "sum of no axes": lambda np_, x: np_.sum(x, axis=()),
    "sum of the first axis": lambda np_, x: np_.sum(x, axis=0),
    "sum of the last axis": lambda np_, x: np_.sum(x, axis=-1, keepdims=True),
    "mean": lambda np_, x: np_.mean(x, axis=-1),
    "product of the last axis": lambda np_, x: np_.prod(x, axis=-1),
    "running sum": lambda np_, x: np_.cumsum(x, axis=0),
    "running sum of the last axis": lambda np_, x: np_.cumsum(x, axis=-1),
    "running product": lambda np_, x: np_.cumprod(x, axis=-1),
}


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("name", FOLDS)
def test_folds_of_negative_zeros_have_numpys_signs(name: str, dtype: str, backend: str) -> None:
    for shape in SHAPES if name in WHOLE else SHAPES[1:]:
        x = np.full(shape, -0.0, dtype)
        expected = FOLDS[name](np, x)
        compiled = rlx.jit(lambda x: FOLDS[name](rnp, x), backend=backend)
        graph = compiled.graph(x)
        (reference,) = evaluate(graph, {str(graph.inputs[0].node.name): x})
        assert_same_signs(reference, expected, f"reference, {shape}")
        assert_same_signs(np.asarray(compiled(x)), expected, f"{backend}, {shape}")


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_sums_inside_loops_and_batches_begin_with_zero(backend: str) -> None:
    def summed(x: Any) -> Any:
        _, rows = rlx.scan(lambda c, row: (c, rnp.sum(row)), rnp.float32(0), x)
        return rows, rlx.vmap(rnp.sum)(x), rlx.vmap(lambda row: rnp.sum(row[:1]))(x)

    for extent in (1, 2, 5):
        found = rlx.jit(summed, backend=backend)(np.full((3, extent), -0.0, np.float32))
        for each in found:
            assert_same_signs(np.asarray(each), np.zeros(3, np.float32), f"{extent}")


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_exclusive_sums_begin_with_zero(backend: str) -> None:
    x = np.full((2, 3), -0.0, np.float32)
    for axis in (0, 1):
        graph = Graph("exclusive")
        value = graph.input("x", x.shape)
        graph.set_outputs([ops.cumsum(value, axis=axis, exclusive=True)])
        (expected,) = evaluate(graph, {"x": x})
        (found,) = rlx.compile(graph, backend=backend).run({"x": x})
        assert_same_signs(expected, np.zeros_like(x), "reference")
        assert_same_signs(found, expected, backend)


def assert_same_signs(found: Any, expected: Any, where: str) -> None:
    assert found.shape == expected.shape, where
    for part in (np.real, np.imag):
        np.testing.assert_array_equal(
            np.signbit(part(found)), np.signbit(part(expected)), err_msg=where
        )


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_products_of_one_term_begin_with_zero(dtype: str, backend: str) -> None:
    column, row = np.full((3, 1), -0.0, dtype), np.ones((1, 40), dtype)
    found = rlx.jit(rnp.matmul, backend=backend)(column, row)
    assert_same_signs(np.asarray(found), np.zeros((3, 40), dtype), backend)


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("integer", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_integers_have_no_negative_zero(dtype: str, integer: str, backend: str) -> None:
    # GCC makes `trunc(x)` of `(float)(int)x` under -fno-trapping-math.
    x = np.tile(np.array([-0.75, -0.0, 0.5, 3.5, -1.0, -2.5], dtype), 9)
    there_and_back = rlx.jit(lambda x: (x.astype(integer).astype(dtype), x * 2), backend=backend)
    found = np.asarray(there_and_back(x)[0])
    expected = np.trunc(x) + 0 if integer.startswith("int") else np.trunc(np.maximum(x, 0)) + 0
    np.testing.assert_array_equal(found, expected)
    assert_same_signs(found, expected, backend)


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1)])
def test_powers_by_a_half_are_no_square_roots(shape: tuple[int, ...], backend: str) -> None:
    for base in (-0.0, -np.inf):
        x = np.full(shape, base, np.float32)
        expected = np.full(shape, abs(base), np.float32)
        compiled = rlx.jit(lambda x: x**0.5, backend=backend)
        graph = compiled.graph(x)
        (reference,) = evaluate(graph, {str(graph.inputs[0].node.name): x})
        for found in (reference, np.asarray(compiled(x)), np.asarray(rnp.power(x, 0.5))):
            np.testing.assert_array_equal(found, expected)
            assert_same_signs(np.asarray(found), expected, backend)
