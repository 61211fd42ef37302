"""Whether a BLAS library multiplies matrices faster here than generated code does: measured."""

from __future__ import annotations

import time

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile
from rlx.runtime.executable import Executable

SIZE = 256
"""Rows and columns of what is multiplied: 17 million multiply-adds, which take part of a ms."""
_TURNS = 20


@dataclass(frozen=True, slots=True)
class ProductTrial:
    """Seconds of the same product in f32 on one thread: by generated code and by the library."""

    generated: float
    library: float

    def __str__(self) -> str:
        own, library = (f"{seconds * 1e6:.0f} us" for seconds in (self.generated, self.library))
        advice = (
            "generated code is faster"
            if self.generated <= self.library
            else "blas='system' leaves large products to the library"
        )
        return f"{SIZE}x{SIZE}x{SIZE} in {own}, with the library {library}: {advice}"


def try_products() -> ProductTrial:
    """Time a product both ways, by turns; the least of many counts."""
    ways = [_product(blas) for blas in ("none", "system")]
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((SIZE, SIZE)).astype(np.float32) for name in "ab"}
    least = [float("inf")] * len(ways)
    for _ in range(_TURNS):
        for way, run in enumerate(ways):
            run(**feeds)  # what the other left in the caches is gone
            started = time.perf_counter()
            run(**feeds)
            least[way] = min(least[way], time.perf_counter() - started)
    return ProductTrial(*least)


def _product(blas: str) -> Executable:
    graph = Graph("product")
    a, b = graph.input("a", (SIZE, SIZE)), graph.input("b", (SIZE, SIZE))
    graph.set_outputs([graph.matmul(a, b)])
    return compile(graph, blas=blas, threads=1, wait=True)
