"""Calls of functions that rlx shares with JAX, drawn from JAX's signatures, and what differs.

A parameter is drawn by its name (`PARAMETERS`), so that a function whose parameters have the names
of others costs a word. A generator gets the draws and the arguments so far; the first of these is
the array that axes and masks belong to.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.numpy import drawn

DTYPES = ("?", "i4", "u1", "f4", "c8")
REAL, INTEGERS = ("i4", "u1", "f4"), ("i4", "u1")
MOST = 200

Array = drawn.Array
Given = dict[str, Any]
Generator = Callable[["Draw", Given], Any]


@dataclass(frozen=True, slots=True)
class Always:
    """A generator of what is given in each call, though JAX has a default."""

    draw: Generator

    def __call__(self, d: Draw, given: Given) -> Any:
        return self.draw(d, given)


class Draw(drawn.Draw):
    """Draws of arrays up to four axes, some of them empty, with numbers of moderate size."""

    def shape(self) -> tuple[int, ...]:
        extents = (0, 1, 2, 3, 5) if self.chance(0.15) else (1, 2, 3, 3, 5)
        found = tuple(int(self.one(extents)) for _ in range(self.small(0, 4)))
        return found if math.prod(found) <= MOST else found[1:]

    def values(self, dtypes: Sequence[str], shape: Sequence[int]) -> Array:
        dtype = np.dtype(self.one(dtypes))
        if dtype.kind in "biu":
            low, high = {"b": (0, 1), "u": (0, 6)}.get(dtype.kind, (-5, 6))
            return self.random.integers(low, high + 1, tuple(shape)).astype(dtype)
        x = np.asarray(self.random.normal(size=tuple(shape)) * 2)
        x = np.where(self.random.random(x.shape) < 0.2, np.round(x), x)
        return np.asarray(x + 1j * self.random.normal(size=x.shape) if dtype.kind == "c" else x,
                          dtype)  # fmt: skip

    def small(self, low: int, high: int) -> int:
        """Return an integer of [low, high]."""
        return int(self.random.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)


def first(given: Given) -> Any:
    found = next(iter(given.values()))
    return np.asarray(found[0] if isinstance(found, list) else found)


def one_of(*values: Any) -> Generator:
    return lambda d, _: d.one(values)


def up_to(high: int, low: int = 0) -> Generator:
    return lambda d, _: d.small(low, high)


def array(*dtypes: str, ranks: tuple[int, int] = (0, 4)) -> Generator:
    def draw(d: Draw, _: Given) -> Any:
        shape = d.shape()
        while not ranks[0] <= len(shape) <= ranks[1]:
            shape = d.shape()
        return d.values(dtypes or DTYPES, shape)

    return draw


def shaped(*shapes: tuple[int, ...], of: Sequence[str] = DTYPES) -> Generator:
    return lambda d, _: d.values(of, d.one(shapes))


def similar(*dtypes: str) -> Generator:
    """An array that broadcasts with the first one, or a number of Python's, whose type is weak."""

    def draw(d: Draw, given: Given) -> Any:
        shape = first(given).shape
        start = d.small(0, len(shape))
        y = d.values(dtypes or DTYPES, [d.one((1, e)) for e in shape[start:]])
        return y.flat[0].item() if y.size and d.chance(0.3) else y

    return draw


def like(*dtypes: str) -> Generator:
    return lambda d, given: d.values(dtypes or (first(given).dtype.str,), first(given).shape)


def several(d: Draw, _: Given) -> list[Any]:
    """Up to three arrays of one shape; now and then one has another extent."""
    shape = list(d.shape())
    found = [d.values(DTYPES, shape)]
    for _unused in range(d.small(0, 2)):
        if shape and d.chance(0.2):
            shape[d.small(0, len(shape) - 1)] = d.small(1, 3)
        found.append(d.values(DTYPES, shape))
    return found


def axis(d: Draw, given: Given) -> int:
    """One axis, now and then one that is not there."""
    rank = first(given).ndim
    if rank == 0 or d.chance(0.1):
        return int(d.one((rank, -rank - 1, rank + 3)))
    return d.small(-rank, rank - 1)


def axis_or_none(d: Draw, given: Given) -> int | None:
    return None if d.chance(0.3) else axis(d, given)


def axis_from_the_front(d: Draw, given: Given) -> int:
    found, rank = axis(d, given), first(given).ndim
    return found + rank if -rank <= found < 0 else found


def axes(d: Draw, given: Given) -> Any:
    """None, one axis, or several in any order; now and then one twice or outside."""
    rank = first(given).ndim
    form = d.one(("none", "one", "one", "several", "several", "several", "twice"))
    if form == "none":
        return None
    if form == "one":
        return axis(d, given)
    if form == "twice" and d.chance(0.3):
        return (axis(d, given),) * 2
    found = [int(a) for a in d.random.permutation(rank)[: d.small(min(rank, 1), rank)]]
    found = [a - rank if d.flag() else a for a in found]
    return (*found, rank) if d.chance(0.05) else tuple(found)


def axes_from_the_front(d: Draw, given: Given) -> tuple[int, ...]:
    rank = first(given).ndim
    return tuple(int(a) for a in d.random.permutation(rank)[: d.small(0, rank)])


def single_axes(d: Draw, given: Given) -> tuple[int, ...]:
    """Some axes of one element, now and then another one too, from either end."""
    x = first(given)
    found = [a for a in range(x.ndim) if (x.shape[a] == 1 and d.flag()) or d.chance(0.05)]
    return tuple(a - x.ndim if d.flag() else a for a in found)


