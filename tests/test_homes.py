"""The lists of modules by op are true, and entries are loaded from them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest

import rlx.numpy
from rlx.errors import InternalError
from rlx.homes import homes_of
from rlx.homes_lists import LISTS
from rlx.ir import lazy_table
from rlx.ir.lazy_table import LazyTable
from rlx.ir.op import OPS
from rlx.passes.autodiff.registry import vjp

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_lists_are_those_that_importing_all_modules_gives() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_homes.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.whole
@pytest.mark.parametrize("kind", LISTS)
def test_every_listed_module_exists(kind: str) -> None:
    modules = {*homes_of(kind).values()}
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []


@pytest.mark.parametrize("name", list(homes_of("vjp"))[:3])
def test_a_second_rule_is_refused_also_before_the_first_is_loaded(name: str) -> None:
    with pytest.raises(InternalError, match=f"a second rule for op {name}"):
        vjp.register(OPS[name], lambda *_, **__: None)


def test_entries_that_are_not_listed_are_there_once_they_are_set() -> None:
    table: LazyTable[int] = LazyTable("kernel")
    assert "mine" not in table
    table["mine"] = 3
    assert table["mine"] == 3
    assert "mine" in table.names()


def test_a_list_that_is_out_of_date_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_table, "homes_of", lambda _: {"moved": "rlx.ir.shape"})
    with pytest.raises(InternalError, match="listed for kernel moved") as raised:
        LazyTable("kernel")["moved"]
    assert "generate_homes" in str(raised.value)


@pytest.mark.parametrize("package", ["rlx.numpy", "rlx.passes"])
def test_a_star_imports_what_dir_shows(package: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)
    assert {*names} - {"__builtins__"} == {*dir(importlib.import_module(package))}


def test_functions_of_numpy_are_found_as_fast_as_in_any_module() -> None:
    """Python specializes attribute lookups of plain modules alone."""
    assert type(rlx.numpy) is types.ModuleType
