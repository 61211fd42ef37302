"""Architectures of torchvision and transformers: results and a training step are as near to f64
as those of eager mode.
"""

from __future__ import annotations

import importlib.util

import pytest

torch = pytest.importorskip("torch")
for package in ("torchvision", "transformers"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

from tests.torch.model_errors import disagreements, errors  # noqa: E402
from tests.torch.models import MODELS  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_results_and_gradients_err_as_those_of_eager_mode(name: str) -> None:
    assert not list(disagreements(errors(name)))
