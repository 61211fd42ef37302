"""Facts about ops are traits: lists of op names that decide what an op is get fewer, never more."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from rlx.ir import ops  # noqa: F401  (declares the ops)
from rlx.ir.op import OPS

ROOT = Path(__file__).parent.parent / "rlx"

LEFT = {
    "codegen/kernels/build.py": 1,
    "passes/memory/check.py": 3,
}
"""How many lists each file still has: names of kernels leave out plain arithmetic, and the
planner's checker keeps its independent own."""


def lists_of_ops(text: str) -> int:
    """Count the displays of two or more strings that are all names of ops."""
    found = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)) and len(node.elts) > 1:
            names = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            found += len(names) == len(node.elts) and all(name in OPS for name in names)
    return found


def test_no_file_has_more_lists_of_ops_than_it_had() -> None:
    places = [ROOT / room for room in ("passes", "codegen", "report", "runtime")]
    files = [file for place in places for file in sorted(place.rglob("*.py"))]
    counts = {str(f.relative_to(ROOT)): lists_of_ops(f.read_text()) for f in files}
    more = Counter(counts) - Counter(LEFT)
    assert not more, f"say it with a trait of rlx.ir.op: {dict(more)}"
