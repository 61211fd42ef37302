"""Drawn formulas over matrices, and the bytes of the values that their functions return."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.types import TensorType
from rlx.scipy import special
from rlx.scipy.linalg import expm

SIZE = 96

_IDENTITY = np.eye(SIZE, dtype=np.float32)
_ROWS = np.arange(SIZE)[::-2].repeat(2).copy()


def _far(x: Any) -> Any:
    """Return a matrix near the identity."""
    return rnp.tanh(x) / (2 * SIZE) + _IDENTITY


def _definite(x: Any) -> Any:
    return x @ x.T / SIZE + _IDENTITY


def _distances(x: Any, y: Any) -> Any:
    return rnp.sqrt(1 + rnp.sum((x[:, None] - y[None]) ** 2, axis=-1))


def _forces(x: Any) -> Any:
    apart = x[:, None, :3] - x[None, :, :3]
    pull = apart / (1 + rnp.sum(apart**2, axis=-1, keepdims=True)) ** 1.5
    return x + rnp.sum(rnp.sum(pull, axis=1), axis=1, keepdims=True)


def _images(x: Any) -> Any:
    return x.reshape(1, 3, SIZE // 3, SIZE)


def _convolved(x: Any) -> Any:
    weight = rnp.ones((3, 3, 3, 3), "f4") / 27
    return nn.conv(_images(x), weight, padding=1).reshape(SIZE, SIZE)


def _pooled(x: Any) -> Any:
    pooled = nn.max_pool(_images(x), 2, 2)
    return rnp.repeat(rnp.repeat(pooled, 2, axis=2), 2, axis=3).reshape(SIZE, SIZE)


def _attended(x: Any) -> Any:
    heads = x.reshape(1, SIZE, 4, SIZE // 4)
    return nn.dot_product_attention(heads, heads, heads).reshape(SIZE, SIZE)


def _scanned(x: Any) -> Any:
    return rlx.scan(lambda c, row: (rnp.tanh(c + row), c * row), x[0], x)[1]


def _iterated(x: Any) -> Any:
    return rlx.fori_loop(0, 5, lambda _, y: rnp.sin(y) + x, x)


def _spectrum(x: Any) -> Any:
    w, v = rnp.linalg.eigh(_definite(x))
    return (v * rnp.log(w)) @ v.T


def _factors(x: Any) -> Any:
    q, r = rnp.linalg.qr(_far(x))
    return q + r


def _singular(x: Any) -> Any:
    u, s, vt = rnp.linalg.svd(_far(x))
    return (u * s**2) @ vt


def _mixed(x: Any, y: Any) -> Any:
    gate = nn.softmax(x[:, :2], axis=-1)
    return rnp.einsum("re,ri,eij->rj", gate, y, rnp.stack([y, x]) / SIZE)


UNARY: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(rnp, name) for name in ("tanh", "sin", "exp", "abs", "square", "flip")},
    "root": lambda x: rnp.sqrt(1 + x * x),
    "sigmoid": nn.sigmoid,
    "gelu": nn.gelu,
    "gammaln": lambda x: special.gammaln(2 + x * x),
    "digamma": lambda x: special.digamma(2 + x * x),
    "erfinv": lambda x: special.erfinv(rnp.tanh(x) / 2),
    "logit": lambda x: special.logit(nn.sigmoid(x)),
    "xlogy": lambda x: special.xlogy(x * x, 1 + x * x),
    "softmax": lambda x: nn.softmax(x, axis=-1),
    "softmax_of_columns": lambda x: nn.softmax(x, axis=0),
    "log_softmax": lambda x: nn.log_softmax(x, axis=-1),
    "normalized": lambda x: (x - x.mean(0)) / (1 + x.std(0)),
    "layer_norm": lambda x: nn.layer_norm(x, x[0], x[1]),
    "unit_rows": lambda x: x / (1 + rnp.linalg.norm(x, axis=1, keepdims=True)),
    "below_top": lambda x: x - rnp.max(x, axis=1, keepdims=True),
    "cumsum": lambda x: rnp.cumsum(x, axis=0),
    "cumulative_logsumexp": lambda x: rlx.lax.cumlogsumexp(x, axis=1),
    "sorted": lambda x: rnp.sort(x, axis=1),
    "median": lambda x: x - rnp.median(x, axis=1, keepdims=True),
    "top": lambda x: x + rlx.lax.top_k(x, 4)[0].sum(1, keepdims=True),
    "turned": lambda x: x.T,
    "rolled": lambda x: rnp.roll(x, 7, axis=0),
    "taken": lambda x: x[_ROWS],
    "shifted": lambda x: rnp.pad(x, ((1, 0), (0, 0)))[:-1],
    "diff": lambda x: rnp.concatenate([x[:1], rnp.diff(x, axis=0)]),
    "clipped": lambda x: rnp.clip(x, -1, 1),
    "triangle": rnp.tril,
    "updated": lambda x: x.at[3:9].set(x[4:10] * 2),
    "spectral_filter": lambda x: rnp.fft.irfft(rnp.fft.rfft(x) * 0.5, n=SIZE),
    "smoothed": lambda x: rlx.vmap(lambda row: rnp.convolve(row, np.ones(5, "f4") / 5, "same"))(x),
    "convolved": _convolved,
    "pooled": _pooled,
    "attended": _attended,
    "scanned": _scanned,
    "iterated": _iterated,
    "forces": _forces,
    "inverse": lambda x: rnp.linalg.inv(_far(x)),
    "cholesky": lambda x: rnp.linalg.cholesky(_definite(x)),
    "log_det": lambda x: x + rnp.linalg.slogdet(_far(x))[1],
    "expm": lambda x: expm(rnp.tanh(x) / SIZE),
    "spectrum": _spectrum,
    "factors": _factors,
    "singular": _singular,
    "checkpointed": rlx.checkpoint(lambda x: rnp.tanh(rnp.sin(x) * x)),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(rnp, name) for name in ("add", "multiply", "maximum", "arctan2", "logaddexp")},
    "divide": lambda x, y: x / (1 + y * y),
    "product": lambda x, y: x @ y / SIZE,
    "gram": lambda x, y: rnp.einsum("ik,jk->ij", x, y) / SIZE,
    "chain": lambda x, y: rnp.einsum("i,j,ij->ij", x[0], y[:, 0], x + y),
    "scaled": lambda x, y: x * y.mean(1, keepdims=True),
    "chosen": lambda x, y: rnp.where(x > y, x, 2 * y),
    "solved": lambda x, y: rnp.linalg.solve(_far(x), y),
    "distances": _distances,
    "mixed": _mixed,
    "interpolated": lambda x, y: x + rnp.interp(x[0], np.linspace(-3, 3, SIZE), y[0]),
}


def compositions(seed: int, count: int) -> list[str]:
    """Draw formulas in `x` and `y`: each function once, then two to four of them at random."""
    draw = np.random.default_rng(seed)
    texts = [f"{name}(x)" for name in UNARY] + [f"{name}(x, y)" for name in BINARY]
    while len(texts) < count:
        text = "x"
        for _ in range(int(draw.integers(2, 5))):
            if draw.random() < 0.3:
                other = draw.choice(["y", "x", f"{draw.choice([*UNARY])}(y)"])
                text = f"{draw.choice([*BINARY])}({text}, {other})"
            else:
                text = f"{draw.choice([*UNARY])}({text})"
        texts.append(text)
    return texts[:count]


def traced(text: str) -> tuple[Graph, int]:
    """Return the graph of the sum of a formula's elements, and the bytes of all values in it."""
    kept: list[int] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*operands: Any) -> Any:
            result = function(*operands)
            kept.append(math.prod(result.shape) * 4)
            return result

        return call

    names = {name: counted(function) for name, function in (UNARY | BINARY).items()}

    def formula(x: Any, y: Any) -> Any:
        return rnp.sum(eval(text, {**names, "x": x, "y": y}) * (1 + 0 * x * y))

    matrix = TensorType(DType.F32, (SIZE, SIZE))
    graph: Graph = rlx.jit(formula).graph(matrix, matrix)
    return graph, sum(kept)
