"""JAX: the graph as a traced function, compiled by XLA; arrays stay where JAX keeps them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.peers.session import Session, compile_a_loop, translate
from bench.peers.training import BETA1, BETA2, EPSILON
from bench.routine import FrontEnd, Routine
from bench.workload import Training, Workload
from rlx.ir.graph import Graph

jax.config.update("jax_enable_x64", True)


def prepare(workload: Workload, threads: int) -> Session:  # noqa: ARG001  the pool follows the environment
    graph = workload.build()
    feeds = {name: jnp.asarray(x) for name, x in workload.feeds(graph).items()}
    params = {name: jnp.asarray(x) for name, x in workload.params(graph).items()}
    if workload.training is not None:
        return _training_session(graph, workload.training, params, feeds)
    started = time.perf_counter()
    compiled = jax.jit(_function(graph)).lower(params, feeds).compile()
    jax.block_until_ready(compiled(params, feeds))
    return Session(
        lambda: jax.block_until_ready(compiled(params, feeds)),
        lambda results: [np.asarray(result) for result in results],
        cold_seconds=time.perf_counter() - started,
        temporary_bytes=_temporary_bytes(compiled),
    )


FRONT_END = FrontEnd(jnp, jax, jax.lax)


def prepare_program(program: Routine, threads: int) -> Session:  # noqa: ARG001  the pool follows the environment
    arguments = [jnp.asarray(argument) for argument in program.arguments()]
    _warm_up()
    started = time.perf_counter()
    compiled = jax.jit(program.write(FRONT_END)).lower(*arguments).compile()
    jax.block_until_ready(compiled(*arguments))
    return Session(
        lambda: jax.block_until_ready(compiled(*arguments)),
        lambda results: [np.asarray(result) for result in jax.tree.leaves(results)],
        cold_seconds=time.perf_counter() - started,
        temporary_bytes=_temporary_bytes(compiled),
    )


@functools.cache
def _warm_up() -> None:
    compile_a_loop(FRONT_END, jax.jit)


def _function(graph: Graph) -> Callable[[Any, Any], list[Any]]:
    return lambda params, feeds: translate(graph, _TABLE, {**params, **feeds})


def _training_session(graph: Graph, training: Training, params: Any, feeds: Any) -> Session:
    first: Any = (params, _optimizer_state(training, params))

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: Any, feeds: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda p: _function(graph)(p, feeds)[0])(state[0])
        return loss, _updated(training, state, gradients)

    started = time.perf_counter()
    compiled = step.lower(first, feeds).compile()
    cold = time.perf_counter() - started
    kept = [first]

    def call() -> Any:
        loss, kept[0] = compiled(kept[0], feeds)
        return jax.block_until_ready((loss, kept[0]))[0]

    return Session(
        call,
        lambda loss: [np.asarray(loss)],
        cold_seconds=cold,
        temporary_bytes=_temporary_bytes(compiled),
    )


def _optimizer_state(training: Training, params: Any) -> Any:
    if training.optimizer == "sgd":
        return ()
    zeros = jax.tree.map(jnp.zeros_like, params)
    return jnp.float32(0), zeros, jax.tree.map(jnp.zeros_like, params)


def _updated(training: Training, state: Any, gradients: Any) -> Any:
    params, moments = state
    rate = training.rate
    if training.optimizer == "sgd":
        return jax.tree.map(lambda p, g: p - rate * g, params, gradients), ()
    step, mean, square = moments
    step = step + 1
    mean = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, mean, gradients)
    square = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, square, gradients)
    mean_scale, square_scale = 1 / (1 - BETA1**step), 1 / (1 - BETA2**step)

    def move(p: Any, m: Any, v: Any) -> Any:
        return p - rate * (m * mean_scale) / (jnp.sqrt(v * square_scale) + EPSILON)

    return jax.tree.map(move, params, mean, square), (step, mean, square)


def _temporary_bytes(compiled: Any) -> int | None:
    analysis = compiled.memory_analysis()
    return None if analysis is None else int(analysis.temp_size_in_bytes)


def _attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    num_heads: int,
    head_dim: int,
    mask_kind: str,
    layout: str,
    **_: Any,
) -> Any:
    shape = q.shape
    if layout == "bhsd":
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    else:
        q, k, v = (x.reshape(*x.shape[:2], num_heads, head_dim) for x in (q, k, v))
    y = jax.nn.dot_product_attention(q, k, v, is_causal=mask_kind == "causal")
    return jnp.swapaxes(y, 1, 2) if layout == "bhsd" else y.reshape(shape)


def _layer_norm(x: Any, gamma: Any, beta: Any, *, axis: int, eps: float) -> Any:
    mean = x.mean(axis, keepdims=True)
    centered = x - mean
    variance = (centered * centered).mean(axis, keepdims=True)
    return centered * jax.lax.rsqrt(variance + eps) * gamma + beta


def _conv(
    x: Any,
    w: Any,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    input_dilation: Any,
    groups: int,
) -> Any:
    return jax.lax.conv_general_dilated(
        x, w, stride, padding, input_dilation or None, dilation or None, feature_group_count=groups
    )


def _conv_transpose(x: Any, w: Any, *, stride: Any, padding: Any, groups: int, **_: Any) -> Any:
    assert groups == 1
    taps = jnp.flip(w, (2, 3)).swapaxes(0, 1)
    pads = [
        (n - 1 - low, n - 1 - high) for n, (low, high) in zip(w.shape[2:], padding, strict=True)
    ]
    return jax.lax.conv_general_dilated(x, taps, (1, 1), pads, stride)


def _max_pool(x: Any, *, kernel_size: Any, stride: Any, padding: Any, **_: Any) -> Any:
    size, strides = (1, 1, *kernel_size), (1, 1, *stride)
    pads = ((0, 0), (0, 0), *padding)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, size, strides, pads)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    picked = jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


def _standardized(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    mean = x.mean(axes, keepdims=True)
    centered = x - mean
    return centered * jax.lax.rsqrt((centered * centered).mean(axes, keepdims=True) + eps)


def _per_channel(x: Any, gamma: Any, beta: Any) -> Any:
    return x * gamma[:, None, None] + beta[:, None, None]


def _batch_norm_training(x: Any, gamma: Any, beta: Any, *, axis: int, eps: float) -> Any:
    assert axis == 1
    return _per_channel(_standardized(x, (0, 2, 3), eps), gamma, beta), None, None


def _batch_norm_inference(
    x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, *, axis: int, eps: float
) -> Any:
    assert axis == 1
    scale = gamma * jax.lax.rsqrt(variance + eps)
    return _per_channel(x, scale, beta - mean * scale)


def _group_norm(x: Any, gamma: Any, beta: Any, *, num_groups: int, axis: int, eps: float) -> Any:
    assert axis == 1
    grouped = x.reshape(x.shape[0], num_groups, -1)
    return _per_channel(_standardized(grouped, (2,), eps).reshape(x.shape), gamma, beta)


def _instance_norm(x: Any, gamma: Any, beta: Any, *, axis: int, eps: float) -> Any:
    assert axis == 1
    return _per_channel(_standardized(x, (2, 3), eps), gamma, beta)


def _layer_norm2d(x: Any, gamma: Any, beta: Any, *, eps: float) -> Any:
    return _per_channel(_standardized(x, (1,), eps), gamma, beta)


def _resize(x: Any, *, size: Any, mode: str, **_: Any) -> Any:
    return jax.image.resize(x, (*x.shape[:2], *size), mode, antialias=False)


_TABLE: Mapping[str, Callable[..., Any]] = {
    "constant": jnp.asarray,
    "add": jnp.add,
    "mul": jnp.multiply,
    "sub": jnp.subtract,
    "tanh": jnp.tanh,
    "sin": jnp.sin,
    "sigmoid": jax.nn.sigmoid,
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "matmul": jnp.matmul,
    "max_pool": _max_pool,
    "concat": lambda *parts, axis: jnp.concatenate(parts, axis),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "softmax": jax.nn.softmax,
    "layer_norm": _layer_norm,
    "batch_norm_training": _batch_norm_training,
    "batch_norm_inference": _batch_norm_inference,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm2d": _layer_norm2d,
    "resize": _resize,
    "attention": _attention,
    "narrow": lambda x, *, axis, start, length: jax.lax.slice_in_dim(
        x, start, start + length, axis=axis
    ),
    "sort": lambda x: jnp.sort(x, axis=-1),
    "argsort": lambda x: jnp.argsort(x, axis=-1),
    "gather": lambda table, rows, *, axis: jnp.take(table, rows, axis=axis),
    "reduce_sum": lambda x, *, axes, keepdims: jnp.sum(x, axes, keepdims=keepdims),
    "reduce_mean": lambda x, *, axes, keepdims: jnp.mean(x, axes, keepdims=keepdims),
    "softmax_cross_entropy_with_logits": _cross_entropy,
}
