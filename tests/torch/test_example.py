"""The example of a PyTorch model trains, and its C is written."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from examples import torch_model  # noqa: E402  imports torch
from rlx.torch.backend import compile_module  # noqa: E402


@pytest.mark.slow
def test_the_example_trains_and_exports(tmp_path: Path) -> None:
    if "rlx" not in torch._dynamo.list_backends():  # a checkout that is not installed
        torch._dynamo.register_backend(compile_module, name="rlx")
    model = torch_model.make_model()
    assert torch_model.train(model) < 0.2
    torch_model.export(model, tmp_path)
    assert (tmp_path / "model" / "classify.c").is_file()
    assert (tmp_path / "training" / "classify_step.c").is_file()
