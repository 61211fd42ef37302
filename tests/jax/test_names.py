"""What JAX has and `rlx.jax` has not is listed in `docs/reference/jax_differences.md`."""

from __future__ import annotations

import importlib
import re
import types
from pathlib import Path
from typing import Any

import pytest

from rlx.jax.importing import MODULES

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "reference" / "jax_differences.md"
NOT_OF_JAX = {"TYPE_CHECKING", "annotations"}


def listed_as_missing() -> dict[str, set[str]]:
    """Return the names of each module in the document's list of what is not there."""
    text = DOCUMENT.read_text().partition("## Every name that is not there")[2]
    entries = (re.findall(r"`(\w[\w.]*)`", entry) for entry in text.split("\n- ")[1:])
    return {module: set(names) for module, *names in entries}


def missing(module: str) -> set[str]:
    """Return the public names of JAX's module that ours has not, primitives and modules apart."""
    theirs: Any = importlib.import_module(f"jax{module}")
    ours = importlib.import_module(f"rlx.jax{module}")
    names = {name for name in dir(theirs) if not name.startswith("_")} - NOT_OF_JAX
    return {
        name
        for name in names
        if hasattr(theirs, name)
        and not isinstance(getattr(theirs, name), types.ModuleType)
        and not name.endswith("_p")
        and not hasattr(ours, name)
        and _is_of(theirs, getattr(theirs, name))
    }


def _is_of(module: Any, thing: Any) -> bool:
    """Leave out what a private module merely imports: typing's names, helpers of JAX."""
    if ".experimental" not in module.__name__ and ".example_libraries" not in module.__name__:
        return True
    return bool(getattr(thing, "__module__", None) == module.__name__)


def test_the_names_that_are_not_there_are_those_that_the_document_lists() -> None:
    jax = pytest.importorskip("jax")
    if jax.__version_info__ < (0, 10):
        pytest.skip("the list is that of JAX 0.10")
    found = {f"jax{module}": names for module in MODULES if (names := missing(module))}
    listed = listed_as_missing()
    assert {module: sorted(names) for module, names in found.items()} == {
        module: sorted(names) for module, names in listed.items()
    }
