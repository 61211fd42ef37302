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


def _forward(axes: int) -> Any:
    def apply(
        x: Any, w: Any, bias: Any = None, stride: Any = (1,), padding: Any = (0,),
        dilation: Any = (1,), groups: int = 1,
    ) -> Any:  # fmt: skip
        if isinstance(padding, str):
            return _by_name(x, w, bias, stride, padding, dilation, groups, axes)
        return convolution(x, w, bias, stride, padding, dilation, False, (0,), groups)

    return apply


def _transposed_forward(
    x: Any, w: Any, bias: Any = None, stride: Any = (1,), padding: Any = (0,),
    output_padding: Any = (0,), groups: int = 1, dilation: Any = (1,),
) -> Any:  # fmt: skip
    return convolution(x, w, bias, stride, padding, dilation, True, output_padding, groups)


def _by_name(
    x: Any, w: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int, axes: int
) -> Any:
    if x.ndim == axes + 1:
        whole = _by_name(rnp.expand_dims(x, 0), w, bias, stride, padding, dilation, groups, axes)
        return rnp.squeeze(whole, 0)
    spaced = _each(dilation, axes)
    reach = [step * (taps - 1) for step, taps in zip(spaced, w.shape[2:], strict=True)]
    sides = [(0, 0) if padding == "valid" else (n // 2, n - n // 2) for n in reach]
    return nn.conv(x, w, _each(stride, axes), sides, bias=bias, dilation=spaced, groups=groups)


for _axes in (1, 2, 3):
    rule(f"conv{_axes}d", f"conv{_axes}d.padding")(_forward(_axes))
    rule(f"conv_transpose{_axes}d", f"conv_transpose{_axes}d.input")(_transposed_forward)


@rule("im2col")
def im2col(
    x: Any, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
    stride: Sequence[int],
) -> Any:  # fmt: skip
    """The elements of each window as a column."""
    if x.ndim == 3:
        return rnp.squeeze(im2col(rnp.expand_dims(x, 0), kernel, dilation, padding, stride), 0)
    x = rnp.pad(x, ((0, 0), (0, 0), *((n, n) for n in padding)))
    rows, columns = window_places(x.shape[2:], kernel, dilation, stride)
    found = x[:, :, rows[:, None, :, None], columns[None, :, None, :]]
    batch, channels = x.shape[:2]
    windows = rows.shape[1] * columns.shape[1]
    return rnp.reshape(found, (batch, channels * kernel[0] * kernel[1], windows))


def window_places(
    shape: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int]
) -> Any:
    """Return, per axis, the place of each tap in each window."""
    import numpy as np

    places = []
    for extent, taps, spaced, step in zip(shape, kernel, dilation, stride, strict=True):
        count = (extent - spaced * (taps - 1) - 1) // step + 1
        places.append(np.arange(taps)[:, None] * spaced + np.arange(count) * step)
    return places


@rule("col2im")
def col2im(
    x: Any, size: Sequence[int], kernel: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], stride: Sequence[int],
) -> Any:  # fmt: skip
    """Add columns up at the places that `im2col` reads them from."""
    if x.ndim == 2:
        return rnp.squeeze(
            col2im(rnp.expand_dims(x, 0), size, kernel, dilation, padding, stride), 0
        )
    wide = [n + 2 * p for n, p in zip(size, padding, strict=True)]
    rows, columns = window_places(wide, kernel, dilation, stride)
    batch = x.shape[0]
    channels = x.shape[1] // (kernel[0] * kernel[1])
    shape = (batch, channels, *kernel, rows.shape[1], columns.shape[1])
    total = rnp.zeros((batch, channels, *wide), x.value.dtype)
    at = total.at[:, :, rows[:, None, :, None], columns[None, :, None, :]]
    filled = at.add(rnp.reshape(x, shape))
    return filled[(..., *(slice(p, p + n) for n, p in zip(size, padding, strict=True)))]
