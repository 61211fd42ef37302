"""An example without a package that it imports ends with the command that installs it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from examples import INSTALLED_BY, add_remedy

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = {"PIL": "pillow"}


@pytest.mark.parametrize("module", sorted(INSTALLED_BY))
def test_the_extra_of_a_remedy_contains_the_package(module: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    match = re.match(r"--editable '\.\[(\w+)\]'(.*)", INSTALLED_BY[module])
    assert match is not None
    required = extras["optional-dependencies"][match[1]]
    names = {re.split(r"[<>=;\s]", each)[0] for each in required} | set(match[2].split())
    assert DISTRIBUTIONS.get(module, module) in names


def test_other_errors_have_no_remedy() -> None:
    for error in (ModuleNotFoundError("no", name="examples.absent"), ImportError("no", name="jax")):
        add_remedy(error)
        assert not hasattr(error, "__notes__")


def test_a_program_ends_with_the_command() -> None:
    code = (
        "import runpy, sys; sys.modules['rich'] = None; "
        "runpy.run_module('examples.digits', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install --editable '.[demo]'")
