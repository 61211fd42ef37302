"""Weighted sums at given positions: what compiled code reads, shares and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import DTypeError, IndexOutOfRangeError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import Extent
from rlx.runtime.executable import Executable

RANDOM = np.random.default_rng(8)


def graph(shape: tuple[Extent, ...], axis: int, size: int = 9) -> Graph:
    g = Graph("samples")
    x, indices = g.input("x", shape), g.input("indices", (2, size), "i32")
    y = g.resample(x, indices, g.input("weights", (2, size)), axis=axis)
    g.set_outputs([y * 2.0 + 1.0])
    return g


def feeds(shape: tuple[int, ...], axis: int, size: int = 9) -> dict[str, Any]:
    return {
        "x": RANDOM.standard_normal(shape).astype("f4"),
        "indices": RANDOM.integers(0, shape[axis], (2, size)).astype("i4"),
        "weights": RANDOM.standard_normal((2, size)).astype("f4"),
    }


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("axis", [1, 2])
def test_large_operands_have_the_bits_of_the_reference_on_any_number_of_threads(
    backend: str, axis: int
) -> None:
    shape = (60, 90, 70)
    g, arrays = graph(shape, axis, 80), feeds(shape, axis, 80)
    expected = evaluate(g, arrays)[0]
    for threads in (1, 2):
        program = rlx.compile(g, backend=backend, threads=threads)
        assert isinstance(program, Executable)
        assert program.threads == threads
        np.testing.assert_array_equal(program(**arrays)[0], expected)


def test_what_follows_is_computed_in_the_kernel() -> None:
    assert len(rlx.compile(graph((2, 3, 8), 2)).schedule.thunks) == 1


@pytest.mark.whole
@pytest.mark.parametrize("backend", ["llvm", "c", "reference"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (30, 40, 35)])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("beyond", [False, True])
def test_a_position_outside_of_the_axis_is_an_error(
    backend: str, shape: tuple[int, ...], axis: int, beyond: bool
) -> None:
    arrays = feeds(shape, axis)
    arrays["indices"][1, 4] = shape[axis] if beyond else -1
    with pytest.raises(IndexOutOfRangeError):
        rlx.compile(graph(shape, axis), backend=backend)(**arrays)


def test_examples_that_share_positions_stay_one_operand() -> None:
    x = RANDOM.standard_normal((3, 4, 56)).astype("f4")

    def resized(image: Any) -> Any:
        return rlx.nn.resize(image[None], (90,), layout="NCL")[0]

    batched = rlx.jit(rlx.vmap(resized))
    np.testing.assert_array_equal(batched(x), np.stack([resized(image) for image in x]))
    assert "resample" in batched.c_source(x)
    assert "gather" not in batched.c_source(x)


def test_many_taps_are_added_a_few_at_a_time() -> None:
    g = Graph("shrink")
    g.set_outputs([g.resize(g.input("x", (2, 90)), size=(4,), mode="linear", antialias=True)])
    x = RANDOM.standard_normal((2, 90)).astype("f4")
    np.testing.assert_allclose(rlx.compile(g)(x=x)[0], evaluate(g, {"x": x})[0], atol=1e-6)
    np.testing.assert_allclose(rlx.compile(g)(x=np.ones_like(x))[0], 1, atol=1e-6)


@pytest.mark.parametrize(
    ("indices", "weights", "dtype", "error", "message"),
    [
        ((2, 5), (2, 4), "f32", ShapeError, r"both must be \[taps, size\]"),
        ((5,), (5,), "f32", ShapeError, r"both must be \[taps, size\]"),
        ((0, 5), (0, 5), "f32", ShapeError, "with 1 tap or more"),
        ((2, 5), (2, 5), "f64", DTypeError, "cast one of them"),
    ],
)
def test_what_does_not_fit_is_refused(
    indices: tuple[int, ...], weights: tuple[int, ...], dtype: str, error: Any, message: str
) -> None:
    g = Graph("refused")
    chosen, factors = g.input("i", indices, "i32"), g.input("w", weights, dtype)
    with pytest.raises(error, match=message):
        ops.resample(g.input("x", (3, 4)), chosen, factors, axis=1)
