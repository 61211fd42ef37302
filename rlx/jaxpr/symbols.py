"""Symbolic extents: those of rlx as dimensions of `jax.export`, and back."""

from __future__ import annotations

from typing import Any

from jax import export

from rlx.errors import UnsupportedError
from rlx.ir.shape import Dim, Extent, Quotient, Symbol


class Symbols:
    """The symbols of one call, as dimension variables of one scope of JAX."""

    def __init__(self, extents: list[Extent]) -> None:
        found = {s for e in extents if isinstance(e, Dim) for s in e.symbols}
        self._symbols = sorted(found)
        if not self._symbols:
            self.variables: dict[str, Any] = {}
            return
        names = ", ".join(symbol.name for symbol in self._symbols)
        made = export.symbolic_shape(names, constraints=self._constraints())
        self.variables = {s.name: d for s, d in zip(self._symbols, made, strict=True)}

    def _constraints(self) -> list[str]:
        lower = [f"{s.name} >= {max(s.min, 1)}" for s in self._symbols]
        return lower + [f"{s.name} <= {s.max}" for s in self._symbols if s.max is not None]

    @property
    def dims(self) -> dict[str, Dim]:
        """Each symbol by its name."""
        return {s.name: Dim(s.name, max=s.max, min=s.min) for s in self._symbols}

    def dimension(self, extent: Extent) -> Any:
        """Return an extent as JAX's dimension."""
        if not isinstance(extent, Dim):
            return extent
        total: Any = 0
        for monomial, coefficient in extent.terms:
            term: Any = coefficient
            for factor in monomial:
                term = term * self._factor(factor)
            total = total + term
        return total

    def _factor(self, factor: Symbol | Quotient) -> Any:
        if isinstance(factor, Symbol):
            return self.variables[factor.name]
        return self.dimension(factor.dividend) // factor.divisor


_bound: list[dict[str, Dim]] = []


class bound_symbols:  # noqa: N801  used as a function
    """Let dimensions of JAX inside be read as extents of these symbols."""

    def __init__(self, symbols: Symbols) -> None:
        self._dims = symbols.dims

    def __enter__(self) -> None:
        _bound.append(self._dims)

    def __exit__(self, *_: object) -> None:
        _bound.pop()


def extent_of(dimension: Any) -> Extent:
    """Return a dimension of JAX as an extent."""
    if isinstance(dimension, int):
        return dimension
    if not hasattr(dimension, "_evaluate"):
        return int(dimension)
    try:
        found: Extent = dimension._evaluate(_bound[-1])
    except (KeyError, IndexError, TypeError) as error:
        raise UnsupportedError(
            f"from_jax: the extent {dimension} has no form in rlx: {error}",
            remedy="use sums, products and exact quotients of symbols, or trace a fixed size",
        ) from error
    return found


def extents(dimensions: Any) -> tuple[Extent, ...]:
    """Return dimensions of JAX as a shape."""
    return tuple(map(extent_of, dimensions))
