"""Extents: plain integers, or polynomials over bounded symbols.

`Dim("n", max=64)` is a symbol; `n + 1`, `2 * n` and `n * m` are extents too. Symbols are
nonnegative integers within their bounds; memory is planned at an extent's `upper` value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rlx.errors import ShapeError
from rlx.ir.dtype import DType

RESERVED = frozenset(
    {"none", "true", "false", "nan", "inf", "graph", "literal"} | {dtype.value for dtype in DType}
)
"""Words of the text form; a symbol cannot have these names."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name and bounds (both inclusive) of an extent known only at call time."""

    name: str
    max: int | None = None
    min: int = 0

    def __post_init__(self) -> None:
        if not (self.name.isascii() and self.name.isidentifier()) or self.name in RESERVED:
            raise ShapeError(
                f"{self.name!r} cannot name an extent",
                remedy="use an identifier that is not a dtype or a word of the text form",
            )
        if self.min < 0 or (self.max is not None and self.max < self.min):
            raise ShapeError(
                f"extent {self.name} has bounds {self.min}..{self.max}; "
                "they must satisfy 0 <= min <= max",
                remedy="give bounds with 0 <= min <= max",
            )

    def __lt__(self, other: Symbol) -> bool:
        return self._order() < other._order()

    def _order(self) -> tuple[str, int, float]:
        return self.name, self.min, math.inf if self.max is None else self.max


Monomial: TypeAlias = tuple[Symbol, ...]


@dataclass(frozen=True, slots=True, init=False)
class Dim:
    """A symbolic extent: a sum of `coefficient * symbol * symbol ...` terms.

    `Dim(name, max=...)` declares a symbol: with `max` it can be compiled, without it must be
    bound first. Arithmetic builds the rest; a sum without symbols collapses to an `int`.
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, name: str, *, max: int | None = None, min: int = 0) -> None:
        object.__setattr__(self, "terms", (((Symbol(name, max, min),), 1),))

    @classmethod
    def _of(cls, terms: tuple[tuple[Monomial, int], ...]) -> Dim:
        extent = object.__new__(cls)
        object.__setattr__(extent, "terms", terms)
        return extent

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(sorted({symbol for monomial, _ in self.terms for symbol in monomial}))

    def evaluate(self, binding: Mapping[str, int]) -> int:
        """Return the value at `binding` (symbol name -> extent)."""
        return sum(
            coefficient * math.prod(binding[symbol.name] for symbol in monomial)
            for monomial, coefficient in self.terms
        )

    @property
    def upper(self) -> int:
        """The largest value within the symbols' bounds; unbounded symbols are an error."""
        for symbol in self.symbols:
            if symbol.max is None:
                raise ShapeError(
                    f"extent {self} has no upper bound",
                    remedy=f"declare it as Dim({symbol.name!r}, max=...) or bind it first",
                )
        return sum(
            coefficient * math.prod((s.max or 0) if coefficient > 0 else s.min for s in monomial)
            for monomial, coefficient in self.terms
        )

    def __add__(self, other: Extent) -> Extent:
        return _normalize([*self.terms, *_terms(other)])

    def __mul__(self, other: Extent) -> Extent:
        return _normalize(
            (tuple(sorted((*left, *right))), a * b)
            for left, a in self.terms
            for right, b in _terms(other)
        )

    def __sub__(self, other: Extent) -> Extent:
        return self + (-1 * other)

    def __floordiv__(self, other: Extent) -> Extent:
        """Divide exactly; raise ShapeError where the quotient is not a polynomial."""
        return divide(self, other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int) -> Extent:
        return (-1 * self) + other

    def __neg__(self) -> Extent:
        return -1 * self

    def __str__(self) -> str:
        text = "+".join(_term_text(monomial, coefficient) for monomial, coefficient in self.terms)
        return text.replace("+-", "-")


Extent: TypeAlias = int | Dim
Shape: TypeAlias = tuple[Extent, ...]


