"""Random graphs over all dtypes, for comparing compiled code with the reference.

    @given(typed_graphs())
    def test_compiled_code_means_what_the_reference_says(graph): ...

Two right implementations differ by rounding, so nothing here magnifies it: values stay within a
known bound, and ops that jump (comparisons, roundings, searches, casts to integers) are applied
to `exact` values alone, which every implementation computes to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OpDef
from rlx.ir.shape import Dim, upper
from rlx.runtime.signature import concrete

Array = NDArray[Any]

LARGEST_EXTENT = 7
SMALL = ((), (3,), (1,), (2, 3), (2, 1), (1, 3), (4, 2, 3), (2, 3, 3), (3, 3))
LARGE = ((130,), (97, 70), (1, 70), (97, 1), (3, 70, 97), (70, 97))
"""Enough work for several threads, in extents that no vector divides."""

_DTYPES = (DType.F32,) * 5 + tuple(d for d in DType if not d.is_storage)
_LIMIT = {DType.F16: 60.0, DType.BF16: 60.0}
_MOST_ELEMENTS = 1 << 15


@dataclass(frozen=True)
class Item:
    """A value, the largest magnitude it can have, and whether all implementations agree on it."""

    value: Value
    bound: float
    exact: bool = True

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def rank(self) -> int:
        return self.value.rank


Pool = list[Item]
Step = Callable[[st.DrawFn, Pool], Sequence[Item]]


@st.composite
def typed_graphs(
    draw: st.DrawFn,
    *,
    most_steps: int = 16,
    shapes: tuple[tuple[int, ...], ...] = SMALL,
    dtypes: tuple[DType, ...] = _DTYPES,
    symbolic: bool = False,
    donations: bool = True,
) -> Graph:
    """A valid graph with leaves of `dtypes`.

    With `symbolic` it has inputs of extent `n`, 1 to `LARGEST_EXTENT`.
    """
    graph = Graph("typed")
    pool = [
        _leaf(declare, f"{letter}{i}", draw(st.sampled_from(dtypes)), draw(st.sampled_from(shapes)))
        for declare, letter, least, most in ((graph.input, "x", 1, 4), (graph.param, "w", 0, 2))
        for i in range(draw(st.integers(least, most)))
    ]
    if symbolic:
        n = Dim("n", min=1, max=LARGEST_EXTENT)
        pool += [Item(graph.input("rows", (n, 3)), 2.0), Item(graph.input("columns", (2, n)), 2.0)]
    for _ in range(draw(st.integers(2, most_steps))):
        pool.extend(item for item in draw(st.sampled_from(STEPS))(draw, pool) if _is_modest(item))
    values = [item.value for item in pool]
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=5))
    outputs.append(values[-1])
    graph.set_outputs(outputs, donated=_donations(draw, graph, outputs) if donations else {})
    return graph


def f32_graphs(*, most_steps: int = 14, donations: bool = True) -> st.SearchStrategy[Graph]:
    """Graphs of f32 operands, with values of other dtypes here and there."""
    return typed_graphs(most_steps=most_steps, dtypes=(DType.F32,), donations=donations)


def typed_feeds(graph: Graph, seed: int = 0, n: int = 1) -> dict[str, Array]:
    """Return an array for every input and param, many equal numbers among them."""
    random = np.random.default_rng(seed)
    return {
        str(leaf.node.name): _numbers(random, concrete(leaf.shape, {"n": n}), leaf.dtype)
        for leaf in (*graph.inputs, *graph.params)
    }


def _numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_complex:
        parts = random.integers(-8, 9, (2, *shape)) / 8
        return np.asarray(parts[0] + 1j * parts[1], dtype.numpy)
    if dtype.is_float:
        return np.asarray(random.integers(-16, 17, shape) / 8).astype(dtype.numpy)
    low = -9 if dtype.is_signed_int else 0
    return np.asarray(random.integers(low, 10, shape)).astype(dtype.numpy)


def _leaf(declare: Callable[..., Value], name: str, dtype: DType, shape: tuple[int, ...]) -> Item:
    return Item(declare(name, shape, dtype), 9.0 if dtype.is_int else 2.0)


def _donations(draw: st.DrawFn, graph: Graph, outputs: list[Value]) -> dict[Value, Value]:
    chosen: dict[Value, Value] = {}
    for leaf in (*graph.inputs, *graph.params):
        fitting = [o for o in outputs if o.type == leaf.type and o not in chosen.values()]
        wanted: bool = draw(st.booleans())
        if fitting and wanted:
            chosen[leaf] = draw(st.sampled_from(fitting))
    return chosen


def _is_modest(item: Item) -> bool:
    if upper(item.value.type.elements) > _MOST_ELEMENTS:
        return False
    inexact = item.dtype.is_float or item.dtype.is_complex
    return item.bound <= _LIMIT.get(item.dtype, 1000.0) or not inexact


def _pick(draw: st.DrawFn, pool: Pool, fits: Callable[[Item], bool]) -> Item | None:
    fitting = [item for item in pool if fits(item)]
    return draw(st.sampled_from(fitting[-10:])) if fitting else None


def _is_float(item: Item) -> bool:
    return item.dtype.is_float


def _rounds(dtype: DType) -> bool:
    """True where fused code may keep more digits between two ops than are stored."""
    return dtype.is_low_precision or dtype.is_complex


# Elementwise

_SMOOTH = (
    *(ops.tanh, ops.sigmoid, ops.sin, ops.cos, ops.erf, ops.atan, ops.asinh),
    *(ops.gelu, ops.gelu_approx, ops.silu, ops.softplus, ops.log_sigmoid, ops.elu, ops.mish),
    *(ops.hard_swish, ops.leaky_relu),
)
_ROUNDINGS = (ops.floor, ops.ceil, ops.round, ops.trunc, ops.sign)


def _smooth(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, _is_float)
    if x is None:
        return []
    return [Item(draw(st.sampled_from(_SMOOTH))(x.value), 1.7 * x.bound + 1.6, exact=False)]


def _guarded(draw: st.DrawFn, pool: Pool) -> list[Item]:
    """Functions with a pole or fast growth, kept away from them."""
    x = _pick(draw, pool, _is_float)
    if x is None:
        return []
    safe = ops.abs(x.value) + 1.0
    made = [
        lambda: Item(ops.exp(ops.minimum(x.value, 1.0)), 3.0, exact=False),
        lambda: Item(ops.expm1(ops.minimum(x.value, 1.0)), 3.0, exact=False),
        lambda: Item(ops.log(safe), x.bound, exact=False),
        lambda: Item(ops.sqrt(safe), x.bound + 1, exact=False),
        lambda: Item(ops.rsqrt(safe), 1.0, exact=False),
        lambda: Item(ops.reciprocal(safe), 1.0, exact=False),
        lambda: Item(x.value / safe, 1.0, exact=False),
        lambda: Item(ops.pow(safe, 0.5), x.bound + 1, exact=False),
        lambda: Item(ops.log1p(safe), x.bound + 1, exact=False),
    ]
    return [draw(st.sampled_from(made))()]


def _plain(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: item.dtype is not DType.BOOL)
    if x is None:
        return []
    wide = x.bound if x.dtype.is_signed_int or x.dtype.is_float or x.dtype.is_complex else np.inf
    choices: list[tuple[OpDef, float]] = [(ops.neg, wide), (ops.square, x.bound**2)]
    if not x.dtype.is_complex:
        choices += [(ops.abs, wide), (ops.relu, x.bound)]
        choices += [(op, x.bound + 1) for op in _ROUNDINGS if x.exact]
    op, bound = draw(st.sampled_from(choices))
    return [Item(op(x.value), bound, x.exact and not _rounds(x.dtype))]


def _binary(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: item.dtype is not DType.BOOL)
    if x is None:
        return []
    y = _pick(draw, pool, lambda item: item.dtype is x.dtype and _broadcast(x.value, item.value))
    assert y is not None
    total, most = x.bound + y.bound, max(x.bound, y.bound)
    low = np.inf if x.dtype in (DType.U8, DType.U32) else total
    choices = [(ops.add, total), (ops.sub, low), (ops.mul, x.bound * y.bound)]
    if not x.dtype.is_complex:
        choices += [(ops.maximum, most), (ops.minimum, most)]
    if x.dtype.is_int:
        choices += [(ops.div, np.inf), (ops.mod, np.inf), (ops.pow, np.inf)]
    op, bound = draw(st.sampled_from(choices))
    return [Item(op(x.value, y.value), bound, x.exact and y.exact and not _rounds(x.dtype))]


def _scalar(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, _is_float)
    if x is None:
        return []
    number = draw(st.sampled_from((0.0, -0.0, 1.0, -1.0, 2.0, 0.5)))
    op = draw(st.sampled_from((ops.add, ops.sub, ops.mul)))
    pair = (x.value, number) if draw(st.booleans()) else (number, x.value)
    return [Item(op(*pair), 2 * x.bound + 2, x.exact and not _rounds(x.dtype))]


def _compare(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: item.exact and not item.dtype.is_complex)
    if x is None:
        return []
    y = _pick(draw, pool, lambda i: i.exact and i.dtype is x.dtype and _broadcast(x.value, i.value))
    assert y is not None
    op = draw(st.sampled_from((ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge)))
    return [Item(op(x.value, y.value), 1.0)]


def _logic(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: item.dtype is DType.BOOL)
    if x is None:
        return []
    y = _pick(draw, pool, lambda i: i.dtype is DType.BOOL and _broadcast(x.value, i.value))
    assert y is not None
    op = draw(st.sampled_from((ops.logical_and, ops.logical_or, ops.logical_xor)))
    return [Item(ops.logical_not(op(x.value, y.value)), 1.0)]


def _where(draw: st.DrawFn, pool: Pool) -> list[Item]:
    condition = _pick(draw, pool, lambda item: item.dtype is DType.BOOL)
    x = _pick(draw, pool, lambda _: True)
    if condition is None or x is None or not _broadcast(condition.value, x.value):
        return []
    y = _pick(draw, pool, lambda item: item.value.type == x.value.type)
    assert y is not None
    chosen = ops.where(condition.value, x.value, y.value)
    return [Item(chosen, max(x.bound, y.bound), x.exact and y.exact)]


def _cast(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: not item.dtype.is_complex)
    if x is None:
        return []
    to = draw(st.sampled_from([d for d in DType if not d.is_complex and not d.is_storage]))
    if not (x.exact or to.is_float) or (to.is_float and not x.bound <= 1000):
        return []
    rounded = to.is_float and not x.dtype.is_int and x.dtype is not to
    return [
        Item(ops.cast(x.value, to=to), np.inf if to.is_int else x.bound, x.exact and not rounded)
    ]


def _complex(draw: st.DrawFn, pool: Pool) -> list[Item]:
    z = _pick(draw, pool, lambda item: item.dtype.is_complex)
    x = _pick(draw, pool, lambda item: item.dtype is DType.F32)
    made = [] if x is None else [Item(ops.complex(x.value, -x.value), 2 * x.bound, x.exact)]
    if z is not None:
        made += [
            Item(ops.conj(z.value), z.bound, exact=False),
            Item(ops.real(z.value), z.bound, exact=False),
            Item(ops.imag(z.value), z.bound, exact=False),
            Item(ops.complex_norm_sq(z.value), 2 * z.bound**2, exact=False),
        ]
    return [draw(st.sampled_from(made))] if made else []


# Movement


def _move(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda _: True)
    if x is None:
        return []
    v, rank = x.value, x.rank
    moved: list[Callable[[], Value]] = [
        lambda: ops.reshape(v, shape=(-1,)),
        lambda: ops.reshape(v, shape=(1, *v.shape)),
        lambda: ops.transpose(v, perm=tuple(draw(st.permutations(range(rank))))),
        lambda: ops.stop_gradient(v),
    ]
    if rank < 4:
        moved.append(lambda: ops.expand(v, shape=(2, *v.shape)))
    if rank:
        axis = draw(st.integers(0, rank - 1))
        moved += [
            lambda: ops.concat(v, v, axis=axis),
            lambda: ops.reverse(v, axes=(axis,)),
            lambda: _narrowed(draw, v, axis),
        ]
    return [Item(draw(st.sampled_from(moved))(), x.bound, x.exact)]


def _narrowed(draw: st.DrawFn, v: Value, axis: int) -> Value:
    extent = v.shape[axis]
    most = extent if isinstance(extent, int) else 1
    start = draw(st.integers(0, max(most - 1, 0)))
    length = draw(st.integers(min(1, most), most - start))
    return ops.narrow(v, axis=axis, start=start, length=length)


# Folds, rows and products


def _reduce(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: item.rank > 0 and item.dtype is not DType.BOOL)
    if x is None:
        return []
    axes = tuple(draw(st.sets(st.integers(0, x.rank - 1), min_size=1, max_size=2)))
    options = {"axes": axes, "keepdims": draw(st.booleans())}
    count = float(np.prod([upper(x.value.shape[axis]) for axis in axes]))
    exact = x.exact and x.dtype.is_int
    choices: list[tuple[OpDef, float, bool]] = [(ops.reduce_sum, x.bound * count, exact)]
    if x.dtype.is_float or x.dtype.is_complex:
        choices.append((ops.reduce_mean, x.bound, False))
    if not x.dtype.is_complex:
        choices += [(ops.reduce_max, x.bound, x.exact), (ops.reduce_min, x.bound, x.exact)]
    if x.dtype.is_int or count * math.log(max(x.bound, 1.0)) <= math.log(1000):
        choices.append((ops.reduce_prod, np.inf if x.dtype.is_int else x.bound**count, exact))
    op, bound, stays = draw(st.sampled_from(choices))
    return [Item(op(x.value, **options), max(bound, x.bound), stays)]


def _search(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda i: i.exact and i.rank > 0 and (i.dtype.is_int or i.dtype.is_float))
    if x is None:
        return []
    if draw(st.booleans()) and isinstance(x.value.shape[-1], int):
        values, places = ops.topk(x.value, k=draw(st.integers(0, min(3, x.value.shape[-1]))))
        return [Item(values, x.bound), Item(places, float(x.value.shape[-1]))]
    op = draw(st.sampled_from((ops.argmax, ops.argmin)))
    axis = draw(st.integers(0, x.rank - 1))
    if x.value.shape[axis] == 0:
        return []
    return [Item(op(x.value, axis=axis, keepdims=draw(st.booleans())), 1000.0)]


def _row_wise(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: item.rank > 0 and item.dtype.is_float)
    if x is None:
        return []
    axis = draw(st.integers(0, x.rank - 1))
    extent = x.value.shape[axis]
    if extent == 0:
        return []
    gain = x.value.graph.constant(np.linspace(-1, 1, upper(extent)), x.dtype)
    made = [
        lambda: Item(ops.softmax(x.value, axis=axis), 1.0, exact=False),
        lambda: Item(ops.log_softmax(x.value, axis=axis), 2 * x.bound + 10, exact=False),
        lambda: Item(ops.logsumexp(x.value, axes=(axis,)), x.bound + 10, exact=False),
        lambda: Item(ops.cumsum(x.value, axis=axis), x.bound * upper(extent), exact=False),
    ]
    if isinstance(extent, int):
        made += [
            lambda: Item(
                ops.layer_norm(x.value, gain, gain, axis=axis, eps=0.5), 20.0, exact=False
            ),
            lambda: Item(ops.rms_norm(x.value, gain, axis=axis, eps=0.5), 20.0, exact=False),
        ]
    return [draw(st.sampled_from(made))()]


def _product(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: item.rank >= 2 and item.dtype is not DType.BOOL)
    if x is None:
        return []
    y = _pick(draw, pool, lambda i: i.dtype is x.dtype and _multiplies(x.value, i.value)) or x
    swapped = (*range(y.rank - 2), y.rank - 1, y.rank - 2)
    other = y.value if _multiplies(x.value, y.value) else ops.transpose(y.value, perm=swapped)
    bound = x.bound * y.bound * upper(x.value.shape[-1])
    if not x.dtype.is_int and bound > _LIMIT.get(x.dtype, 1000.0):
        return []
    exact = x.exact and y.exact and x.dtype.is_int
    return [Item(ops.matmul(x.value, other), np.inf if x.dtype.is_int else bound, exact)]


def _index(draw: st.DrawFn, pool: Pool) -> list[Item]:
    x = _pick(draw, pool, lambda item: item.rank > 0 and isinstance(item.value.shape[0], int))
    if x is None or x.value.shape[0] == 0:
        return []
    size = upper(x.value.shape[0])
    places = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4))
    at = x.value.graph.constant(np.array(places), draw(st.sampled_from(("i32", "i64"))))
    taken = Item(ops.gather(x.value, at, axis=0), x.bound, x.exact)
    if x.dtype is DType.BOOL or draw(st.booleans()):
        return [taken]
    added = ops.scatter_add(taken.value, at, size=size)
    bound = np.inf if x.dtype.is_int else 4 * x.bound
    return [taken, Item(added, bound, x.exact and x.dtype.is_int)]


STEPS: tuple[Step, ...] = (
    *(_smooth, _smooth, _guarded, _plain, _plain, _binary, _binary, _binary, _scalar, _compare),
    *(_logic, _where, _cast, _cast, _complex, _move, _move, _move, _reduce, _reduce, _search),
    *(_row_wise, _row_wise, _product, _product, _index),
)


def _broadcast(a: Value, b: Value) -> bool:
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(m == n or m == 1 or n == 1 for m, n in pairs)


def _multiplies(a: Value, b: Value) -> bool:
    return b.rank == 2 and a.shape[-1] == b.shape[0]
