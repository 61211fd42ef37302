"""Facts about ops are traits: lists of op names that decide what an op is get fewer, never more."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from rlx.ir import ops  # noqa: F401  (declares the ops)
from rlx.ir.op import OPS

ROOT = Path(__file__).parent.parent / "rlx"

LEFT = {
    "passes/autodiff/rules/quant.py": 1,
    "passes/autodiff/rules/signal.py": 1,
    "passes/autodiff/singular.py": 7,
    "passes/autodiff/spectral.py": 3,
    "passes/checks/automatic.py": 2,
    "passes/layout/channels_last.py": 2,
    "passes/layout/schedule_costs.py": 1,
    "passes/layout/sort_in_lanes.py": 1,
    "passes/layout/tile_convolutions.py": 1,
    "passes/loops/invariant_code_motion.py": 1,
    "passes/loops/nests.py": 1,
    "passes/lowering/int8_dot.py": 2,
    "passes/lowering/integer_ranges.py": 1,
    "passes/lowering/scaled_products.py": 1,
    "passes/memory/check.py": 2,
    "passes/fusion/reroll_reductions.py": 2,
    "passes/rewrites/simplify_arithmetic.py": 1,
    "passes/rewrites/simplify_shape.py": 1,
    "passes/vmap/rules/indexing.py": 1,
    "passes/vmap/rules/signal.py": 1,
    "codegen/kernels/build.py": 1,
}
"""How many lists each file still has: rules that treat a few ops alike, names of kernels, which
leave out plain arithmetic, and the planner's checker, which keeps its independent own."""


def lists_of_ops(text: str) -> int:
    """Count the displays of two or more ops: strings that are names of ops, or `ops.name`."""
    displays = (ast.Tuple, ast.List, ast.Set)
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, displays))
    return sum(len(node.elts) > 1 and all(map(_is_op, node.elts)) for node in nodes)


def _is_op(item: ast.expr) -> bool:
    if isinstance(item, ast.Constant):
        return item.value in OPS
    return ast.unparse(item).removeprefix("ops.") in OPS


@pytest.mark.slow
def test_no_file_has_more_lists_of_ops_than_it_had() -> None:
    places = [ROOT / room for room in ("passes", "codegen", "report", "runtime")]
    files = [file for place in places for file in sorted(place.rglob("*.py"))]
    counts = {str(f.relative_to(ROOT)): lists_of_ops(f.read_text()) for f in files}
    more = Counter(counts) - Counter(LEFT)
    assert not more, f"say it with a trait of rlx.ir.op: {dict(more)}"
    fewer = Counter(LEFT) - Counter(counts)
    assert not fewer, f"lower the numbers of LEFT: {dict(fewer)}"
