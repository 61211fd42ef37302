"""The generated builder methods match the op declarations."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

from rlx.ir.builders import Builders
from rlx.ir.graph import Graph
from rlx.ir.op import OPS

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_builders_are_what_the_generator_writes() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_builders.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert checked.returncode == 0, checked.stderr


def test_every_op_but_the_leaves_has_a_builder_with_its_operands_and_attributes() -> None:
    for definition in OPS.values():
        if definition.name in ("input", "param", "constant"):
            continue
        signature = inspect.signature(getattr(Builders, definition.name))
        parameters = [p.rstrip("_") for p in signature.parameters][1:]
        attributes = list(definition.attrs.__dataclass_fields__)
        assert parameters == [*definition.operands, *attributes], definition.name


def test_no_builder_is_hidden_by_a_method_of_the_graph() -> None:
    assert set(OPS) & set(vars(Graph)) == {"input", "param", "constant"}
