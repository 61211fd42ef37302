"""`InferenceSession`: the face of ONNX Runtime's, stages, and what is kept."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rlx.errors import InputError  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402
from tests.onnx.models import FLOAT, flattening, model, node, perceptron  # noqa: E402


def session(made: object) -> InferenceSession:
    return InferenceSession(made, providers=["CPUExecutionProvider"], backend="reference")


def test_it_tells_its_inputs_and_outputs() -> None:
    made = session(perceptron())
    (given,) = made.get_inputs()
    assert (given.name, given.type, given.shape) == ("x", "tensor(float)", ["batch", 4])
    assert [output.name for output in made.get_outputs()] == ["y"]
    assert made.get_modelmeta().graph_name == "small"


def test_each_shape_is_compiled_once() -> None:
    made = session(perceptron())
    for rows in (1, 3, 1, 3):
        (y,) = made.run(["y"], {"x": np.ones((rows, 4), np.float32)})
        assert y.shape == (rows, 3)
    assert len(made._stages) == 2


def test_inputs_are_checked() -> None:
    made = session(perceptron())
    with pytest.raises(InputError, match="inputs missing: x; unknown: z"):
        made.run(None, {"z": np.ones((1, 4), np.float32)})
    with pytest.raises(InputError, match="has dtype float64; it must be float32"):
        made.run(None, {"x": np.ones((1, 4))})
    with pytest.raises(InputError, match=r"has shape \(1, 5\)"):
        made.run(None, {"x": np.ones((1, 5), np.float32)})
    with pytest.raises(InputError, match="has no output 'logits'"):
        made.run(["logits"], {"x": np.ones((1, 4), np.float32)})


def test_shapes_are_folded_for_each_input() -> None:
    made = session(flattening())
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], x.reshape(2, 6))


def test_shapes_that_depend_on_data_are_run_in_stages() -> None:
    nodes = [
        node("Relu", ["x"], ["positive"]),
        node("NonZero", ["positive"], ["places"]),
        node("Transpose", ["places"], ["rows"]),
        node("GatherND", ["positive", "rows"], ["kept"]),
        node("Exp", ["kept"], ["y"]),
    ]
    made = session(model(nodes, {"x": (FLOAT, ["n"])}, ["y"]))
    for x in ([1, -2, 3, -4], [-1, 2, 3, 4]):
        array = np.asarray(x, np.float32)
        (y,) = made.run(None, {"x": array})
        np.testing.assert_allclose(y, np.exp(array[array > 0]), rtol=1e-6)
