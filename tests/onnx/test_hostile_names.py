"""Names in model files and saved graphs: they are text wherever they go, and none of them runs."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, checker, helper, numpy_helper, save

import rlx
from rlx.cli.main import main
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.ir.serialize import dumps, loads
from rlx.ir.serialize import save as save_graph
from rlx.runtime.executable import Executable
from tests.aot.building import needs_compiler
from tests.aot.test_hostile_names import compile_all, program
from tests.c_lexer import tokens
from tests.hostile_names import COMMAND, TEXTS, WORDS


def model(path: Path, first: str, names: itertools.cycle[str]) -> Path:
    """Write a model whose names of all kinds are hostile; `first` is the input's."""

    def name() -> str:
        return f"{next(names)}{next(numbers)}"

    numbers = itertools.count()
    rows, weights, middle, looped, last = name(), name(), name(), name(), name()
    function = helper.make_function(
        "evil", "local", ["a"], ["b"], [helper.make_node("Tanh", ["a"], ["b"], name=name())],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    carry, condition, kept = name(), name(), name()
    body = helper.make_graph(
        [helper.make_node("Exp", [carry], [f"{carry}_next"], name=name()),
         helper.make_node("Identity", [condition], [kept], name=name())],
        name(),
        [helper.make_tensor_value_info(f"{carry}_i", TensorProto.INT64, []),
         helper.make_tensor_value_info(condition, TensorProto.BOOL, []),
         helper.make_tensor_value_info(carry, TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info(kept, TensorProto.BOOL, []),
         helper.make_tensor_value_info(f"{carry}_next", TensorProto.FLOAT, [2, 4])],
    )  # fmt: skip
    trips = numpy_helper.from_array(np.array(3), name())
    nodes = [
        helper.make_node("MatMul", [first, weights], [middle], name=name(), doc_string=name()),
        helper.make_node("local", [middle], [f"{middle}_t"], domain="evil", name=name()),
        helper.make_node("Loop", [trips.name, "", f"{middle}_t"], [looped], body=body, name=name()),
        helper.make_node("Gather", [looped, rows], [last], axis=1, name=name()),
    ]
    graph = helper.make_graph(
        nodes, name(),
        [helper.make_tensor_value_info(first, TensorProto.FLOAT, [2, 4]),
         helper.make_tensor_value_info(rows, TensorProto.INT64, [3])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), weights), trips],
        doc_string=name(),
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("evil", 1)]
    made = helper.make_model(graph, opset_imports=opsets, functions=[function])
    save(made, path)
    checker.check_model(str(path))
    return path


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a library runs when it is loaded, runs here."""
    monkeypatch.chdir(tmp_path)


@needs_compiler
@pytest.mark.parametrize("first", [COMMAND, 'a"b', "a\\", "int", "I", "rlx_info"])
def test_model_of_hostile_names_compiles_and_runs(tmp_path: Path, first: str) -> None:
    texts = itertools.cycle(text.replace("\0", "") for text in (*TEXTS, *WORDS))
    path = model(tmp_path / 'm"\n#error.onnx', first, texts)
    artifact = rlx.aot(path, tmp_path / "out", emit_only=True)
    compile_all(artifact)
    assert not list(tmp_path.rglob("ran"))


def test_command_compiles_a_model_that_is_called_as_c(tmp_path: Path) -> None:
    path = model(tmp_path / "rlx_info.onnx", COMMAND, itertools.cycle(["system(1)", COMMAND]))
    assert main(["compile", str(path), "-o", str(tmp_path / "out"), "--emit-only"]) == 0
    for file in (tmp_path / "out").glob("*.[ch]"):
        assert not {"system", "constructor"} & {each.text for each in tokens(file.read_text())}


@needs_compiler
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_saved_graph_runs_and_its_names_are_text(backend: str) -> None:
    given = iter((*TEXTS, *WORDS))
    graph = program(given.__next__)
    for each in (loads(dumps(graph)), parse_graph(format_graph(graph, sources=True))):
        values = {v.node.attrs["name"]: np.ones(v.type.static_shape, "f4") for v in each.params}
        compiled = rlx.compile(each, backend=backend, params=values)
        assert isinstance(compiled, Executable)
        x, at, unused = (str(value.node.name) for value in each.inputs)
        results = compiled.run({x: np.ones((2, 4), "f4"), at: np.array([0, 4]),
                                unused: np.zeros(2, "f4")})  # fmt: skip
        np.testing.assert_array_equal(results[2], np.ones(2))
        words = {token.text for token in tokens(compiled.c_source)}
        assert not {"system", "constructor", "error"} & words
        lines = compiled.llvm_ir.splitlines()
        assert not any(line.startswith(("module asm", "#include")) for line in lines)


@pytest.mark.parametrize("stage", ["graph", "schedule", "plan", "kernels", "c", "llvm"])
def test_inspection_prints_no_controls(
    tmp_path: Path, stage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = iter((*TEXTS, *WORDS))
    path = tmp_path / "program.rlx"
    save_graph(program(given.__next__), path)
    assert main(["inspect", str(path), "--stage", stage]) == 0
    printed = capsys.readouterr().out
    assert not [c for c in printed if not c.isprintable() and c not in "\n\t"]
