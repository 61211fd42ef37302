"""Distributions of real numbers that are functions of uniform and normal ones.

Where a parameter of a distribution takes no part in the draw, its gradients are exact: these
are functions of their parameters.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from rlx.errors import ShapeError, UnsupportedError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import Shape
from rlx.numpy import elementwise as e
from rlx.numpy.axes import shape_from
from rlx.numpy.creation import dtype_of
from rlx.numpy.linalg import norm
from rlx.numpy.products import matmul
from rlx.numpy.shaping import squeeze
from rlx.numpy.systems import cholesky
from rlx.random.keys import split
from rlx.random.uniforms import (
    default_int,
    float_dtype,
    rademacher,
    require_broadcast,
    shape_or,
    uniform,
    unit_interval,
)
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact


@function
def normal(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Normally distributed with mean 0 and variance 1, of complex numbers half in each part."""
    extents = shape_from(shape)
    if dtype is not None and dtype_of(dtype, DType.F32).is_complex:
        return _complex_normal(key, extents, dtype_of(dtype, DType.F32))
    return standard_normal(key, extents, float_dtype(dtype, "normal"))


def _complex_normal(key: Any, shape: Shape, dtype: DType) -> Array:
    """Return normals in both parts, by two keys, as JAX does."""
    keys = split(key)
    of_part = dtype.part
    parts = (standard_normal(keys[i], shape, of_part) for i in (0, 1))
    root = np.asarray(np.sqrt(2), of_part.numpy)
    return e.divide(emit(ops.complex, *parts), root)


def standard_normal(key: Any, shape: Shape, dtype: DType) -> Array:
    """Return normals by the inverse of their distribution, as JAX does."""
    one = np.ones((), dtype.numpy)
    low = np.nextafter(-one, 0 * one)
    drawn = uniform(key, shape, dtype, low, one)
    root = np.asarray(np.sqrt(2), dtype.numpy)
    normals: Array = e.multiply(root, emit(ops.erf_inv, drawn))
    return normals


@function
def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Exponentially distributed with mean 1."""
    return standard_exponential(key, shape_from(shape), float_dtype(dtype, "exponential"))


def standard_exponential(key: Any, shape: Shape, dtype: DType) -> Array:
    drawn: Array = e.negative(e.log1p(e.negative(unit_interval(key, shape, dtype))))
    return drawn


@function
def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Array:
    """Gumbel's distribution: `-log(-log(u))`; `mode="high"` resolves its upper tail further."""
    target, extents = float_dtype(dtype, "gumbel"), shape_from(shape)
    if mode not in (None, "low", "high"):
        raise UnsupportedError(
            f"gumbel: mode is {mode!r}; it is 'low' or 'high'", remedy="pass mode='high'"
        )
    info: Any = limits(target)
    if mode != "high":
        return _double_log(e.log(uniform(key, extents, target, info.tiny, 1.0)))
    both: Any = unit_interval(key, (2, *extents), target)
    finer = e.add(e.add(both[0], e.multiply(2.0**-info.nmant, both[1])), info.tiny)
    x = e.where(e.greater_equal(both[0], 0.5), both[0], finer)
    return _double_log(e.log1p(e.negative(x)))


def _double_log(logarithm: Any) -> Array:
    return e.negative(e.log(e.negative(logarithm)))


def limits(dtype: DType) -> Any:
    return ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call] # has no stubs


@function
def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Laplace's distribution: exponential to both sides."""
    target = float_dtype(dtype, "laplace")
    low = -1.0 + float(limits(target).epsneg)
    u = uniform(key, shape, target, low, 1.0)
    return e.multiply(e.sign(u), e.log1p(e.negative(e.abs(u))))


@function
def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """The logistic distribution: `log(u / (1 - u))`."""
    target = float_dtype(dtype, "logistic")
    u = uniform(key, shape, target, float(limits(target).tiny), 1.0)
    return e.subtract(e.log(u), e.log1p(e.negative(u)))


@function
def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Cauchy's distribution: the tangent of a uniform angle."""
    target = float_dtype(dtype, "cauchy")
    u = uniform(key, shape, target, float(limits(target).eps), 1.0)
    return e.tan(e.multiply(np.pi, e.subtract(u, 0.5)))


@function
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Pareto's distribution with exponent `b`, from 1 on."""
    target = float_dtype(dtype, "pareto")
    exponent, extents = parameters("pareto", target, shape, b)
    return e.exp(e.divide(standard_exponential(key, extents, target), *exponent))


@function
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Rayleigh's distribution: the length of two normals."""
    target = float_dtype(dtype, "rayleigh")
    (size,), extents = parameters("rayleigh", target, shape, scale)
    u = unit_interval(key, extents, target)
    return e.multiply(size, e.sqrt(e.multiply(e.log(u), -2.0)))


