"""Architectures of torchvision and transformers: results and a training step of eager mode."""

from __future__ import annotations

import copy
import importlib.util
from typing import Any

import pytest

torch = pytest.importorskip("torch")
for package in ("torchvision", "transformers"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

from rlx.torch.backend import compile_module  # noqa: E402
from tests.torch.models import MODELS, first_output  # noqa: E402

TOLERANCE = 1e-6
SINGLE = frozenset({"t5", "llama", "mistral", "qwen2", "gemma"})
"""Models that normalize in f32, whatever their params are."""


def step(run: Any, owner: Any, given: Any) -> Any:
    """Return the loss of a step of gradient descent; seeds are those of every caller."""
    torch.manual_seed(1)
    loss = first_output(run(**given)).square().mean()
    loss.backward()
    with torch.no_grad():
        for param in owner.parameters():
            if param.grad is not None:
                param -= 0.01 * param.grad
    return loss.detach()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.filterwarnings("ignore")
def test_a_training_step_and_results_after_it_are_those_of_eager_mode(
    name: str, request: pytest.FixtureRequest
) -> None:
    tolerance = 1e-4 if name in SINGLE else TOLERANCE
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    backend = "reference" if request.config.getoption("--draw") > 1 else "auto"
    model, given = MODELS[name]()
    model = model.double().train()
    given = {k: x.double() if x.is_floating_point() else x for k, x in given.items()}
    other = copy.deepcopy(model)
    options = {"backend": backend, "threads": 1}
    run = torch.compile(model, backend=compile_module, options=options)
    torch.testing.assert_close(
        step(run, model, given), step(other, other, given), rtol=tolerance, atol=tolerance
    )
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    with torch.no_grad():
        found, expected = (first_output(m.eval()(**given)) for m in (run, other))
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
