"""The example of a PyTorch model trains, and its C is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from examples import torch_model  # noqa: E402  imports torch


@pytest.mark.slow
def test_the_example_trains_and_exports(tmp_path: Path) -> None:
    model = torch_model.make_model()
    assert torch_model.train(model) < 0.2
    torch_model.export(model, tmp_path)
    assert (tmp_path / "model" / "classify.c").is_file()
    assert (tmp_path / "training" / "classify_step.c").is_file()


@pytest.mark.slow
def test_the_backend_is_registered_where_there_is_no_entry_point() -> None:
    code = (
        "import importlib.metadata as m; m.entry_points = lambda **_: m.EntryPoints()\n"
        "from torch._dynamo.backends.registry import list_backends, lookup_backend\n"
        "assert 'rlx' not in list_backends()\n"
        "from rlx.torch import backend\n"
        "backend.register(), backend.register()\n"
        "assert lookup_backend('rlx') is backend.compile_module\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