def permutation(d: Draw, given: Given) -> tuple[int, ...]:
    order = tuple(int(a) for a in d.random.permutation(first(given).ndim))
    return order[1:] if d.chance(0.05) else order


def where(d: Draw, given: Given) -> Array:
    shape = first(given).shape
    return d.values("?", [d.one((1, e, e)) for e in shape[d.small(0, len(shape)) :]])


def number(d: Draw, given: Given) -> Any:
    """A number that the dtype of the first array holds."""
    kind = first(given).dtype.kind
    return {"b": d.flag(), "u": d.small(0, 7), "i": d.small(-5, 7)}.get(kind, d.small(-5, 7) / 2)


def shape(d: Draw, given: Given) -> Any:
    """Another shape of as many elements, one extent perhaps -1; now and then of other ones."""
    size = first(given).size
    if d.chance(0.1):
        return d.shape()
    n = d.one([n for n in (1, 2, 3, 5) if size and size % n == 0] or (3,))
    return d.one(((size,), (n, -1), (-1, n), (n, size // n), -1, size, (1, size, 1)))


def indices(d: Draw, given: Given) -> Any:
    """Places in an axis of the first array, or in all of it, from either end."""
    x, along = first(given), given.get("axis")
    is_there = isinstance(along, int) and -x.ndim <= along < x.ndim
    extent = x.shape[along] if is_there and along is not None else x.size
    return d.random.integers(-extent, max(extent, 1), d.one(((), (2,), (3, 1), (0,)))).astype("i4")


def each(generator: Generator) -> Generator:
    """A tuple of one for each axis."""
    return lambda d, given: tuple(generator(d, given) for _ in first(given).shape)


FLAG = one_of(False, True)
PARAMETERS: dict[str, Generator] = {
    **dict.fromkeys(("a", "x", "m", "arr", "ary", "array", "operand", "x1", "ar", "p", "y", "f",
                     "z", "v", "val", "data"), array()),
    **dict.fromkeys(("b", "x2"), similar()),
    **dict.fromkeys(("axis", "axes", "source", "destination"), axes),
    **dict.fromkeys(("axis1", "axis2"), axis), "dimension": axis_from_the_front,
    "dimensions": axes_from_the_front, "permutation": permutation, "where": where,
    **dict.fromkeys(("initial", "fill_value"), number), "shape": shape, "indices": indices,
    "dtype": one_of("int32", "uint8", "float32", "complex64", "int8", "float16"),
    "ddof": one_of(0, 1, 2, 0.5), "correction": one_of(0, 1, 1.5), "n": up_to(3),
    "side": one_of("left", "right"), "k": up_to(3, -3), "offset": up_to(3, -3),
    "decimals": up_to(2), "order": one_of("C", "F"), "size": up_to(7, 1),
    "precision": one_of(None, "highest"), "mode": one_of("clip", "fill"),
    "norm": one_of(None, "ortho", "forward", "backward", "other"),
    **dict.fromkeys(("keepdims", "stable", "descending", "promote_integers", "reverse", "deg",
                     "equal_nan", "invert", "return_index", "return_inverse", "return_counts",
                     "return_sign", "rowvar", "bias", "returned", "increasing", "full_matrices",
                     "compute_uv", "endpoint", "retstep", "sparse", "assume_unique", "right",
                     "approximate"), FLAG),
}  # fmt: skip
"""What is not here is given only where the function of a test says how."""


def call(d: Draw, function: Any, own: Mapping[str, Generator]) -> tuple[list[Any], Given]:
    """Return the arguments of one call: all that must be given, and some that may be."""
    given: Given = {}
    parameters = [*inspect.signature(function).parameters.values()]
    generators = {**PARAMETERS, **own}
    for each in sorted(parameters, key=lambda p: p.default is not p.empty):
        is_needed = each.default is each.empty and each.kind is not each.VAR_KEYWORD
        if (
            is_needed
            or isinstance(generators.get(each.name), Always)
            or (each.name in generators and d.chance(0.45))
        ):
            given[each.name] = generators[each.name](d, given)
    args: list[Any] = []
    for each in parameters:
        if each.kind is each.VAR_POSITIONAL:
            args += given.pop(each.name, ())
        elif each.name in given and (
            each.default is each.empty or each.kind is each.POSITIONAL_ONLY
        ):
            args.append(given.pop(each.name))
    return args, given


def tried(make: Callable[[], Any]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return make(), None
        except Exception as error:  # what is refused is compared
            return None, error


def leaves(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def difference(found: Any, expected: Any, *, values: bool) -> str | None:
    """Say what differs between two results."""
    mine, theirs = leaves(found), leaves(expected)
    if len(mine) != len(theirs):
        return f"{len(mine)} results, not {len(theirs)}"
    for one, other in zip(mine, theirs, strict=True):
        types = [(np.shape(x), np.asarray(x).dtype, bool(getattr(x, "weak_type", False)))
                 for x in (one, other)]  # fmt: skip
        if types[0] != types[1]:
            return f"{types[0]}, not {types[1]}"
        if values and not close(np.asarray(one), np.asarray(other)):
            return f"{np.asarray(one).tolist()}, not {np.asarray(other).tolist()}"
    return None


def close(found: Array, expected: Array) -> bool:
    """True where numbers in f32 agree but for the order in which they are added."""
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(found, expected))
    kind = "c16" if expected.dtype.kind == "c" else "f8"
    rough = 1e-2 if expected.dtype == np.float16 else 1e-3
    scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1e-3))
    return np.allclose(found.astype(kind), expected.astype(kind), rtol=rough,
                       atol=rough / 50 * scale, equal_nan=True)  # fmt: skip
