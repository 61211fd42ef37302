"""Kernels that use every instruction on tile registers: products of bytes.

They are apart from `samples`, for processors without such registers cannot run them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.codegen.kernels.contraction.matrix_unit import MatrixTile
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import index
from rlx.codegen.loops.nodes import Prim, TileOp
from tests.codegen.loops.samples import Sample

SHAPES = [(32, 32, 32), (17, 16, 16), (16, 32, 35), (5, 16, 9), (1, 32, 16)]
"""Rows, columns and words of a row."""
SIGNS = {"unsigned": TileOp.DOT_UNSIGNED_SIGNED, "signed": TileOp.DOT_SIGNED_UNSIGNED}
"""Of the bytes of rows; those of columns are the other."""


def product_sample(rows: int, columns: int, words: int, sign: str) -> Sample:
    """Return the kernel `out = a @ b` with operands of random bytes."""
    k = KernelBuilder(f"tiles_{rows}_{columns}_{words}_{sign}")
    left, right = (Prim.U32, Prim.I32) if sign == "unsigned" else (Prim.I32, Prim.U32)
    a, b = k.argument("a", left), k.argument("b", right)
    out = k.argument("out", Prim.I32, writable=True)
    sums = k.local("sums", Prim.I32, rows * columns)
    tile = MatrixTile(k, rows, columns, words, SIGNS[sign])
    with tile.configured():
        tile.zero()
        tile.add((a, index(0)), words, (b, index(0)), columns)
        tile.store(sums)
    with k.loop("i", rows * columns) as i:
        k.store(out, i, k.load(sums, i))
    random = np.random.default_rng(0)
    given = {
        "a": _words(random, rows * words, left),
        "b": _words(random, words * columns, right),
        "out": np.zeros(rows * columns, np.int32),
    }
    return Sample(k.build(), given)


def _words(random: np.random.Generator, count: int, prim: Prim) -> Any:
    dtype = np.uint32 if prim is Prim.U32 else np.int32
    return random.integers(0, 256, 4 * count, np.uint8).view(dtype)


def expected(sample: Sample, rows: int, columns: int, words: int, sign: str) -> Any:
    """Return what the kernel stores, by NumPy."""
    first, second = (np.uint8, np.int8) if sign == "unsigned" else (np.int8, np.uint8)
    a = sample.buffers["a"].view(first).reshape(rows, 4 * words).astype(np.int32)
    b = sample.buffers["b"].view(second).reshape(words, columns, 4).astype(np.int32)
    return (a @ b.transpose(0, 2, 1).reshape(4 * words, columns)).reshape(-1)


TILE_SAMPLES = [product_sample(*shape, sign) for shape in SHAPES for sign in SIGNS]
