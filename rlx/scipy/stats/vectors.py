"""Distributions of vectors."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.ir.source_lines import calling_source
from rlx.numpy import linalg
from rlx.scipy import special
from rlx.tracing.apply import function, inexact


class MultivariateNormal:
    """The normal distribution of vectors."""

    @staticmethod
    @function
    def logpdf(x: Any, mean: Any, cov: Any, allow_singular: Any = None) -> Any:
        """The logarithm of the density; `cov` is positive definite."""
        if allow_singular:
            raise UnsupportedError(
                "allow_singular is True, and a singular covariance has no density",
                source=calling_source(),
                remedy="add a small multiple of the identity to cov",
            )
        x, mean, cov = inexact(x, mean, cov)
        if not mean.shape:
            return -0.5 * (rnp.square(x - mean) / cov + math.log(2 * math.pi) + rnp.log(cov))
        factor = linalg.cholesky(cov)
        rest = linalg.solve_triangular(factor, rnp.expand_dims(x - mean, -1), lower=True)
        volume = rnp.sum(rnp.log(rnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
        whole = mean.shape[-1] * math.log(2 * math.pi)
        return -0.5 * (rnp.sum(rnp.square(rest), (-2, -1)) + whole) - volume

    def pdf(self, x: Any, mean: Any, cov: Any) -> Any:
        """The density."""
        return rnp.exp(self.logpdf(x, mean, cov))


class Dirichlet:
    """The distribution of shares; `x` has them along the first axis."""

    @staticmethod
    @function
    def logpdf(x: Any, alpha: Any) -> Any:
        """The logarithm of the density."""
        x, alpha = inexact(x, alpha)
        shape = (-1, *[1] * (x.ndim - 1))
        if x.shape[0] + 1 == alpha.shape[0]:
            x = rnp.concatenate([x, 1 - rnp.sum(x, 0, keepdims=True)], 0)
        total = special.gammaln(rnp.sum(alpha)) - rnp.sum(special.gammaln(alpha))
        return total + rnp.sum(special.xlogy(rnp.reshape(alpha - 1, shape), x), 0)

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density."""
        return rnp.exp(self.logpdf(x, alpha))


class Multinomial:
    """Counts of `n` draws among classes."""

    @staticmethod
    @function
    def logpmf(x: Any, n: Any, p: Any) -> Any:
        """The logarithm of the probability."""
        x, n, p = inexact(x, n, p)
        terms = special.xlogy(x, p) - special.gammaln(x + 1)
        found = special.gammaln(n + 1) + rnp.sum(terms, -1)
        return rnp.where(rnp.equal(rnp.sum(x, -1), n), found, -rnp.inf)

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        """The probability."""
        return rnp.exp(self.logpmf(x, n, p))


multivariate_normal = MultivariateNormal()
dirichlet = Dirichlet()
multinomial = Multinomial()
