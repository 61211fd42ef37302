"""Write `docs/guarantees.md`: what rlx guarantees, with the test of each line.

    python tools/list_guarantees.py          # rewrites the page
    python tools/list_guarantees.py --check  # fails if the page is out of date

A test states what it holds by `@pytest.mark.guarantee(area, sentence)`. Tests are parsed, not
imported, so that a missing peer hides no line.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "guarantees.md"
AREAS = ("Results", "Derivatives", "Random numbers", "Exported C", "Files", "Errors", "Compiling")
HEADER = """# What rlx guarantees

Each line names the test that checks it; `make test` runs them all. This page is generated from
markers at the tests by `tools/list_guarantees.py`.
"""


class Guarantee(NamedTuple):
    """A sentence for users and the test that fails when it stops being true."""

    area: str
    sentence: str
    test: str
    """Path and name of the test, as pytest takes it."""


def guarantees(tests: Path = ROOT / "tests") -> list[Guarantee]:
    """Return the guarantees of all test files, in the order of `AREAS`, files and lines.

    Raises ValueError at a marker whose area is not in `AREAS` or whose arguments are not texts.
    """
    found = [entry for path in sorted(tests.rglob("test_*.py")) for entry in _of_file(path)]
    return sorted(found, key=lambda entry: AREAS.index(entry.area))


def _of_file(path: Path) -> Iterator[Guarantee]:
    source = path.read_text(encoding="utf-8")
    if "mark.guarantee(" not in source:
        return
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        test = f"{path.relative_to(ROOT).as_posix()}::{node.name}"
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.guarantee":
                area, sentence = (ast.literal_eval(argument) for argument in mark.args)
                if area not in AREAS:
                    raise ValueError(f"{test}: {area!r} is none of the areas {', '.join(AREAS)}")
                yield Guarantee(area, sentence, test)


def page() -> str:
    """Return the text of the page."""
    lines = [HEADER]
    entries = guarantees()
    for area in AREAS:
        of_area = [entry for entry in entries if entry.area == area]
        if of_area:
            lines.append(f"## {area}\n")
            lines += [f"- {entry.sentence}\\\n  `{entry.test}`" for entry in of_area]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    if "--check" not in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit(f"{PAGE} is out of date: run python tools/list_guarantees.py")


if __name__ == "__main__":
    main()
