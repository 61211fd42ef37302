"""The training domain: gradients, and steps of optimizers for any number of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.onnx.registry import operator
from rlx.transforms.differentiate import vjp

_DOMAIN = "ai.onnx.preview.training"


def _columns(tensors: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """Return, for every tensor, itself, its gradient and its states."""
    size = len(tensors) // count
    return list(zip(*(tensors[i * size : (i + 1) * size] for i in range(count)), strict=True))


def _flat(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return all tensors, then all of each state."""
    return tuple(each for column in zip(*rows, strict=True) for each in column)


@operator("Adagrad", domain=_DOMAIN)
def adagrad(
    rate: Any, step: Any, *tensors: Any,
    decay_factor: float = 0.0, epsilon: float = 1e-6, norm_coefficient: float = 0.0,
) -> Any:  # fmt: skip
    slower = rate / (1 + rnp.astype(step, "f32") * decay_factor)

    def one(x: Any, gradient: Any, total: Any) -> tuple[Any, ...]:
        g = gradient + norm_coefficient * x
        total = total + g * g
        return x - slower * g / (rnp.sqrt(total) + epsilon), total

    return _flat([one(*row) for row in _columns(tensors, 3)])


@operator("Momentum", domain=_DOMAIN)
def momentum(
    rate: Any, step: Any, *tensors: Any,
    alpha: float, beta: float, mode: str, norm_coefficient: float,
) -> Any:  # fmt: skip
    factor = rnp.where(rnp.greater(step, 0), beta, 1.0)

    def one(x: Any, gradient: Any, velocity: Any) -> tuple[Any, ...]:
        g = gradient + norm_coefficient * x
        new = rnp.astype(velocity * alpha + g * factor, x.dtype)
        moved = g + new * alpha if mode == "nesterov" else new
        return x - rate * moved, new

    return _flat([one(*row) for row in _columns(tensors, 3)])


@operator("Adam", domain=_DOMAIN)
def adam(
    rate: Any, step: Any, *tensors: Any,
    alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    steps = rnp.astype(step, "f32")
    exact = rate * rnp.sqrt(1 - rnp.power(beta, steps)) / (1 - rnp.power(alpha, steps))
    corrected = rnp.where(rnp.greater(step, 0), exact, rate)

    def one(x: Any, gradient: Any, mean: Any, square: Any) -> tuple[Any, ...]:
        g = gradient + norm_coefficient * x
        mean = alpha * mean + (1 - alpha) * g
        square = beta * square + (1 - beta) * (g * g)
        moved = x - rnp.astype(corrected, x.dtype) * mean / (rnp.sqrt(square) + epsilon)
        return (1 - norm_coefficient_post) * moved, mean, square

    return _flat([one(*row) for row in _columns(tensors, 4)])


@operator("Gradient", domain=_DOMAIN)
def gradient(*given: Any, xs: Any, y: str, zs: Any = (), node: Any) -> Any:
    """The derivatives of the tensor called `y` by those called `xs`, at what is given for both."""
    names = [*xs, *zs]
    if len(given) != len(names):
        raise FormatError(
            f"{len(given)} inputs for {len(names)} names in xs and zs",
            remedy="the model is malformed: export it again",
        )
    importer = node.importer
    nodes = _between(importer.model.graph.node, names, y)

    def target(*arrays: Any) -> Any:
        scope = node.scope.inner()
        scope.values.update(zip(names, (*arrays, *given[len(arrays) :]), strict=True))
        importer.run(nodes, scope)
        return importer.read(y, scope)

    value, pull_back = vjp(target, *given[: len(xs)])
    return tuple(pull_back(rnp.ones_like(value)))


def _between(nodes: Iterable[Any], names: Iterable[str], y: str) -> list[Any]:
    """Return the nodes that make `y` of `names`, in their order."""
    given, wanted, found = set(names), {y}, []
    for proto in reversed(list(nodes)):
        if (wanted - given).intersection(proto.output):
            wanted.update(proto.input)
            found.append(proto)
    return found[::-1]
