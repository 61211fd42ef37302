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
from tests.torch.models import DECODER, MODELS, text  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_results_and_gradients_err_as_those_of_eager_mode(name: str) -> None:
    assert not list(disagreements(name, errors(name)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_mixture_of_experts_trains_as_in_eager_mode() -> None:
    """PyTorch has its products in f32 and bf16 only."""
    torch.manual_seed(0)
    make = text("Mixtral", **DECODER, num_local_experts=4, num_experts_per_tok=2)
    model, given = make()
    found = []
    for run in (model, torch.compile(model, backend="rlx")):
        result = run(**given)["last_hidden_state"]
        found.append([result, *torch.autograd.grad(result.pow(2).sum(), model.parameters())])
    for expected, own in zip(*found, strict=True):
        error = float((own - expected).abs().max())
        assert error <= 1e-4 * float(expected.abs().max().clamp(min=1e-3))
