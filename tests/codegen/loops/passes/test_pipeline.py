"""Every pass over the loop language has tests of its own, and a row in the documentation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rlx.codegen.loops.passes as package
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer
from rlx.codegen.loops.passes.pipeline import CLEANUP, FUSION, run_passes
from tests.codegen.loops.passes.cases import kernel_of

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
_GIVES_A_PASS = ("KernelPass", "Callable[[Kernel], Kernel]")


def passes() -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each pass: a function of a kernel, or one that gives it."""
    for path in sorted(Path(package.__path__[0]).glob("*.py")):
        functions = (n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef))
        for node in functions if path.stem not in ("pipeline", "target_passes") else ():
            given = [ast.unparse(arg.annotation) for arg in node.args.args if arg.annotation]
            made = ast.unparse(node.returns) if node.returns else ""
            is_pass = (given[:1], made) == (["Kernel"], "Kernel") or made in _GIVES_A_PASS
            if is_pass and not node.name.startswith("_"):
                yield path.stem, node.name


def test_every_pass_has_a_row_in_the_documentation() -> None:
    page = (ROOT / "docs" / "loop_language.md").read_text()
    assert [name for _, name in passes() if f"| `{name}` |" not in page] == []


def test_every_pass_has_a_test() -> None:
    texts = [path.read_text() for path in HERE.glob("test_*.py") if path != Path(__file__)]
    untested = [name for _, name in passes() if not any(name in text for text in texts)]
    assert untested == [], f"add tests/codegen/loops/passes/test_{untested[0]}.py"


def test_a_kernel_that_no_pass_changes_is_the_same_object() -> None:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        k.store(y, 0, k.load(x, 1))

    kernel = kernel_of(write)
    assert run_passes(kernel, (*FUSION, *CLEANUP)) is kernel
