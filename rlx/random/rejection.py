"""Distributions that are drawn by rejection: gamma and what is made of it, and Poisson's.

Every element has a key of its own, so that how often one of them is drawn again changes no other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlx.ir.dtype import DType, as_dtype
from rlx.ir.shape import Shape
from rlx.numpy import elementwise as e
from rlx.numpy.axes import shape_from
from rlx.numpy.creation import dtype_of, full, zeros
from rlx.numpy.reductions import any as any_of
from rlx.numpy.reductions import sum as sum_of
from rlx.numpy.shaping import broadcast_to, reshape
from rlx.random.continuous import limits, parameters, standard_exponential, standard_normal
from rlx.random.keys import split
from rlx.random.uniforms import default_int, float_dtype, rademacher, unit_interval
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, function
from rlx.transforms.batch import vmap
from rlx.transforms.control import while_loop
from rlx.transforms.custom_jvp import custom_jvp


@function
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Array:
    """The gamma distribution of shape `a` and scale 1, with its derivative by `a`."""
    target = float_dtype(dtype, "gamma")
    return _gamma(key, *_spread("gamma", target, shape, a), False)


@function
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Array:
    """The logarithm of what `gamma` draws, which does not underflow for small `a`."""
    target = float_dtype(dtype, "loggamma")
    return _gamma(key, *_spread("loggamma", target, shape, a), True)


def _spread(name: str, dtype: DType, shape: Any, a: Any) -> tuple[Array, Shape]:
    (alpha,), extents = parameters(name, dtype, shape, a)
    return broadcast_to(alpha, extents), extents


def _gamma(key: Any, alpha: Array, shape: Shape, in_logarithms: bool) -> Array:
    count = math.prod(shape)
    if not count:
        return alpha
    draw = _log_gamma_of_one if in_logarithms else _gamma_of_one
    return reshape(vmap(draw)(split(key, count), reshape(alpha, (count,))), shape)


@custom_jvp
def _gamma_of_one(key: Any, alpha: Any) -> Any:
    scale, volume, key = _marsaglia_tsang(key, alpha)
    drawn = e.subtract(1.0, unit_interval(key, (), as_dtype(alpha.dtype)))
    boost = e.power(drawn, e.divide(1.0, alpha))
    return e.multiply(e.multiply(scale, volume), e.where(e.greater_equal(alpha, 1.0), 1.0, boost))


@custom_jvp
def _log_gamma_of_one(key: Any, alpha: Any) -> Any:
    scale, volume, key = _marsaglia_tsang(key, alpha)
    drawn = e.negative(standard_exponential(key, (), as_dtype(alpha.dtype)))
    boosted = e.logical_and(e.less(alpha, 1.0), e.not_equal(drawn, 0.0))
    boost = e.where(boosted, e.divide(drawn, alpha), 0.0)
    return e.add(e.add(e.log(scale), e.log(volume)), boost)


@_gamma_of_one.defjvp
def _gamma_tangent(primals: Any, tangents: Any) -> Any:
    drawn: Any = _gamma_of_one(*primals)
    tiny = float(limits(as_dtype(drawn.dtype)).tiny)
    slope = _slope_of_logarithm(e.log(e.maximum(drawn, tiny)), primals[1])
    return drawn, e.multiply(e.multiply(drawn, slope), tangents[1])


@_log_gamma_of_one.defjvp
def _log_gamma_tangent(primals: Any, tangents: Any) -> Any:
    drawn = _log_gamma_of_one(*primals)
    return drawn, e.multiply(_slope_of_logarithm(drawn, primals[1]), tangents[1])


def _slope_of_logarithm(logarithm: Any, alpha: Any) -> Any:
    """Return how the logarithm of x changes with alpha, at a fixed value of the distribution.

    The distribution is x**alpha exp(-x) / gamma(alpha) times the sum of
    t_n = x**n / (alpha (alpha + 1) ... (alpha + n)), which gives the sum of
    t_n (digamma(alpha + n + 1) - log(x)).
    """
    x = e.exp(logarithm)
    precision = float(limits(as_dtype(alpha.dtype)).eps)

    def continues(state: Any) -> Any:
        last, _, _, step, total = state
        matters = e.greater(e.abs(step), e.multiply(precision, e.abs(total)))
        return e.logical_or(matters, e.less(last, x))

    def add(state: Any) -> Any:
        last, term, digamma, _, total = state
        last = e.add(last, 1.0)
        term = e.multiply(term, e.divide(x, last))
        digamma = e.add(digamma, e.divide(1.0, last))
        step = e.multiply(term, e.subtract(digamma, logarithm))
        return last, term, digamma, step, e.add(total, step)

    term, digamma = e.divide(1.0, alpha), _digamma(e.add(alpha, 1.0))
    step = e.multiply(term, e.subtract(digamma, logarithm))
    return while_loop(continues, add, (alpha, term, digamma, step, step))[-1]


def _digamma(x: Any) -> Any:
    """The derivative of the logarithm of the gamma function, for positive `x`."""
    shift = e.divide(1.0, x)
    for step in range(1, 8):
        shift = e.add(shift, e.divide(1.0, e.add(x, float(step))))
    far = e.add(x, 8.0)
    inverse = e.square(e.divide(1.0, far))
    series = e.multiply(inverse, e.subtract(1 / 120, e.multiply(inverse, 1 / 252)))
    series = e.multiply(inverse, e.subtract(1 / 12, series))
    return e.subtract(e.subtract(e.subtract(e.log(far), e.divide(0.5, far)), series), shift)


def _marsaglia_tsang(key: Any, alpha: Any) -> tuple[Any, Any, Any]:
    """Return d and V, whose product has the distribution of `alpha`, of 1 more where below 1.

    Marsaglia and Tsang, A simple method for generating gamma variables (2000).
    """
    dtype = as_dtype(alpha.dtype)
    raised = e.where(e.greater_equal(alpha, 1.0), alpha, e.add(alpha, 1.0))
    d = e.subtract(raised, 1.0 / 3.0)
    c = e.divide(1.0 / 3.0, e.sqrt(d))

    def is_rejected(state: Any) -> Any:
        _, square, volume, u = state
        outside = e.greater_equal(u, e.subtract(1.0, e.multiply(0.0331, e.square(square))))
        bound = e.add(e.subtract(1.0, volume), e.log(volume))
        bound = e.add(e.multiply(square, 0.5), e.multiply(d, bound))
        return e.logical_and(outside, e.greater_equal(e.log(u), bound))

    def draw(state: Any) -> Any:
        keys: Any = split(state[0], 3)
        x, v = _positive(keys[1], c, dtype)
        cube = e.multiply(e.square(v), v)
        return keys[0], e.square(x), cube, unit_interval(keys[2], (), dtype)

    keys: Any = split(key)
    zero, one, two = (np.asarray(number, dtype.numpy) for number in (0, 1, 2))
    _, _, volume, _ = while_loop(is_rejected, draw, (keys[0], zero, one, two))
    return d, volume, keys[1]


def _positive(key: Any, c: Any, dtype: DType) -> tuple[Any, Any]:
    """Draw a normal x anew until 1 + c x is positive."""

    def draw(state: Any) -> Any:
        keys: Any = split(state[0])
        x = standard_normal(keys[1], (), dtype)
        return keys[0], x, e.add(1.0, e.multiply(x, c))

    start = (key, np.asarray(0, dtype.numpy), np.asarray(-1, dtype.numpy))
    _, x, v = while_loop(lambda state: e.less_equal(state[2], 0.0), draw, start)
    return x, v


@function
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Array:
    """The beta distribution, of two gamma numbers the share of the first."""
    target = float_dtype(dtype, "beta")
    (first, second), extents = parameters("beta", target, shape, a, b)
    keys: Any = split(key)
    logs = [
        loggamma(keys[i], each, extents, target.numpy) for i, each in enumerate((first, second))
    ]
    largest = e.maximum(*logs)
    shares = [e.exp(e.subtract(each, largest)) for each in logs]
    return e.divide(shares[0], e.add(*shares))


@function
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Dirichlet's distribution: gamma numbers divided by their sum."""
    target = float_dtype(dtype, "dirichlet")
    concentration: Any = convert(alpha, target)
    batch = concentration.shape[:-1] if shape is None else shape_from(shape)
    extents = (*batch, concentration.shape[-1])
    logs: Any = loggamma(key, concentration, extents, target.numpy)
    shares = e.exp(e.subtract(logs, logs.max(axis=-1, keepdims=True)))
    return e.divide(shares, sum_of(shares, axis=-1, keepdims=True))


