"""Errors of eager mode and of rlx in f32, against eager mode in f64.

    python -m tests.torch.model_errors [NAME ...]

prints a table of all architectures, or of those named: relative errors of results and of the
gradients of all params, and of the statistics that a training step updates.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

import rlx
from rlx.torch.backend import compile_module
from tests.torch.models import MODELS, first_output

FACTOR = 4.0
"""How much larger an error may be than that of eager mode: sums have other orders."""
FLOOR = 1e-6
"""Relative error that no comparison of f32 resolves: sixteen units in the last place."""
OTHER_SEEDS = (1, 2)
"""Of weights for which gradients are compared again."""

Quantities = dict[str, list[torch.Tensor]]
Errors = dict[str, tuple[float, float]]


def errors(name: str, seed: int = 0) -> Errors:
    """Return by quantity the relative errors of eager mode and of rlx, for drawn weights."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, given = MODELS[name]()
    _without_dropout(model)
    exact = copy.deepcopy(model).double()
    wide = {k: x.double() if x.is_floating_point() else x for k, x in given.items()}
    expected = quantities(lambda owner: owner, exact, wide)
    eager = quantities(lambda owner: owner, copy.deepcopy(model), given)
    found = quantities(_compiled, copy.deepcopy(model), given)
    exported = _exported(copy.deepcopy(model).eval(), given)
    if isinstance(exported, dict):
        exported = first_output(exported)
    found["exported result"] = [torch.from_numpy(exported.copy())]
    eager["exported result"] = eager["result"]
    expected["exported result"] = expected["result"]
    return {
        each: (_error(eager[each], expected[each]), _error(found[each], expected[each]))
        for each in expected
    }


def disagreements(name: str, found: Errors) -> Iterator[str]:
    """Yield what errs by more than rounding does.

    Where rounding moves the operand of a rectifier across 0, gradients differ by a hundred times
    more, in eager mode as here: those that differ count unless they agree for all other weights.
    """
    for quantity, (eager, ours) in found.items():
        if _is_rounding(eager, ours):
            continue
        if quantity == "gradients" and all(
            _is_rounding(*errors(name, seed)[quantity]) for seed in OTHER_SEEDS
        ):
            continue
        yield f"{quantity}: {ours:.1e}, eager mode {eager:.1e}"


def _is_rounding(eager: float, ours: float) -> bool:
    return ours <= max(FACTOR * eager, FLOOR)


def quantities(wrap: Callable[[Any], Any], model: Any, given: Mapping[str, Any]) -> Quantities:
    """Return the result in inference, and the result, gradients and statistics of a step."""
    model.eval()
    with torch.no_grad():
        result = first_output(wrap(model)(**given)).clone()
    model.train()
    trained = first_output(wrap(model)(**given))
    trained.square().mean().backward()
    # AOTAutograd gives zeros where eager mode gives no gradient.
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    buffers = [b for b in model.buffers() if b.is_floating_point()]
    return {
        "result": [result], "training result": [trained.detach()], "gradients": gradients,
        **({"buffers": buffers} if buffers else {}),
    }  # fmt: skip


def _compiled(model: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend=compile_module, options={"threads": 1})


def _exported(model: Any, given: Mapping[str, Any]) -> Any:
    function = rlx.from_torch(model, (), example_kwargs=given)
    return rlx.jit(function)(function.params, **{k: x.numpy() for k, x in given.items()})


def _without_dropout(model: torch.nn.Module) -> None:
    """Let nothing be dropped: numbers that are drawn depend on the dtype."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout) or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)


def _error(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Return the distance of all elements together, relative to their norm."""
    apart = sum(
        float((a.double() - b).square().sum()) for a, b in zip(found, expected, strict=True)
    )
    norm = sum(float(b.double().square().sum()) for b in expected)
    return float((apart / norm) ** 0.5) if norm else float(apart**0.5)


def main() -> None:
    """Print the table; exit with 1 if something errs by more than rounding."""
    warnings.simplefilter("ignore")
    wrong = 0
    print("| model | " + " | ".join(f"{q}: eager | rlx" for q in _QUANTITIES) + " |")
    print("|---|" + "---|---|" * len(_QUANTITIES), flush=True)
    for name in sys.argv[1:] or list(MODELS):
        found = errors(name)
        cells = [
            f"{found[q][0]:.1e} | {found[q][1]:.1e}" if q in found else " | " for q in _QUANTITIES
        ]
        failed = list(disagreements(name, found))
        wrong += bool(failed)
        print(f"| {name} | " + " | ".join(cells) + " |" + " **wrong**" * bool(failed), flush=True)
    sys.exit(wrong > 0)


_QUANTITIES = ("result", "exported result", "training result", "gradients", "buffers")

if __name__ == "__main__":
    main()
