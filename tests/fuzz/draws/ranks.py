"""Collectives on simulated ranks and over an axis of `vmap`, of varying and replicated values.

The model is a list of arrays, one for each rank; gradients are central differences of the whole
program in f64.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

import rlx
from rlx.distributed import Mesh, P, Sharded, shard_map, simulate
from tests.fuzz.check import Failure
from tests.fuzz.draws.case import Call, guarded, library
from tests.fuzz.program import Array, draw

_VARYING = (
    "x", "x", "x * w", "({v} + {r})", "({v} - {v})", "{v} * {v} * 0.5", "np.tanh({v})",
    "lax.ppermute({v}, 'r', {ring})", "lax.ppermute({v}, 'r', {part})",
    "{v} * (1 + lax.axis_index('r'))", "({v} - lax.pmean({v}, 'r'))", "np.where({v} > {r}, {v}, x)",
    "lax.psum_scatter(np.stack([{v}] * {n}), 'r')", "np.sum(lax.all_to_all(np.stack([{v}] * {n}), "
    "'r', 0, 0), 0)", "np.sort({v})",
)  # fmt: skip
_REPLICATED = (
    "w", "w", "lax.psum({v}, 'r')", "lax.pmean({v}, 'r')", "lax.psum({r}, 'r')",
    "lax.pmax({v}, 'r')", "lax.pmin({v}, 'r')", "np.tanh({r})",
    "({r} * {r} * 0.25)", "({r} + {r})", "lax.pbroadcast({v}, 'r', {source})",
    "np.sum(lax.all_gather({v}, 'r'), 0)", "np.max(lax.all_gather({v}, 'r', tiled=True)) + {r}",
    "lax.psum(1, 'r') * {r}",
)  # fmt: skip
_DTYPES = ("f32", "f32", "f64", "i32")


def case(pick: random.Random) -> Ranked:
    ranks = pick.choice((1, 2, 3, 4))
    numbers = np.random.default_rng(pick.getrandbits(32))
    is_gradient = pick.random() < 0.35
    dtype = "f64" if is_gradient else pick.choice(_DTYPES)
    x, w = (draw(numbers, dtype, shape) for shape in ((ranks, 3), (3,)))
    x, w = (np.where(np.isfinite(a), a, 1).astype(a.dtype) for a in (x, w))
    if is_gradient:  # away from kinks and ties
        x, w = (a + numbers.uniform(0.01, 0.1, a.shape) for a in (x, w))
    replicated = is_gradient or pick.random() < 0.5
    text = _expression(pick, "r" if replicated else "v", pick.randint(1, 4), ranks)
    if is_gradient and pick.random() < 0.5:
        text = f"lax.pmean(np.sum({_expression(pick, 'v', pick.randint(1, 3), ranks)}), 'r')"
    elif is_gradient:
        text = f"np.sum({text})"
    if dtype == "i32":
        text = text.replace("np.tanh", "np.abs").replace("0.25", "3").replace("0.5", "2")
        text = text.replace("pmean", "psum")
    wrong = "" if is_gradient or pick.random() < 0.9 else pick.choice(("mean", "spec"))
    if wrong == "mean":
        text, replicated = f"lax.pmean({_expression(pick, 'r', 1, ranks)}, 'r')", True
    elif wrong:
        text, replicated = _expression(pick, "v", 1, ranks) + " + x", True
    by = pick.choice(("w", "x", "both")) if is_gradient else ""
    return Ranked(text, x, w, replicated, by, bool(wrong))


def _expression(pick: random.Random, kind: str, depth: int, ranks: int) -> str:
    choices = _VARYING if kind == "v" else _REPLICATED
    found = pick.choice(choices[:3] if depth == 0 else choices)
    while "{v}" in found or "{r}" in found:
        part = "v" if "{v}" in found else "r"
        found = found.replace(f"{{{part}}}", _expression(pick, part, max(depth - 1, 0), ranks)
                              if depth > 0 else {"v": "x", "r": "w"}[part], 1)  # fmt: skip
    ring = [(i, (i + 1) % ranks) for i in range(ranks)]
    filled = {"{ring}": str(ring), "{part}": str(ring[:-1] or ring), "{n}": str(ranks),
              "{source}": str(ranks - 1)}  # fmt: skip
    for key, value in filled.items():
        found = found.replace(key, value)
    return found


@dataclass(frozen=True, eq=False)
class Ranked:
    """An expression of `x`, which varies over the ranks, and `w`, which all have alike."""

    text: str
    x: Array
    w: Array
    replicated: bool
    gradient: str
    refused: bool = False
    """It is the mean of what is equal, or varies where `P()` says that all have it."""

    @property
    def ranks(self) -> int:
        return len(self.x)

    def script(self) -> str:
        return (
            f"# x = numpy.{self.x!r}\n# w = numpy.{self.w!r}, {self.ranks} ranks, axis 'r'\n"
            f"f = lambda w, x: {self.text}\n"
            f"# {'replicated' if self.replicated else 'varying'}, gradient: {self.gradient!r}\n"
        )

    def failure(self, seed: int, backends: Sequence[str]) -> Failure | None:
        failure = guarded(self._on_ranks)
        if self.refused:
            is_refused = failure is not None and "InputError" in failure.text
            return None if is_refused else Failure("not refused", str(failure))
        if failure is None and not self.gradient:
            return self._in_a_batch().failure(seed, backends)
        return failure

    def _on_ranks(self) -> Failure | None:
        local = eval(f"lambda w, x: {self.text}", library())
        each = [] if self.refused else self._slopes() if self.gradient else [self.model()]
        specs: Any = P() if self.replicated else P("r")
        function = self._function(local)
        if self.gradient:
            specs = {"w": P(), "x": P("r"), "both": (P(), P("r"))}[self.gradient]

        def program() -> list[Array]:
            mesh = Mesh({"r": self.ranks})
            mapped = shard_map(function, mesh, (P(), P("r")), specs)
            found = mapped(self.w, self.x)
            parts = found if isinstance(found, tuple) else (found,)
            return [np.asarray(y.gather() if isinstance(y, Sharded) else y) for y in parts]

        for rank, found in enumerate(simulate(program, self.ranks)):
            for y, right in zip(found, each, strict=True):
                if not _near(y, right, rough=bool(self.gradient)):
                    return Failure(
                        "rank differs", f"rank {rank}: {y.tolist()}, not {right.tolist()}"
                    )
        return None

    def _function(self, local: Callable[..., Any]) -> Callable[..., Any]:
        """Return what a rank computes from `w` and its row of `x`."""
        if self.gradient:
            places: Any = {"w": 0, "x": 1, "both": (0, 1)}[self.gradient]
            return rlx.grad(lambda w, x: local(w, x[0]), places)
        if self.replicated:
            return lambda w, x: local(w, x[0])
        return lambda w, x: local(w, x[0])[None]

    def _in_a_batch(self) -> Call:
        """Return the same over an axis of `vmap`, for all back ends."""
        source = f"def f(v0, v1):\n    return rlx.vmap(lambda x, w: {self.text}, in_axes=(0, None)"
        source += ", axis_name='r')(v1, v0)\n"

        def model(w: Array, x: Array) -> Array:
            found = replace(self, w=w, x=x).model()
            return found if not self.replicated else np.stack([found] * self.ranks)

        return Call(source, (self.w, self.x), model, rounds=200)

    def model(self) -> Array:
        """Return the result of all ranks, or that which they all have."""
        rows, same = OfRanks(list(self.x)), OfRanks([self.w] * self.ranks)
        found = eval(
            self.text,
            {"np": np, "lax": _collectives(self.ranks, self.w.dtype), "x": rows, "w": same},
        )
        return np.asarray(found.parts[0] if self.replicated else np.stack(found.parts))

    def _slopes(self) -> list[Array]:
        """Return the derivative of the result that all ranks have, by central differences."""

        def along(name: str) -> Array:
            at: Array = getattr(self, name)
            slope = np.zeros(at.shape)
            for place in np.ndindex(*at.shape):
                moved = [at.copy(), at.copy()]
                moved[0][place] += 1e-6
                moved[1][place] -= 1e-6
                up, down = (float(self._at(name, a).model()) for a in moved)
                slope[place] = (up - down) / 2e-6
            return slope

        return [along(name) for name in ("w", "x") if self.gradient in (name, "both")]

    def _at(self, name: str, a: Array) -> Ranked:
        return replace(self, w=a) if name == "w" else replace(self, x=a)


def _near(found: Array, right: Array, *, rough: bool) -> bool:
    if found.shape != right.shape:
        return False
    scale = max(1.0, float(np.max(np.abs(right), initial=0)))
    tolerance = 1e-4 if rough or found.dtype == np.float32 else 1e-9
    return bool(np.all(np.abs(found.astype(np.float64) - right) <= tolerance * scale))


class OfRanks(NDArrayOperatorsMixin):
    """One array for each rank; NumPy's functions apply to each."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **how: Any) -> OfRanks:
        del method
        return self._each(ufunc, inputs, how)

    def __array_function__(self, function: Any, _: Any, args: Any, how: Any) -> OfRanks:
        return self._each(function, args, how)

    def _each(self, function: Any, args: Any, how: Any) -> OfRanks:
        return OfRanks(
            [function(*(_of(rank, a) for a in args), **how) for rank in range(len(self.parts))]
        )


