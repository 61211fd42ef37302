"""Distributions by a formula or two each; the rest of their functions follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.tracing.apply import function, inexact

Formula = Callable[..., Any]
"""`formula(z, *shapes)` of a standardized number."""


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
    shapes: int = 0

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
            return rnp.log(self.cdf(x, *args, **named))
        return self._at(self._standard(self.log_below, "logcdf"), x, args, named)

    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than `x`."""
        if self.above is None:
            return rnp.subtract(1, self.cdf(x, *args, **named))
        return self._at(self._standard(self.above, "sf"), x, args, named)

    def logsf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `sf`."""
        return rnp.log(self.sf(x, *args, **named))

    def ppf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The number with `cdf` q."""
        formula = self._standard(self.quantile, "ppf")
        shapes, loc, scale = self._parts(args, named)
        return _apply(lambda q, *rest: formula(q, *rest[:-2]) * rest[-1] + rest[-2],
                      q, *shapes, loc, scale)  # fmt: skip

    def isf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The number with `sf` q."""
        return self.ppf(rnp.subtract(1, q), *args, **named)

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
            if what == "ppf":
                return chosen(x, *rest)
            *shapes, loc, scale = rest
            return chosen((x - loc) / scale, *shapes)

        return at

    def _at(self, formula: Formula, x: Any, args: Any, named: Any) -> Any:
        shapes, loc, scale = self._parts(args, named)
        return _apply(formula, x, *shapes, loc, scale)

    def _parts(self, args: Any, named: Any) -> tuple[list[Any], Any, Any]:
        given = list(args)
        rest = dict(named)
        loc = rest.pop("loc", given[self.shapes] if len(given) > self.shapes else 0)
        scale = rest.pop("scale", given[self.shapes + 1] if len(given) > self.shapes + 1 else 1)
        return [*given[: self.shapes], *rest.values()][: self.shapes], loc, scale


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
    shapes: int = 1

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
        rest = dict(named)
        loc = rest.pop("loc", args[self.shapes] if len(args) > self.shapes else 0)
        shapes = [*args[: self.shapes], *rest.values()][: self.shapes]
        return _apply(lambda k, loc, *shapes: formula(k - loc, *shapes), k, loc, *shapes)
