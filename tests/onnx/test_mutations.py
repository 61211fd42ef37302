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
from tests.onnx.models import FLOAT, NODES, model, node, of_one_node  # noqa: E402


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits the memory by it")
@pytest.mark.parametrize("seed", range(2))
def test_damaged_models_are_refused_with_typed_errors_or_run(seed: int) -> None:
    """In a process of its own, with 1 GB of memory, 20 s for each and five minutes for all."""
    command = [sys.executable, "-m", "tests.onnx.mutated", str(seed), "2000"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, run = map(int, done.stdout.split())
    assert refused > 1000
    assert run > 300


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
    whole = of_one_node(*next(each for each in NODES if each[0] == op))
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
        ([[0, 9]], "out of range"),
        ([[0, -1]], "out of range"),
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
