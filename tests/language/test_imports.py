"""What a process imports that only runs a model which is compiled already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlx.ir.lazy_table import LazyTable


def imported_by(statement: str) -> set[str]:
    """Return the modules that a new process has after a statement."""
    command = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_running_a_model_declares_no_ops_and_imports_no_passes_and_no_kernels() -> None:
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
        "assert OPS['matmul'].name == 'matmul'",
        "assert OPS.get('matmul') is not None",
        "assert 'matmul' in dict(OPS.items())",
        "assert any(op.name == 'matmul' for op in OPS.values())",
    ],
)
def test_whatever_reads_an_op_declares_it(look: str) -> None:
    assert "rlx.ir.ops.linalg" in imported_by(f"from rlx.ir.op import OPS; {look}")


@pytest.mark.parametrize("look", ["assert 'matmul' in OPS", "assert len(OPS) > 200"])
def test_names_of_ops_are_there_without_declaring_them(look: str) -> None:
    assert "rlx.ir.ops.linalg" not in imported_by(f"from rlx.ir.op import OPS; {look}")


def test_one_op_declares_those_of_its_module_and_of_what_that_needs() -> None:
    modules = imported_by("from rlx.ir import ops; ops.tanh")
    assert "rlx.ir.ops.elementwise" in modules
    assert "rlx.ir.ops.linalg" not in modules


@pytest.mark.parametrize("first", ["index_maps", "parser", "ops.fused", "graph"])
def test_any_module_of_the_graphs_may_be_imported_first(first: str) -> None:
    assert "rlx.ir.ops.linalg" in imported_by(f"import rlx.ir.{first}, rlx.ir.ops.linalg")


@pytest.mark.slow
def test_compiling_loads_the_kernels_and_rules_of_its_ops_alone(tmp_path: Path) -> None:
    modules = imported_by(
        f"import os; os.environ['RLX_CACHE_DIR'] = {str(tmp_path)!r};"
        "import numpy as np, rlx, rlx.numpy as rnp; f = lambda x: rnp.tanh(x @ x).sum();"
        "rlx.jit(rlx.grad(f))(np.eye(9, dtype='f4'))"
    )
    assert {"rlx.codegen.kernels.products.plain", "rlx.passes.autodiff.rules.linalg"} <= modules
    families = ("attention", "conv", "linalg.schur", "sort.sort", "packed.packed")
    kernels = {f"rlx.codegen.kernels.{family}" for family in families}
    rules = {f"rlx.passes.autodiff.rules.{family}" for family in ("attention", "conv")}
    assert modules & (kernels | rules) == set()


def test_a_name_that_is_not_declared_is_a_key_error() -> None:
    table: LazyTable[int] = LazyTable("op")
    with pytest.raises(KeyError, match="no_such_op"):
        table["no_such_op"]
    assert "no_such_op" not in table