@function
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Array:
    """The sum of `df` squares of normals."""
    target = float_dtype(dtype, "chisquare")
    half = e.divide(convert(df, target), 2.0)
    return e.multiply(e.exp(loggamma(key, half, shape, target.numpy)), 2.0)


@function
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Fisher's distribution: the ratio of two mean squares."""
    target = float_dtype(dtype, "f")
    (upper, lower), extents = parameters("f", target, shape, dfnum, dfden)
    keys: Any = split(key)
    over = e.divide(chisquare(keys[1], upper, extents, target.numpy), upper)
    return e.divide(over, e.divide(chisquare(keys[0], lower, extents, target.numpy), lower))


@function
def t(key: Any, df: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Student's distribution of `df` degrees of freedom."""
    target = float_dtype(dtype, "t")
    (freedom,), extents = parameters("t", target, shape, df)
    keys: Any = split(key)
    half = e.divide(freedom, 2.0)
    ratio = e.divide(half, gamma(keys[1], half, extents, target.numpy))
    return e.multiply(standard_normal(keys[0], extents, target), e.sqrt(ratio))


@function
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Of a density proportional to `exp(-|x|**p)`."""
    target = float_dtype(dtype, "generalized_normal")
    keys: Any = split(key)
    drawn = gamma(keys[0], 1.0 / p, shape_from(shape), target.numpy)
    signs = rademacher(keys[1], shape, target.numpy)
    return e.multiply(signs, e.power(drawn, np.asarray(1.0 / p, target.numpy)))


@function
def ball(key: Any, d: int, p: float = 2, shape: Any = (), dtype: Any = None) -> Array:
    """Uniform in the unit ball of the p-norm in `d` dimensions."""
    target = float_dtype(dtype, "ball")
    keys: Any = split(key)
    extents = shape_from(shape)
    point = generalized_normal(keys[0], p, (*extents, d), target.numpy)
    length = sum_of(e.power(e.abs(point), np.asarray(p, target.numpy)), axis=-1)
    length = e.add(length, standard_exponential(keys[1], extents, target))
    root: Any = e.power(length, np.asarray(1.0 / p, target.numpy))
    return e.divide(point, root[..., None])


@function
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Poisson's distribution of mean `lam`."""
    target = default_int() if dtype is None else dtype_of(dtype, default_int())
    (mean,), extents = parameters("poisson", DType.F32, shape, lam)
    mean = broadcast_to(mean, extents)
    is_small = e.logical_or(e.isnan(mean), e.less(mean, 10.0))
    small = _poisson_of_products(key, e.where(is_small, mean, 0.0), extents, target)
    large = _poisson_by_rejection(key, e.where(is_small, 1e5, mean), extents, target)
    drawn = e.where(is_small, small, large)
    return e.where(e.equal(mean, 0.0), e.multiply(drawn, 0), drawn)


def _poisson_of_products(key: Any, mean: Any, shape: Shape, dtype: DType) -> Any:
    """How many uniform numbers may be multiplied before the product is below exp(-mean) (Knuth)."""

    def is_above(state: Any) -> Any:
        return e.greater(state[2], e.negative(mean))

    def multiply(state: Any) -> Any:
        count, key, product = state
        keys: Any = split(key)
        count = e.where(is_above(state), e.add(count, 1), count)
        return count, keys[0], e.add(product, e.log(unit_interval(keys[1], shape, DType.F32)))

    start = (zeros(shape, dtype.numpy), as_tracer(key), zeros(shape, np.float32))
    count, _, _ = while_loop(lambda state: any_of(is_above(state)), multiply, start)
    return e.subtract(count, 1)


def _poisson_by_rejection(key: Any, mean: Any, shape: Shape, dtype: DType) -> Any:
    """Hörmann, The transformed rejection method for generating Poisson random variables (1993)."""
    b = e.add(0.931, e.multiply(2.53, e.sqrt(mean)))
    a = e.add(-0.059, e.multiply(0.02483, b))
    inverse = e.add(1.1239, e.divide(1.1328, e.subtract(b, 3.4)))
    most = e.subtract(0.9277, e.divide(3.6224, e.subtract(b, 2.0)))

    def draw(state: Any) -> Any:
        found, accepted, key = state
        keys: Any = split(key, 3)
        u = e.subtract(unit_interval(keys[1], shape, DType.F32), 0.5)
        v = unit_interval(keys[2], shape, DType.F32)
        edge = e.subtract(0.5, e.abs(u))
        scaled = e.multiply(e.add(e.divide(e.multiply(2.0, a), edge), b), u)
        k = e.floor(e.add(e.add(scaled, mean), 0.43))
        s = e.log(e.divide(e.multiply(v, inverse), e.add(e.divide(a, e.square(edge)), b)))
        density = e.add(e.negative(mean), e.multiply(k, e.log(mean)))
        density = e.subtract(density, _log_factorial(e.maximum(k, 0.0)))
        inside = e.logical_and(e.greater_equal(edge, 0.07), e.less_equal(v, most))
        corner = e.logical_and(e.less(edge, 0.013), e.greater(v, edge))
        outside = e.logical_or(e.less(k, 0.0), corner)
        accepts = e.logical_or(
            inside, e.logical_and(e.logical_not(outside), e.less_equal(s, density))
        )
        return e.where(accepts, k, found), e.logical_or(accepted, accepts), keys[0]

    start = (full(shape, -1.0, np.float32), zeros(shape, np.bool_), as_tracer(key))
    found, _, _ = while_loop(lambda state: any_of(e.logical_not(state[1])), draw, start)
    return convert(found, dtype)


def _log_factorial(k: Any) -> Any:
    """Stirling's series at k + 8, and what leads from there to the logarithm of k!."""
    x = e.add(k, 8.0)
    inverse = e.divide(1.0, x)
    correction = e.multiply(
        inverse, e.subtract(1.0 / 12.0, e.multiply(e.square(inverse), 1.0 / 360.0))
    )
    stirling = e.subtract(e.multiply(e.subtract(x, 0.5), e.log(x)), x)
    product = e.add(k, 1.0)
    for step in range(2, 8):
        product = e.multiply(product, e.add(k, float(step)))
    above = e.add(e.add(stirling, 0.5 * math.log(2.0 * math.pi)), correction)
    return e.subtract(above, e.log(product))
