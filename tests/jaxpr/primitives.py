"""Uses of JAX's primitives: a function, and the types of its operands.

Each is compared with JAX in values, both derivatives and batches.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax.windowed_reductions import _select_and_scatter_add as select_and_scatter_add

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Use:
    """A function of JAX and what it is applied to."""

    name: str
    function: Callable[..., Any]
    operands: tuple[Any, ...]
    differentiable: bool = True
    tolerance: float = 2e-5

    def __str__(self) -> str:
        return self.name


_EDGES = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, np.inf, -np.inf, np.nan, 1e-30, 88.0],
    "i": [0, 1, -1, 2, 7, -8, 100, -128],
    "u": [0, 1, 2, 7, 100, 255],
    "b": [True, False],
    "c": [0j, 1 + 0j, -1 + 0j, 1j, 0.5 - 2j, 3 + 4j],
}


def edges(dtype: Any) -> Array:
    """Return operands at the edges of a dtype."""
    return np.array(_EDGES[jnp.dtype(dtype).kind.replace("V", "f")]).astype(dtype)


def pairs(dtype: Any) -> tuple[Array, Array]:
    """Return every pair of operands at the edges of a dtype."""
    left, right = np.meshgrid(edges(dtype), edges(dtype))
    return left.ravel(), right.ravel()


def drawn(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    """Return normal numbers."""
    numbers = np.random.default_rng(seed).standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        return (numbers + 1j * np.random.default_rng(seed + 1).standard_normal(shape)).astype(dtype)
    return (3 * numbers).astype(dtype) if np.dtype(dtype).kind in "iu" else numbers.astype(dtype)


_UNARY = {
    "abs": "ifc", "acos": "f", "acosh": "f", "asin": "f", "asinh": "f", "atan": "f", "atanh": "f",
    "bessel_i0e": "f", "bessel_i1e": "f", "cbrt": "f", "ceil": "f", "conj": "c", "cos": "fc",
    "cosh": "fc", "digamma": "f", "erf": "f", "erf_inv": "f", "erfc": "f", "exp": "fc",
    "exp2": "f", "expm1": "f", "floor": "f", "imag": "c", "is_finite": "f", "lgamma": "f",
    "log": "fc", "log1p": "f", "logistic": "f", "neg": "ifc", "bitwise_not": "iub",
    "population_count": "iu", "clz": "iu", "real": "c", "rsqrt": "f", "sign": "iufc", "sin": "fc",
    "sinh": "fc", "sqrt": "fc", "square": "ifc", "tan": "f", "tanh": "f", "round": "f",
}  # fmt: skip
_BINARY = {
    "add": "iufc", "sub": "iufc", "mul": "iufc", "max": "iufb", "min": "iufb", "atan2": "f",
    "nextafter": "f", "eq": "iufbc", "ne": "iufbc", "lt": "iuf", "le": "iuf", "gt": "iuf",
    "ge": "iuf", "bitwise_and": "iub", "bitwise_or": "iub", "bitwise_xor": "iub",
    "div": "fc", "rem": "f", "pow": "f",
}  # fmt: skip
_DTYPES = {"i": "int32", "u": "uint8", "f": "float32", "b": "bool", "c": "complex64"}
_NOT_SMOOTH = (
    "abs", "sign", "floor", "ceil", "round", "is_finite", "max", "min", "nextafter", "eq", "ne",
    "lt", "le", "gt", "ge", "rem", "pow",
)  # fmt: skip


def elementwise() -> Iterator[Use]:
    """Yield uses of elementwise primitives at edges (values), and at drawn numbers."""
    for name, kinds in _UNARY.items():
        for kind in kinds:
            function = getattr(lax, name)
            dtype = _DTYPES[kind]
            yield Use(f"{name}-{dtype}-edges", function, (edges(dtype),), False)
            if kind in "f" and name not in _NOT_SMOOTH:
                shift = 1.5 if name == "acosh" else 0.1
                x = np.abs(np.tanh(drawn(7))).astype("float32") * 0.8 + np.float32(shift)
                yield Use(f"{name}-{dtype}", function, (x,), tolerance=2e-4)
    for name, kinds in _BINARY.items():
        for kind in kinds:
            function = getattr(lax, name)
            dtype = _DTYPES[kind]
            yield Use(f"{name}-{dtype}-edges", function, pairs(dtype), False)
            if kind == "f" and name not in _NOT_SMOOTH:
                yield Use(f"{name}-{dtype}", function, (drawn(7), drawn(7, seed=1)))
    positive = np.abs(drawn(9)) + np.float32(0.3)
    small = np.abs(np.tanh(drawn(9, seed=2))).astype("float32") * np.float32(0.9)
    rows = [
        ("pow", lax.pow, (positive, drawn(9, seed=1))),
        ("pow-int", lambda x: lax.pow(x, jnp.arange(9)), (drawn(9),)),
        ("integer_pow", lambda x: lax.integer_pow(x, -3), (positive,)),
        ("igamma", lambda x: lax.igamma(np.float32(1.5), x), (positive,)),
        ("igammac", lambda x: lax.igammac(np.float32(1.5), x), (positive,)),
        ("betainc", lambda x: lax.betainc(np.float32(1.5), np.float32(2.0), x), (small,)),
        ("polygamma", lambda x: lax.polygamma(np.float32(2.0), x), (positive,)),
        ("zeta", lambda q: lax.zeta(np.float32(2.5), q), (positive,)),
        ("clamp", lambda x: lax.clamp(np.float32(-0.5), x, np.float32(0.7)), (drawn(9),)),
        ("select_n", lambda x: lax.select_n(x > 0, x * 2, x * 3), (drawn(9),)),
        ("complex", lambda x, y: jnp.abs(lax.complex(x, y)), (positive, positive)),
        ("reduce_precision", lambda x: lax.reduce_precision(x, 5, 7), (drawn(9),)),
    ]
    for name, function, operands in rows:
        yield Use(
            f"{name}-float32", function, operands, name not in ("reduce_precision", "zeta"), 3e-4
        )
    integers = [
        ("shift_left", lax.shift_left), ("shift_right_logical", lax.shift_right_logical),
        ("shift_right_arithmetic", lax.shift_right_arithmetic),
        *([("mulhi", lax.mulhi)] if hasattr(lax, "mulhi") else []),  # since JAX 0.10
        ("select_n", lambda a, b: lax.select_n(a % 3, b, a, b + 1)),
    ]  # fmt: skip
    given = np.arange(12, dtype="int32") % 5, np.arange(12, dtype="int32") % 7
    for name, function in integers:
        yield Use(f"{name}-int32", function, given, False)
    for dtype in ("int8", "uint8", "int32", "uint32"):
        bits = np.array([-5, 100, -128, 3, 1, 1], "int64").astype(dtype)
        places = np.array([1, 8, 31, -1, 64, 0], "int64").astype(dtype)
        for name, function in integers[:3]:
            yield Use(f"{name}-{dtype}-edges", function, (bits, places), False)
    if "out_dtype" in inspect.signature(lax.mul).parameters:  # since JAX 0.10
        function = lambda x: lax.mul(x, x, out_dtype="int32")  # noqa: E731
        yield Use("mul-wider", function, (np.array([-128, 127, 3], "int8"),), False)
    complexes = pairs("complex64")
    for name in ("max", "min"):
        yield Use(f"{name}-complex64", getattr(lax, name), complexes, False)
    inf = np.inf
    shapes = np.array([0, 0, 1, inf, 2, 0, -1.5], "f"), np.array([0, 1, 0, 1, inf, 2, 1], "f")
    at = np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0, 1], "f")
    yield Use("betainc-edges", lax.betainc, (*shapes, at), False)
    orders = np.array([1.025268, 3, 1e-3], "f"), np.array([2.5017664, 4.01, 1.01], "f")
    yield Use("digamma-poles", lax.digamma, (np.array([-1, -2, -1.5], "f"),))
    cube = lambda x: lax.integer_pow(x, -3)  # noqa: E731
    yield Use("integer_pow-float16", cube, (np.array([0.1, -0.11, 0.15], "float16"),))
    yield Use("igammac-mixed", lax.igammac, orders, False, 3e-6)
    signed = np.array([5, -7, 9, -9, 8], "int32"), np.array([3, 2, -4, 3, -3], "int32")
    yield Use("div-int32", lax.div, signed, False)
    yield Use("rem-int32", lax.rem, signed, False)


def conversions() -> Iterator[Use]:
    """Yield casts between all kinds of dtypes."""
    function: Callable[..., Any]
    z = edges("complex64")
    for target in ("float16", "bfloat16", "int32"):
        function = lambda x, t=target: lax.convert_element_type(x, jnp.dtype(t))  # noqa: E731
        yield Use(f"convert-complex64-{target}", function, (z,), False)
    for same in (z, z.real > 0):
        function = lambda x: lax.bitcast_convert_type(x, x.dtype)  # noqa: E731
        yield Use(f"bitcast-{same.dtype}", function, (same,), False)
    dtypes = ["int8", "uint8", "int32", "float32", "float16", "bfloat16", "bool", "complex64"]
    for source in dtypes:
        x = edges(jnp.dtype(source))
        kind = jnp.dtype(source).kind.replace("V", "f")
        if kind == "f":
            x = x[np.isfinite(x.astype("float32")) & (np.abs(x.astype("float32")) < 100)]
        for target in dtypes:
            if (source == "complex64") and target != "complex64":
                continue
            given = np.abs(x) if kind in "fi" and target.startswith("u") else x
            given = given % 100 if kind in "i" and "int8" in target else given
            function = lambda x, t=target: lax.convert_element_type(x, jnp.dtype(t))  # noqa: E731
            yield Use(f"convert-{source}-{target}", function, (given,), False)
    for source, target in (("float32", "int32"), ("float32", "uint8"), ("uint8", "uint32")):
        x = np.arange(8).reshape(2, 4).astype(source)
        function = lambda x, t=target: lax.bitcast_convert_type(x, jnp.dtype(t))  # noqa: E731
        yield Use(f"bitcast-{source}-{target}", function, (x,), False)


def shapes() -> Iterator[Use]:
    """Yield uses of primitives that move elements."""
    x, y, i = drawn(3, 4), drawn(2, 3, 4), np.int32(1)
    rows: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 5, 4), (1, 3)), (x,)),
        ("reshape", lambda x: lax.reshape(x, (2, 6)), (x,)),
        ("reshape-dimensions", lambda x: lax.reshape(x, (2, 6), (1, 0)), (x,)),
        ("transpose", lambda x: lax.transpose(x, (2, 0, 1)), (y,)),
        ("squeeze", lambda x: lax.squeeze(x[:, :1], (1,)), (x,)),
        ("expand_dims", lambda x: lax.expand_dims(x, (0, 2)), (x,)),
        ("rev", lambda x: lax.rev(x, (0, 1)), (x,)),
        ("concatenate", lambda x, y: lax.concatenate([x, y, x], 1), (x, x)),
        ("stack", lambda x: jnp.stack([x, 2 * x], 1), (x,)),
        ("unstack", lambda x: jnp.unstack(x, axis=1), (x,)),
        ("split", lambda x: lax.split(x, (1, 3), 1), (x,)),
        # JAX 0.8 has no tile.
        *([("tile", lambda x: lax.tile(x, (2, 3)), (x,))] if hasattr(lax, "tile") else []),
        ("pad", lambda x, v: lax.pad(x, v, ((1, 2, 1), (-1, 0, 2))), (x, np.float32(3))),
        ("pad-negative", lambda x, v: lax.pad(x, v, ((-1, 0, 0), (1, -2, 0))), (x, np.float32(3))),
        ("iota", lambda x: x + lax.broadcasted_iota(x.dtype, x.shape, 1), (x,)),
        ("iota-complex64", lambda x: x + lax.broadcasted_iota("complex64", (3, 4), 1).real, (x,)),
        ("slice", lambda x: lax.slice(x, (1, 0), (3, 4), (1, 2)), (x,)),
        ("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, i * 3), (2, 2)), (x, i)),
        ("dynamic_slice-outside", lambda x, i: lax.dynamic_slice(x, (i + 9, -i), (2, 2)), (x, i)),
        ("dynamic_slice-before", lambda x, i: lax.dynamic_slice(x, (i - 9, i), (2, 2)), (x, i)),
        (
            "dynamic_update_slice",
            lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i * 5)),
            (x, drawn(2, 2), i),
        ),
    ]
    for name, function, operands in rows:
        yield Use(name, function, operands)


def _gather(mode: str, numbers: lax.GatherDimensionNumbers, sizes: Any) -> Callable[..., Any]:
    return lambda x, i: lax.gather(x, i, numbers, sizes, mode=mode)


def indexing() -> Iterator[Use]:
    """Yield gathers and scatters of all modes."""
    function: Callable[..., Any]
    x, wide = drawn(5, 4), drawn(3, 5, 4)
    places = np.array([[0], [4], [2]], "int32")
    outside = np.array([[0], [7], [-2], [4]], "int32")
    both = np.array([[0, 1], [4, 3], [2, 9]], "int32")
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    blocks = lax.GatherDimensionNumbers((1, 2), (), (0, 1))
    batched = lax.GatherDimensionNumbers((1,), (1,), (1,), (0,), (0,))
    for mode in ("clip", "fill", "promise_in_bounds"):
        index = places if mode == "promise_in_bounds" else outside
        yield Use(f"gather-rows-{mode}", _gather(mode, rows, (1, 4)), (x, index), mode != "fill")
        index = np.minimum(both, 2) if mode == "promise_in_bounds" else both
        yield Use(
            f"gather-blocks-{mode}", _gather(mode, blocks, (2, 2)), (x, index), mode != "fill"
        )
    yield Use("gather-batched", _gather("clip", batched, (1, 1, 4)), (wide, places))
    scatters = {
        "scatter": lax.scatter, "scatter_add": lax.scatter_add, "scatter_sub": lax.scatter_sub,
        "scatter_mul": lax.scatter_mul, "scatter_min": lax.scatter_min,
        "scatter_max": lax.scatter_max,
    }  # fmt: skip
    of_rows = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    of_blocks = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    of_batches = lax.ScatterDimensionNumbers((1,), (1,), (1,), (0,), (0,))
    for name, scatter in scatters.items():
        smooth = name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul")
        for mode in ("clip", "fill", "promise_in_bounds"):
            index = outside if mode == "fill" else places
            function = lambda x, i, u, s=scatter, m=mode: s(  # noqa: E731
                x, i, u, of_rows, mode=m, unique_indices=True
            )
            update = drawn(len(index), 4, seed=1)
            yield Use(f"{name}-rows-{mode}", function, (x, index, update), smooth)
        function = lambda x, i, u, s=scatter: s(x, i, u, of_blocks, mode="fill")  # noqa: E731
        yield Use(f"{name}-blocks", function, (x, both, drawn(3, 2, 2)), False)
        function = lambda x, i, u, s=scatter: s(x, i, u, of_batches, mode="clip")  # noqa: E731
        yield Use(f"{name}-batched", function, (wide, places, drawn(3, 4)), False)
    repeated = np.array([[1], [1], [3]], "int32")
    for mode in ("clip", "drop"):
        function = lambda x, i, m=mode: x.at[i].apply(jnp.tanh, mode=m)  # noqa: E731
        yield Use(f"scatter-apply-{mode}", function, (x, np.array([1, 7, 1], "int32")), False)
    function = lambda x, i: x.at[i].apply(jnp.exp, unique_indices=True)  # noqa: E731
    yield Use("scatter-apply-unique", function, (x, np.array([1, 7, 3], "int32")), False)
    function = lambda x, i, u: lax.scatter_add(x, i, u, of_rows)  # noqa: E731
    yield Use("scatter_add-repeated", function, (x, repeated, drawn(3, 4)))
    yield Use("searchsorted", jnp.searchsorted, (np.sort(drawn(9)), drawn(2, 3, seed=1)), False)
    rows_of_numpy: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("index", lambda x, i: x[i], (x, np.array([0, -1, 2], "int32"))),
        ("index-two", lambda x, i: x[i, i], (x, np.array([0, -1, 2], "int32"))),
        ("index-set", lambda x, i: x.at[i].set(2.0), (jnp.asarray(x), np.array([0, 3], "int32"))),
        ("take_along_axis", lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), (x,)),
    ]
    for name, function, operands in rows_of_numpy:
        yield Use(name, function, operands)


def folds() -> Iterator[Use]:
    """Yield reductions, running folds, windows and sorts."""
    function: Callable[..., Any]
    x = drawn(3, 4, 5)
    for name in ("sum", "prod", "max", "min"):
        fold = getattr(lax, f"reduce_{name}")
        yield Use(f"reduce_{name}", lambda x, f=fold: f(x, (0, 2)), (x,))
        integers = drawn(3, 4, 5, dtype="int32")
        yield Use(f"reduce_{name}-int32", lambda x, f=fold: f(x, (1,)), (integers,), False)
    z = drawn(3, 4, dtype="complex64").round()
    for name in ("max", "min"):
        fold, running = getattr(lax, f"reduce_{name}"), getattr(lax, f"cum{name}")
        yield Use(f"reduce_{name}-complex64", lambda x, f=fold: f(x, (0,)), (z,), False)
        yield Use(f"cum{name}-complex64", lambda x, f=running: f(x, 1), (z,), False)
    for name in ("and", "or", "xor"):
        fold = getattr(lax, f"reduce_{name}")
        integers = drawn(3, 4, 5, dtype="int32")
        yield Use(f"reduce_{name}-int32", lambda x, f=fold: f(x, (1,)), (integers,), False)
        yield Use(f"reduce_{name}-bool", lambda x, f=fold: f(x > 0, (1,)), (x,), False)
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        fold = getattr(lax, name)
        for reverse in (False, True):
            function = lambda x, f=fold, r=reverse: f(x, 1, reverse=r)  # noqa: E731
            yield Use(f"{name}-{reverse}", function, (x,), tolerance=1e-4)
    searches: tuple[Any, ...] = (lax.argmax, lax.argmin)
    for fold in searches:
        ties = np.array([[1, 3, 3], [np.nan, 1, 2]], "float32")
        yield Use(fold.__name__, lambda x, f=fold: f(x, 1, "int32"), (ties,), False)
    yield Use("reduce-any", lambda x: lax.reduce(x, np.float32(1), lambda a, b: a * b, (1,)), (x,))
    function = lambda x: lax.reduce(  # noqa: E731
        (x, 2 * x), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0, 2)
    )
    yield Use("reduce-pair", function, (x,), False)
    windows: list[tuple[str, dict[str, Any]]] = [
        ("plain", {"padding": "VALID"}),
        ("same", {"padding": "SAME"}),
        ("padded", {"padding": ((0, 0), (1, 2), (2, 0))}),
        ("dilated", {"padding": "VALID", "window_dilation": (1, 2, 1)}),
        ("spread", {"padding": ((0, 0), (1, 1), (0, 0)), "base_dilation": (1, 2, 2)}),
    ]
    for kind, given in windows:
        for name, start, fold in (
            ("max", -np.inf, lax.max), ("min", np.inf, lax.min), ("add", 0.0, lax.add),
        ):  # fmt: skip
            function = lambda x, s=start, f=fold, g=given: lax.reduce_window(  # noqa: E731
                x, np.float32(s), f, (1, 2, 3), (1, 1, 2), **g
            )
            smooth = name == "add" or kind != "dilated"  # JAX has no derivative of others
            yield Use(f"reduce_window-{name}-{kind}", function, (x,), smooth)
    function = lambda x: lax.reduce_window(  # noqa: E731
        x, np.float32(0), lambda a, b: a + b + a * b, (1, 2, 2), (1, 1, 1), "VALID"
    )
    yield Use("reduce_window-any", function, (x,), False)
    ties = np.maximum(drawn(2, 6, 6), 0)
    pool: Any = lambda x: lax.reduce_window(  # noqa: E731
        x, np.float32(-np.inf), lax.max, (1, 3, 3), (1, 2, 2), "SAME"
    )
    yield Use("select_and_scatter_add", jax.grad(lambda x: (pool(x) ** 2).sum()), (ties,), False)
    for dtype in ("int32", "uint8"):  # its operands are of floats in JAX's own programs
        rows = np.random.default_rng(0).integers(0, 5, (6, 6)).astype(dtype)
        function = lambda s, x: select_and_scatter_add(  # noqa: E731
            s, x, lax.ge_p, (3, 3), (2, 2), ((0, 1), (1, 0))
        )
        steps = rows[:3, :3] + rows.dtype.type(1)
        yield Use(f"select_and_scatter_add-{dtype}", function, (steps, rows), False)
    push = lambda x, t: jax.jvp(pool, (x,), (t,))[1]  # noqa: E731
    yield Use("select_and_gather_add", push, (ties, drawn(2, 6, 6)), False)
    yield Use("sort", lambda x: lax.sort(x, dimension=1), (x,))
    keys = np.array([[2, 1, 2, 1], [0, 0, 1, 0]], "int32")
    function = lambda k, x: lax.sort((k, x, -x), dimension=1, num_keys=2)  # noqa: E731
    yield Use("sort-keys", function, (keys, drawn(2, 4)), False)
    z = drawn(5, 4, dtype="complex64").round()
    yield Use("sort-complex64", lambda x: lax.sort(x, dimension=0), (z,), False)
    nan = np.array([3, np.nan, -np.inf, 1, np.inf, -0.0, 0.0], "float32")
    yield Use("sort-nan", lax.sort, (nan,), False)
    yield Use("top_k", lambda x: lax.top_k(x, 2), (x,), False)
    yield Use("top_k-bool", lambda x: lax.top_k(x, 2), (x > 0,), False)
    yield Use("approx_max_k", lambda x: lax.approx_max_k(x, 2), (x,), False)


def products() -> Iterator[Use]:
    """Yield products, convolutions and Fourier transforms."""
    function: Callable[..., Any]
    a, b = drawn(2, 3, 4), drawn(2, 4, 5)
    numbers = (((2,), (1,)), ((0,), (0,)))
    yield Use("dot_general", lambda a, b: lax.dot_general(a, b, numbers), (a, b))
    outer = lambda a, b: lax.dot_general(a, b, (((), ()), ((0,), (0,))))  # noqa: E731
    yield Use("dot_general-outer", outer, (a, b))
    wide = lambda a, b: lax.dot_general(  # noqa: E731
        a, b, numbers, preferred_element_type=jnp.int32
    )
    codes = 40 * drawn(2, 3, 4, dtype="int8"), 40 * drawn(2, 4, 5, dtype="int8")
    yield Use("dot_general-int8", wide, codes, False)
    sizes = np.array([1, 0, 4], "int32")
    ragged = lambda a, b, s: lax.ragged_dot(a, b, s)  # noqa: E731
    yield Use("ragged_dot", ragged, (drawn(5, 3), drawn(3, 3, 2), sizes), False)
    x, taps = drawn(2, 4, 7, 6), drawn(6, 4, 3, 2)
    convolutions: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("plain", x, taps, {"window_strides": (1, 1), "padding": "VALID"}),
        ("strided", x, taps, {"window_strides": (2, 1), "padding": "SAME"}),
        ("dilated", x, taps, {
            "window_strides": (1, 2), "padding": ((2, 1), (0, 3)), "lhs_dilation": (2, 1),
            "rhs_dilation": (1, 2)}),
        ("grouped", x, drawn(6, 2, 3, 2), {
            "window_strides": (1, 1), "padding": "VALID", "feature_group_count": 2}),
        ("batched", x, drawn(6, 4, 3, 2), {
            "window_strides": (1, 1), "padding": "VALID", "batch_group_count": 2}),
        ("channels-last", drawn(2, 7, 6, 4), drawn(3, 2, 4, 6), {
            "window_strides": (1, 1), "padding": "SAME",
            "dimension_numbers": ("NHWC", "HWIO", "NHWC")}),
    ]  # fmt: skip
    for kind, image, filters, given in convolutions:
        function = lambda x, w, g=given: lax.conv_general_dilated(x, w, **g)  # noqa: E731
        yield Use(f"conv-{kind}", function, (image, filters), tolerance=1e-4)
    halves = drawn(4, 3, dtype="float16"), drawn(3, 6, dtype="float16")
    plain = (((1,), (0,)), ((), ()))
    wide = lambda a, b: lax.dot_general(  # noqa: E731
        a, b, plain, preferred_element_type=np.dtype("float32")
    )
    yield Use("dot_general-float16-float32", wide, halves, False)
    product = lambda a, b: lax.dot_general(a, b, plain)  # noqa: E731
    mixed = drawn(4, 3, dtype="int8"), np.abs(drawn(3, 6, dtype="int32")).astype("uint32")
    yield Use("dot_general-int8-uint32", product, mixed, False)
    yield Use("dot_general-bool", product, (drawn(4, 3) > 0, drawn(3, 6) > 0), False)
    for dtype in ("int8", "int32", "complex64"):
        image, filters = drawn(2, 3, 7, 6, dtype=dtype) * 9, drawn(4, 3, 3, 2, dtype=dtype) * 5
        function = lambda x, w: lax.conv_general_dilated(x, w, (1, 2), "SAME")  # noqa: E731
        operands = image.astype(dtype), filters.astype(dtype)
        yield Use(f"conv-{dtype}", function, operands, False, 1e-3)
    z = drawn(3, 8, dtype="complex64")
    yield Use("fft", lambda x: lax.fft(x, lax.FftType.FFT, (8,)), (z,), False)
    yield Use("ifft-2", lambda x: lax.fft(x, lax.FftType.IFFT, (3, 8)), (z,), False)
    spectrum = lambda x: jnp.abs(lax.fft(x, lax.FftType.RFFT, (8,)))  # noqa: E731
    yield Use("rfft", spectrum, (drawn(3, 8),), tolerance=1e-4)
    yield Use("irfft", lambda x: lax.fft(x, lax.FftType.IRFFT, (8,)), (z[:, :5],), False)


def linear_algebra() -> Iterator[Use]:
    """Yield decompositions and solvers."""
    a = drawn(2, 4, 4)
    positive = a @ np.swapaxes(a, 1, 2) + 4 * np.eye(4, dtype="float32")
    b = drawn(2, 4, 3, seed=1)
    rows: list[tuple[str, Callable[..., Any], tuple[Any, ...], bool]] = [
        ("cholesky", jnp.linalg.cholesky, (positive,), True),
        ("solve", jnp.linalg.solve, (positive, b), True),
        ("lu", lambda a: lax.linalg.lu(a), (positive,), False),
        ("det", jnp.linalg.det, (positive,), True),
        ("inv", jnp.linalg.inv, (positive,), True),
        ("qr", lambda a: jnp.abs(jnp.linalg.qr(a)[1]), (positive,), True),
        ("qr-complete", lambda a: jnp.linalg.qr(a, mode="complete"), (b[:, :, :2],), True),
        ("qr-raw", lambda a: jnp.linalg.qr(a, mode="raw"), (positive,), False),
        ("eigh", lambda a: jnp.linalg.eigh(a)[0], (positive,), True),
        ("eigvals", lambda a: jnp.sort(jnp.linalg.eigvals(a).real), (positive,), False),
        ("svd", lambda a: jnp.linalg.svd(a)[1], (positive,), True),
        ("svdvals", lambda a: jnp.linalg.svd(a, compute_uv=False), (positive,), True),
        (
            "triangular_solve",
            lambda a, b: lax.linalg.triangular_solve(
                a, b, left_side=True, lower=True, transpose_a=True
            ),
            (positive, b),
            True,
        ),
        (
            "triangular_solve-right",
            lambda a, b: lax.linalg.triangular_solve(a, b, unit_diagonal=True),
            (positive / 9, np.swapaxes(b, 1, 2)),
            True,
        ),
        (
            "tridiagonal_solve",
            lambda d, b: lax.linalg.tridiagonal_solve(d / 9, d, d / 7, b),
            (np.abs(drawn(2, 4)) + 1, b),
            False,
        ),
        ("expm", lambda a: jax.scipy.linalg.expm(a / 5), (a,), False),
        ("householder_product", lambda a: jnp.linalg.qr(a)[0] ** 2, (positive,), False),
    ]
    for name, function, operands, smooth in rows:
        given = tuple(np.asarray(x, "float32") for x in operands)
        yield Use(name, function, given, smooth, 2e-3)


def all_uses() -> list[Use]:
    """Return every use."""
    families = (
        elementwise, conversions, shapes, indexing, folds, products, linear_algebra,
    )  # fmt: skip
    return [use for family in families for use in family()]
