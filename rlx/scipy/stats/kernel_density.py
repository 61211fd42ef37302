"""Kernel density estimates: the density of a sample as a mean of normal densities around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx import random
from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.ir.source_lines import calling_source
from rlx.numpy import linalg
from rlx.scipy import special
from rlx.scipy.stats.distributions import norm
from rlx.tracing.apply import function, inexact
from rlx.tree_util import register_pytree_node_class

_FIELDS = ("dataset", "weights", "neff", "covariance", "inv_cov")


@register_pytree_node_class
class gaussian_kde:  # noqa: N801  as in SciPy
    """The density of `dataset`, of shape (d, n) or (n,), by normal kernels of one covariance.

    `bw_method` is what the sample's standard deviation is multiplied by: scott's or silverman's
    factor, a number, or a function of the estimate. The estimate is a tree of arrays.
    """

    dataset: Any
    weights: Any
    neff: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self,
        dataset: Any,
        bw_method: str | float | Callable[[Any], Any] | None = None,
        weights: Any = None,
    ) -> None:
        self.dataset, self.weights, self.neff, spread = _sample(dataset, weights)
        factor = _factor(self, bw_method)
        self.covariance = spread * factor**2
        self.inv_cov = linalg.inv(spread) / factor**2

    @property
    def d(self) -> int:
        """How many numbers a point has."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """How many points the sample has."""
        return int(self.dataset.shape[1])

    def evaluate(self, points: Any) -> Any:
        """The density at points, of shape (d, m), or (m,) for numbers."""
        return rnp.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    @function
    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density."""
        points = self._points(x)
        return special.logsumexp(
            _log_normal(points.T[:, None] - self.dataset.T, self.covariance), -1, self.weights
        )

    @function
    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times that of a normal distribution."""
        mean, cov = rnp.atleast_1d(mean), rnp.atleast_2d(cov)
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ShapeError(
                f"mean has shape {mean.shape} and cov {cov.shape}; points have {self.d} numbers",
                remedy=f"pass a mean of shape ({self.d},), a covariance of ({self.d}, {self.d})",
            )
        log_density = _log_normal(self.dataset.T - mean, self.covariance + cov)
        return rnp.sum(rnp.exp(log_density) * self.weights)

    @function
    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The integral between two numbers, of a density of numbers."""
        if self.d != 1:
            raise ShapeError(
                f"points have {self.d} numbers; integrate_box_1d is for one",
                remedy="estimate the density of one row of the dataset",
            )
        scale = rnp.sqrt(self.covariance[0, 0])
        inside = norm.cdf(high, self.dataset[0], scale) - norm.cdf(low, self.dataset[0], scale)
        return rnp.sum(inside * self.weights)

    @function
    def integrate_kde(self, other: Any) -> Any:
        """The integral of the product with another estimate."""
        if other.d != self.d:
            raise ShapeError(
                f"points have {self.d} numbers, those of the other estimate {other.d}",
                remedy="pass an estimate of points of the same kind",
            )
        rest = self.dataset.T[:, None] - other.dataset.T
        density = rnp.exp(_log_normal(rest, self.covariance + other.covariance))
        return self.weights @ density @ other.weights

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Draw points, of shape (d, *shape)."""
        first, second = random.split(key)
        chosen = random.choice(first, self.n, shape=shape, p=self.weights)
        moved = random.multivariate_normal(
            second, rnp.zeros(self.d, self.covariance.dtype), self.covariance, shape,
            self.dataset.dtype,
        )  # fmt: skip
        return rnp.take(self.dataset, chosen, 1) + rnp.moveaxis(moved, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Refuse: the integral over a box of several axes has no formula."""
        del low_bounds, high_bounds, maxpts
        raise UnsupportedError(
            "integrate_box has no formula in several dimensions",
            source=calling_source(),
            remedy="use integrate_box_1d, or the mean over draws of resample",
        )

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Refuse: an estimate does not change."""
        del bw_method
        raise UnsupportedError(
            "an estimate does not change",
            source=calling_source(),
            remedy="make another one, with the wanted bw_method",
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Its arrays; nothing belongs to the structure."""
        return tuple(getattr(self, name) for name in _FIELDS), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any, ...]) -> gaussian_kde:
        """Return the estimate of these arrays."""
        made = object.__new__(cls)
        vars(made).update(zip(_FIELDS, children, strict=True))
        return made

    def _points(self, points: Any) -> Any:
        (points,) = inexact(rnp.atleast_2d(points))
        if points.shape[0] == 1 and points.shape[1] == self.d != 1:
            points = points.T  # one point
        if points.shape[0] != self.d:
            raise ShapeError(
                f"points have {points.shape[0]} numbers, those of the dataset {self.d}",
                remedy="pass points in columns",
            )
        return points


@function
def _sample(dataset: Any, weights: Any) -> tuple[Any, Any, Any, Any]:
    """Return points in columns, weights of sum 1, how many points they represent, the spread."""
    (dataset,) = inexact(rnp.atleast_2d(dataset))
    if dataset.size < 2 or dataset.ndim > 2 or dataset.value.dtype.is_complex:
        raise ShapeError(
            f"dataset has shape {dataset.shape} and dtype {dataset.dtype}",
            remedy="pass two real numbers or more, or points in columns",
        )
    count = dataset.shape[1]
    if weights is None:
        weights = rnp.full(count, 1 / count, dataset.dtype)
    elif rnp.shape(weights) != (count,):
        raise ShapeError(
            f"weights have shape {rnp.shape(weights)}; there are {count} points",
            remedy="pass a weight for each point",
        )
    weights = weights / rnp.sum(weights)
    spread = rnp.atleast_2d(rnp.cov(dataset, aweights=weights))
    return dataset, weights, 1 / rnp.sum(rnp.square(weights)), spread


def _factor(estimate: gaussian_kde, method: Any) -> Any:
    if callable(method):
        return method(estimate)
    if isinstance(method, str) and method not in ("scott", "silverman"):
        raise InputError(
            f"bw_method is {method!r}",
            source=calling_source(),
            remedy="use scott, silverman, a number or a function of the estimate",
        )
    if not isinstance(method, str | None):
        return method
    shrunk = 1.0 if method != "silverman" else (estimate.d + 2) / 4
    return (estimate.neff * shrunk) ** (-1 / (estimate.d + 4))


def _log_normal(rest: Any, covariance: Any) -> Any:
    """Return the logarithm of the normal density at distances `rest`, [..., d], from the mean."""
    factor = linalg.cholesky(covariance)
    flat = rnp.reshape(rest, (-1, rest.shape[-1]))
    white = linalg.solve_triangular(factor, flat.T, lower=True)
    squares = rnp.reshape(rnp.sum(rnp.square(white), 0), rest.shape[:-1])
    volume = rnp.sum(rnp.log(rnp.diagonal(factor)))
    return -0.5 * (squares + rest.shape[-1] * math.log(2 * math.pi)) - volume
