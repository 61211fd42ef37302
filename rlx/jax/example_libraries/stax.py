"""`jax.example_libraries.stax`: layers as pairs of functions.

`init(key, shape)` gives the shape of the result and parameters; `apply(params, x, **kwargs)` the
result. Random layers take `rng=`, a key.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx import lax, nn, random
from rlx.errors import InputError
from rlx.jax.nn import initializers
from rlx.lax.windows import conv_general_shape_tuple, padtype_to_pads, reduce_window_shape_tuple
from rlx.public_names import names_of as _names_of

Layer = tuple[Callable[..., Any], Callable[..., Any]]
glorot, glorot_normal = initializers.glorot_normal, initializers.glorot_normal
randn, normal = initializers.normal, initializers.normal
ones, zeros = initializers.ones, initializers.zeros


def Dense(
    out_dim: int,
    W_init: Any = None,
    b_init: Any = None,
) -> Layer:
    """A matrix and a bias."""
    weights, biases = W_init or glorot(), b_init or normal()

    def init(rng: Any, input_shape: Any) -> Any:
        first, second = random.split(rng)
        params = weights(first, (input_shape[-1], out_dim)), biases(second, (out_dim,))
        return (*input_shape[:-1], out_dim), params

    return init, lambda params, x, **_: rnp.dot(x, params[0]) + params[1]


def GeneralConv(
    dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int],
    strides: Any = None, padding: Any = "VALID", W_init: Any = None,
    b_init: Any = None,
) -> Layer:  # fmt: skip
    """A convolution and a bias for each channel."""
    lhs, rhs, out = dimension_numbers
    steps = strides or (1,) * len(filter_shape)
    weights = W_init or glorot(rhs.index("I"), rhs.index("O"))
    biases = b_init or normal(1e-6)

    def init(rng: Any, input_shape: Any) -> Any:
        space = iter(filter_shape)
        sizes = {"O": out_chan, "I": input_shape[lhs.index("C")]}
        shape = [sizes[c] if c in sizes else next(space) for c in rhs]
        known = [1 if n == -1 else n for n in input_shape]
        found = list(conv_general_shape_tuple(known, shape, steps, padding, dimension_numbers))
        found[out.index("N")] = input_shape[lhs.index("N")]
        first, second = random.split(rng)
        bias_shape = tuple(out_chan if c == "C" else 1 for c in out)
        return tuple(found), (weights(first, shape), biases(second, bias_shape))

    def apply(params: Any, x: Any, **_: Any) -> Any:
        w, b = params
        moved = lax.conv_general_dilated(x, w, steps, padding, dimension_numbers=dimension_numbers)
        return moved + b

    return init, apply


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,
    beta_init: Any = zeros, gamma_init: Any = ones,
) -> Layer:  # fmt: skip
    """Values of a batch less their mean, over their deviation, moved and scaled."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Any) -> Any:
        shape = tuple(n for place, n in enumerate(input_shape) if place not in axes)
        first, second = random.split(rng)
        beta = beta_init(first, shape) if center else ()
        return input_shape, (beta, gamma_init(second, shape) if scale else ())

    def apply(params: Any, x: Any, **_: Any) -> Any:
        beta, gamma = params
        where = tuple(None if place in axes else slice(None) for place in range(x.ndim))
        mean = rnp.mean(x, axes, keepdims=True)
        z = (x - mean) / rnp.sqrt(rnp.var(x, axes, keepdims=True) + epsilon)
        z = z * gamma[where] if scale else z
        return z + beta[where] if center else z

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A function of each element, without parameters."""
    return lambda _, shape: (shape, ()), lambda _, x, **__: fun(x, **fun_kwargs)


Tanh, Relu, Exp = elementwise(rnp.tanh), elementwise(nn.relu), elementwise(rnp.exp)
LogSoftmax, Softmax = elementwise(nn.log_softmax, axis=-1), elementwise(nn.softmax, axis=-1)
Softplus, Sigmoid = elementwise(nn.softplus), elementwise(nn.sigmoid)
Elu, LeakyRelu = elementwise(nn.elu), elementwise(nn.leaky_relu)
Selu, Gelu = elementwise(nn.selu), elementwise(nn.gelu)
Identity: Layer = (lambda _, shape: (shape, ()), lambda _, x, **__: x)
Flatten: Layer = (
    lambda _, shape: ((shape[0], math.prod(shape[1:])), ()),
    lambda _, x, **__: rnp.reshape(x, (x.shape[0], -1)),
)


def _pool(fold: Callable[..., Any], start: float, mean: bool = False) -> Callable[..., Layer]:
    def layer(
        window_shape: Any, strides: Any = None, padding: str = "VALID", spec: Any = None
    ) -> Layer:
        letters = spec or f"N{'HWD'[: len(window_shape)]}C"
        sizes = _among(letters, window_shape)
        steps = _among(letters, strides or (1,) * len(window_shape))

        def init(rng: Any, input_shape: Any) -> Any:
            del rng
            known = [1 if n == -1 else n for n in input_shape]
            pads = padtype_to_pads(known, sizes, steps, padding)
            found = list(reduce_window_shape_tuple(known, sizes, steps, pads))
            place = letters.index("N")
            found[place] = input_shape[place]
            return tuple(found), ()

        def apply(params: Any, x: Any, **_: Any) -> Any:
            del params
            found = lax.reduce_window(x, start, fold, sizes, steps, padding)
            if not mean:
                return found
            return found / lax.reduce_window(rnp.ones_like(x), start, fold, sizes, steps, padding)

        return init, apply

    return layer


def _among(spec: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return extents of windows, of one element on the axes of batch and channels."""
    space = iter(sizes)
    return tuple(1 if c in "NC" else next(space) for c in spec)


