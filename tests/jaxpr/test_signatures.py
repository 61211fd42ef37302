"""Parameters of `rlx.lax` have JAX's names, in their order."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rlx import lax

jax_lax: Any = pytest.importorskip("jax.lax")
NO_COUNTERPART = {
    "accuracy", "allow_negative_indices", "axis_index_groups", "out_dtype", "out_sharding",
    "sharding", "to", "_split_transpose",
}  # fmt: skip
"""Parameters of JAX's that have none: given here, they are a TypeError that names them."""
BY_POSITION = {"atan2", "imag", "real", "nextafter", "polygamma", "random_gamma_grad"}
"""NumPy's or SciPy's functions of arrays alone, whose parameters have other names."""


def _functions() -> list[str]:
    names = [name for name in dir(lax) if not name.startswith("_") and hasattr(jax_lax, name)]
    functions = [name for name in names if callable(getattr(lax, name))]
    return [name for name in functions if not inspect.isclass(getattr(lax, name))]


def _parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize("name", _functions())
def test_parameters_have_jaxs_names_and_order(name: str) -> None:
    try:
        theirs = _parameters(getattr(jax_lax, name))
    except ValueError:  # no signature is known
        return
    ours = _parameters(getattr(lax, name))
    own = {p.name: p for p in ours}
    by_position = [p.name for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in theirs if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if name in BY_POSITION or all(p.kind is p.POSITIONAL_ONLY for p in required + ours):
        return
    order = [p.name for p in theirs if p.name in own and p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [n for n in by_position if n in order] == order
    for p in theirs:
        named = p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY)
        assert not named or p.name in own or p.name in NO_COUNTERPART, p
