"""Quantized functions under transformations: values are its own, derivatives those in floats.

The function is quantized once for a draw; the model calls it on one example after the other, and
differentiates the function in floats.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import rlx
import rlx.nn
import rlx.numpy as rnp
from tests.fuzz.check import Failure
from tests.fuzz.draws.case import Call
from tests.fuzz.program import Array

ROUNDS = 2e5
"""Roundings of f32 that a result may be off by: a step of eight bits that a rounding moves."""
_ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "relu": rlx.nn.relu, "tanh": rnp.tanh, "gelu": rlx.nn.gelu, "identity": lambda x: x,
    "abs": rnp.abs,
}  # fmt: skip
_VALUES = (
    "q(v0)", "rlx.jit(q)(v0)", "rlx.vmap(q)(v0)", "rlx.map(q, v0)",
    "rlx.scan(lambda c, x: (c, q(x)), 0.0, v0)[1]", "q(v0) + rlx.vmap(q)(v0) * 0",
    "rlx.vmap(lambda x: q(x) * 1)(v0)", "rlx.jit(rlx.vmap(rlx.jit(q)))(v0)",
    "rlx.cond(np.sum(v0) > 0, q, q, v0)",
)  # fmt: skip
_SLOPES = (
    "rlx.grad(lambda x: np.sum({f}(x) * v1))(v0)",
    "rlx.vmap(rlx.grad(lambda x: np.sum({f}(x) * v1)))(v0)",
    "rlx.jvp({f}, (v0,), (v0 * 0 + 0.5,))[1]",
    "rlx.vjp({f}, v0)[1](v0[:, :1] * 0 + v1)[0]",
    "rlx.jacrev({f})(v0[0])",
    "rlx.grad(rlx.checkpoint(lambda x: np.sum({f}(x) * v1)))(v0)",
)


def case(pick: random.Random) -> Quantized:
    widths = tuple(pick.choice((1, 4, 8, 16)) for _ in range(pick.randint(2, 4)))
    activations = tuple(pick.choice(tuple(_ACTIVATIONS)) for _ in widths[1:])
    is_slope = pick.random() < 0.45
    form = pick.choice(_SLOPES if is_slope else _VALUES)
    method = pick.choice(("max", "max", "percentile", "entropy"))
    return Quantized(form, is_slope, widths, activations, method, pick.getrandbits(32))


@dataclass(frozen=True)
class Quantized:
    """Layers of some widths, quantized, and what is computed with them as `q`."""

    form: str
    is_slope: bool
    widths: tuple[int, ...]
    activations: tuple[str, ...]
    method: Any
    seed: int

    def script(self) -> str:
        layers = f"widths {self.widths}, {self.activations}, method={self.method!r}"
        return f"# q: {layers}, seed {self.seed}\n{self.source('q')}"

    def source(self, name: str) -> str:
        return f"def f(v0, v1):\n    return {self.form.format(f=name)}\n"

    def failure(self, seed: int, backends: Sequence[str]) -> Failure | None:
        random = np.random.default_rng(self.seed)
        pairs = zip(self.widths, self.widths[1:], strict=False)
        weights = [random.normal(size=pair).astype(np.float32) for pair in pairs]
        batches = [random.normal(size=(5, self.widths[0])).astype(np.float32) for _ in range(3)]
        x, v = batches[0], random.normal(size=self.widths[-1]).astype(np.float32)
        quantized = rlx.quantize(self._layers, batches, params=weights, method=self.method)

        def floats(x: Any) -> Any:
            return self._layers(weights, x)

        def model(x: Array, v: Array) -> Array:
            if not self.is_slope:
                return np.stack([np.asarray(quantized(row)) for row in x])
            of_floats = Call(self.source("floats"), (x, v), names={"floats": floats}).function
            return np.asarray(rlx.jit(of_floats, backend="reference")(x, v))

        call = Call(self.source("q"), (x, v), model, ROUNDS, {"q": quantized, "floats": floats})
        return call.failure(seed, backends)

    def _layers(self, weights: Any, x: Any) -> Any:
        for w, activation in zip(weights, self.activations, strict=True):
            x = _ACTIVATIONS[activation](x @ w)
        return x
