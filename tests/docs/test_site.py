"""The documentation builds as one site without a warning; its reference names what is public."""

from __future__ import annotations

import os
import subprocess
import sys
from inspect import isfunction
from pathlib import Path
from types import ModuleType

import pytest

import rlx
import rlx.nn
import rlx.numpy
import rlx.optim

pytest.importorskip("sphinx", reason="the site is built with the extra `docs`")
pytest.importorskip("myst_parser", reason="the site is built with the extra `docs`")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "text", "docs", str(out)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "RLX_DUMP": ""},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return out


def public_functions(module: ModuleType) -> list[str]:
    """Functions of ours: those that NumPy lends are described by NumPy."""
    ours = {name: x for name, x in vars(module).items() if isfunction(x) and name[0] != "_"}
    return [name for name, x in ours.items() if x.__module__.startswith("rlx.")]


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("module", [rlx.numpy, rlx.nn, rlx.optim], ids=lambda m: m.__name__)
def test_the_reference_names_every_public_function(site: Path, module: ModuleType) -> None:
    page = module.__name__.removeprefix("rlx.")
    text = (site / "reference" / f"{page}.txt").read_text()
    names = public_functions(module)
    assert names
    assert not [name for name in names if f"{module.__name__}.{name}(" not in text]


@pytest.mark.slow
def test_the_reference_names_the_public_face(site: Path) -> None:
    text = "".join(path.read_text() for path in (site / "reference").glob("*.txt"))
    assert not [name for name in dir(rlx) if name not in text]
