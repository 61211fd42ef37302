"""Random numbers: what is drawn, and what an operator makes of it.

A draw depends on shapes and Python numbers alone. `torch.compile` lets PyTorch draw before each
call, so that `torch.manual_seed` gives the numbers of eager mode; `from_torch` draws from a key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx import random
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.torch.registry import name_of, rule
from rlx.torch.types import dtype_of


@dataclass(frozen=True, slots=True)
class Draw:
    """What is drawn: a distribution, its parameters, and the type of the result."""

    kind: str
    parameters: tuple[Any, ...]
    dtype: DType
    operand: int | None = None
    """The operand whose shape is drawn; None where it is the result's."""


def draw_of(target: Any, args: Any, kwargs: Any, dtype: DType) -> Draw | None:
    """Return what an operator draws; None for one that is not random."""
    make = _DRAWS.get(name_of(target))
    return None if make is None else make(args, kwargs, dtype)


def is_random(target: Any) -> bool:
    """True for an operator that draws."""
    return name_of(target) in _DRAWS


def from_key(draw: Draw, key: Any, shape: Any) -> Any:
    """Return an array drawn by a key of `rlx.random`."""
    return _BY_KEY[draw.kind](key, shape, draw.dtype, *draw.parameters)


def _argument(args: Any, kwargs: Any, place: int, name: str, default: Any) -> Any:
    return args[place] if 0 <= place < len(args) else kwargs.get(name, default)


_Make = Callable[[Any, Any, DType], Draw]


def _with(kind: str, *named: tuple[int, str, Any]) -> _Make:
    """Return what makes a draw with parameters at places of the operator's arguments."""

    def make(args: Any, kwargs: Any, dtype: DType) -> Draw:
        return Draw(kind, tuple(_argument(args, kwargs, *each) for each in named), dtype)

    return make


def _integers(low: int, high: int) -> _Make:
    """Return what makes a draw of integers; a negative place of `low` is 0."""

    def make(args: Any, _: Any, dtype: DType) -> Draw:
        return Draw("integers", (0 if low < 0 else args[low], args[high]), dtype)

    return make


def _as_computed(kind: str) -> _Make:
    """Return what makes a draw in f32, or f64 for results in f64."""

    def make(_: Any, __: Any, dtype: DType) -> Draw:
        return Draw(kind, (), DType.F64 if dtype is DType.F64 else DType.F32)

    return make


def _dropout(args: Any, kwargs: Any, dtype: DType) -> Draw | None:
    rate, is_training = args[1], _argument(args, kwargs, 2, "train", True)
    if is_training is False or rate in (0, 1):
        return None
    return Draw("bernoulli", (1 - rate,), dtype)


def _multinomial(args: Any, kwargs: Any, dtype: DType) -> Draw:
    """Without repeats, a number per category is drawn, otherwise one per sample."""
    del dtype
    if args[1] == 1 or not _argument(args, kwargs, 2, "replacement", False):
        return Draw("exponential", (1.0,), dtype_of(args[0].meta["val"].dtype), operand=0)
    return Draw("uniform_standard", (), DType.F64)


_DRAWS: dict[str, Callable[[Any, Any, DType], Draw | None]] = {
    "rand": _with("uniform", (-1, "", 0.0), (-1, "", 1.0)),
    "rand_like": _with("uniform", (-1, "", 0.0), (-1, "", 1.0)),
    "randn": _with("normal", (-1, "", 0.0), (-1, "", 1.0)),
    "randn_like": _with("normal", (-1, "", 0.0), (-1, "", 1.0)),
    "randint": _integers(-1, 0), "randint.low": _integers(0, 1),
    "randint_like": _integers(-1, 1), "randint_like.low_dtype": _integers(1, 2),
    "randperm": _with("permutation", (0, "n", 0)),
    "uniform": _with("uniform", (1, "from", 0.0), (2, "to", 1.0)),
    "normal_functional": _with("normal", (1, "mean", 0.0), (2, "std", 1.0)),
    "normal.float_float": _with("normal", (0, "mean", 0.0), (1, "std", 1.0)),
    "normal.Tensor_float": _as_computed("normal_standard"),
    "normal.float_Tensor": _as_computed("normal_standard"),
    "normal.Tensor_Tensor": _as_computed("normal_standard"),
    "bernoulli.p": _with("bernoulli", (1, "p", 0.5)),
    "bernoulli": _as_computed("uniform_standard"),
    "bernoulli.Tensor": _as_computed("uniform_standard"),
    "exponential": _with("exponential", (1, "lambd", 1.0)),
    "geometric": _with("geometric", (1, "p", 0.5)),
    "cauchy": _with("cauchy", (1, "median", 0.0), (2, "sigma", 1.0)),
    "log_normal": _with("log_normal", (1, "mean", 1.0), (2, "std", 2.0)),
    "native_dropout": _dropout, "multinomial": _multinomial,
}  # fmt: skip