def _of(rank: int, x: Any) -> Any:
    if isinstance(x, OfRanks):
        return x.parts[rank]
    return [_of(rank, each) for each in x] if isinstance(x, list) else x


def _collectives(ranks: int, dtype: np.dtype[Any]) -> SimpleNamespace:
    """Return the collectives of `rlx` on `OfRanks`; a number is one that all ranks have."""
    numbers = list(np.arange(ranks).astype(dtype))  # of a number, which takes the dtype of others

    def everywhere(fold: Callable[..., Any]) -> Callable[..., OfRanks]:
        def call(x: Any, _: str, *more: Any, **how: Any) -> OfRanks:
            if not isinstance(x, OfRanks):
                return OfRanks([np.asarray(x * ranks, dtype)] * ranks)
            return OfRanks([fold(np.stack(x.parts), *more, **how)] * ranks)

        return call

    def permuted(x: OfRanks, _: str, perm: Sequence[tuple[int, int]]) -> OfRanks:
        parts = [np.zeros_like(part) for part in x.parts]
        for source, target in perm:
            parts[target] = x.parts[source]
        return OfRanks(parts)

    def scattered(x: OfRanks, _: str) -> OfRanks:
        return OfRanks(list(np.sum(np.stack(x.parts), 0, dtype=x.parts[0].dtype)))

    def exchanged(x: OfRanks, _: str, split: int, concat: int) -> OfRanks:
        del split, concat
        return OfRanks([np.stack([part[rank] for part in x.parts]) for rank in range(ranks)])

    def gathered(x: Array, tiled: bool = False) -> Array:
        return np.concatenate(list(x)) if tiled else x

    return SimpleNamespace(
        psum=everywhere(lambda x: x.sum(0, dtype=x.dtype)), pmin=everywhere(lambda x: x.min(0)),
        pmean=everywhere(lambda x: x.mean(0, dtype=x.dtype)), pmax=everywhere(lambda x: x.max(0)),
        pbroadcast=everywhere(lambda x, source: x[source]), all_gather=everywhere(gathered),
        axis_index=lambda _: OfRanks(numbers), ppermute=permuted,
        psum_scatter=scattered, all_to_all=exchanged,
    )  # fmt: skip
