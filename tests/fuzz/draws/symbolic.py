"""Loops over symbolic extents: one program runs at several extents, each as if it were known."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import rlx
from rlx.errors import RlxError, ShapeError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.verify import verify
from tests.fuzz.check import Failure, Judge, feeds, poison_arena
from tests.fuzz.draws.case import guarded, library
from tests.fuzz.expressions import expression, like
from tests.fuzz.native import lower
from tests.fuzz.program import Array, draw

_MOST = 9
_CARRIES = (
    "rlx.scan(lambda c, r: ({carry}, {stacked}), v0, v1)",
    "rlx.scan(lambda c, r: ({carry}, {stacked}), v0, v1, reverse=True)",
    "rlx.scan(lambda c, _: ({alone}, None), v0, None, length={length})[0]",
    "rlx.fori_loop(0, {length}, lambda i, c: {alone} + i, v0)",
    "rlx.fori_loop(0, {length}, lambda i, c: {alone}[::-1], v0)",
    "rlx.map(lambda r: {row}, v1)",
    "rlx.vmap(lambda r: rlx.fori_loop(0, {length}, lambda i, c: {carry}, v0))(v1)",
    "rlx.while_loop(lambda c: np.sum(c * c) > 0.5, lambda c: c * 0.5, np.tanh(v0))",
    "rlx.scan(lambda c, r: rlx.scan(lambda e, s: (np.tanh(e + s), e * r), c, v1), v0, v1)[0]",
    "rlx.cond(np.sum(v0) > 0, lambda c: {alone}, lambda c: c * 0.5, v0)",
    "rlx.switch({length} % 3, [lambda c: c, lambda c: {alone}, lambda c: -c], v0)",
    "rlx.scan(lambda c, r: (c + np.cumsum(c, 0) * 0.1, np.sort(c * r, 0)), v0, v1)",
    "rlx.scan(lambda c, r: (np.concatenate([c[1:], c[:1]]) + r, np.sum(c, 0)), v0, v1)",
    "rlx.scan(lambda c, r: (np.tanh(c @ c.T @ c) + r, np.max(np.abs(c))), v0 * 0.1, v1)",
    "rlx.scan(lambda c, r: (np.where(c > r, c, c * 0.5), nn.softmax(c, -1)), v0, v1)",
)
"""Loops whose carries and rows have a symbolic extent."""
_LENGTHS = (
    "rlx.scan(lambda c, r: ({flat}, c), v1, v0)",
    "rlx.map(lambda r: r * 0.5, v0)",
    "rlx.scan(lambda c, r: ({flat}, None), v1, None, length=v0.shape[0])[0]",
    "rlx.fori_loop(0, v0.shape[0], lambda i, c: np.tanh(c + v0[i]) * 0.5, v1)",
    "rlx.fori_loop(1, v0.shape[0], lambda i, c: c.at[i].add(c[i - 1] * 0.5), v0)",
    "rlx.vmap(lambda r: r * v1)(v0)",
    "rlx.lax.associative_scan(lambda a, b: np.tanh(a) + b, v0)",
    "rlx.while_loop(lambda s: s[0] < v0.shape[0], lambda s: (s[0] + 1, s[1] * 0.5), (0, v1))[1]",
    "rlx.scan(lambda c, i: (c + v0[i], c * i), v1, np.arange(v0.shape[0]))",
)
"""Loops as long as a symbolic extent."""
REFUSED: Mapping[str, str] = {
    "differs between runs": "what decides the shape of a result is known when it is traced",
    "this function needs a number|is not an array: Dim|and 'Dim'": "an extent is a number where "
    "`rlx.numpy` documents it",
}
"""Messages by which a symbol is refused where a number is not, and why."""
_AROUND = (
    "{0}", "{0}", "{0}",
    "rlx.grad(lambda v0, v1: total({0}), argnums=(0, 1))(v0, v1)",
    "rlx.jvp(lambda v0, v1: {0}, (v0, v1), (v0 * 0 + 0.5, v1 * 0 + 1))",
    "rlx.vmap(lambda v1: {0})(np.stack([v1, v1[::-1] * 0.5]))",
    "rlx.jit(lambda v0, v1: {0})(v0, v1)",
    "rlx.grad(rlx.checkpoint(lambda v0, v1: total({0})), argnums=1)(v0, v1)",
)  # fmt: skip
_TOTAL = (
    "def total(tree):\n"
    "    return sum(np.sum(np.tanh(x)) for x in rlx.tree_util.tree_leaves(tree))\n"
)


def case(pick: random.Random) -> Symbolic:
    parts = {
        "carry": like(pick, "c", ["r"]), "alone": like(pick, "c", []),
        "stacked": pick.choice(("c", "c * r", "np.sum(c * r)", "r * 2", "None")),
        "row": expression(pick, ["v0", "r"]) + " + v0", "length": str(pick.randint(0, 4)),
        "flat": like(pick, "c", ["v1"]),
    }  # fmt: skip
    loop = pick.choice(_CARRIES if pick.random() < 0.9 else _LENGTHS)
    around = pick.choice(_AROUND).format(loop.format(**parts))
    least = pick.choice((0, 0, 1))
    source = f"{_TOTAL}def f(v0, v1):\n    return {around}\n"
    extents = tuple(dict.fromkeys((pick.randint(least, _MOST), least, _MOST)))
    dtype, width = pick.choice(("f32", "f32", "f64")), pick.choice((3, 1, 8))
    return Symbolic(source, dtype, width, least, extents, pick.getrandbits(32))


@dataclass(frozen=True)
class Symbolic:
    """A function of rows whose number is a symbol, and a vector; run at several extents."""

    source: str
    dtype: str
    width: int
    least: int
    extents: tuple[int, ...]
    seed: int

    def script(self) -> str:
        rows = f"# v0: {self.dtype}[n, {self.width}], n in [{self.least}, {_MOST}], n = "
        return f"{rows}{self.extents}; v1: {self.dtype}[{self.width}]\n{self.source}"

    @property
    def function(self) -> Callable[..., Any]:
        namespace = library()
        exec(compile(self.source, "<fuzz>", "exec"), namespace)
        made: Callable[..., Any] = namespace["f"]
        return made

    def arrays(self, extent: int) -> list[Array]:
        random = np.random.default_rng([self.seed, extent])
        shapes = ((extent, self.width), (self.width,))
        drawn = [draw(random, self.dtype, shape) for shape in shapes]
        return [np.where(np.isfinite(x), x, 1).astype(x.dtype) for x in drawn]

    def failure(self, seed: int, backends: Sequence[str]) -> Failure | None:
        return guarded(lambda: self._failure(seed, backends))

    def _failure(self, seed: int, backends: Sequence[str]) -> Failure | None:
        n = rlx.Dim("n", min=self.least, max=_MOST)
        kind = DType(self.dtype)
        types = rlx.TensorType(kind, (n, self.width)), rlx.TensorType(kind, (self.width,))
        try:
            rlx.jit(self.function).graph(*self.arrays(max(self.extents)))
        except RlxError:
            return None  # no valid program
        try:
            graph: Graph = rlx.jit(self.function).graph(*types)
        except (RlxError, TypeError) as error:
            text = f"{type(error).__name__}: {error}"
            is_stated = any(re.search(pattern, text) for pattern in REFUSED)
            return None if is_stated else Failure("a symbol is refused", text)
        verify(graph)
        lowered = lower(graph, seed)
        loaded = {backend: lowered.loaded(backend, seed) for backend in backends}
        for extent in self.extents:
            arrays = self.arrays(extent)
            try:
                known: Graph = rlx.jit(self.function).graph(*arrays)
            except ShapeError:
                continue  # as the largest of no elements
            judge = Judge(known, arrays, evaluate(known, feeds(known, arrays)), seed)
            inputs = feeds(graph, arrays)
            text = judge.difference(evaluate(graph, inputs))
            if text:
                return Failure("reference differs", f"n = {extent}: {text}")
            for backend, executable in loaded.items():
                poison_arena(executable, 0xFF)
                text = judge.difference(executable.run(inputs))
                if text:
                    return Failure(f"{backend} differs", f"n = {extent}: {text}")
        return None
