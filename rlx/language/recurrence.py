"""Mixers whose state is one array for all tokens before: Mamba 2, and the gated delta net."""

from __future__ import annotations

from rlx.errors import UnsupportedError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.bounded_scan import scan_chunks, scan_to_extent
from rlx.ir.ops.linalg import swapped
from rlx.ir.ops.state_space import chunk_decays
from rlx.ir.shape import upper
from rlx.language.convolution import causal_convolution, columns
from rlx.language.layer_builder import LayerBuilder

_CHUNK = 64
"""Rows that are taken together, by products."""
_LEAST_CHUNK = 8
"""Below this they are taken one by one."""

_LEAST_SQUARE = 1e-6
"""Added to the squares of queries and keys of the delta net, which are divided by their length."""


def state_space(builder: LayerBuilder, x: Value, name: str) -> Value:
    """Mamba 2 (Dao and Gu, 2024): `H = exp(delta * a) * H + delta * u * b`, `y = H @ c + d * u`.

    Of each of `heads` heads, `u` has `inner / heads` elements, and b and c, which all heads of a
    group share, `state`.
    """
    config, weights = builder.config, builder.weights
    shape = config.recurrence
    heads, groups, state, inner = shape.heads, shape.groups, shape.state, shape.inner
    texts, steps = builder.grid
    wide = inner + 2 * groups * state
    given = weights.linear(x, f"{name}.ssm_in", inner + wide + heads)
    gate, delta = columns(given, 0, inner), columns(given, inner + wide, heads)
    mixed = ops.reshape(columns(given, inner, wide), shape=(texts, steps, wide))
    mixed = ops.silu(causal_convolution(builder, mixed, f"{name}.ssm_conv1d"))
    by_group = (steps, texts, groups, heads // groups)
    u = ops.reshape(columns(mixed, 0, inner), shape=(*by_group, inner // heads))
    b, c = (
        ops.reshape(columns(mixed, start, groups * state), shape=(steps, texts, groups, state))
        for start in (inner, inner + groups * state)
    )
    delta = ops.softplus(delta + weights.vector(f"{name}.ssm_dt.bias", heads))
    delta = ops.reshape(delta, shape=by_group)
    rate, skip = (
        ops.reshape(weights.whole(f"{name}.{part}", heads), shape=(groups, heads // groups))
        for part in ("ssm_a", "ssm_d")
    )
    before = builder.carried(f"{name}.state", (groups, heads // groups, inner // heads, state))
    after, y = _scanned(before, rate, [u, delta, b, c])
    builder.carry(f"{name}.state", after)
    y = y + u * ops.reshape(skip, shape=(*skip.shape, 1))
    y = ops.reshape(y, shape=gate.shape) * ops.silu(gate)
    if weights.has(f"{name}.ssm_norm.weight"):
        y = _normed_groups(builder, y, name)
    return weights.linear(y, f"{name}.ssm_out", config.hidden)


def _scanned(before: Value, rate: Value, rows: list[Value]) -> tuple[Value, Value]:
    """Return the state after all rows, and what each of them gives."""
    steps = rows[0].shape[0]
    body = Graph("state_space_step")
    state = body.input("state", before.shape, before.dtype)
    constant = body.input("rate", rate.shape, rate.dtype)
    u, delta, b, c = (
        body.input(name, row.shape[1:], row.dtype)
        for name, row in zip(("u", "delta", "b", "c"), rows, strict=True)
    )
    body.set_outputs(_advanced(state, constant, u, delta, b, c))
    if steps == 1:
        first = [ops.reshape(row, shape=row.shape[1:]) for row in rows]
        after, y = _advanced(before, rate, *first)
        return after, ops.reshape(y, shape=(1, *y.shape))
    size = min(_CHUNK, upper(steps))
    if size < _LEAST_CHUNK:
        after, y = scan_to_extent((before,), (rate,), rows, body=body, length=steps)
        return after, y
    return scan_chunks(before, (rate,), rows, body=_chunk(before, rate, rows, size), size=size)


def _chunk(before: Value, rate: Value, rows: list[Value], size: int) -> Graph:
    """Take `size` rows by products: the dual of the recurrence (Dao and Gu, 2024)."""
    body = Graph("state_space_chunk")
    state = body.input("state", before.shape, before.dtype)
    rates = body.input("rate", rate.shape, rate.dtype)
    left = body.input("left", (size,), DType.I64)
    u, delta, b, c = (
        body.input(name, (size, *row.shape[1:]), row.dtype)
        for name, row in zip(("u", "delta", "b", "c"), rows, strict=True)
    )
    _, texts, groups, members, width = u.shape
    assert isinstance(members, int)
    assert isinstance(width, int)
    all_heads = (texts, groups, members * width)
    delta = ops.transpose(delta, perm=(1, 2, 3, 0))
    logs = delta * _as_column(rates)
    reached, decays = ops.cumsum(logs, axis=3), chunk_decays(left, logs)
    given = ops.transpose(u, perm=(1, 2, 3, 0, 4)) * _as_column(delta)
    b, c = (ops.transpose(part, perm=(1, 2, 0, 3)) for part in (b, c))
    scores = ops.reshape(ops.matmul(c, swapped(b)), shape=(texts, groups, 1, size, size))
    y = ops.matmul(decays * scores, given)
    found = ops.matmul(c, swapped(ops.reshape(state, shape=(*all_heads, state.shape[-1]))))
    found = ops.reshape(found, shape=(texts, groups, size, members, width))
    y = y + ops.transpose(found, perm=(0, 1, 3, 2, 4)) * _as_column(ops.exp(reached))
    end = ops.narrow(reached, axis=3, start=size - 1, length=1)
    kept = swapped(given * swapped(ops.narrow(decays, axis=3, start=size - 1, length=1)))
    added = ops.matmul(ops.reshape(kept, shape=(*all_heads, size)), b)
    following = _as_column(ops.exp(end)) * state + ops.reshape(added, shape=state.shape)
    body.set_outputs([following, ops.transpose(y, perm=(3, 0, 1, 2, 4))])
    return body


def _as_column(x: Value) -> Value:
    """Append an axis of extent 1."""
    result: Value = ops.reshape(x, shape=(*x.shape, 1))
    return result


def _advanced(
    state: Value, rate: Value, u: Value, delta: Value, b: Value, c: Value
) -> tuple[Value, Value]:
    """Return the next state, and what a row gives: one step of all texts and heads."""
    texts, groups, members, _ = u.shape
    decay = ops.reshape(ops.exp(delta * rate), shape=(texts, groups, members, 1, 1))
    scaled = ops.reshape(delta, shape=(texts, groups, members, 1)) * u
    b, c = (ops.reshape(part, shape=(texts, groups, 1, 1, part.shape[-1])) for part in (b, c))
    following = decay * state + ops.reshape(scaled, shape=(*u.shape, 1)) * b
    return following, ops.reduce_sum(following * c, axes=(4,))


def _normed_groups(builder: LayerBuilder, x: Value, name: str) -> Value:
    """Normalize the elements of each group of heads."""
    shape = builder.config.recurrence
    width = shape.inner // shape.groups
    apart = ops.reshape(x, shape=(x.shape[0], shape.groups, width))
    square = ops.reduce_mean(apart * apart, axes=(2,), keepdims=True)
    weight = ops.reshape(
        builder.weights.whole(f"{name}.ssm_norm.weight", shape.inner), shape=(shape.groups, width)
    )
    normed = apart * ops.rsqrt(square + builder.config.eps) * weight
    result: Value = ops.reshape(normed, shape=x.shape)
    return result


def delta_net(builder: LayerBuilder, x: Value, name: str) -> Value:
    """The gated delta net of Qwen3-Next (Yang et al., 2024), with `groups` heads of keys.

    Each head of keys serves `heads / groups` heads of values.
    """
    config, weights = builder.config, builder.weights
    shape, rows = config.recurrence, x.shape[0]
    heads, groups, state = shape.heads, shape.groups, shape.state
    texts, steps = builder.grid
    if shape.inner != heads * state:
        raise UnsupportedError(
            f"{weights.file.path}: heads of values of {shape.inner // heads} elements and of keys "
            f"of {state} are not supported",
            remedy="use a model whose keys and values are equally wide",
        )
    qkv, gate = _delta_rows(builder, x, name)
    wide = 2 * groups * state + shape.inner
    qkv = ops.reshape(qkv, shape=(texts, steps, wide))
    qkv = ops.silu(causal_convolution(builder, qkv, f"{name}.ssm_conv1d"))
    q, k = (
        _repeated(_unit(ops.reshape(columns(qkv, at, groups * state),
                                    shape=(texts, steps, groups, state))), heads)
        for at in (0, groups * state)
    )  # fmt: skip
    v = columns(qkv, 2 * groups * state, shape.inner)
    v = ops.reshape(v, shape=(texts, steps, heads, state))
    both = weights.linear(x, f"{name}.ssm_ba", 2 * heads)
    both = ops.reshape(both, shape=(rows, groups, 2 * heads // groups))
    beta, a = (
        ops.reshape(columns(both, at, heads // groups), shape=(rows, heads))
        for at in (0, heads // groups)
    )
    a = ops.softplus(a + weights.vector(f"{name}.ssm_dt.bias", heads))
    decay = ops.reshape(a * weights.whole(f"{name}.ssm_a", heads), shape=(texts, steps, heads))
    beta = ops.reshape(ops.sigmoid(beta), shape=(texts, steps, heads))
    before = builder.carried(f"{name}.state", (heads, state, state))
    y, after = ops.gated_delta_net(q, k, v, decay, beta, before, state_size=state)
    builder.carry(f"{name}.state", after)
    y = builder.norm(ops.reshape(y, shape=(rows, heads, state)), f"{name}.ssm_norm", state)
    gated = ops.reshape(y, shape=(rows, shape.inner)) * ops.silu(gate)
    return weights.linear(gated, f"{name}.ssm_out", config.hidden)


def _delta_rows(builder: LayerBuilder, x: Value, name: str) -> tuple[Value, Value]:
    """Return queries, keys and values, and what gates the result.

    Files have `attn_qkv` and `attn_gate`, or both in `ssm_in`, head by head of keys.
    """
    shape, weights, rows = builder.config.recurrence, builder.weights, x.shape[0]
    groups, state, inner = shape.groups, shape.state, shape.inner
    if weights.has(f"{name}.attn_gate.weight"):
        qkv = weights.linear(x, f"{name}.attn_qkv", 2 * groups * state + inner)
        return qkv, weights.linear(x, f"{name}.attn_gate", inner)
    given = weights.linear(x, f"{name}.ssm_in", 2 * (groups * state + inner))
    given = ops.reshape(given, shape=(rows, groups, 2 * (state + inner // groups)))
    widths = (state, state, inner // groups, inner // groups)
    starts = (0, state, 2 * state, 2 * state + inner // groups)
    *parts, gate = (
        ops.reshape(columns(given, start, width), shape=(rows, groups * width))
        for start, width in zip(starts, widths, strict=True)
    )
    return ops.concat(*parts, axis=1), gate


def _unit(x: Value) -> Value:
    """Divide rows by their length."""
    square = ops.reduce_sum(x * x, axes=(-1,), keepdims=True)
    result: Value = x * ops.rsqrt(square + _LEAST_SQUARE)
    return result


def _repeated(x: Value, heads: int) -> Value:
    """Repeat each head of `[texts, steps, groups, state]` for the heads that it serves."""
    texts, steps, groups, state = x.shape
    assert isinstance(groups, int)
    apart = ops.reshape(x, shape=(texts, steps, groups, 1, state))
    wide = ops.expand(apart, shape=(texts, steps, groups, heads // groups, state))
    result: Value = ops.reshape(wide, shape=(texts, steps, heads, state))
    return result
