"""Transforms, complex arithmetic and log-mel energies: known values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.op import OpDef
from rlx.ir.reference import evaluate
from rlx.passes import grad

Array = NDArray[Any]


def applied(definition: OpDef, *arrays: Any, **attributes: Any) -> Array:
    graph = Graph("facts")
    given = [np.asarray(each) for each in arrays]
    values = [graph.input(f"x{i}", x.shape, as_dtype(x.dtype)) for i, x in enumerate(given)]
    graph.set_outputs([definition(*values, **attributes)])
    return np.asarray(evaluate(graph, {f"x{i}": x for i, x in enumerate(given)})[0])


def stage(gate: float, rev: float) -> list[float]:
    state = np.array([1, 0, 2, 0, 3, 0, 4, 0], np.float32)[None]
    ones = np.ones(2, np.float32)
    given = (state, gate * ones, rev * ones, ones, 0 * ones)
    found = applied(ops.fft_butterfly_stage, *given, stage=0, n_fft=4)
    assert not found[0, 1::2].any()
    return [float(x) for x in found[0, ::2]]


def test_of_fft_butterfly_stage() -> None:
    assert stage(1, 0) == [3, -1, 7, -1]
    assert stage(0, 1) == [1, 2, 3, 4]
    assert stage(1, 1) == [-1, 3, -1, 7]


def test_the_derivative_of_a_butterfly() -> None:
    """With w = 1 the pair (a, b) becomes (a + b, a - b): weights (p, q) give (p + q, p - q)."""
    graph = Graph("loss")
    state = graph.param("state", (1, 4), "f32")
    one = [graph.constant(np.array([value], np.float32)) for value in (1.0, 0.0, 1.0, 0.0)]
    weights = graph.constant(np.array([[2.0, 0.0, 5.0, 0.0]], np.float32))
    after = ops.fft_butterfly_stage(state, *one, stage=0, n_fft=2)
    graph.set_outputs([ops.reduce_sum(after * weights, axes=(0, 1))])
    (slope,) = evaluate(
        grad(graph, wrt=[state]),
        {"state": np.ones((1, 4), np.float32), "d_output": np.ones((), np.float32)},
    )
    np.testing.assert_allclose(slope, [[7, 0, -3, 0]])


def mel_case() -> tuple[Array, Array]:
    filters = ((np.arange(4 * 17) % 5) * 0.05 + 0.02).reshape(4, 17).astype(np.float32)
    spec = np.zeros((1, 64), np.float32)
    k = np.arange(17)
    spec[0, :17], spec[0, 32:49] = 0.2 * (k + 1), -0.1 * k
    return spec, filters


def test_of_log_mel() -> None:
    expected = [[1.245321, 1.254745, 1.252948, 1.246286]]
    np.testing.assert_allclose(applied(ops.log_mel, *mel_case()), expected, atol=1e-5)
    spec, filters = np.zeros((4, 256), np.float32), np.zeros((80, 65), np.float32)
    assert applied(ops.log_mel, spec, filters).shape == (4, 80)


def test_of_log_mel_backward() -> None:
    graph = Graph("loss")
    spec, filters = mel_case()
    x = graph.param("spec", spec.shape, "f32")
    graph.set_outputs([ops.reduce_sum(ops.log_mel(x, graph.constant(filters)), axes=(0, 1))])
    (slope,) = evaluate(grad(graph, wrt=[x]), {"spec": spec, "d_output": np.ones((), np.float32)})
    np.testing.assert_allclose(slope[0, :3], [0.001834, 0.003296, 0.007556], atol=1e-6)
    np.testing.assert_allclose(slope[0, 33:35], [-0.000824, -0.002519], atol=1e-6)
    assert not slope[0, 17:32].any()


def test_stages_and_filters_that_do_not_fit_are_refused() -> None:
    graph = Graph("wrong")
    ones = [graph.input(f"x{i}", (2,), "f32") for i in range(4)]
    with pytest.raises(ShapeError, match="their logarithm exceeds the stage"):
        ops.fft_butterfly_stage(graph.input("s", (1, 8), "f32"), *ones, stage=2, n_fft=4)
    with pytest.raises(ShapeError, match="must be \\(bands, 5\\)"):
        ops.log_mel(graph.input("spec", (16,), "f32"), graph.input("f", (3, 4), "f32"))


# Complex numbers
