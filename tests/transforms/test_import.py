"""Importing rlx: in any order, and without what only compiling needs."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


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


def test_every_public_name_is_there() -> None:
    run("import rlx; [getattr(rlx, name) for name in rlx.__all__]; dir(rlx)")