def divide(dividend: Extent, divisor: Extent) -> Extent:
    """Return the exact quotient of two extents, or raise ShapeError."""
    if isinstance(dividend, int) and isinstance(divisor, int):
        if divisor == 0 or dividend % divisor:
            raise ShapeError(
                f"extent {dividend} is not divisible by {divisor}",
                remedy="choose an extent that is a multiple of the divisor",
            )
        return dividend // divisor
    if dividend == divisor:
        return 1
    if dividend == 0:
        return 0
    terms = _terms(divisor)
    if len(terms) != 1:
        raise ShapeError(
            f"extent {dividend} is not divisible by {divisor}",
            remedy="choose an extent that is a multiple of the divisor",
        )
    (monomial, coefficient) = terms[0]
    quotient = []
    for own, factor in _terms(dividend):
        rest = list(own)
        for symbol in monomial:
            if symbol not in rest:
                raise ShapeError(
                    f"extent {dividend} is not divisible by {divisor}",
                    remedy="choose an extent that is a multiple of the divisor",
                )
            rest.remove(symbol)
        if factor % coefficient:
            raise ShapeError(
                f"extent {dividend} is not divisible by {divisor}",
                remedy="choose an extent that is a multiple of the divisor",
            )
        quotient.append((tuple(rest), factor // coefficient))
    return _normalize(quotient)


def upper(extent: Extent) -> int:
    """Return the largest value that `extent` can take."""
    return extent if isinstance(extent, int) else extent.upper


def is_at_most(extent: Extent, bound: Extent) -> bool:
    """True if `extent` is at most `bound` for all values of their symbols."""
    excess = extent - bound
    if isinstance(excess, Dim) and any(symbol.max is None for symbol in excess.symbols):
        return False
    return upper(excess) <= 0


def evaluate(extent: Extent, binding: Mapping[str, int]) -> int:
    """Return the value of `extent` at `binding`."""
    return extent if isinstance(extent, int) else extent.evaluate(binding)


def product(extents: Iterable[Extent]) -> Extent:
    """Return the product of `extents` (1 if there are none)."""
    result: Extent = 1
    for extent in extents:
        result = result * extent
    return result


def symbols_of(shape: Shape) -> tuple[Symbol, ...]:
    """Return the symbols of a shape, sorted by name."""
    return tuple(sorted({s for e in shape if isinstance(e, Dim) for s in e.symbols}))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the NumPy broadcast of `shapes`; a symbol equals itself and stretches 1."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Extent] = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, start=rank - len(shape)):
            if result[axis] == 1:
                result[axis] = extent
            elif extent not in (1, result[axis]):
                listed = " and ".join(format_shape(shape) for shape in shapes)
                raise ShapeError(
                    f"shapes {listed} do not broadcast: "
                    f"extents {result[axis]} and {extent} meet on axis {axis - rank}",
                    remedy="make the extents equal, or insert an axis of extent 1 with x[:, None]",
                )
    return tuple(result)


def normalize_axis(axis: int, rank: int) -> int:
    """Return `axis` counted from the front; raise ShapeError outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise ShapeError(
            f"axis {axis} is out of range for rank {rank}",
            remedy=f"use an axis in [-{rank}, {rank})",
        )
    return axis % rank


def row_major_strides(shape: Shape) -> Shape:
    """Return the element strides of a dense row-major tensor of `shape`."""
    strides: list[Extent] = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def static_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the element strides of a dense row-major tensor whose extents are known."""
    return tuple(map(upper, row_major_strides(shape)))


def format_shape(shape: Shape) -> str:
    """Return `(2, n, 3)`, with symbols by name."""
    inner = ", ".join(str(extent) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _terms(extent: Extent) -> tuple[tuple[Monomial, int], ...]:
    return extent.terms if isinstance(extent, Dim) else (((), extent),)


def _normalize(terms: Iterable[tuple[Monomial, int]]) -> Extent:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = tuple(
        (monomial, coefficient)
        for monomial, coefficient in sorted(sums.items(), key=lambda term: (-len(term[0]), term[0]))
        if coefficient
    )
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return Dim._of(kept)


def _term_text(monomial: Monomial, coefficient: int) -> str:
    factors = [symbol.name for symbol in monomial]
    if coefficient == -1 and factors:
        factors[0] = f"-{factors[0]}"
    elif coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors)
