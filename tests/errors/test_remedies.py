"""Every error that rlx raises on purpose says what would be right, or what to do."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlx.errors
from rlx.errors import InternalError, RlxError

SOURCES = sorted((Path(__file__).parents[2] / "rlx").rglob("*.py"))
TYPED = {
    name
    for name, kind in vars(rlx.errors).items()
    if isinstance(kind, type) and issubclass(kind, RlxError) and kind is not InternalError
}


def raised(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the constructions of typed errors that are raised."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = node.exc.func
            if isinstance(name, ast.Name) and name.id in TYPED:
                yield node.exc


def says_what_to_do(error: ast.Call) -> bool:
    """True with a remedy, or a message that states the rule ("it must be ...")."""
    return any(keyword.arg == "remedy" for keyword in error.keywords) or any(
        " must " in str(part.value) for part in ast.walk(error) if isinstance(part, ast.Constant)
    )


@pytest.mark.slow
def test_there_are_errors_to_look_at() -> None:
    assert sum(1 for path in SOURCES for _ in raised(ast.parse(path.read_text()))) > 400


@pytest.mark.whole
@pytest.mark.parametrize("folder", sorted({path.parent.name for path in SOURCES}))
def test_every_error_says_what_to_do(folder: str) -> None:
    silent = [
        f"{path.name}:{error.lineno}: {ast.unparse(error)}"
        for path in SOURCES
        if path.parent.name == folder
        for error in raised(ast.parse(path.read_text()))
        if not says_what_to_do(error)
    ]
    assert not silent, "\n".join(silent)


PROGRAM = """
import sys

sys.modules["onnx"] = None
import rlx

assert not hasattr(rlx, "onnx")
try:
    rlx.onnx.load("model.onnx")
except rlx.errors.ToolchainError as error:
    assert "pip install 'rlx[onnx]'" in str(error)
else:
    raise SystemExit("onnx was there")
"""


def test_a_missing_package_is_no_attribute_and_an_error_with_a_remedy() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
