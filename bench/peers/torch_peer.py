"""PyTorch, eager: its own fused functions, and products with their bias, where it has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.nn import functional

from bench.peers.session import Session, translate
from bench.peers.training import BETA1, BETA2, EPSILON
from bench.workload import Array, Training, Workload


def prepare(workload: Workload, threads: int) -> Session:
    torch.set_num_threads(threads)
    graph = workload.build()
    feeds = {name: _tensor(x) for name, x in workload.feeds(graph).items()}
    params = {name: _tensor(x) for name, x in workload.params(graph).items()}

    def forward() -> list[Any]:
        return translate(graph, _TABLE, {**params, **feeds})

    def call() -> list[Any]:
        with torch.inference_mode():
            return forward()

    if workload.training is not None:
        call = _training_call(forward, workload.training, list(params.values()))
    return Session(call, lambda results: [_array(result) for result in results])


def _training_call(
    forward: Callable[[], list[Any]], training: Training, params: list[torch.Tensor]
) -> Callable[[], list[Any]]:
    for param in params:
        param.requires_grad_()
    optimizer: torch.optim.Optimizer
    if training.optimizer == "sgd":
        optimizer = torch.optim.SGD(params, training.rate, fused=True)
    else:
        betas = (BETA1, BETA2)
        optimizer = torch.optim.Adam(params, training.rate, betas, EPSILON, fused=True)

    def step() -> list[Any]:
        optimizer.zero_grad()
        (loss,) = forward()
        loss.backward()
        optimizer.step()
        return [loss.detach()]

    return step


def _tensor(x: Array) -> torch.Tensor:
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(x.copy())


def _array(x: torch.Tensor) -> Array:
    return x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy()


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
    if layout != "bhsd":
        q, k, v = (x.view(*x.shape[:2], num_heads, head_dim).transpose(1, 2) for x in (q, k, v))
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=mask_kind == "causal")
    return y if layout == "bhsd" else y.transpose(1, 2).reshape(shape)


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
    assert not input_dilation
    pads = [low for low, high in padding if low == high] or 0
    convolve = getattr(functional, f"conv{x.dim() - 2}d")
    return convolve(x, w, None, stride or 1, pads, dilation or 1, groups)


def _conv_transpose(x: Any, w: Any, *, stride: Any, padding: Any, groups: int, **_: Any) -> Any:
    pads = [low for low, high in padding if low == high]
    return functional.conv_transpose2d(x, w, None, stride, pads, groups=groups)


def _max_pool(x: Any, *, kernel_size: Any, stride: Any, padding: Any, **_: Any) -> Any:
    return functional.max_pool2d(x, kernel_size, stride, [low for low, _ in padding])


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return functional.cross_entropy(logits, labels.long(), reduction="none")


def _layer_norm(x: Any, gamma: Any, beta: Any, *, axis: int, eps: float) -> Any:
    assert axis in (-1, x.dim() - 1)
    return functional.layer_norm(x, x.shape[-1:], gamma, beta, eps)


def _batch_norm_training(x: Any, gamma: Any, beta: Any, *, axis: int, eps: float) -> Any:
    """Return the result alone: PyTorch keeps the statistics to itself."""
    assert axis == 1
    return functional.batch_norm(x, None, None, gamma, beta, True, 0.0, eps), None, None


def _batch_norm_inference(
    x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, *, axis: int, eps: float
) -> Any:
    assert axis == 1
    return functional.batch_norm(x, mean, variance, gamma, beta, False, 0.0, eps)


def _group_norm(x: Any, gamma: Any, beta: Any, *, num_groups: int, axis: int, eps: float) -> Any:
    assert axis == 1
    return functional.group_norm(x, num_groups, gamma, beta, eps)


def _instance_norm(x: Any, gamma: Any, beta: Any, *, axis: int, eps: float) -> Any:
    assert axis == 1
    return functional.instance_norm(x, weight=gamma, bias=beta, eps=eps)


def _layer_norm2d(x: Any, gamma: Any, beta: Any, *, eps: float) -> Any:
    """As ConvNeXt has it: between two permutations, the second of which is a view."""
    last = functional.layer_norm(x.permute(0, 2, 3, 1), gamma.shape, gamma, beta, eps)
    return last.permute(0, 3, 1, 2)


def _resize(x: Any, *, size: Any, mode: str, **_: Any) -> Any:
    if mode == "nearest":
        return functional.interpolate(x, size, mode="nearest")
    return functional.interpolate(x, size, mode="bilinear", align_corners=False)


_TABLE: Mapping[str, Callable[..., Any]] = {
    "constant": lambda array: torch.from_numpy(np.array(array)),
    "add": torch.add,
    "mul": torch.mul,
    "sub": torch.sub,
    "tanh": torch.tanh,
    "sin": torch.sin,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "matmul": torch.matmul,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _max_pool,
    "concat": lambda *parts, axis: torch.cat(parts, axis),
    "softmax": lambda x, *, axis: torch.softmax(x, axis),
    "layer_norm": _layer_norm,
    "batch_norm_training": _batch_norm_training,
    "batch_norm_inference": _batch_norm_inference,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm2d": _layer_norm2d,
    "resize": _resize,
    "attention": _attention,
    "narrow": lambda x, *, axis, start, length: torch.narrow(x, axis, start, length),
    "sort": lambda x: torch.sort(x, dim=-1, stable=True).values,
    "argsort": lambda x: torch.argsort(x, dim=-1, stable=True),
    "gather": lambda table, rows, *, axis: torch.index_select(table, axis, rows),
    "reduce_sum": lambda x, *, axes, keepdims: torch.sum(x, axes, keepdim=keepdims),
    "reduce_mean": lambda x, *, axes, keepdims: torch.mean(x, axes, keepdim=keepdims),
    "softmax_cross_entropy_with_logits": _cross_entropy,
}
