"""Importing rlx: in any order, and without what only compiling needs."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)


@pytest.mark.parametrize(
    "first",
    ["rlx.jit", "rlx.grad", "rlx.numpy", "rlx.nn", "rlx.optim", "rlx.vmap", "rlx.tree_map"],
)
def test_any_name_may_be_the_first_that_is_used(first: str) -> None:
    run(f"import rlx; {first}")


def test_importing_rlx_imports_neither_numpy_nor_a_compiler() -> None:
    code = "import sys, rlx; assert not {'numpy', 'llvmlite', 'jinja2', 'cffi'} & set(sys.modules)"
    run(code)


def test_tracing_needs_no_compiler() -> None:
    used = "import sys, rlx; rlx.grad(lambda x: x * x)(3.0)"
    run(f"{used}; assert not {{'llvmlite', 'jinja2', 'cffi'}} & set(sys.modules)")


@pytest.mark.slow
def test_running_a_language_model_imports_no_optimizers() -> None:
    run("import sys, rlx.language; assert not {'rlx.optim', 'rlx.tracing'} & set(sys.modules)")
    run("import rlx.language; rlx.language.FineTuning")


def test_records_of_attributes_are_made_when_an_op_is_used() -> None:
    code = """
import dataclasses, threading
made = []
make = dataclasses.make_dataclass
dataclasses.make_dataclass = lambda name, *a, **b: made.append(name) or make(name, *a, **b)
import rlx.ir.ops
assert made == []
records = []
threads = [threading.Thread(target=lambda: records.append(rlx.ir.ops.concat.attrs)) for _ in "four"]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert set(made) == {"ConcatAttrs"} and len(set(records)) == 1
"""
    run(code)


@pytest.mark.slow
def test_every_public_name_is_there() -> None:
    run("import rlx; [getattr(rlx, name) for name in rlx.__all__]; dir(rlx)")
