"""Calls of NumPy-named functions, for comparison with NumPy and with JAX.

Each case is an expression in `np`, read with `np` bound to `rlx.numpy`, NumPy or `jax.numpy`, on
the arrays of `arrays(dtype)`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

DTYPES = ("bool", "u8", "u32", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
NUMPY = {
    "bool": np.bool_, "u8": np.uint8, "u32": np.uint32, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def arrays(dtype: str) -> dict[str, NDArray[Any]]:
    """Return x, y of shape (3, 4), v (4,), m (4, 3), t (2, 3, 4), s (),
    with few repeats, and d (4,), which is positive."""
    generator = np.random.default_rng(7)

    def draw(*shape: int) -> NDArray[Any]:
        numbers: NDArray[Any] = generator.permutation(int(np.prod(shape))).reshape(shape) / 2 + 1
        if dtype in ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64"):
            numbers = numbers - 3
        if dtype == "bool":
            numbers = generator.integers(0, 2, shape)
        return np.asarray(numbers).astype(NUMPY[dtype])

    return {
        "x": draw(3, 4), "y": draw(3, 4), "v": draw(4), "m": draw(4, 3),
        "t": draw(2, 3, 4), "s": draw(), "d": np.asarray([2, 1, 3, 1]).astype(NUMPY[dtype]),
    }  # fmt: skip


UNARY = [
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arctan",
    "sinh", "cosh", "tanh", "arcsinh", "negative", "positive", "abs", "sign", "square", "cbrt",
    "rint", "floor", "ceil", "trunc", "deg2rad", "rad2deg", "sinc", "isnan", "isfinite", "isinf",
    "logical_not", "reciprocal", "nan_to_num", "real", "imag", "conj",
]  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "hypot", "arctan2", "logaddexp", "isclose",
]  # fmt: skip

POSITIVE = """
np.power(x, d)
np.floor_divide(x, d)
np.remainder(x, d)
np.fmod(x, d)
x ** 2
x ** 3
x ** 0
x ** 2.0
x * 2
x + 1.5
2 / d
x // 2
x % 3
""".strip().splitlines()

BITS = """
x & y
x | 5
3 ^ x
~x
x << 1
x >> d
np.left_shift(x, d)
np.right_shift(x, 2)
np.bitwise_xor(x, y)
""".strip().splitlines()

STRUCTURE = """
np.reshape(x, (2, 6))
np.reshape(x, (-1, 2))
np.ravel(x)
np.transpose(t)
np.transpose(t, (1, 2, 0))
np.swapaxes(t, 0, 2)
np.moveaxis(t, 0, -1)
np.moveaxis(t, (0, 1), (2, 0))
np.squeeze(x[None, :, None], 0)
np.expand_dims(x, (0, 2))
np.broadcast_to(v, (3, 4))
np.concatenate([x, y], 1)
np.concatenate([x, y], None)
np.stack([x, y], 2)
np.vstack([x, v])
np.block([[x, x], [y, y]])
np.block([x, y])
np.block([[x[:1, :1], v], [2.0, v]])
np.hstack([x, y])
np.column_stack([v, m])
np.split(x, 2, 1)
np.split(x, [1, 3], 1)
np.array_split(v, 3)
np.tile(x, (2, 1, 2))
np.tile(v, 3)
np.repeat(x, 3, 1)
np.repeat(v, [1, 0, 2, 3])
np.repeat(x, 2)
np.flip(t)
np.flip(t, (0, 2))
np.fliplr(x)
np.roll(x, 1, 1)
np.roll(x, -2)
np.roll(t, (1, 2), (0, 2))
np.rot90(x, 1)
np.rot90(x, 3)
np.pad(x, 1)
np.pad(x, ((1, 0), (2, 3)), constant_values=1)
np.pad(x, 2, mode="reflect")
np.pad(x, 1, mode="edge")
np.pad(x, 3, mode="wrap")
np.take(x, np.array([2, 0, -1]), 0)
np.take(x, [[0, 5], [11, 1]])
np.take_along_axis(x, np.array([[0], [1], [2]]), 1)
np.diagonal(x, 1)
np.diagonal(t, 0, 1, 2)
np.diag(v)
np.diag(v, 2)
np.diag(v, -1)
np.diag(x, -1)
np.tril(x)
np.triu(t, 1)
np.tril(x, -1)
np.where(x > y, x, y)
np.meshgrid(v, v[:3])
np.meshgrid(v, v[:3], indexing="ij")
np.meshgrid(v, v[:3], copy=False, sparse=True)
np.full((2, 3), s)
np.zeros_like(x)
np.ones_like(x)
np.full_like(x, 1)
np.atleast_2d(v)
np.rot90(t, 2, (0, 2))
""".strip().splitlines()

INDEXING = """
x[1]
x[-1, 2]
x[:, 1:3]
x[::-1, ::2]
x[2:0:-1]
x[..., 0]
t[1, ..., None, 2]
x[None]
x[[2, 0]]
x[:, np.array([3, 1, 1])]
x[np.array([[0, 1], [2, -1]])]
x[np.array([0, 2]), np.array([1, 3])]
t[:, np.array([0, 2]), np.array([1, 3])]
t[np.array([0, 1]), :, np.array([1, 3])]
t[0, :, np.array([1, 3])]
t[np.array([0, 1]), None, :, 1:3]
t[:, None, np.array([[0, 1]])]
t[1, np.array([0, 2])]
x[5:]
x[1:1]
x[:, 3:0:-2]
""".strip().splitlines()

REDUCING = """
np.sum(x)
np.sum(x, 0)
np.sum(t, (0, 2), keepdims=True)
np.prod(v)
np.mean(x, 1)
np.max(x, 0)
np.min(t, (1, 2))
np.any(x > 2, 1)
np.all(x > 1)
np.argmax(x)
np.argmin(x, 1)
np.argmax(x, 0, keepdims=True)
np.var(x, 1)
np.std(x, 0, ddof=1)
np.count_nonzero(x)
np.ptp(x, 0)
""".strip().splitlines()

RUNNING = """
np.cumsum(v)
np.cumsum(x, 1)
np.cumprod(v[:3])
np.diff(x)
np.diff(x, 2, 1)
np.sort(x, 1)
np.sort(x, 0)
np.argsort(x, 1)
np.sort(x, None)
np.median(x)
np.median(x, 1)
np.clip(x, 0, 2)
np.average(x, 0, np.array([1.0, 2.0, 3.0]))
np.nansum(x, 1)
np.nanmean(x)
""".strip().splitlines()

PRODUCTS = """
x @ m
x @ v
v @ m
v @ v
t @ m
np.dot(x, m)
np.dot(x, v)
np.dot(t, m)
np.vdot(x, y)
np.inner(x, y)
np.inner(t, v)
np.outer(v, v)
np.kron(x, m)
np.cross(x[:, :3], y[:, :3])
np.tensordot(t, x, ([1, 2], [0, 1]))
np.tensordot(t, m, 1)
np.trace(x)
np.einsum("ij,jk->ik", x, m)
np.einsum("ij,jk", x, m)
np.einsum("ij->ji", x)
np.einsum("ij->", x)
np.einsum("ij->i", x)
np.einsum("ii->i", x[:, :3])
np.einsum("ii", x[:, :3])
np.einsum("bij,jk->bik", t, m)
np.einsum("bij,bij->b", t, t)
np.einsum("...ij,jk->...ik", t, m)
np.einsum("...j,j->...", t, v)
np.einsum("ij,ij->ij", x, y)
np.einsum("i,j->ij", v, v)
np.einsum("ij,kj,kl->il", x, y, y)
np.einsum("bij,bkj->bik", t, t)
np.einsum("ij,kl->jl", x, m)
np.einsum("ba,b->a", m, v)
""".strip().splitlines()

CREATION = """
np.arange(5)
np.arange(1, 7, 2)
np.arange(0.0, 1.0, 0.25)
np.arange(3, dtype="float32")
np.linspace(0, 1, 5)
np.linspace(0, 2, 4, endpoint=False)
np.zeros((2, 3))
np.ones(3, "int32")
np.full((2,), 2.5)
np.eye(3)
np.eye(2, 4, 1)
np.identity(2)
np.array([[1, 2], [3, 4.5]])
np.logspace(0, 2, 3)
""".strip().splitlines()

NORMS = """
np.linalg.norm(x)
np.linalg.norm(x, axis=1)
np.linalg.norm(x, 1, axis=0)
np.linalg.norm(x, np.inf, axis=0)
np.linalg.norm(x, 3, axis=1, keepdims=True)
np.linalg.norm(x, 'fro')
np.linalg.norm(x, 1)
np.linalg.norm(x, np.inf)
np.linalg.norm(t, axis=(0, 2))
""".strip().splitlines()
