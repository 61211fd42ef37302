"""Distributions by a formula or two each; the rest of their functions follows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import InputError, UnsupportedError
from rlx.scipy.special.scaled import Shares
from rlx.scipy.special.shares import in_doubles
from rlx.tracing.apply import function, inexact
from rlx.transforms.control import while_loop
from rlx.transforms.differentiate import stop_gradient

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
    in_doubles: bool = False
    """Whether the distribution function is computed in f64, and rounded once."""

    def logpdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the density."""
        return self._at(self._log_density, x, args, named)

    def pdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The density."""
        return rnp.exp(self.logpdf(x, *args, **named))

    def cdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of at most `x`."""
        return self._share(self.below, "cdf", x, args, named)

    def logcdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `cdf`."""
        if self.log_below is None:
            return log_of_share(self.cdf(x, *args, **named), self.sf(x, *args, **named))
        return self._share(self.log_below, "logcdf", x, args, named)

    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than `x`."""
        if self.above is None:
            return rnp.subtract(1, self.cdf(x, *args, **named))
        return self._share(self.above, "sf", x, args, named)

    def logsf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `sf`."""
        if self.log_above is None:
            return log_of_share(self.sf(x, *args, **named), self.cdf(x, *args, **named))
        return self._share(self.log_above, "logsf", x, args, named)

    def ppf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The number with `cdf` q; NaN where `q` is no probability."""
        if self.quantile is None:
            raise UnsupportedError(
                f"{self.name} has no ppf",
                remedy="find the quantile from cdf, for instance by bisection",
            )
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

    def _share(self, formula: Formula | None, what: str, x: Any, args: Any, named: Any) -> Any:
        apply = in_doubles if self.in_doubles else _apply
        return apply(self._standard(formula, what), x, *self._parameters(args, named))

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
    shares: Shares | None = None
    """The share of at most so many, that of more, and their logarithms, functions in f64."""
    numbers: Formula = lambda *given: given
    """What `shares` take, of a whole count that is not negative and the shapes."""
    most: Formula = lambda *_: np.inf
    """The largest count, of the shapes."""
    least: float = 0.0

    def logpmf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the probability of `k`."""
        return _apply(self._shifted(self.mass), k, *self._parameters(args, named))

    def pmf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The probability of `k`."""
        return rnp.exp(self.logpmf(k, *args, **named))

    def cdf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The probability of at most `k`."""
        return self._share(0, "cdf", k, args, named)

    def sf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than `k`."""
        return self._share(1, "sf", k, args, named)

    def logcdf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `cdf`."""
        return self._share(2, "logcdf", k, args, named)

    def logsf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `sf`."""
        return self._share(3, "logsf", k, args, named)

    def ppf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The least count with `cdf` of at least q, -1 for 0; NaN where `q` is no probability."""
        return self._count(0, "ppf", q, args, named)

    def isf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The least count with `sf` of at most q, -1 for 1; NaN where `q` is no probability."""
        return self._count(1, "isf", q, args, named)

    def _share(self, place: int, what: str, k: Any, args: Any, named: Any) -> Any:
        at = self._shifted(lambda k, *shapes: self._of_counts(place, what, k, *shapes))
        return in_doubles(at, k, *self._parameters(args, named))

    def _of_counts(self, place: int, what: str, k: Any, *shapes: Any) -> Any:
        if self.shares is None:
            raise UnsupportedError(f"{self.name} has no {what}", remedy="sum pmf over the counts")
        return self._at_counts(self.shares[place], place, k, shapes)

    def _at_counts(self, function: Formula, place: int, k: Any, shapes: Sequence[Any]) -> Any:
        most = self.most(*shapes)
        inside = rnp.greater_equal(k, 0) & rnp.less(k, most)
        share = function(*self.numbers(rnp.floor(rnp.where(inside, k, 0)), *shapes))
        below, above = ((0.0, 1.0), (1.0, 0.0), (-np.inf, 0.0), (0.0, -np.inf))[place]
        found = rnp.where(inside, share, rnp.where(rnp.less(k, 0), below, above))
        return rnp.where(rnp.isnan(k) | rnp.isnan(share), rnp.nan, found)

    def _count(self, place: int, what: str, q: Any, args: Any, named: Any) -> Any:
        def at(q: Any, *rest: Any) -> Any:
            *shapes, loc = (stop_gradient(each) for each in rest)
            q = stop_gradient(q)
            return loc + self._least_count(place, what, q, shapes) + 0 * sum(rest[:-1], start=0 * q)

        return in_doubles(at, q, *self._parameters(args, named))

    def _least_count(self, place: int, what: str, q: Any, shapes: Sequence[Any]) -> Any:
        most = self.most(*shapes) + rnp.zeros_like(q)
        invalid = rnp.isnan(self._of_counts(place, what, rnp.zeros_like(q), *shapes))
        assert self.shares is not None
        plain = [getattr(share, "plain", share) for share in self.shares]  # without derivatives
        inside = rnp.greater(q, 0) & rnp.less(q, 1) & rnp.logical_not(invalid)
        nothing, everything = (0.0, 1.0) if place == 0 else (1.0, 0.0)
        share, is_small = rnp.where(inside, q, 0.5), rnp.less_equal(q, 0.5)
        below, above = (share, 1 - share) if place == 0 else (1 - share, share)
        is_lower = is_small if place == 0 else rnp.logical_not(is_small)

        def is_enough(k: Any) -> Any:
            """Compare on the side where the share is at most 1/2, whose difference is exact."""
            lower, upper = (self._at_counts(plain[side], side, k, shapes) for side in (0, 1))
            return rnp.where(is_lower, lower >= below, upper <= above)

        found = least_count(is_enough, rnp.where(inside, most, 0.0))
        found = rnp.where(rnp.equal(q, nothing), self.least - 1, found)
        found = rnp.where(rnp.equal(q, everything), most, found)
        valid = rnp.greater_equal(q, 0) & rnp.less_equal(q, 1) & rnp.logical_not(invalid)
        return rnp.where(valid, found, rnp.nan)

    def _shifted(self, formula: Formula) -> Formula:
        """Return a formula of `k`, the shapes and `loc`."""
        return lambda k, *rest: formula(k - rest[-1], *rest[:-1])

    def _parameters(self, args: Any, named: Any) -> list[Any]:
        return _parameters(self.name, self.mass, ("loc",), args, named)


def least_count(is_enough: Formula, most: Any) -> Any:
    """Return the least count up to `most` that is enough.

    The count is doubled until it is enough, or `most`, and then found by halves.
    """

    def is_open(state: Any) -> Any:
        low, high, grows = state
        return rnp.any(grows | rnp.greater(high - low, 1))

    def step(state: Any) -> Any:
        low, high, grows = state
        at = rnp.where(grows, high, rnp.floor(0.5 * (low + high)))
        enough = is_enough(at) | rnp.greater_equal(at, rnp.minimum(most, _MOST_COUNT))
        high = rnp.where(enough, at, rnp.where(grows, rnp.minimum(2 * at, most), high))
        return rnp.where(enough, low, at), high, grows & rnp.logical_not(enough)

    start = rnp.full_like(most, -1.0), rnp.minimum(most, 1.0), rnp.ones_like(most, dtype=bool)
    return while_loop(is_open, step, start)[1]


_MOST_COUNT = 2.0**53
