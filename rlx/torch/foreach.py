"""Operators on lists of tensors, as PyTorch's optimizers use them: one operator for each tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

aten = torch.ops.aten


def foreach_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return for each functional `_foreach` operator the function that takes it apart."""
    names = {name.rstrip("_") for name in dir(torch) if name.startswith("_foreach_")}
    packets = [getattr(aten, name) for name in sorted(names)]
    overloads = [getattr(each, name) for each in packets for name in each.overloads()]
    functional = (each for each in overloads if not each._schema.is_mutable)
    return {each: _taken_apart(each) for each in functional}


def _taken_apart(op: Any) -> Callable[..., list[Any]]:
    name = op._schema.name.removeprefix("aten::_foreach_")
    apply = _ELEMENTS.get(name) or getattr(aten, name)
    names = [argument.name for argument in op._schema.arguments if not argument.kwarg_only]

    def each(*arguments: Any, **options: Any) -> list[Any]:
        given = [*arguments, *(options.pop(n) for n in names[len(arguments) :] if n in options)]
        if names[len(given) - 1] == "scalars" and isinstance(given[-1], torch.Tensor):
            given[-1] = given[-1].unbind()
        count = next(len(x) for x in given if isinstance(x, (list, tuple)))
        return [apply(*(_element(x, i) for x in given), **options) for i in range(count)]

    return each


def _element(argument: Any, i: int) -> Any:
    return argument[i] if isinstance(argument, (list, tuple)) else argument


def _bound(function: Any, of_tensors: Any) -> Callable[..., Any]:
    """Return a function whose second operand may be a number."""
    return lambda x, y: (of_tensors if isinstance(y, torch.Tensor) else function)(x, y)


_ELEMENTS: Mapping[str, Callable[..., Any]] = {
    "addcdiv": lambda x, a, b, value=1: aten.addcdiv(x, a, b, value=value),
    "addcmul": lambda x, a, b, value=1: aten.addcmul(x, a, b, value=value),
    "clamp_max": _bound(aten.clamp_max, aten.minimum),
    "clamp_min": _bound(aten.clamp_min, aten.maximum),
    "maximum": _bound(aten.clamp_min, aten.maximum),
    "minimum": _bound(aten.clamp_max, aten.minimum),
    "norm": lambda x, ord=2, dtype=None: aten.linalg_vector_norm(x, ord, dtype=dtype),
    "powsum": lambda x, ord=2, dtype=None: aten.sum(aten.pow(aten.abs(x), ord), dtype=dtype),
}
