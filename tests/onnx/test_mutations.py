"""Damaged files are refused with typed errors, quickly."""

from __future__ import annotations

import dataclasses
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import rlx.onnx  # noqa: E402
from rlx.errors import FormatError, InternalError, RlxError  # noqa: E402
from rlx.onnx import registry  # noqa: E402
from tests.onnx.models import FLOAT, model, node  # noqa: E402


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits the memory by it")
@pytest.mark.parametrize("seed", range(2))
def test_damaged_models_are_refused_with_typed_errors(seed: int) -> None:
    """In a process of its own, with 1 GB of memory and five minutes."""
    command = [sys.executable, "-m", "tests.onnx.mutated", str(seed), "2000"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 1000


NODES: tuple[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]], ...] = (
    ("Conv", ((1, 2, 5, 5), (4, 2, 3, 3)), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    ("MaxPool", ((1, 2, 6, 6),), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("Gemm", ((2, 3), (3, 4), (4,)), {"transA": 0, "alpha": 0.5}),
    ("Concat", ((2, 3), (2, 5)), {"axis": 1}),
    ("Transpose", ((2, 3, 4),), {"perm": [2, 0, 1]}),
    ("LSTM", ((4, 1, 2), (1, 12, 2), (1, 12, 3)), {"hidden_size": 3}),
    ("LayerNormalization", ((2, 3, 4), (4,)), {"axis": -1, "epsilon": 1e-5}),
    ("Einsum", ((2, 3), (3, 4)), {"equation": "ij,jk->ik"}),
    ("DepthToSpace", ((1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"}),
    ("Resize", ((1, 1, 4, 4),), {"mode": "linear"}),
    ("GroupNormalization", ((1, 4, 3), (4,), (4,)), {"num_groups": 2}),
    ("ConvTranspose", ((1, 2, 5), (2, 3, 3)), {"strides": [2], "output_padding": [1]}),
)


def changed(made: Any, rng: random.Random) -> None:
    """Change an attribute, an input, an element type or a shape of a model of one node."""
    (only,) = made.graph.node
    given = rng.choice(made.graph.input).type.tensor_type
    kind = rng.randrange(5)
    if kind == 0:
        attribute = rng.choice(only.attribute)
        if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.randrange(-5, 10)
        else:
            attribute.i, attribute.f, attribute.s = rng.randrange(-5, 10), -1.0, b"x,->"
    elif kind == 1:
        only.input[rng.randrange(len(only.input))] = rng.choice(["", *only.input])
    elif kind == 2:
        given.elem_type = rng.choice([2, 3, 7, 8, 9, 10, 11, 14])
    elif kind == 3:
        rng.choice(given.shape.dim).dim_value = rng.choice([0, 1, 2, 5, 7])
    else:
        del given.shape.dim[rng.randrange(len(given.shape.dim))]


@pytest.mark.parametrize("op", [each[0] for each in NODES])
def test_nodes_that_break_a_rule_are_the_fault_of_the_file(op: str) -> None:
    _, shapes, attributes = next(each for each in NODES if each[0] == op)
    names = [f"x{place}" for place in range(len(shapes))]
    types = {name: (FLOAT, shape) for name, shape in zip(names, shapes, strict=True)}
    whole = model([node(op, names, ["y"], **attributes)], types, ["y"], opset=21)
    rng = random.Random(op)
    for _ in range(60):
        made = onnx.ModelProto()
        made.CopyFrom(whole)
        changed(made, rng)
        try:
            rlx.onnx.load(made)
        except InternalError:
            raise
        except RlxError as error:
            assert re.search(f"{op}|at small:|input 'x", str(error))  # noqa: PT017


def test_a_fault_of_a_translator_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(x: Any) -> Any:
        return [][x.ndim]

    found = registry.find_operator("", "Relu", 20)
    assert found is not None
    faulty = dataclasses.replace(found, translate=broken)
    monkeypatch.setitem(registry.OPERATORS, ("", "Relu"), [faulty])
    made = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [2])}, ["y"])
    with pytest.raises(InternalError, match=r"(?s)importing Relu: IndexError.*Relu_y"):
        rlx.onnx.load(made)
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    with pytest.raises(FormatError, match="'x' is of type bool, which X is never"):
        rlx.onnx.load(made)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([[0, 9]], "outside"),
        ([[0, -1]], "outside"),
        ([[0, 0], [1, 1]], "1 values"),
        ([[0]], "1 values"),
    ],
)
def test_sparse_tensors_are_checked(places: Any, said: str) -> None:
    tensor = onnx.helper.make_sparse_tensor(
        onnx.numpy_helper.from_array(np.ones(1, np.float32), "w"),
        onnx.numpy_helper.from_array(np.asarray(places, np.int64), "i"), [2, 3],
    )  # fmt: skip
    made = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [2, 3])}, ["y"])
    made.graph.sparse_initializer.append(tensor)
    with pytest.raises(FormatError, match=said):
        rlx.onnx.load(made)
