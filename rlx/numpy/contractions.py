"""`einsum`: sums of products over named axes, as a chain of contractions of two operands.

Operands are taken from the left. What an operand alone sums over, or names twice (a diagonal),
is handled before it is contracted with another.
"""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError, ShapeError
from rlx.ir.shape import Extent, ends
from rlx.numpy import elementwise
from rlx.numpy.diagonals import diagonal
from rlx.numpy.products import contract, operands, preferred
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import expand_dims, reshape, transpose
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function, promoted
from rlx.tracing.trace import shape_of


@dataclass(frozen=True, slots=True)
class Term:
    """An operand and the letters of its axes."""

    array: Any
    letters: str


@function
def einsum(
    subscripts: Any, *arrays: Any, optimize: Any = True, precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """Sum of products by subscripts such as `"bij,bjk->bik"`; `...` means leading axes.

    NumPy's other form is accepted, too: each operand with a list of numbers, one for each axis.

    `optimize` chooses the order in which three or more operands are contracted: `True` or
    `"optimal"` the one of least arithmetic (greedy above six operands), `"greedy"`, `False` from
    left to right, or a path as `numpy.einsum_path` returns it. Raises InputError for another value.
    """
    if not isinstance(subscripts, str):
        subscripts, arrays = _by_letters((subscripts, *arrays))
    arrays = preferred(preferred_element_type, *arrays)
    inputs, output = parse(subscripts, [len(shape_of(x)) for x in arrays])
    tracers = promoted(arrays)
    _check_extents(subscripts, inputs, tracers)
    terms = [_without_repeats(Term(x, letters)) for x, letters in zip(tracers, inputs, strict=True)]
    for positions in _path(terms, output, optimize):
        chosen = [terms[position] for position in positions]
        rest = [term for position, term in enumerate(terms) if position not in positions]
        terms = [*rest, _contracted(chosen, output + "".join(term.letters for term in rest))]
    last = _summed(terms[0], output)
    return transpose(last.array, tuple(last.letters.index(letter) for letter in output))


_LARGEST_OPTIMAL = 6
"""Operands up to which the best of all orders is searched for: their number is factorial."""
_ASSUMED_EXTENT = 64
"""What a symbolic extent without a bound counts as in the cost of an order."""


def _path(terms: list[Term], output: str, optimize: Any) -> list[tuple[int, ...]]:
    """Return which terms are contracted in each step; a step's result goes to the end."""
    if isinstance(optimize, (list, tuple)):
        return _checked_path([step for step in optimize if step != "einsum_path"], len(terms))
    if optimize not in (True, False, "optimal", "greedy"):
        raise InputError(
            f"unknown optimize={optimize!r}",
            remedy="pass True, False, 'optimal', 'greedy' or a path of numpy.einsum_path",
        )
    if len(terms) < 3 or optimize is False:
        return [tuple(range(len(terms)))] if len(terms) > 1 else []
    kind = "greedy" if optimize == "greedy" or len(terms) > _LARGEST_OPTIMAL else "optimal"
    number = np.float32(0)
    samples = [np.broadcast_to(number, _numbers(term.array.shape)) for term in terms]
    subscripts = ",".join(term.letters for term in terms) + "->" + output
    path, _ = np.einsum_path(subscripts, *samples, optimize=(kind, 2**62))
    return [tuple(step) for step in path[1:]]


def _checked_path(path: list[Any], count: int) -> list[tuple[int, ...]]:
    left = count
    for step in path:
        if len(set(step)) != len(step) or not all(0 <= position < left for position in step):
            raise InputError(
                f"step {step!r} of the path does not fit {left} operands",
                remedy="name different positions of the operands that are left",
            )
        left -= len(step) - 1
    if left != 1:
        raise InputError(
            f"the path leaves {left} of {count} operands",
            remedy="contract until one is left",
        )
    return [tuple(step) for step in path]


def _numbers(shape: tuple[Extent, ...]) -> tuple[int, ...]:
    """Return extents as numbers: a symbol counts by its bound."""
    highest = (extent if isinstance(extent, int) else ends(extent)[1] for extent in shape)
    return tuple(int(high) if math.isfinite(high) else _ASSUMED_EXTENT for high in highest)


def _contracted(terms: list[Term], later: str) -> Term:
    """Contract terms from left to right to the letters that `later` names."""
    first, *others = terms
    for number, other in enumerate(others):
        needed = later + "".join(term.letters for term in others[number + 1 :])
        x, y = _summed(first, needed + other.letters), _summed(other, needed + first.letters)
        first = _product(x, y, needed)
    return first


def _by_letters(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the subscripts and operands of `(x, [0, 1], y, [1, 2], [0, 2])`."""
    paired = len(given) // 2 * 2
    arrays, lists = given[:paired:2], [*given[1:paired:2], *given[paired:]]
    if not all(isinstance(axes, (list, tuple)) for axes in lists):
        raise ShapeError(
            "einsum takes its subscripts as a string, as in 'ij,jk->ik'",
            remedy="pass the subscripts first, then the operands; or a list after each operand",
        )
    terms = ["".join(map(_letter, axes)) for axes in lists]
    right = "->" + terms.pop() if len(terms) > len(arrays) else ""
    return ",".join(terms) + right, arrays


_NUMBERED = string.ascii_uppercase + string.ascii_lowercase
"""Letters of the axes 0, 1, ... in the order in which a result without a list has them."""


def _letter(number: Any) -> str:
    if number is ...:
        return "..."
    if not isinstance(number, (int, np.integer)) or not 0 <= number < len(_NUMBERED):
        raise ShapeError(
            f"einsum numbers axes from 0 to {len(_NUMBERED) - 1}, or has ..., not {number!r}",
            remedy="use other numbers in the lists after the operands",
        )
    return _NUMBERED[number]


def parse(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result, ellipses spelled out."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise ShapeError(
            f"{subscripts!r} names {len(inputs)} operands, {len(ranks)} given",
            remedy="write one group of letters for each operand, separated by commas",
        )
    named = [text.replace("...", "") for text in inputs]
    letters = "".join(named) + right.replace("...", "")
    if not all(letter in string.ascii_letters for letter in letters):
        raise ShapeError(
            f"{subscripts!r}: axes are named by letters",
            remedy="use letters, commas, '->' and '...' only",
        )
    sizes = [rank - len(n) for t, n, rank in zip(inputs, named, ranks, strict=True) if "..." in t]
    free = [letter for letter in string.ascii_letters if letter not in letters]
    ellipsis = "".join(free[: max([0, *sizes])])
    spelled = [_spell(t, ellipsis, r, subscripts) for t, r in zip(inputs, ranks, strict=True)]
    if not arrow:
        once = sorted(c for c in set(letters) if letters.count(c) == 1)
        right = "".join(["..." if ellipsis else "", *once])
    output = right.replace("...", ellipsis)
    missing = [letter for letter in output if letter not in "".join(spelled)]
    if missing or len(set(output)) != len(output):
        raise ShapeError(
            f"{subscripts!r}: each axis of the result occurs once, and before",
            remedy="name axes of the operands, each once, after '->'",
        )
    return spelled, output


def _spell(text: str, ellipsis: str, rank: int, subscripts: str) -> str:
    covered = rank - len(text.replace("...", ""))
    if covered < 0 or (covered and "..." not in text):
        raise ShapeError(
            f"{subscripts!r}: {text!r} does not fit an operand of rank {rank}",
            remedy="write one letter for each axis, or '...' for those in front",
        )
    return text.replace("...", ellipsis[len(ellipsis) - covered :])


def _check_extents(subscripts: str, inputs: list[str], arrays: list[Any]) -> None:
    extents: dict[str, Any] = {}
    for letters, x in zip(inputs, arrays, strict=True):
        for letter, extent in zip(letters, x.shape, strict=True):
            known = extents.setdefault(letter, extent)
            if known == 1:
                extents[letter] = extent
            elif extent not in (1, known):
                raise ShapeError(
                    f"{subscripts!r}: axis {letter!r} has extents {known} and {extent}",
                    remedy="use another letter, or bring both axes to one extent",
                )


def _without_repeats(term: Term) -> Term:
    """Replace axes that share a letter by their diagonal."""
    for letter in term.letters:
        first = term.letters.index(letter)
        second = term.letters.find(letter, first + 1)
        if second >= 0:
            rest = term.letters[:first] + term.letters[first + 1 : second]
            rest += term.letters[second + 1 :] + letter
            return _without_repeats(Term(diagonal(term.array, 0, first, second), rest))
    return term


def _summed(term: Term, needed: str) -> Term:
    """Sum over the axes that nothing else names."""
    axes = tuple(a for a, letter in enumerate(term.letters) if letter not in needed)
    if not axes:
        return term
    left = "".join(letter for letter in term.letters if letter in needed)
    return Term(sum(term.array, axes, term.array.dtype), left)


def _product(x: Term, y: Term, later: str) -> Term:
    """Contract two terms; axes of extent 1 broadcast to larger ones."""
    x, y = _without_ones(x, y), _without_ones(y, x)
    shared = [letter for letter in x.letters if letter in y.letters]
    contracted = [letter for letter in shared if letter not in later]
    batch = [letter for letter in shared if letter in later]
    if not contracted:
        return _elementwise(x, y)
    a, b = operands("einsum", x.array, y.array)
    result = contract(
        a, b,
        tuple(x.letters.index(letter) for letter in contracted),
        tuple(y.letters.index(letter) for letter in contracted),
        (
            tuple(x.letters.index(letter) for letter in batch),
            tuple(y.letters.index(letter) for letter in batch),
        ),
    )  # fmt: skip
    free = [t for t in x.letters if t not in shared] + [t for t in y.letters if t not in shared]
    return Term(result, "".join([*batch, *free]))


def _without_ones(x: Term, y: Term) -> Term:
    """Drop the axes of `x` that have extent 1 where `y` has more."""
    other = dict(zip(y.letters, y.array.shape, strict=True))
    kept = [
        a
        for a, letter in enumerate(x.letters)
        if not (x.array.shape[a] == 1 and other.get(letter, 1) != 1)
    ]
    if len(kept) == len(x.letters):
        return x
    shape = tuple(x.array.shape[a] for a in kept)
    return Term(reshape(x.array, shape), "".join(x.letters[a] for a in kept))


def _elementwise(x: Term, y: Term) -> Term:
    """Nothing is summed: a product with broadcasting."""
    letters = x.letters + "".join(letter for letter in y.letters if letter not in x.letters)
    return Term(elementwise.multiply(_aligned(x, letters), _aligned(y, letters)), letters)


def _aligned(term: Term, letters: str) -> Any:
    order = [term.letters.index(letter) for letter in letters if letter in term.letters]
    missing = tuple(a for a, letter in enumerate(letters) if letter not in term.letters)
    return expand_dims(transpose(term.array, order), missing)
