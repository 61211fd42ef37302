"""Every primitive that JAX lowers on the CPU has a rule, is traced, or is refused with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

import rlx.jaxpr.entry  # noqa: E402, F401  registers rules
from rlx.jaxpr.internals import lowered_primitives, python_lowering  # noqa: E402
from rlx.jaxpr.interpret import refused, rule_names  # noqa: E402


def test_every_primitive_with_a_lowering_is_known() -> None:
    known = set(rule_names()) | set(refused())
    own = {name: p for name, p in lowered_primitives().items() if _is_jaxs(p)}
    assert len(own) > 200
    unknown = [name for name, p in own.items() if name not in known and not python_lowering(p)]
    assert unknown == []


def _is_jaxs(primitive: object) -> bool:
    """Leave out primitives of other libraries that this process has imported."""
    from jax._src.interpreters import mlir

    tables = (mlir._platform_specific_lowerings["cpu"], mlir._lowerings)
    found = next(table[primitive] for table in tables if primitive in table)
    function = getattr(found, "rule", found)
    module = str(getattr(getattr(function, "func", function), "__module__", ""))
    return module.startswith("jax.") and "sparse" not in module and "pallas" not in module


def test_reasons_are_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "from_jax.md").read_text()
    named = set(re.findall(r"`(\w+)`", page))
    assert set(refused()) - named == set()
