"""What a process imports that only runs a model which is compiled already."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rlx.ir.op import OpTable


def imported_by(statement: str) -> set[str]:
    """Return the modules that a new process has after a statement."""
    command = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_whoever_runs_a_model_declares_no_ops_and_imports_no_passes_and_no_kernels() -> None:
    modules = imported_by("import rlx.language")
    wanted_later = {
        name
        for name in modules
        if name.startswith(("rlx.ir.ops", "rlx.passes", "rlx.codegen.loops", "rlx.codegen.kernels"))
    }
    assert "rlx.runtime.executable" in modules
    assert not wanted_later


@pytest.mark.parametrize(
    "look",
    [
        "assert 'matmul' in OPS",
        "assert OPS['matmul'].name == 'matmul'",
        "assert OPS.get('matmul') is not None",
        "assert len(OPS) > 200",
        "assert 'matmul' in list(OPS)",
        "assert 'matmul' in dict(OPS.items())",
        "assert any(op.name == 'matmul' for op in OPS.values())",
        "assert 'matmul' in OPS.keys()",
    ],
)
def test_any_look_at_the_ops_declares_them(look: str) -> None:
    assert "rlx.ir.ops.linalg" in imported_by(f"from rlx.ir.op import OPS; {look}")


@pytest.mark.parametrize("first", ["index_maps", "parser", "ops.fused", "graph"])
def test_any_module_of_the_graphs_may_be_imported_first(first: str) -> None:
    assert "rlx.ir.ops.linalg" in imported_by(f"import rlx.ir.{first}, rlx.ir.ops")


def test_an_op_that_nobody_declares_is_a_key_error() -> None:
    table = OpTable()
    asked: list[str] = []
    table.declared_by(lambda: asked.append("asked"))
    with pytest.raises(KeyError, match="no_such_op"):
        table["no_such_op"]
    assert asked == ["asked"]
    assert "no_such_op" not in table
