"""Numbers that may be less than any float, and shares of a distribution below and above a point."""

from __future__ import annotations

from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.scipy.special import pairs


class Scaled(NamedTuple):
    """The positive number `exp(exponent) factor`."""

    exponent: pairs.Pair
    factor: Any

    def over(self, other: Scaled) -> Scaled:
        """Return the quotient."""
        return Scaled(self.exponent - other.exponent, self.factor / other.factor)

    def value(self) -> Any:
        """Return the number, rounded."""
        return pairs.exp(self.exponent) * self.factor

    def log(self) -> Any:
        """Return its logarithm."""
        return self.exponent.high + (self.exponent.low + rnp.log(self.factor))


class Shares(NamedTuple):
    """Lower and upper share, and the logarithms of both."""

    lower: Any
    upper: Any
    log_lower: Any
    log_upper: Any

    def reversed(self) -> Shares:
        """Return the upper share as the lower one."""
        return Shares(self.upper, self.lower, self.log_upper, self.log_lower)

    def swapped(self, is_swapped: Any) -> Shares:
        """Return the upper share as the lower one where `is_swapped`."""
        pairs = zip(self.reversed(), self, strict=True)
        return Shares(*(rnp.where(is_swapped, other, own) for other, own in pairs))


def shares_of(lower: Scaled, upper: Scaled | None = None, rest: Any = None) -> Shares:
    """Return shares of which both are scaled, or the upper one is `rest`."""
    low = rnp.minimum(lower.value(), 1.0)
    high = rest if upper is None else rnp.minimum(upper.value(), 1.0)
    log_high = rnp.log(high) if upper is None else upper.log()
    log_low = rnp.where(rnp.greater(low, 0.5), rnp.log1p(-high), lower.log())
    log_high = rnp.where(rnp.greater(high, 0.5), rnp.log1p(-low), log_high)
    return Shares(low, high, rnp.minimum(log_low, 0.0), rnp.minimum(log_high, 0.0))
