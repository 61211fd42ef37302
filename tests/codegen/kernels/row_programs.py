"""Random programs over rows and columns: folds along one axis, and elements made of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim, Extent

TOLERANCES = {"f32": 3e-5, "f64": 1e-12, "bf16": 0.1, "f16": 0.02}

ROWS = [(5,), (3, 4), (2, 3, 4), (1,), (), (40,), (9,)]
ROW_LENGTHS = [8, 9, 16, 33, 64, 256, 300, 4100, 9000]
COLUMNS = [((5,), (70,)), ((2,), (3, 64)), ((), (200,)), ((1,), (65,)), ((3, 2), (40, 2))]
COLUMN_LENGTHS = [2, 3, 8, 17, 64, 130, 600]


class Drawn:
    """A random program; several of them may be parts of one graph, as its inputs are prefixed."""

    def __init__(self, seed: int, graph: Graph | None = None) -> None:
        self.random, self.prefix = random.Random(seed), f"p{seed}_"
        self.graph = graph or Graph("rows")
        before, after, length = self._extents()
        self.axis, self.length = len(before), length
        self.dims: dict[str, int] = {}
        outer = self._symbolic(before)
        self.shape: tuple[Extent, ...] = (*outer, *self._symbolic((length,)), *after)
        self.reduced = (*outer, 1, *after)
        self.dtype = self.random.choice(sorted(TOLERANCES))
        self.inputs: list[Value] = []
        x = self.input("x", self.shape)
        made = self.random.random() < 0.3 and not self.dims  # whose memory a result may take
        self.full = [self.graph.cumsum(x, axis=0) * 0.1 if made else x]
        along = (self.shape[self.axis], *(1 for _ in after))
        self.broadcast = [self.input("v", along), self.input("s", self.reduced)]
        self.numbers: list[Value] = []
        steps = [
            self.fold,
            self.fold,
            self.change,
            self.combine,
            self.combine,
            self.map,
            self.known,
        ]
        for _ in range(self.random.randint(8, 18)):
            self.random.choice(steps)()
        made_here = [x for x in (*self.full, *self.numbers) if x.node.operands] or self.full
        read = {operand for node in self.graph.nodes for operand in node.operands}
        chosen = {x for x in made_here if x not in read or self.random.random() < 0.2}
        self.outputs = sorted(chosen, key=lambda x: x.node.index)

    def _extents(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        if self.random.random() < 0.5:
            return self.random.choice(ROWS), (), self.random.choice(ROW_LENGTHS)
        before, after = self.random.choice(COLUMNS)
        return before, after, self.random.choice(COLUMN_LENGTHS)

    def _symbolic(self, extents: tuple[int, ...]) -> tuple[Extent, ...]:
        """Return extents of which some are only known when the program is called."""
        if not extents or self.random.random() < 0.75:
            return extents
        name = f"{self.prefix}n{len(self.dims)}"
        self.dims[name] = extents[0]
        largest = extents[0] + self.random.choice([0, 3])
        return (Dim(name, max=largest), *extents[1:])

    def input(self, name: str, shape: tuple[Extent, ...]) -> Value:
        self.inputs.append(self.graph.input(self.prefix + name, shape, self.dtype))
        return self.inputs[-1]

    def fold(self) -> None:
        kind = self.random.choice(["reduce_sum", "reduce_max", "reduce_min", "reduce_mean"])
        keeps, x = self.random.random() < 0.6, self.random.choice(self.full[-3:])
        folded = getattr(self.graph, kind)(x, axes=(self.axis,), keepdims=keeps)
        self.numbers.append(folded if keeps else self.graph.reshape(folded, shape=self.reduced))

    def change(self) -> None:
        if self.numbers:
            one, other = (self.random.choice(self.numbers) for _ in range(2))
            self.numbers.append(self.graph.add(self.graph.tanh(one), other))

    def combine(self) -> None:
        kind = self.random.choice([self.graph.add, self.graph.sub, self.graph.maximum])
        others = self.random.choice([self.numbers, self.numbers, self.full, self.broadcast])
        other = self.random.choice(others or self.broadcast)
        self.full.append(kind(self.random.choice(self.full[-3:]), other))

    def map(self) -> None:
        kinds: list[Callable[[Value], Value]] = [
            self.graph.tanh,
            self.graph.abs,
            self.graph.relu,
            self.graph.neg,
            lambda x: self.graph.reverse(x, axes=(self.axis,)),
        ]
        self.full.append(self.random.choice(kinds)(self.full[-1]))

    def known(self) -> None:
        """Apply an op whose kernel is made from its formula."""
        kind = self.random.choice(["softmax", "log_softmax", "layer_norm", "rms_norm"])
        parameters = {"softmax": 0, "log_softmax": 0, "layer_norm": 2, "rms_norm": 1}[kind]
        along = (self.shape[self.axis],)
        vectors = [self.input(f"{kind}{len(self.full)}_{i}", along) for i in range(parameters)]
        given = {"eps": 0.25} if parameters else {}
        x = self.random.choice(self.full[-3:])
        self.full.append(getattr(self.graph, kind)(x, *vectors, axis=self.axis, **given))

    def feeds(self) -> dict[str, Any]:
        numbers = np.random.default_rng(3)
        return {
            str(x.node.name): numbers.standard_normal(
                [n if isinstance(n, int) else self.dims[str(n)] for n in x.shape]
            ).astype(x.dtype.numpy)
            for x in self.inputs
        }


def drawn(*seeds: int) -> tuple[Graph, dict[str, Any], list[str]]:
    """Return one graph of several programs, its inputs, and the dtype of each result."""
    graph = Graph("rows")
    programs = [Drawn(seed, graph) for seed in seeds]
    graph.set_outputs([output for program in programs for output in program.outputs])
    feeds = {name: x for program in programs for name, x in program.feeds().items()}
    return graph, feeds, [str(x.dtype) for program in programs for x in program.outputs]


def disagreements(found: Any, wanted: Any, dtypes: list[str]) -> list[int]:
    """Return the results that are not those of the reference, by their largest element."""
    wrong = []
    for at, (got, want, dtype) in enumerate(zip(found, wanted, dtypes, strict=True)):
        a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
        scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
        if not np.allclose(a, b, atol=TOLERANCES[dtype] * scale, rtol=0, equal_nan=True):
            wrong.append(at)
    return wrong
