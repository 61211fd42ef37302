"""Counts of successes: the binomial distribution and, of several outcomes, the multinomial one."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir.dtype import DType, as_dtype
from rlx.random.continuous import parameters
from rlx.random.keys import split
from rlx.random.uniforms import float_dtype, unit_interval
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, function
from rlx.transforms.control import scan, while_loop

_FEW = 10.0
"""Expected successes up to which waiting times are added up; rejection is for more."""
_STIRLING = (
    *(0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650),
    *(0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720),
    *(0.00925546218271273, 0.00833056343336287),
)
"""What Stirling's formula for the logarithm of k! lacks, for small k."""


@function
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """How many of `n` trials succeed, each with probability `p`; or NaN."""
    target = float_dtype(dtype, "binomial")
    working = _working_dtype(p)
    (count, chance), extents = parameters("binomial", working, shape, n, p)
    count, chance = rnp.broadcast_to(count, extents), rnp.broadcast_to(chance, extents)
    rare = rnp.where(chance < 0.5, chance, 1.0 - chance)
    no_chance = rnp.isnan(rare) | (rare < 0.0)
    no_count = rnp.isnan(count) | (count < 0.0)
    rare = rnp.where(no_chance, 0.01, rare)
    endless = rnp.isinf(count) & ~no_count
    count = rnp.where(endless, 0.0, count)  # of endless trials no loop would ever be done
    few = no_count | (count * rare <= _FEW)
    whole = rnp.floor(count)
    small = _by_waiting(key, rnp.where(few, whole, 0.0), rare)
    large = _by_rejection(key, rnp.where(few, 1e4, whole), rnp.where(few, 0.5, rare))
    drawn = rnp.where(no_chance | no_count, np.nan, rnp.where(few, small, large))
    drawn = rnp.where((chance < 0.5) | no_count, drawn, whole - drawn)
    return convert(rnp.where(endless & ~no_chance, np.inf, drawn), target)


def _working_dtype(p: Any) -> DType:
    dtype = as_dtype(rnp.result_type(p, np.float32)) if not isinstance(p, float) else DType.F32
    return dtype if dtype.is_float else DType.F32


def _by_waiting(key: Any, count: Any, chance: Any) -> Any:
    """How many waiting times for a success, which are geometric, fit into `count` trials."""
    failure = rnp.log1p(-chance)

    def is_within(state: Any) -> Any:
        return state[1] <= count

    def wait(state: Any) -> Any:
        found, waited, key = state
        keys: Any = split(key)
        u = unit_interval(keys[0], count.shape, as_dtype(count.dtype))
        found = rnp.where(waited <= count, found + 1, found)
        return found, waited + rnp.ceil(rnp.log(u) / failure), keys[1]

    start = (rnp.zeros_like(count), rnp.zeros_like(count), as_tracer(key))
    return while_loop(lambda state: rnp.any(is_within(state)), wait, start)[0] - 1


def _by_rejection(key: Any, n: Any, p: Any) -> Any:
    """Hörmann, The generation of binomial random variates (1993): his algorithm BTRS."""
    spread = rnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    odds, alpha, mode = p / (1 - p), (2.83 + 5.1 / b) * spread, rnp.floor((n + 1) * p)

    def log_density(k: Any) -> Any:
        """Of k successes, less that of the mode."""
        main = (mode + 0.5) * rnp.log((mode + 1) / (odds * (n - mode + 1)))
        main = main + (n + 1) * rnp.log((n - mode + 1) / (n - k + 1))
        main = main + (k + 0.5) * rnp.log(odds * (n - k + 1) / (k + 1))
        at_mode = _stirling_rest(mode) + _stirling_rest(n - mode)
        return main + at_mode - _stirling_rest(k) - _stirling_rest(n - k)

    def draw(state: Any) -> Any:
        found, accepted, key = state
        keys: Any = split(key, 3)
        drawn: Any = [unit_interval(keys[i], n.shape, as_dtype(n.dtype)) for i in (1, 2)]
        u, v = drawn[0] - 0.5, drawn[1]
        edge = 0.5 - rnp.abs(u)
        k = rnp.floor((2 * a / edge + b) * u + (n * p + 0.5))
        height = rnp.log(v * alpha / (a / (edge * edge) + b))
        inside = (edge >= 0.07) & (v <= 0.92 - 4.2 / b)
        accepts = inside | ((k >= 0) & (k <= n) & (height <= log_density(k)))
        return rnp.where(accepts, k, found), accepted | accepts, keys[0]

    start = (rnp.full_like(n, -1.0), rnp.zeros(n.shape, np.bool_), as_tracer(key))
    return while_loop(lambda state: rnp.any(~state[1]), draw, start)[0]


def _stirling_rest(k: Any) -> Any:
    table = rnp.asarray(np.array(_STIRLING, k.dtype))
    near = rnp.floor(rnp.clip(k, 0.0, 9.0))
    above = rnp.maximum(k, 9.0) + 1
    inverse = 1.0 / (above * above)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 * inverse) * inverse) / above
    return rnp.where(k <= 9, table[convert(near, DType.I32)], series)


@function
def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int = 1
) -> Array:
    """How many of `n` trials have each outcome; probabilities `p` are along the last axis."""
    del unroll  # a loop stays one
    target = float_dtype(dtype, "multinomial")
    working = _working_dtype(p)
    chances = convert(p, working)
    extents = tuple(chances.shape) if shape is None else tuple(shape)
    chances = rnp.moveaxis(rnp.broadcast_to(chances, extents), -1, 0)
    left = rnp.flip(rnp.cumsum(rnp.flip(chances, 0), axis=0), 0)
    shares = chances / rnp.where(left == 0, 1, left)

    def draw(rest: Any, given: Any) -> tuple[Any, Any]:
        share, own = given
        count: Any = binomial(own, rest, rnp.clip(share, 0, 1), dtype=rest.dtype)
        return rest - count, count

    start = rnp.broadcast_to(convert(n, working), extents[:-1])
    _, counts = scan(draw, start, (shares, split(key, chances.shape[0])))
    return convert(rnp.moveaxis(counts, 0, -1), target)