def _floating(sample: Callable[..., Any]) -> Callable[..., Any]:
    """Return a sampler in f32 or f64, whose result is brought to `dtype`."""

    def apply(key: Any, shape: Any, dtype: DType, *parameters: Any) -> Any:
        wide = "f64" if dtype is DType.F64 else "f32"
        return sample(key, shape, wide, *parameters).astype(dtype)

    return apply


def _exponential(key: Any, shape: Any, dtype: Any, mean: Any, std: Any) -> Any:
    return rnp.exp(random.normal(key, shape, dtype) * std + mean)


_BY_KEY: dict[str, Callable[..., Any]] = {
    "uniform": _floating(lambda k, s, t, low, high: random.uniform(k, s, t) * (high - low) + low),
    "uniform_standard": _floating(random.uniform),
    "normal": _floating(lambda k, s, t, mean, std: random.normal(k, s, t) * std + mean),
    "normal_standard": _floating(random.normal),
    "bernoulli": lambda k, s, t, p: random.bernoulli(k, p, s).astype(t),
    "integers": lambda k, s, t, low, high: random.randint(k, s, low, high).astype(t),
    "permutation": lambda k, s, t, n: random.permutation(k, n).astype(t),
    "exponential": _floating(lambda k, s, t, rate: random.exponential(k, s, t) / rate),
    "geometric": lambda k, s, t, p: random.geometric(k, p, s).astype(t),
    "cauchy": _floating(lambda k, s, t, at, width: random.cauchy(k, s, t) * width + at),
    "log_normal": _floating(lambda k, s, t, mean, std: _exponential(k, s, t, mean, std)),
}  # fmt: skip


@rule(*(name for name in _DRAWS if name not in ("native_dropout", "multinomial")))
def drawn(draw: Any, *_: Any, **named: Any) -> Any:
    """The numbers drawn, where nothing depends on values."""
    del named
    return draw


@rule("bernoulli", "bernoulli.Tensor")
def bernoulli(draw: Any, x: Any, p: Any = None) -> Any:
    return rnp.less(draw, x if p is None else p)


@rule("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal(draw: Any, mean: Any, std: Any = 1.0) -> Any:
    return draw * std + mean


@rule("native_dropout")
def native_dropout(draw: Any, x: Any, rate: float, train: bool | None) -> tuple[Any, Any]:
    if draw is None and rate == 1 and train is not False:
        return rnp.zeros_like(x), rnp.zeros(x.shape, "bool")
    if draw is None:
        return x, rnp.ones(x.shape, "bool")
    return x * (draw / (1 - rate)), draw.astype("bool")


@rule("multinomial")
def multinomial(draw: Any, weights: Any, count: int, replacement: bool = False) -> Any:
    """Categories by their weights, in the last axis."""
    if count == 1 or not replacement:
        keys = weights / draw
        if count == 1:
            return rnp.argmax(keys, -1, keepdims=True)
        return rnp.argsort(keys, axis=-1, descending=True, stable=True)[..., :count]
    below = rnp.cumsum(weights, -1)
    share = (below / below[..., -1:])[..., :-1].astype("f64")
    is_before = rnp.less(rnp.expand_dims(share, -2), rnp.expand_dims(draw, -1))
    return rnp.sum(is_before.astype("i64"), -1)