@function
def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Weibull's distribution."""
    target = float_dtype(dtype, "weibull_min")
    size, power = convert(scale, target), convert(concentration, target)
    drawn = standard_exponential(key, shape_from(shape), target)
    return e.multiply(e.power(drawn, e.divide(1.0, power)), size)


@function
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Array:
    """The exponential of a normal number of deviation `sigma`."""
    target = float_dtype(dtype, "lognormal")
    (deviation,), extents = parameters("lognormal", target, shape, sigma)
    return e.exp(e.multiply(standard_normal(key, extents, target), deviation))


@function
def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Maxwell's distribution: the length of three normals."""
    target = float_dtype(dtype, "maxwell")
    return norm(standard_normal(key, (*shape_from(shape), 3), target), axis=-1)


@function
def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Maxwell's distribution with either sign, about `loc`."""
    target = float_dtype(dtype, "double_sided_maxwell")
    (center, size), common = parameters("double_sided_maxwell", target, None, loc, scale)
    extents = (shape_from(shape) or common) + common
    keys: Any = split(key)
    drawn = e.multiply(rademacher(keys[1], extents, target), maxwell(keys[0], extents, target))
    return e.add(e.multiply(drawn, size), center)


@function
def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None
) -> Array:
    """Of a density that rises from `left` to `mode` and falls to `right`."""
    target = float_dtype(dtype, "triangular")
    (a, c, b), extents = parameters("triangular", target, shape, left, mode, right)
    u = unit_interval(key, extents, target)
    width, rise, fall = e.subtract(b, a), e.subtract(c, a), e.subtract(b, c)
    rising = e.add(a, e.sqrt(e.multiply(e.multiply(u, width), rise)))
    falling = e.subtract(b, e.sqrt(e.multiply(e.multiply(e.subtract(1.0, u), width), fall)))
    return e.where(e.less(u, e.divide(rise, width)), rising, falling)


@function
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Wald's distribution, the inverse Gaussian one, of a mean and scale 1."""
    target = float_dtype(dtype, "wald")
    (m,), extents = parameters("wald", target, shape, mean)
    keys: Any = split(key)
    y = e.square(standard_normal(keys[0], extents, target))
    root = e.sqrt(e.add(e.multiply(e.multiply(4.0, m), y), e.multiply(e.square(m), e.square(y))))
    x = e.subtract(
        e.add(m, e.divide(e.multiply(e.square(m), y), 2.0)), e.multiply(e.divide(m, 2.0), root)
    )
    z = unit_interval(keys[1], extents, target)
    return e.where(e.less_equal(z, e.divide(m, e.add(m, x))), x, e.divide(e.square(m), x))


@function
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Number of Bernoulli trials of probability `p` up to the first success."""
    target = default_int() if dtype is None else dtype_of(dtype, default_int())
    kind = DType.F32 if not as_tracer(p).value.dtype.is_float or isinstance(p, float) else None
    chance = convert(p, kind) if kind else inexact(p)[0]
    extents = shape_or(shape, chance)
    require_broadcast("geometric", extents, chance)
    u = unit_interval(key, extents, chance.value.dtype)
    logarithm = e.log(e.where(e.equal(u, 0.0), 1.0, u))
    tries = e.floor(e.divide(logarithm, e.log1p(e.negative(chance))))
    return convert(e.add(tries, 1.0), target)


@function
def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None,
    method: str = "cholesky",
) -> Array:  # fmt: skip
    """Normally distributed vectors of a mean and a covariance matrix."""
    if method != "cholesky":
        raise UnsupportedError(
            f"multivariate_normal: method is {method!r}; only 'cholesky' is there",
            remedy="leave method out",
        )
    center: Any
    covariance: Any
    center, covariance = inexact(mean, cov)
    target = center.value.dtype if dtype is None else float_dtype(dtype, "multivariate_normal")
    if center.ndim < 1 or covariance.ndim < 2 or covariance.shape[-2:] != 2 * center.shape[-1:]:
        raise ShapeError(
            f"multivariate_normal: the mean has shape {center.shape} and the covariance "
            f"{covariance.shape}; they must be (..., n) and (..., n, n)",
            remedy="give the covariance as many rows and columns as the mean has elements",
        )
    batch: Any = shape
    if shape is None:
        batch = shape_or(None, center[..., 0], covariance[..., 0, 0])
    extents = (*shape_from(batch), *shape_from(center.shape[-1:]))
    normals = standard_normal(key, extents, target)
    turned = matmul(cholesky(covariance), e.astype(normals, target)[..., None])
    return e.add(center, squeeze(turned, -1))


def parameters(name: str, dtype: DType, shape: Any, *given: Any) -> tuple[list[Array], Shape]:
    """Return parameters in the dtype of the draw, and the draw's shape."""
    converted = [convert(each, dtype) for each in given]
    extents = shape_or(shape, *converted)
    require_broadcast(name, extents, *converted)
    return converted, extents
