"""Distributions by a formula or two each; the rest of their functions follows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import InputError, UnsupportedError
from rlx.tracing.apply import function, inexact

Formula = Callable[..., Any]
"""`formula(z, *shapes)` of a standardized number."""
_DEFAULTS = {"loc": 0, "scale": 1}


def _parameters(
    name: str,
    formula: Formula,
    others: Sequence[str],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> list[Any]:
    """Return the shapes of a distribution, as its `formula` names them, and then `others`."""
    names = [*list(inspect.signature(formula).parameters)[1:], *others]
    given = dict(zip(names, args, strict=False))
    found = {**{key: _DEFAULTS[key] for key in others}, **given, **named}
    if len(args) > len(names) or found.keys() != set(names) or given.keys() & named.keys():
        raise InputError(
            f"{name}: {len(args)} arguments in order, and by name {', '.join(named) or 'none'}",
            remedy=f"give each once: {', '.join(names)}",
        )
    return [found[key] for key in names]


@dataclass(frozen=True)
class Continuous:
    """A continuous distribution: functions of `x`, its shapes, `loc` and `scale`, as SciPy's."""

    name: str
    density: Formula
    """The logarithm of the density."""
    below: Formula | None = None
    """The distribution function."""
    above: Formula | None = None
    """1 less it, exact in the tail."""
    quantile: Formula | None = None
    log_below: Formula | None = None
    log_above: Formula | None = None
    quantile_above: Formula | None = None
    """The inverse of `above`, exact where that is small."""

    def logpdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the density."""
        return self._at(self._log_density, x, args, named)

    def pdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The density."""
        return rnp.exp(self.logpdf(x, *args, **named))

    def cdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of at most `x`."""
        return self._at(self._standard(self.below, "cdf"), x, args, named)

    def logcdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `cdf`."""
        if self.log_below is None:
            return log_of_share(self.cdf(x, *args, **named), self.sf(x, *args, **named))
        return self._at(self._standard(self.log_below, "logcdf"), x, args, named)

    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than `x`."""
        if self.above is None:
            return rnp.subtract(1, self.cdf(x, *args, **named))
        return self._at(self._standard(self.above, "sf"), x, args, named)

    def logsf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `sf`."""
        if self.log_above is None:
            return log_of_share(self.sf(x, *args, **named), self.cdf(x, *args, **named))
        return self._at(self._standard(self.log_above, "logsf"), x, args, named)

    def ppf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The number with `cdf` q; NaN where `q` is no probability."""
        if self.quantile is None:
            raise UnsupportedError(f"{self.name} has no ppf", remedy="solve for it with cdf")
        return self._at(_within_shares(self.quantile), q, args, named)

    def isf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The number with `sf` q; NaN where `q` is no probability."""
        if self.quantile_above is None:
            return self.ppf(rnp.subtract(1, q), *args, **named)
        return self._at(_within_shares(self.quantile_above), q, args, named)

    def _log_density(self, x: Any, *rest: Any) -> Any:
        *shapes, loc, scale = rest
        return self.density((x - loc) / scale, *shapes) - rnp.log(scale)

    def _standard(self, formula: Formula | None, what: str) -> Formula:
        if formula is None:
            raise UnsupportedError(
                f"{self.name} has no {what}", remedy="use logpdf or pdf, which all have"
            )
        chosen = formula

        def at(x: Any, *rest: Any) -> Any:
            *shapes, loc, scale = rest
            return chosen((x - loc) / scale, *shapes)

        return at

    def _at(self, formula: Formula, x: Any, args: Any, named: Any) -> Any:
        return _apply(formula, x, *self._parameters(args, named))

    def _parameters(self, args: Any, named: Any) -> list[Any]:
        return _parameters(self.name, self.density, ("loc", "scale"), args, named)


def _within_shares(formula: Formula) -> Formula:
    """Return a quantile of `q`, the shapes, `loc` and `scale`: NaN where `q` is no probability."""

    def at(q: Any, *rest: Any) -> Any:
        *shapes, loc, scale = rest
        valid = rnp.logical_and(rnp.greater_equal(q, 0), rnp.less_equal(q, 1))
        found = formula(rnp.where(valid, q, 0.5), *shapes)
        return rnp.where(valid, found, rnp.nan) * scale + loc

    return at


def log_of_share(share: Any, rest: Any) -> Any:
    """Return `log(share)` of a probability, by `rest`, 1 less it, where that is small."""
    is_large = rnp.greater(share, 0.5)
    near = rnp.log(rnp.where(is_large, 1, share))
    return rnp.where(is_large, rnp.log1p(-rnp.where(is_large, rest, 0)), near)


def log1mexp(x: Any) -> Any:
    """Return `log(1 - exp(-x))` for x >= 0 (Maechler, 2012)."""
    small = rnp.less(x, 0.6931471805599453)
    below = rnp.log(-rnp.expm1(-rnp.where(small, x, 1)))
    return rnp.where(small, below, rnp.log1p(-rnp.exp(-rnp.where(small, 1, x))))


@function
def _apply(formula: Formula, *numbers: Any) -> Any:
    """Return the formula of `numbers` in their common floating type."""
    return formula(*inexact(*numbers))


@dataclass(frozen=True)
class Discrete:
    """A distribution over integers: functions of `k`, its shapes and `loc`."""

    name: str
    mass: Formula
    """The logarithm of the probability."""
    below: Formula | None = None

    def logpmf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the probability of `k`."""
        return self._at(self.mass, k, args, named)

    def pmf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The probability of `k`."""
        return rnp.exp(self.logpmf(k, *args, **named))

    def cdf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The probability of at most `k`."""
        if self.below is None:
            raise UnsupportedError(f"{self.name} has no cdf", remedy="sum pmf over what is below")
        return self._at(self.below, k, args, named)

    def _at(self, formula: Formula, k: Any, args: Any, named: Any) -> Any:
        *shapes, loc = _parameters(self.name, self.mass, ("loc",), args, named)
        return _apply(lambda k, loc, *shapes: formula(k - loc, *shapes), k, loc, *shapes)
