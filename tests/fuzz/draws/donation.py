"""Donated arguments and params: chains of calls that overwrite, whose values NumPy keeps.

What is held of earlier results as a view or a copy keeps its values; a donated result is the
next call's. All numbers have few bits, so that results are equal to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from tests.fuzz.check import Failure
from tests.fuzz.draws.case import guarded
from tests.fuzz.program import Array

_STEPS = (
    "(w * 0.5 + x, np.sum(x * 0))", "(w - x, w + x)", "(w.at[0].set(x[0] * 0 + 2), w)",
    "(w[::-1] * 0.5, x)", "(np.roll(w, 1, 0) + x, np.max(w))", "(x * 0.5, w)", "(w, x + w)",
    "(w.at[::2].add(1) * 0.5, np.cumsum(x * 0, 0))", "(np.where(w > 0, w, x), w[:1])",
    "(w, w)", "(x + 1, x + 2)", "(w * 0.5 + w[:1], w)",
)  # fmt: skip
"""A new state and a result, of a state and an input of one shape."""
_HOLDS = ("result", "view", "slice", "copy", "protected", "nothing", "nothing")
_SHAPES: tuple[tuple[int, ...], ...] = ((3,), (4, 5), (300, 80), (17_000,), (1,), (0,))
_DTYPES = ("f4", "f4", "f8", "i4")


def case(pick: random.Random) -> Donated:
    step = pick.choice(_STEPS)
    holds = tuple(pick.choice(_HOLDS) for _ in range(pick.randint(2, 6)))
    dtype = pick.choice(_DTYPES)
    if dtype == "i4":
        step = step.replace(" * 0.5", " * 3")
    both = pick.random() < 0.2
    return Donated(step, pick.choice(_SHAPES), dtype, holds, both, pick.getrandbits(32))


@dataclass(frozen=True)
class Donated:
    """A step that is called again and again on its own result, and what is held after each."""

    step: str
    shape: tuple[int, ...]
    dtype: str
    holds: tuple[str, ...]
    both: bool
    """The input is donated, too."""
    seed: int

    def script(self) -> str:
        donated = "(0, 1)" if self.both else "0"
        return (
            f"f = rlx.jit(lambda w, x: {self.step}, donate_argnums={donated})\n"
            f"# w, x: {self.dtype}{list(self.shape)}; held after each call: {self.holds}\n"
        )

    def failure(self, seed: int, backends: Sequence[str]) -> Failure | None:
        return guarded(lambda: self._failure(backends[seed % len(backends)]))

    def _inputs(self) -> list[Array]:
        random = np.random.default_rng(self.seed)
        return [random.integers(-8, 9, self.shape).astype(self.dtype) for _ in range(7)]

    def _failure(self, backend: str) -> Failure | None:
        if self.shape == (0,) and any(part in self.step for part in ("max", "[0]", "[:1]")):
            return None  # of no elements
        plain = rlx.jit(self._function(), backend="reference")
        argnums = (0, 1) if self.both else (0,)
        donating = rlx.jit(self._function(), backend=backend, donate_argnums=argnums)
        inputs = self._inputs()
        expected, found = inputs[0].copy(), inputs[0]
        held: list[tuple[int, Any, Array]] = []
        for number, (hold, x) in enumerate(zip(self.holds, inputs[1:], strict=False)):
            before = x.copy()
            expected, other = (np.array(y) for y in plain(expected, x))
            found, result = donating(found, x)
            for what, one, right in (("state", found, expected), ("result", result, other)):
                if not np.array_equal(np.asarray(one), right):
                    return Failure(
                        f"{backend} differs", f"{what} of call {number}: {one}, not {right}"
                    )
            if not np.array_equal(before, x):
                return Failure("an argument was written", f"the input of call {number}")
            held.append((number, *_held(hold, found, result, expected, other)))
            for since, kept, right in held:
                if kept is not None and not np.array_equal(np.asarray(kept), right):
                    text = f"{self.holds[since]} of call {since} after call {number}: {kept}"
                    return Failure("what is held was written", f"{text}, not {right}")
        return None

    def _function(self) -> Any:
        return eval(f"lambda w, x: {self.step}", {"np": rnp})


def _held(hold: str, state: Any, result: Any, expected: Array, other: Array) -> tuple[Any, Array]:
    """Return what is kept of a call, and its value for good."""
    if hold == "result":
        return result, other
    if hold == "view":
        return state[::-1], expected[::-1].copy()
    if hold == "slice":
        return np.asarray(state)[:2], expected[:2].copy()
    if hold == "copy":
        return np.array(state), expected.copy()
    if hold == "protected":
        state.setflags(write=False)
        return state, expected.copy()
    return None, expected
