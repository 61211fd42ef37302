"""Builder methods of graphs, and their stub, have the signatures of the op declarations."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from rlx.errors import GraphError
from rlx.homes import homes_of
from rlx.ir.graph import Graph
from rlx.ir.op import OPS

ROOT = Path(__file__).resolve().parents[2]
LEAVES = ("input", "param", "constant")
DECLARED = [name for name in homes_of("op") if name not in LEAVES and OPS[name].is_public]


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ast.FunctionDef]:
    package = tmp_path_factory.mktemp("rlx")
    (package / "ir").mkdir()
    command = [sys.executable, str(ROOT / "tools" / "generate_builders.py"), str(package)]
    subprocess.run(command, check=True, timeout=600)
    tree = ast.parse((package / "ir" / "builders.pyi").read_text(encoding="utf-8"))
    (methods,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    found = (node for node in methods.body if isinstance(node, ast.FunctionDef))
    return {node.name: node for node in found if node.name != "apply"}


def test_every_public_op_but_the_leaves_has_a_method_with_its_operands_and_attributes() -> None:
    for name in DECLARED:
        parameters = list(inspect.signature(getattr(Graph("g"), name)).parameters)
        assert parameters == [*OPS[name].operands, *OPS[name].attrs.__dataclass_fields__], name


def test_the_stub_has_the_parameters_of_the_methods(stub: dict[str, ast.FunctionDef]) -> None:
    assert set(stub) == set(DECLARED)
    for name, method in stub.items():
        declared = (*method.args.args, method.args.vararg, *method.args.kwonlyargs)
        found = [argument.arg for argument in declared if argument]
        assert found == list(inspect.signature(getattr(Graph, name)).parameters), name


def test_no_method_of_an_op_is_hidden_by_a_method_of_the_graph() -> None:
    assert set(OPS) & set(vars(Graph)) == {"input", "param", "constant"}


def test_methods_are_completed_and_documented() -> None:
    assert {name for name in OPS if OPS[name].is_public} <= set(dir(Graph("g")))
    assert Graph.softmax.__doc__ == OPS["softmax"].doc
    assert Graph("g").softmax.__qualname__ == "Graph.softmax"


def test_ops_that_passes_make_of_others_are_no_methods() -> None:
    made = {name for name in OPS if not OPS[name].is_public}
    assert {"stored_matmul", "stored_conv", "pack_panels", "radix_move"} < made
    assert made.isdisjoint(dir(Graph("g")))
    with pytest.raises(AttributeError, match="stored_matmul is an op that only passes create"):
        getattr(Graph("g"), "stored_matmul")  # noqa: B009


def test_operands_are_taken_by_name() -> None:
    g = Graph("g")
    x, y = g.input("x", (3,)), g.input("y", (3,))
    given = g.where(g.lt(b=y, a=x), b=x, a=y)
    assert given.node.operands[0].node.operands == (x, y)
    assert given.node.operands[1:] == (y, x)


@pytest.mark.parametrize(
    ("name", "operands", "attributes", "message"),
    [
        ("softmax", 1, {"axis": 0, "turbo": True}, "has no attribute 'turbo' .has: axis"),
        ("softmax", 1, {}, "softmax: needs attribute 'axis'"),
        ("add", 1, {}, "add: takes 2 operands and was given 1"),
        ("add", 2, {"a": 1.0}, "add: has no attribute 'a'"),
    ],
)
def test_wrong_arguments_are_named(
    name: str, operands: int, attributes: dict[str, object], message: str
) -> None:
    g = Graph("g")
    with pytest.raises(GraphError, match=message):
        getattr(g, name)(*[g.input("x", (3,))] * operands, **attributes)


def test_an_unknown_method_is_an_attribute_error_that_suggests_others() -> None:
    with pytest.raises(AttributeError, match="Graph has no op or attribute 'sofmax'") as caught:
        getattr(Graph("g"), "sofmax")  # noqa: B009
    assert (caught.value.name, caught.value.obj) == ("sofmax", Graph)
