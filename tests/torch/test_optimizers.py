"""Steps of PyTorch's optimizers under `torch.compile(backend="rlx")` are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from rlx.torch.backend import compile_module  # noqa: E402  imports torch

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adadelta": {}, "Adafactor": {}, "Adagrad": {}, "Adam": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.1}, "Adamax": {}, "ASGD": {}, "NAdam": {}, "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True}, "Rprop": {},
    "SGD": {"momentum": 0.9, "nesterov": True},
}  # fmt: skip


def _trained(name: str, foreach: bool, wrap: Callable[[Any], Any]) -> list[Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))
    rate = 0.01 if foreach else torch.tensor(0.01)  # a list of steps takes no tensor
    options = {"lr": rate, "foreach": foreach, **OPTIMIZERS[name]}
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    step, x = wrap(optimizer.step), torch.randn(4, 5)
    for _ in range(4):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        step()
    return [p.detach() for p in model.parameters()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_steps_are_those_of_eager_mode(name: str, foreach: bool) -> None:
    torch._dynamo.reset()
    expected = _trained(name, foreach, lambda step: step)
    found = _trained(name, foreach, lambda step: torch.compile(step, backend=compile_module))
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-6)
