"""The matrices of Winograd's convolution of three by three taps, exact.

A tile of `step` by `step` results comes from one of `step + 2` by `step + 2` elements. Both are
values of polynomials at `step + 2` points, where a convolution is one product per point:

    result = A^T ((B^T image B) * (G taps G^T)) A

That is `(step + 2)^2` products instead of `9 * step^2`: 16 of 36 for steps of 2, 36 of 144 for
steps of 4. The points that give the matrices are finite but for the last, which is infinity.

Rounding differs from that of a direct convolution. With `u` the unit roundoff, the error is at most

    roundings * u * |A^T| (sum over channels of (|B^T| |image| |B|) * (|G| |taps| |G^T|)) |A|

where `roundings` counts those on the way to one result: `C + 47`. On random images the sum is up to
8 times the sum of magnitudes that bounds a direct convolution for steps of 2, and 72 times for
steps of 4; the error itself is that of a direct convolution for steps of 2, twice it for 4.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, floor_divide

TAPS = 3
STEPS = (2, 4)

Matrix: TypeAlias = tuple[tuple[Fraction, ...], ...]

_POINTS = {2: ("1",), 4: ("5/8", "3/2")}
"""Points except 0 and infinity, each with its negative. Those of steps of 4 give the smallest bound
of pairs in eighths, a quarter of that of the integers 1 and 2."""


@dataclass(frozen=True, slots=True)
class Transforms:
    """The matrices of one step, in two stages: sums and differences of opposite points apart."""

    image: tuple[Matrix, Matrix]
    """`B^T`: the second factor is applied last."""
    taps: Matrix
    """`G`."""
    result: tuple[Matrix, Matrix]
    """`A^T`."""


@functools.cache
def transforms(step: int) -> Transforms:
    """Return the matrices of tiles of `step` by `step` results."""
    points = [Fraction(0)]
    for text in _POINTS[step]:
        points += [Fraction(text), -Fraction(text)]
    finite = [_without(points, j) for j in range(len(points))]
    image = (*(_polynomial(others, step + 2) for others in finite), _polynomial(points, step + 2))
    taps = (*(_scaled_powers(p, r) for p, r in zip(points, finite, strict=True)), (0, 0, 1))
    powers = [(*(p**i for p in points), Fraction(i == step - 1)) for i in range(step)]
    pairs, halves = _butterflies(step + 2)
    return Transforms(
        image=(_times(halves, image), pairs),
        taps=tuple(tuple(map(Fraction, row)) for row in taps),
        result=(pairs, _times(tuple(powers), halves)),
    )


def tiles_along(positions: Extent, dilation: int, step: int) -> Extent:
    """Return how many tiles cover an axis of the result: `dilation` of them interleave."""
    covered = step * dilation
    return floor_divide(positions + (covered - 1), covered) * dilation


def _without(points: list[Fraction], position: int) -> list[Fraction]:
    return points[:position] + points[position + 1 :]


def _polynomial(roots: list[Fraction], length: int) -> tuple[Fraction, ...]:
    """Return the coefficients of the product of `x - root`, the constant first."""
    found = [Fraction(1)]
    for root in roots:
        shifted, same = [Fraction(0), *found], [*found, Fraction(0)]
        found = [a - root * b for a, b in zip(shifted, same, strict=True)]
    return (*found, *[Fraction(0)] * (length - len(found)))


def _scaled_powers(point: Fraction, others: list[Fraction]) -> tuple[Fraction, ...]:
    scale = Fraction(1)
    for other in others:
        scale *= point - other
    return tuple(point**k / scale for k in range(TAPS))


def _butterflies(size: int) -> tuple[Matrix, Matrix]:
    """Return the matrix of sums and differences of opposite points, and its inverse."""
    pairs = [[Fraction(i == j) for j in range(size)] for i in range(size)]
    for i in range(1, size - 1, 2):
        pairs[i][i + 1] = pairs[i + 1][i] = Fraction(1)
        pairs[i + 1][i + 1] = Fraction(-1)
    halves = [list(row) for row in pairs]
    for row in halves[1:-1]:
        row[:] = [each / 2 for each in row]
    return _frozen(pairs), _frozen(halves)


def _frozen(rows: list[list[Fraction]]) -> Matrix:
    return tuple(map(tuple, rows))


def _times(a: Matrix, b: Matrix) -> Matrix:
    columns = tuple(zip(*b, strict=True))
    return tuple(
        tuple(
            sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0))
            for column in columns
        )
        for row in a
    )


def on_both_axes(*stages: Matrix) -> NDArray[Any]:
    """Return the matrix that applies stages to rows and columns of a tile, flat: in f64."""
    whole = functools.reduce(lambda done, stage: _times(stage, done), stages)
    plain = np.array([[float(each) for each in row] for row in whole])
    return np.kron(plain, plain)
