"""The lists of modules by op are true, and entries are loaded from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlx.errors import InternalError
from rlx.ir import lazy_table
from rlx.ir.homes import homes_of
from rlx.ir.homes_lists import LISTS
from rlx.ir.lazy_table import LazyTable
from rlx.ir.op import OPS
from rlx.passes.autodiff.registry import vjp

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_lists_are_those_that_importing_all_modules_gives() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_homes.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", LISTS)
def test_every_listed_module_exists(kind: str) -> None:
    paths = {ROOT / f"{module.replace('.', '/')}.py" for module in homes_of(kind).values()}
    assert [path for path in paths if not path.exists()] == []


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
