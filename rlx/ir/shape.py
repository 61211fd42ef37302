"""Extents: plain integers, or polynomials over bounded symbols and quotients of them.

`Dim("n", max=64)` is a symbol; `n + 1`, `2 * n`, `n * m` and `(n - 1) // 2` are extents too.
Symbols are nonnegative integers within their bounds; memory is planned at an extent's `upper`
value. Equal extents are equal values as far as `floor_divide` brings quotients to one form.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

from rlx.dataclass import dataclass
from rlx.errors import ShapeError, SymbolicExtentError
from rlx.ir.dtype import DType

RESERVED = frozenset(
    {"none", "true", "false", "nan", "inf", "graph", "literal", "floordiv"}
    | {dtype.value for dtype in DType}
)
"""Words of the text form; a symbol cannot have these names."""

_MOST_TERMS = 4096
"""Terms of a product of sums, before equal ones are added."""


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


@dataclass(frozen=True, slots=True)
class Quotient:
    """An extent over a number, rounded down; `floor_divide` makes it."""

    dividend: Dim
    divisor: int

    @property
    def nonnegative(self) -> tuple[Extent, int]:
        """A dividend that is never negative, and by how much its quotient is then too large.

        So a division that rounds towards zero gives the quotient.
        """
        excess = -(min(int(ends(self.dividend)[0]), 0) // self.divisor)
        return self.dividend + excess * self.divisor, excess


Factor: TypeAlias = Symbol | Quotient
Monomial: TypeAlias = tuple[Factor, ...]


@dataclass(frozen=True, slots=True, init=False)
class Dim:
    """A symbolic extent: a sum of `coefficient * factor * factor ...` terms.

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
        factors = {factor for monomial, _ in self.terms for factor in monomial}
        inner = (f.dividend.symbols if isinstance(f, Quotient) else (f,) for f in factors)
        return tuple(sorted({symbol for symbols in inner for symbol in symbols}))

    def evaluate(self, binding: Mapping[str, int]) -> int:
        """Return the value at `binding` (symbol name -> extent)."""
        return sum(
            coefficient * math.prod(_value(factor, binding) for factor in monomial)
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
        return int(ends(self)[1])

    # Of extents, sums, differences, products and quotients by a number are extents. What else is
    # computed with an extent takes it as a number of the program that is being traced.

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, (int, Dim)):
            return _with_numbers(operator.add, self, other)
        return _normalize([*self.terms, *_terms(other)])

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, (int, Dim)):
            return _with_numbers(operator.mul, self, other)
        count = len(self.terms) * len(_terms(other))
        if count > _MOST_TERMS:
            raise SymbolicExtentError(
                f"a product of extents has {count} terms; at most {_MOST_TERMS} are computed with",
                remedy="declare symbols for the extents themselves, or give numbers for some",
            )
        return _normalize(
            (tuple(sorted((*left, *right), key=_order)), a * b)
            for left, a in self.terms
            for right, b in _terms(other)
        )

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, (int, Dim)):
            return _with_numbers(operator.sub, self, other)
        return self + (-1 * other)

    def __floordiv__(self, other: Any) -> Any:
        """Divide and round down; by another extent, only exactly."""
        if isinstance(other, int):
            return floor_divide(self, other)
        if isinstance(other, Dim):
            return divide(self, other)
        return _with_numbers(operator.floordiv, self, other)

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, int):
            return self - other * floor_divide(self, other)
        return _with_numbers(operator.mod, self, other)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and other >= 0:
            return product([self] * other)
        return _with_numbers(operator.pow, self, other)

    __radd__ = __add__
    __rmul__ = __mul__
    __array_ufunc__ = None  # NumPy leaves operators of its arrays and an extent to the extent

    def __rsub__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return _with_numbers(operator.sub, other, self)
        return (-1 * self) + other

    def __neg__(self) -> Any:
        return -1 * self

    def __truediv__(self, other: Any) -> Any:
        return _with_numbers(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _with_numbers(operator.truediv, other, self)

    def __rfloordiv__(self, other: Any) -> Any:
        return _with_numbers(operator.floordiv, other, self)

    def __rmod__(self, other: Any) -> Any:
        return _with_numbers(operator.mod, other, self)

    def __rpow__(self, other: Any) -> Any:
        return _with_numbers(operator.pow, other, self)

    def __float__(self) -> NoReturn:
        raise SymbolicExtentError(
            f"extent {self} is symbolic; float() needs its number",
            remedy="use the function of rlx.numpy, which takes an extent as a traced integer: "
            "rlx.numpy.sqrt(x.shape[0])",
        )

    def __le__(self, other: Extent) -> bool:
        """True or false where the bounds of the symbols decide it; else an error, as for `<`."""
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        if is_at_most(self, other):
            return True
        if is_at_most(other + 1, self):
            return False
        raise SymbolicExtentError(
            f"whether {self} is at most {other} differs between runs",
            remedy="give bounds that decide it, rlx.Dim(..., min=, max=), or a number for the "
            "extent",
        )

    def __lt__(self, other: Extent) -> bool:
        return bool(self + 1 <= other) if isinstance(other, (int, Dim)) else NotImplemented

    def __ge__(self, other: Extent) -> bool:
        return not self < other if isinstance(other, (int, Dim)) else NotImplemented

    def __gt__(self, other: Extent) -> bool:
        return not self <= other if isinstance(other, (int, Dim)) else NotImplemented

    def __index__(self) -> NoReturn:
        raise SymbolicExtentError(
            f"extent {self} is symbolic; this function needs a number",
            remedy="trace it for a fixed size, or use a function that takes any extent",
        )

    __int__ = __index__

    def __str__(self) -> str:
        text = "+".join(_term_text(monomial, coefficient) for monomial, coefficient in self.terms)
        return text.replace("+-", "-")

    def __repr__(self) -> str:
        bounds = (f"{s.name} in {s.min}..{'' if s.max is None else s.max}" for s in self.symbols)
        return f"<{self}: {', '.join(bounds)}>"


Extent: TypeAlias = int | Dim
Shape: TypeAlias = tuple[Extent, ...]

_as_number: list[Callable[[Dim], Any]] = []
"""How an extent becomes a number of the program that is being traced: `rlx.numpy` sets it."""


def set_number_of_extents(as_number: Callable[[Dim], Any]) -> None:
    """Set how an operand that is an extent becomes a number where the other is none."""
    _as_number[:] = [as_number]


def needs_a_trace(extent: Dim) -> ShapeError:
    """Return the error for an extent that is to be a number where no function is traced."""
    return ShapeError(
        f"extent {extent} is symbolic; it has a number only while a function is traced",
        remedy="compute with it inside of the function that rlx.jit(f).graph(...) traces",
    )


def _with_numbers(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return an operation of an extent and what is no extent: a float, a traced array.

    With an integer of NumPy it is that with an integer of Python.
    """
    if any(isinstance(x, numbers.Integral) and not isinstance(x, int) for x in (left, right)):
        return operation(*(x if isinstance(x, Dim) else int(x) for x in (left, right)))

    def number(operand: Any) -> Any:
        if not isinstance(operand, Dim):
            return operand
        for as_number in _as_number:
            return as_number(operand)
        raise needs_a_trace(operand)

    return operation(number(left), number(right))


def divide(dividend: Extent, divisor: Extent) -> Extent:
    """Return the exact quotient of two extents, or raise ShapeError.

    SymbolicExtentError where the symbols do not decide it.
    """
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
    rest = dividend
    quotient: list[tuple[Monomial, int]] = []
    (leading, coefficient), *_ = _terms(divisor)
    while rest != 0:
        # Long division of polynomials: terms are in an order that products keep.
        (own, factor), *_ = _terms(rest)
        missing = _without(own, leading)
        if missing is None or coefficient == 0 or factor % coefficient:
            raise SymbolicExtentError(
                f"extent {dividend} is not divisible by {divisor}",
                remedy="choose an extent that is a multiple of the divisor",
            )
        quotient.append((missing, factor // coefficient))
        rest = rest - _normalize(quotient[-1:]) * divisor
    return _normalize(quotient)


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    """Return a product without some of its factors, or None where it lacks one of them."""
    rest = list(monomial)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


def floor_divide(extent: Extent, divisor: int) -> Extent:
    """Return the quotient, rounded down.

    Multiples of the divisor come out of it, common factors and quotients of quotients merge, and
    the first term within is positive: `floor(-x / d)` is `-floor((x + d - 1) / d)`.
    """
    if divisor < 1:
        raise ShapeError(
            f"extent {extent} is divided by {divisor}", remedy="divide by a number from 1 on"
        )
    if isinstance(extent, int):
        return extent // divisor
    whole = _normalize((m, _whole(factor, divisor, not m)) for m, factor in extent.terms)
    rest = extent - whole * divisor
    if isinstance(rest, int):
        return whole + rest // divisor
    if rest.terms[0][1] < 0:
        return whole - floor_divide(divisor - 1 - rest, divisor)
    return whole + _quotient(rest, divisor)


def _whole(factor: int, divisor: int, is_constant: bool) -> int:
    """Return the multiples of a divisor to take out: rounded down, or towards zero.

    What is left of a constant is positive, so that equal quotients have one form. A term keeps its
    sign: `-n + floor(n / 2)` would have looser bounds than `floor(-n / 2)`.
    """
    return factor // divisor if is_constant or factor > 0 else -(-factor // divisor)


def _quotient(dividend: Dim, divisor: int) -> Extent:
    """Return a quotient without factors common to its parts, and without a quotient inside."""
    constant = next((factor for monomial, factor in dividend.terms if not monomial), 0)
    varying = dividend - constant
    assert isinstance(varying, Dim)  # it has the symbols
    common = math.gcd(divisor, *(factor for _, factor in varying.terms))
    if common > 1:
        return floor_divide(divide(varying, common) + constant // common, divisor // common)
    (monomial, factor), *others = varying.terms
    if not others and factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Quotient):
        inner = monomial[0]
        return floor_divide(inner.dividend + constant * inner.divisor, inner.divisor * divisor)
    return Dim._of((((Quotient(dividend, divisor),), 1),))


def upper(extent: Extent) -> int:
    """Return the largest value that `extent` can take."""
    return extent if isinstance(extent, int) else extent.upper


def is_at_most(extent: Extent, bound: Extent) -> bool:
    """True if `extent` is at most `bound` for all values of their symbols, as far as is known."""
    excess = extent - bound
    return ends(excess)[1] <= 0 or ends(_multiple_above(excess))[1] <= 0


def _multiple_above(extent: Extent) -> Extent:
    """Return what is never below some positive multiple of an extent, its quotients as fractions.

    So that `n // 2 - n` is seen to be at most 0: it is at most half of `-n`.
    """
    alone = [m[0] for m, _ in _terms(extent) if len(m) == 1 and isinstance(m[0], Quotient)]
    common = math.lcm(*(quotient.divisor for quotient in alone))
    above: Extent = 0
    for monomial, coefficient in _terms(extent):
        if len(monomial) == 1 and isinstance(monomial[0], Quotient):
            dividend, divisor = monomial[0].dividend, monomial[0].divisor
            least = dividend - (divisor - 1)
            above += (dividend if coefficient > 0 else least) * (coefficient * common // divisor)
        else:
            above += _normalize([(monomial, coefficient * common)])
    return above


def evaluate(extent: Extent, binding: Mapping[str, int]) -> int:
    """Return the value of `extent` at `binding`."""
    return extent if isinstance(extent, int) else extent.evaluate(binding)


def bind_symbol(extent: Dim, size: int, binding: dict[str, int]) -> bool:
    """Bind the only symbol of an extent that is unknown; return whether there was one.

    The extent must be linear in it: its quotients, and products with itself, do not determine it.
    """
    unknown = [symbol for symbol in extent.symbols if symbol.name not in binding]
    if len(unknown) != 1 or not _is_linear(extent, unknown[0]):
        return False
    name = unknown[0].name
    at_zero = extent.evaluate({**binding, name: 0})
    slope = extent.evaluate({**binding, name: 1}) - at_zero
    if slope == 0:
        return False
    binding[name] = (size - at_zero) // slope
    return True


def _is_linear(extent: Dim, symbol: Symbol) -> bool:
    factors = {factor for monomial, _ in extent.terms for factor in monomial}
    quotients = (factor for factor in factors if isinstance(factor, Quotient))
    divided = any(symbol in quotient.dividend.symbols for quotient in quotients)
    return not divided and all(monomial.count(symbol) <= 1 for monomial, _ in extent.terms)


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
                numbers = isinstance(extent, int) and isinstance(result[axis], int)
                raise (ShapeError if numbers else SymbolicExtentError)(
                    f"shapes {listed} do not broadcast: "
                    f"extents {result[axis]} and {extent} differ on axis {axis - rank}",
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


def _value(factor: Factor, binding: Mapping[str, int]) -> int:
    if isinstance(factor, Symbol):
        return binding[factor.name]
    return factor.dividend.evaluate(binding) // factor.divisor


def ends(extent: Extent) -> tuple[float, float]:
    """Return numbers that an extent is never below and never above; infinite if unbounded."""
    if isinstance(extent, int):
        return extent, extent
    bounds = [_term_ends(monomial, coefficient) for monomial, coefficient in extent.terms]
    return sum(low for low, _ in bounds), sum(high for _, high in bounds)


def _term_ends(monomial: Monomial, coefficient: int) -> tuple[float, float]:
    low: float = coefficient
    high: float = coefficient
    for factor in monomial:
        products = [a * b if a and b else 0 for a in (low, high) for b in _factor_ends(factor)]
        low, high = min(products), max(products)
    return low, high


def _factor_ends(factor: Factor) -> tuple[float, float]:
    if isinstance(factor, Symbol):
        return factor.min, math.inf if factor.max is None else factor.max
    low, high = (end if math.isinf(end) else end // factor.divisor for end in ends(factor.dividend))
    return low, high


def _order(factor: Factor) -> tuple[bool, str, int, float]:
    """Return what sorts factors: symbols by name, then quotients by their text."""
    if isinstance(factor, Symbol):
        return False, *factor._order()
    return True, str(factor.dividend), factor.divisor, 0.0


def _normalize(terms: Iterable[tuple[Monomial, int]]) -> Extent:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = tuple(
        (monomial, coefficient)
        for monomial, coefficient in sorted(
            sums.items(), key=lambda term: (-len(term[0]), tuple(map(_order, term[0])))
        )
        if coefficient
    )
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return Dim._of(kept)


def _term_text(monomial: Monomial, coefficient: int) -> str:
    factors = [
        f"floordiv({factor.dividend}, {factor.divisor})"
        if isinstance(factor, Quotient)
        else factor.name
        for factor in monomial
    ]
    if coefficient == -1 and factors:
        factors[0] = f"-{factors[0]}"
    elif coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors)
