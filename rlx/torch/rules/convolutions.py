"""Convolutions, transposed ones, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir import ops
from rlx.passes.layout.prepared import is_prepared
from rlx.torch.registry import rule
from rlx.tracing.apply import emit
from rlx.tracing.trace import as_value

_FEW = 8
"""Outputs of a convolution per window from which on weights are not packed: measured."""

_MANY_WEIGHTS = 1 << 16
"""Elements of weights that are few enough to pack."""


@rule("convolution", "_convolution", "mkldnn_convolution")
def convolution(
    x: Any, w: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int, *_: Any,
) -> Any:  # fmt: skip
    axes = w.ndim - 2
    if x.ndim == axes + 1:
        whole = convolution(rnp.expand_dims(x, 0), w, bias, stride, padding, dilation,
                            transposed, output_padding, groups)  # fmt: skip
        return rnp.squeeze(whole, 0)
    stride, padding, dilation = (_each(n, axes) for n in (stride, padding, dilation))
    sides = [(n, n) for n in padding]
    if _is_exact(x):
        return _of_integers(convolution, x, w, bias, stride, padding, dilation, transposed,
                            output_padding, groups)  # fmt: skip
    if transposed:
        longer = _each(output_padding, axes)
        return _transposed(x, w, bias, stride, padding, dilation, longer, groups)
    if groups == 1 and _has_few_windows(x, w, stride, padding, dilation):
        return _over_windows(x, w, bias, stride, padding, dilation)
    return nn.conv(x, w, stride, sides, bias=bias, dilation=dilation, groups=groups)


def _has_few_windows(
    x: Any, w: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> bool:
    """True where packing weights at every call costs more than copying windows does."""
    if not all(isinstance(n, int) for n in (*x.shape, *w.shape)) or is_prepared(as_value(w)):
        return False
    windows = x.shape[0] * math.prod(_positions(x, w, stride, padding, dilation))
    size = math.prod(w.shape)
    is_window = math.prod(w.shape[2:]) > 1
    return bool(is_window and windows * _FEW <= w.shape[0] and size >= _MANY_WEIGHTS)


def _over_windows(
    x: Any, w: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int],
) -> Any:  # fmt: skip
    """Multiply weights as they are in memory, one row for each output, by windows as columns."""
    windows = emit(
        ops.im2col, x, kernel_size=w.shape[2:], stride=tuple(stride),
        padding=tuple((n, n) for n in padding), dilation=tuple(dilation),
    )  # fmt: skip
    y = rnp.matmul(rnp.reshape(w, (w.shape[0], -1)), windows.T)
    if bias is not None:
        y = y + bias[:, None]
    positions = _positions(x, w, stride, padding, dilation)
    return rnp.moveaxis(rnp.reshape(y, (w.shape[0], x.shape[0], *positions)), 1, 0)


def _positions(
    x: Any, w: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    sliding = zip(x.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sliding)


def _transposed(
    x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, longer: Any, groups: int
) -> Any:
    """A longer result keeps more of what the padding cuts off at the end, then has zeros."""
    sides = [(n, max(n - more, 0)) for n, more in zip(padding, longer, strict=True)]
    rest = [max(more - n, 0) for n, more in zip(padding, longer, strict=True)]
    y = nn.conv_transpose(x, w, stride, sides, dilation=dilation, groups=groups)
    if any(rest):
        y = rnp.pad(y, ((0, 0), (0, 0), *((0, n) for n in rest)))
    return y if bias is None else y + rnp.reshape(bias, (-1,) + (1,) * len(stride))


def _is_exact(x: Any) -> bool:
    return not x.value.dtype.is_differentiable


def _of_integers(apply: Any, x: Any, w: Any, bias: Any, *rest: Any) -> Any:
    """Integers are convolved in f64, which holds them."""
    dtype = x.value.dtype
    bias = None if bias is None else bias.astype("f64")
    return rnp.rint(apply(x.astype("f64"), w.astype("f64"), bias, *rest)).astype(dtype)


def _each(given: Sequence[int], axes: int) -> tuple[int, ...]:
    return tuple(given) * axes if len(given) == 1 else tuple(given)


@rule("convolution_backward")
def convolution_backward(
    g: Any, x: Any, w: Any, bias_sizes: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    wanted: Sequence[bool],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients by image, taps and bias that `wanted` asks for."""
    del bias_sizes

    def apply(x: Any, w: Any) -> Any:
        return convolution(
            x, w, None, stride, padding, dilation, transposed, output_padding, groups
        )

    by_image, by_taps, by_bias = wanted
    pulled = rnp.conj(g)  # PyTorch's gradients of complex numbers are the conjugates of JAX's
    dx = rnp.conj(rlx.vjp(lambda x: apply(x, w), x)[1](pulled)[0]) if by_image else None
    dw = rnp.conj(rlx.vjp(lambda w: apply(x, w), w)[1](pulled)[0]) if by_taps else None
    axis = 1 if g.ndim == w.ndim else 0
    db = rnp.sum(g, tuple(i for i in range(g.ndim) if i != axis)) if by_bias else None
    return dx, dw, db
