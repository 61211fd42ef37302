"""SRC: graph files, Python modules, functions of arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlx.cli.main import main
from rlx.cli.sources import load_program, read_params
from rlx.ir.graph import Graph
from rlx.ir.printer import format_graph
from tests.cli.conftest import mlp

pytestmark = pytest.mark.usefixtures("workspace")

_MODULE = """
import numpy as np
import rlx
import rlx.numpy as rnp

def build(width=5):
    g = rlx.Graph("built")
    x = g.input("x", (2, width))
    g.set_outputs([g.exp(x)])
    return g

graph = build(7)

def with_params():
    g = rlx.Graph("scaled")
    g.set_outputs([g.input("x", (2,)) * g.param("w", (2,))])
    return g, {"w": np.ones(2, np.float32)}

def weights():
    return {"w": np.full(2, 3, np.float32)}

def predict(w, x):
    return rnp.tanh(x @ w)

@rlx.jit
def jitted(w, x):
    return rnp.tanh(x @ w)

answer = 42

def nothing():
    pass

def faulty():
    return {}["absent"]
"""


@pytest.fixture(autouse=True)
def module(workspace: Path) -> None:
    (workspace / "programs.py").write_text(_MODULE)


def type_of_input(graph: Graph) -> str:
    return str(graph.inputs[0].type)


def test_a_text_graph_is_a_source() -> None:
    Path("model.txt").write_text(format_graph(mlp()))
    assert load_program("model.txt").graph == mlp()


def test_a_builder_is_called() -> None:
    assert type_of_input(load_program("programs.py:build").graph) == "f32[2, 5]"


def test_a_graph_in_a_module_is_taken() -> None:
    assert type_of_input(load_program("programs.py:graph").graph) == "f32[2, 7]"


def test_params_may_come_with_the_graph() -> None:
    program = load_program("programs.py:with_params")
    np.testing.assert_array_equal(program.params["w"], [1, 1])


def test_params_may_come_from_a_function() -> None:
    np.testing.assert_array_equal(read_params(["programs.py:weights"])["w"], [3, 3])


@pytest.mark.parametrize("name", ["predict", "jitted"])
def test_a_function_is_traced_at_the_given_shapes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = ["--shape", "w=f32[3,2]", "--shape", "x=f32[n<=8,3]"]
    assert main(["inspect", f"programs.py:{name}", *shapes]) == 0
    assert "-> f32[n, 2]" in capsys.readouterr().out


def test_a_function_is_traced_at_the_types_of_its_inputs() -> None:
    np.save("w.npy", np.ones((6, 2), np.float32))
    command = ["run", "programs.py:predict", "--input", "w=w.npy", "--input", "x=x.npy"]
    assert main([*command, "--output", "y.npy"]) == 0
    np.testing.assert_allclose(
        np.load("y.npy"), np.tanh(np.load("x.npy").sum(1, keepdims=True) + np.zeros(2)), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere.rlx", "neither a file nor module:function"),
        ("nowhere:build", "cannot import nowhere"),
        ("nowhere.py:build", "there is no file nowhere.py"),
        ("programs.py:absent", "has no 'absent'"),
        ("programs.py:answer", "gave a int; it must give a Graph"),
        ("programs.py:nothing", "gave a NoneType; it must give a Graph"),
        ("programs.py:faulty", "programs.py:faulty raised KeyError: 'absent'"),
        ("programs.py:faulty", "in faulty"),
        ("programs.py:predict", "takes the argument 'w', whose type is not known"),
        ("x.npy", "neither a graph file nor the text form"),
    ],
)
def test_what_is_no_program_is_an_error_in_one_block(
    source: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", source]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.startswith("rlx: ")
    assert "Traceback" not in error