MaxPool = _pool(lax.max, -math.inf)
SumPool = _pool(lax.add, 0.0)
AvgPool = _pool(lax.add, 0.0, mean=True)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Elements kept with probability `rate`, and divided by it; all of them for other modes."""

    def apply(params: Any, x: Any, rng: Any = None, **_: Any) -> Any:
        del params
        if mode != "train":
            return x
        if rng is None:
            raise InputError("Dropout is applied without a key", remedy="pass rng=")
        return rnp.where(random.bernoulli(rng, rate, x.shape), x / rate, 0)

    return lambda _, shape: (shape, ()), apply


def FanOut(num: int) -> Layer:
    """The same for several layers."""
    return lambda _, shape: ([shape] * num, ()), lambda _, x, **__: [x] * num


FanInSum: Layer = (lambda _, shape: (shape[0], ()), lambda _, x, **__: sum(x[1:], x[0]))


def FanInConcat(axis: int = -1) -> Layer:
    """Results of several layers side by side."""

    def init(rng: Any, shapes: Any) -> Any:
        del rng
        place = axis % len(shapes[0])
        total = sum(shape[place] for shape in shapes)
        return (*shapes[0][:place], total, *shapes[0][place + 1 :]), ()

    return init, lambda _, x, **__: rnp.concatenate(x, axis)


def serial(*layers: Layer) -> Layer:
    """Layers one after the other."""

    def init(rng: Any, input_shape: Any) -> Any:
        params = []
        for first, _ in layers:
            rng, own = random.split(rng)
            input_shape, param = first(own, input_shape)
            params.append(param)
        return input_shape, params

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        rng = kwargs.pop("rng", None)
        keys = itertools.repeat(None) if rng is None else random.split(rng, len(layers))
        for (_, each), param, key in zip(layers, params, keys, strict=False):
            x = each(param, x, rng=key, **kwargs)
        return x

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Layers side by side: of a list of inputs, a list of results."""

    def init(rng: Any, input_shape: Any) -> Any:
        keys = random.split(rng, len(layers))
        made = [each[0](k, s) for each, k, s in zip(layers, keys, input_shape, strict=True)]
        return [shape for shape, _ in made], [param for _, param in made]

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        rng = kwargs.pop("rng", None)
        keys = [None] * len(layers) if rng is None else random.split(rng, len(layers))
        each = zip(layers, params, x, keys, strict=True)
        return [layer[1](p, one, rng=k, **kwargs) for layer, p, one, k in each]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that is made when the shape of its input is known."""

    def init(rng: Any, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        return make_layer(x.shape)[1](params, x, **kwargs)

    return init, apply


__dir__ = _names_of(__name__)
