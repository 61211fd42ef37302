"""What is measured: a program as data, with its inputs and its limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.ir.graph import Graph, Value
from rlx.runtime.signature import concrete

Array: TypeAlias = NDArray[Any]

_CONVOLUTION = 4
"""Axes of weights `[C_out, C_in, *taps]` over images; matrices have fewer."""

TENSOR_LIBRARIES = ("jax", "torch")
ALL_PEERS = ("jax", "torch", "onnxruntime", "openvino")


@dataclass(frozen=True, slots=True)
class Training:
    """One step of gradient descent on the params of a loss graph."""

    optimizer: str
    rate: float


@dataclass(frozen=True, slots=True)
class Workload:
    """A program, who can run it, and what a machine must do at least.

    `build` makes the graph: for training the loss, whose params the step updates. `flops` and
    `bytes` are those of the mathematics, read and written once; 0 where they say nothing.
    """

    name: str
    build: Callable[[], Graph]
    peers: tuple[str, ...] = ALL_PEERS
    flops: float = 0.0
    bytes: float = 0.0
    tolerance: float = 1e-4
    training: Training | None = None
    aim: str = ""
    ranges: tuple[tuple[str, int], ...] = ()
    """Upper bounds of integer inputs, by name."""
    model: Callable[[], Any] | None = None
    """The ONNX model that `build` loads, where ONNX has an operator for a loop of the graph."""

    def feeds(self, graph: Graph) -> dict[str, Array]:
        """Return the inputs: the same in every process."""
        return {name: self._sample(name, value) for name, value in _named(graph.inputs)}

    def params(self, graph: Graph) -> dict[str, Array]:
        """Return the params, scaled so that activations keep their size from layer to layer."""
        return {
            name: self._sample(name, value, weight=True) for name, value in _named(graph.params)
        }

    def _sample(self, name: str, value: Value, *, weight: bool = False) -> Array:
        shape = concrete(value.shape, {})
        random = np.random.default_rng(sum(name.encode()) + 31 * len(shape))
        dtype = value.dtype.numpy
        if dtype.kind in "iu":
            return random.integers(0, dict(self.ranges)[name], shape).astype(dtype)
        scale = _fan_in(shape) ** -0.5 if weight and len(shape) > 1 else 1.0
        return (random.standard_normal(shape, np.float32) * np.float32(scale)).astype(dtype)


def _fan_in(shape: tuple[int, ...]) -> int:
    """Return how many weights contribute to an element of the result: taps of channels, or rows."""
    return math.prod(shape[1:]) if len(shape) >= _CONVOLUTION else shape[-2]


def _named(leaves: tuple[Value, ...]) -> list[tuple[str, Value]]:
    return [(str(leaf.node.name), leaf) for leaf in leaves]
