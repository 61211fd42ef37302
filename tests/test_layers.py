"""Imports go one way down the pipeline; packages with a foreign border keep it to themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rlx

ROOT = Path(rlx.__file__).parent

LAYERS = (
    ("errors",),
    ("ir",),
    ("target",),
    ("passes",),
    ("codegen",),
    ("runtime",),
    ("blocks", "tracing", "numpy", "transforms", "nn", "optim", "custom"),
    ("report",),
    ("cli", "__main__"),
)
"""A module imports from its own row and those above it."""

BORDERS = {
    "llvmlite": ("codegen/llvm",),
    "cffi": ("runtime",),
    "onnx": ("onnx",),
    "jinja2": ("codegen", "report"),
}
"""Foreign packages, and the only places that may import them."""


def modules() -> Iterator[tuple[Path, list[str]]]:
    """Yield every source file with the absolute names it imports, lazily or not."""
    for path in sorted(ROOT.rglob("*.py")):
        names = []
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
        yield path.relative_to(ROOT), names


def layer(name: str) -> int:
    for number, row in enumerate(LAYERS):
        if name in row:
            return number
    raise AssertionError(f"rlx.{name} stands in no layer")


def test_no_module_imports_from_a_later_stage() -> None:
    wrong = []
    for path, names in modules():
        own = path.parts[0].removesuffix(".py")
        if own == "__init__":
            continue  # the public face names everything
        for name in names:
            parts = name.split(".")
            if parts[0] == "rlx" and len(parts) > 1 and layer(parts[1]) > layer(own):
                wrong.append(f"{path} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_foreign_packages_stay_behind_their_border() -> None:
    wrong = []
    for path, names in modules():
        for name in names:
            places = BORDERS.get(name.split(".")[0])
            if places and not any(path.as_posix().startswith(place) for place in places):
                wrong.append(f"{path} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_there_is_no_drawer_for_everything() -> None:
    banned = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert not [path for path, _ in modules() if path.name in banned]
