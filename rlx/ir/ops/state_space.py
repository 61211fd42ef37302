"""Recurrent layers as scans over time: their carry is the state of the sequence model."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.composite import composite
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.ir.ops.bounded_scan import scan_chunks, scan_to_extent
from rlx.ir.ops.elementwise import cast, exp, where
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.reduction import cumsum, reduce_sum
from rlx.ir.ops.shape import expand, narrow, reshape, transpose
from rlx.ir.ops.solve import triangular_solve
from rlx.ir.shape import Shape, upper
from rlx.ir.types import TensorType

_FAMILY = "control"

_CHUNK = 64
"""Steps of the delta rule that are taken together."""
_LEAST_CHUNK = 8
"""Below this they are taken one by one."""


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def selective_scan(
    x: Value, delta: Value, a: Value, b: Value, c: Value, *, state_size: int
) -> Value:
    """Mamba's scan: `H = exp(delta * a) * H + (delta * b) * x`, `y = sum(c * H)` per channel.

    `x` and `delta` are `[batch, steps, channels]`, `a` is `[channels, state_size]`, `b` and `c`
    are `[batch, steps, state_size]`. The state starts at zero; 16-bit floats compute in f32. All
    extents but `state_size` may be symbolic.
    """
    given = [_wide(value) for value in (x, delta, a, b, c)]
    batch, steps, channels = _shape(x, 3, "x")
    for name, value, shape in (
        ("delta", delta, (batch, steps, channels)),
        ("a", a, (channels, state_size)),
        ("b", b, (batch, steps, state_size)),
        ("c", c, (batch, steps, state_size)),
    ):
        _require(name, value, shape)
    state = _zeros(x.graph, given[0].dtype, (batch, channels, state_size))
    rows = [_time_first(given[i]) for i in (0, 1, 3, 4)]
    body = _selective_step(state.type, given[2].type, [row.type for row in rows])
    _, y = scan_to_extent((state,), (given[2],), rows, body=body, length=steps)
    return _narrowed(_time_first(y), x)


def _selective_step(state: TensorType, a: TensorType, rows: list[TensorType]) -> Graph:
    step = Graph("selective_step")
    h, rate = _input(step, "state", state), _input(step, "a", a)
    x, delta, b, c = (
        _input(step, name, type.with_shape(type.shape[1:]))
        for name, type in zip(("x", "delta", "b", "c"), rows, strict=True)
    )
    wide_x, wide_delta = _with_axis(x, 2), _with_axis(delta, 2)
    decay = exp(wide_delta * rate)
    following = decay * h + (wide_delta * _with_axis(b, 1)) * wide_x
    y = reduce_sum(_with_axis(c, 1) * following, axes=(2,))
    step.set_outputs([following, y])
    return step


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def gated_delta_net(
    q: Value,
    k: Value,
    v: Value,
    g: Value,
    beta: Value,
    state: Value | None = None,
    *,
    state_size: int,
) -> tuple[Value, Value]:
    """Gated delta rule per head: decay the state, correct it towards `v` at key `k`, read `q`.

    `q`, `k`, `v` are `[batch, steps, heads, state_size]`, `g` (a log gate) and `beta` are
    `[batch, steps, heads]`; the state `[batch, heads, state_size, state_size]` starts at zero if
    none is given. Returns the outputs and the last state; 16-bit floats compute in f32. All
    extents but `state_size` may be symbolic.
    """
    batch, steps, heads, _ = _shape(q, 4, "q")
    for name, value in (("q", q), ("k", k), ("v", v)):
        _require(name, value, (batch, steps, heads, state_size))
    for name, value in (("g", g), ("beta", beta)):
        _require(name, value, (batch, steps, heads))
    if state is not None:
        _require("state", state, (batch, heads, state_size, state_size))
    rows = [_time_first(_wide(value)) for value in (q, k, v, g, beta)]
    size = min(_CHUNK, upper(steps))
    first = _zeros(q.graph, rows[0].dtype, (batch, heads, state_size, state_size))
    if state is not None:
        first = _wide(state)
    types = [row.type for row in rows]
    if size < _LEAST_CHUNK:
        body = _delta_step(first.type, types, state_size)
        last, y = scan_to_extent((first,), (), rows, body=body, length=steps)
    else:
        body = _delta_chunk(first.type, types, size)
        last, y = scan_chunks(first, (), rows, body=body, size=size)
    return _narrowed(_time_first(y), q), _narrowed(last, q)


def _delta_step(state: TensorType, rows: list[TensorType], size: int) -> Graph:
    step = Graph("delta_step")
    memory = _input(step, "state", state)
    q, k, v, g, beta = (
        _input(step, name, type.with_shape(type.shape[1:]))
        for name, type in zip(("q", "k", "v", "g", "beta"), rows, strict=True)
    )
    decayed = memory * _with_axis(_with_axis(exp(g), 2), 3)
    read = matmul(_with_axis(k, 2), decayed)
    correction = (_with_axis(v, 2) - read) * _with_axis(_with_axis(beta, 2), 3)
    following = decayed + _with_axis(k, 3) * correction
    y = matmul(_with_axis(q, 2), following) * size**-0.5
    step.set_outputs([following, reshape(y, shape=v.shape)])
    return step


def _delta_chunk(state: TensorType, rows: list[TensorType], size: int) -> Graph:
    """Take `size` steps by products (Yang et al., 2024).

    What step t adds to the state is `k_t` times a row `u_t`, which depends on those of the steps
    before it: `u_t = beta_t * (v_t - k_t @ S_t)`, where `S_t` is the state at the chunk's beginning
    and what these steps have added, decayed. So the rows are the solution of a triangular system.
    """
    chunk = Graph("delta_chunk")
    memory, left = _input(chunk, "state", state), chunk.input("left", (size,), DType.I64)
    q, k, v, g, beta = (
        _by_head(chunk.input(name, (size, *type.shape[1:]), type.dtype))
        for name, type in zip(("q", "k", "v", "g", "beta"), rows, strict=True)
    )
    reached = cumsum(g, axis=2)
    decays = chunk_decays(left, g)
    gate, weight = _with_axis(exp(reached), 3), _with_axis(beta, 3)
    keys = transpose(k, perm=(0, 1, 3, 2))
    system = weight * decays * matmul(k, keys)
    own = weight * (v - gate * matmul(k, memory))
    added = triangular_solve(system, own, lower=True, unit_diagonal=True)
    y = matmul(decays * matmul(q, keys), added) + gate * matmul(q, memory)
    end = narrow(reached, axis=2, start=size - 1, length=1)
    kept = k * transpose(narrow(decays, axis=2, start=size - 1, length=1), perm=(0, 1, 3, 2))
    following = _with_axis(exp(end), 3) * memory + matmul(transpose(kept, perm=(0, 1, 3, 2)), added)
    width = int(q.shape[-1])
    chunk.set_outputs([following, transpose(y * width**-0.5, perm=(2, 0, 1, 3))])
    return chunk


def chunk_decays(left: Value, logs: Value) -> Value:
    """Return what remains at each step of a chunk of what each of its steps adds: 0 of later ones.

    `left` counts the steps down, and `logs`, `[..., steps]`, are those of the decays. They are
    summed for each pair of steps: differences of sums from the first step on would be inexact.
    """
    rank, (size,) = logs.rank - 1, left.shape
    ones = (1,) * rank
    of_row, of_column = (reshape(left, shape=(*ones, *shape)) for shape in ((size, 1), (1, size)))
    is_after = of_row < of_column
    # Its zeros, too: a constant would be kept from run to run.
    since = where(is_after, _with_axis(logs, rank + 1), cast(is_after, to=logs.dtype))
    is_added = cast(of_row <= of_column, to=logs.dtype)
    decays: Value = exp(cumsum(since, axis=rank)) * is_added
    return decays


def _by_head(x: Value) -> Value:
    """Turn `[steps, batch, heads, ...]` to `[batch, heads, steps, ...]`."""
    return transpose(x, perm=(1, 2, 0, *range(3, x.rank)))


def _input(graph: Graph, name: str, type: TensorType) -> Value:
    return graph.input(name, type.shape, type.dtype)


def _with_axis(x: Value, axis: int) -> Value:
    """Insert an axis of extent 1."""
    return reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))


def _time_first(x: Value) -> Value:
    """Swap the first two axes: batch and time."""
    return transpose(x, perm=(1, 0, *range(2, x.rank)))


def _wide(x: Value) -> Value:
    return cast(x, to=DType.F32) if x.dtype.is_low_precision else x


def _narrowed(x: Value, like: Value) -> Value:
    return cast(x, to=like.dtype) if like.dtype is not x.dtype else x


def _zeros(graph: Graph, dtype: DType, shape: Shape) -> Value:
    return expand(graph.constant(0, dtype), shape=shape)


def _shape(x: Value, rank: int, name: str) -> Shape:
    if x.rank != rank:
        raise ShapeError(
            f"{name} has shape {x.type.describe_shape()}; its rank must be {rank}",
            remedy="add or drop axes with reshape",
        )
    return x.shape


def _require(name: str, value: Value, shape: Shape) -> None:
    if value.shape != shape:
        wanted = value.type.with_shape(shape).describe_shape()
        raise ShapeError(
            f"{name} has shape {value.type.describe_shape()}; it must be {wanted}",
            remedy="reshape or slice it to that shape",
        )


__all__ = ["gated_delta_net", "selective_scan"]
