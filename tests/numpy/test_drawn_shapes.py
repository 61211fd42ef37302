"""Drawn calls that make, move, index and count arrays are NumPy's, in shape, dtype and value.

`test_drawn_calls` and `test_drawn_matrices` draw the other functions of the array API standard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.numpy.drawn import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    Case,
    Cases,
    Draw,
    check,
)

AT_ONCE = {"nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"}  # of data


def dtype_of(d: Draw) -> Any:
    return np.dtype(d.one(ALL))


def shaped(*, value: bool = False) -> Callable[[Draw], Case]:
    """An array of a shape, or of an extent; the number is of the kind of the dtype."""

    def draw(d: Draw) -> Case:
        shape = d.one((d.shape(), int(d.random.integers(0, 5))))
        how = {"dtype": dtype_of(d)} if d.flag() else {}
        numbers = {"b": True, "u": 7, "i": -3, "f": d.one((-2.5, np.inf)), "c": 2 - 1j}
        number = numbers[how["dtype"].kind if how else d.one("bifc")]
        return [shape, *([number] if value else [])], how

    return draw


def like(*, value: bool = False) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        how = {"dtype": dtype_of(d)} if d.flag() else {}
        return [d.array(ALL), *([d.one((0, 1, True))] if value else [])], how

    return draw


def ranges(d: Draw) -> Case:
    whole = d.flag()
    ends = [d.one(SMALL) if whole else d.one((-1.5, 0.0, 2.25, 7.0)) for _ in range(3)]
    ends[2] = ends[2] or 1
    how = {"dtype": np.dtype(d.one(("i4", "i8", *FLOATS)))} if d.flag() and whole else {}
    return ends[: d.one((1, 2, 3))], how


SMALL = tuple(range(-5, 6))


def spaced(d: Draw) -> Case:
    how: dict[str, Any] = {"dtype": np.dtype(d.one(FLOATS + COMPLEX))} if d.flag() else {}
    ends = [d.one((-1.5, 0, 2.25, 7, 1e6)) for _ in range(2)]
    return [*ends, int(d.random.integers(0, 9))], {"endpoint": d.flag(), **how}


def identity(d: Draw) -> Case:
    sizes = [int(n) for n in d.random.integers(0, 5, d.one((1, 2)))]
    return sizes, {"k": d.one(SMALL), "dtype": dtype_of(d)}


def grids(d: Draw) -> Case:
    dtype = d.one(ALL)
    arrays = [d.array([dtype], (int(d.random.integers(0, 4)),)) for _ in range(d.one((1, 2, 3)))]
    return arrays, {"indexing": d.one(("xy", "ij"))}


def converted(d: Draw) -> Case:
    """Conversions that lose nothing but digits: what does not fit is for the hardware to say."""
    x = d.array(ALL, ends=False)
    order = "buifc"
    kinds = [t for t in ALL if order.index(np.dtype(t).kind) >= order.index(x.dtype.kind)]
    return [x, np.dtype(d.one(kinds))], {"copy": d.flag()}


def asarrays(d: Draw) -> Case:
    x = d.array(ALL)
    return [d.one((x, x.tolist()))], {"copy": True} if d.flag() else {}


def broadcast(d: Draw) -> Case:
    x = d.array(ALL)
    shape = tuple(3 if extent == 1 else extent for extent in x.shape)
    return [x, (*(2,) * d.one((0, 1)), *shape)], {}


def broadcast_several(d: Draw) -> Case:
    x = d.array(ALL)
    others = [d.array(ALL, tuple(d.one((1, n)) for n in x.shape[d.one((0, 1)) :])) for _ in "ab"]
    return [x, *others[: d.one((0, 1, 2))]], {}


def several(dtypes: Sequence[str], *, of_one_shape: bool) -> Callable[[Draw], Case]:
    """Arrays to be joined along an axis, of dtypes of one kind."""

    def draw(d: Draw) -> Case:
        first = d.array(dtypes, (d.one((1, 2)), *d.shape()))
        axis = d.axis(first)
        kinds = [t for t in dtypes if np.dtype(t).kind == first.dtype.kind]
        arrays = [first]
        for _ in range(d.one((0, 1, 2))):
            shape = list(first.shape)
            shape[axis] = shape[axis] if of_one_shape else int(d.random.integers(0, 4))
            arrays.append(d.array(kinds, tuple(shape)))
        if not of_one_shape and d.random.random() < 0.2:
            return [arrays], {"axis": None}
        return [arrays], {"axis": axis}

    return draw


def expanded(d: Draw) -> Case:
    x = d.array(ALL)
    return [x], {"axis": int(d.random.integers(-x.ndim - 1, x.ndim + 1))}


def squeezed(d: Draw) -> Case:
    x = d.array(ALL, tuple(d.one((1, 1, 2, 0)) for _ in range(3)))
    ones = tuple(axis - d.one((0, 3)) for axis, extent in enumerate(x.shape) if extent == 1)
    return [x], {"axis": d.one((ones, *ones))}


def moved(d: Draw) -> Case:
    x = d.array(ALL)
    count = int(d.random.integers(0, x.ndim + 1))
    places = [tuple(int(a) for a in d.random.permutation(x.ndim)[:count]) for _ in "ab"]
    return [x, *places], {}


def permuted(d: Draw) -> Case:
    x = d.array(ALL)
    axes = [int(a) - d.one((0, x.ndim)) for a in d.random.permutation(x.ndim)]
    return [x, tuple(axes)], {}


def reshaped(d: Draw) -> Case:
    x = d.array(ALL)
    shape = [int(n) for n in d.random.permutation(x.shape)] + [1] * d.one((0, 1))
    if d.flag() and shape and 0 not in shape:
        shape[d.one(range(len(shape)))] = -1
    return [x, tuple(shape)], {"copy": True} if d.flag() else {}


def rolled(d: Draw) -> Case:
    x = d.array(ALL)
    axis = d.axes(x)
    shift = tuple(d.one(SMALL) for _ in axis) if isinstance(axis, tuple) else d.one(SMALL)
    return [x, shift], {"axis": axis}


def repeated(d: Draw) -> Case:
    x = d.array(ALL)
    axis = d.axis(x) if x.ndim and d.flag() else None
    extent = x.size if axis is None else x.shape[axis]
    return [x, d.one((0, 1, 3, d.random.integers(0, 3, extent).tolist()))], {"axis": axis}


def tiled(d: Draw) -> Case:
    return [d.array(ALL), d.one((2, (1, 2), (2, 0, 3), (), (3, 1, 1, 2)))], {}


def taken(d: Draw) -> Case:
    x = d.array(ALL, (2, *d.shape()))
    axis = d.axis(x)
    extent = x.shape[axis]
    picks = d.random.integers(-extent, extent, d.one((0, 1, 5))) if extent else np.zeros(0, int)
    return [x, picks.astype(d.one(("i4", "i8")))], {"axis": axis}


def taken_along(d: Draw) -> Case:
    x = d.array(ALL, (2, *d.shape()))
    axis = d.axis(x)
    shape = list(x.shape)
    shape[axis] = int(d.random.integers(0, 5)) if x.shape[axis] else 0
    low = x.shape[axis]
    picks = d.random.integers(-low, max(low, 1), shape) if low else np.zeros(shape, int)
    return [x, picks], {"axis": axis}


def chosen(d: Draw) -> Case:
    x = d.array(NUMBERS)
    kinds = [t for t in NUMBERS if np.dtype(t).kind == x.dtype.kind]
    y = d.one((d.array(kinds, x.shape), d.array(kinds, x.shape[1:]), 1))
    return [d.array(("?",), tuple(d.one((1, n)) for n in x.shape)), x, y], {}


def clipped(d: Draw) -> Case:
    x = d.array(REAL)
    low = d.array([x.dtype.str], tuple(d.one((1, n)) for n in x.shape[d.one((0, 1)) :]))
    high = d.array([x.dtype.str], x.shape)
    return [x, d.one((low, None, 1)), d.one((high, None, 3))], {}


def members(d: Draw) -> Case:
    dtype = d.one((*INTEGERS, *FLOATS))
    return [d.array([dtype]), d.array([dtype])], {"invert": d.flag()}


def found_by_order(d: Draw) -> Case:
    x = d.array(REAL, (int(d.random.integers(0, 9)),), ends=False)
    order = np.argsort(x, kind="stable")
    return [x, d.array([x.dtype.str], ends=False)], {"sorter": order}


def differences(d: Draw) -> Case:
    x = d.array(NUMBERS, (3, *d.shape()), ends=False)
    axis = d.axis(x)
    edge = list(x.shape)
    edge[axis] = 1
    ends = {side: d.array([x.dtype.str], tuple(edge), ends=False) for side in ("prepend", "append")}
    return [x], {"axis": axis, "n": d.one((0, 1, 2, 3)), **(ends if d.flag() else {})}


def power(d: Draw) -> Case:
    """Powers as the standard has them: of numbers of one kind."""
    x = d.array(d.one((REAL, COMPLEX)), ends=False)
    if x.dtype.kind == "c":
        return [x, d.one((2, 3, 0.5, 1 - 1j))], {}
    return [x, d.random.choice(range(6), x.shape).astype(x.dtype)], {}


def typed(*kinds: str) -> Callable[[Draw], Case]:
    return lambda d: ([np.dtype(d.one(kinds))], {})


def two_types(d: Draw) -> Case:
    return [dtype_of(d), dtype_of(d)], {}


def types(d: Draw) -> Case:
    """Types and arrays of one kind: of mixed ones the standard says nothing."""
    kinds = [d.one((INTEGERS[:4], INTEGERS[4:], FLOATS, COMPLEX, FLOATS + COMPLEX))][0]
    some = [np.dtype(d.one(kinds)) for _ in range(d.one((1, 2, 3)))]
    return [d.one((dtype, np.zeros(d.shape(), dtype))) for dtype in some], {}


def kind_of(d: Draw) -> Case:
    names = ("bool", "signed integer", "unsigned integer", "integral", "real floating",
             "complex floating", "numeric")  # fmt: skip
    kind = d.one((*names, (d.one(names), d.one(names)), dtype_of(d)))
    return [dtype_of(d), kind], {}


def anything(dtypes: Sequence[str]) -> Callable[[Draw], Case]:
    return lambda d: ([d.array(dtypes, (d.one((1, 3)), *d.shape()))], {})


CALLS: Cases = {
    **dict.fromkeys(("zeros", "ones"), shaped()), "full": shaped(value=True),
    **dict.fromkeys(("zeros_like", "ones_like"), like()), "full_like": like(value=True),
    "empty": shaped(), "empty_like": like(), "arange": ranges, "linspace": spaced, "eye": identity,
    "meshgrid": grids, "astype": converted, "asarray": asarrays,
    "from_dlpack": anything(NUMBERS), "broadcast_to": broadcast,
    "broadcast_arrays": broadcast_several, "concat": several(ALL, of_one_shape=False),
    "stack": several(ALL, of_one_shape=True), "expand_dims": expanded, "squeeze": squeezed,
    "moveaxis": moved, "permute_dims": permuted, "reshape": reshaped, "roll": rolled,
    "repeat": repeated, "tile": tiled, "take": taken, "take_along_axis": taken_along,
    "where": chosen, "clip": clipped, "isin": members, "searchsorted": found_by_order,
    "diff": differences, "pow": power,
    **dict.fromkeys(AT_ONCE, anything(REAL)), "finfo": typed(*FLOATS, *COMPLEX),
    "iinfo": typed(*INTEGERS), "can_cast": two_types, "result_type": types, "isdtype": kind_of,
}  # fmt: skip
UNTRACED = AT_ONCE | {"finfo", "iinfo", "can_cast", "result_type", "isdtype", "from_dlpack",
                      "asarray"}  # fmt: skip


def seen_of(name: str) -> Callable[..., Any]:
    """What a result has to show: no values of memory that is not set, limits of a type."""
    limits = ["bits", "max", "min", "dtype"] + ["eps", "smallest_normal"] * (name == "finfo")
    if name in ("empty", "empty_like"):
        return lambda result, *_: result * 0 == 7
    if name == "unique_values":  # in any order
        return lambda result, *_: np.sort(result)
    if name in ("finfo", "iinfo"):
        return lambda result, *_: [str(getattr(result, limit)) for limit in limits]
    if name == "result_type":
        return lambda result, *_: str(np.dtype(result))
    return lambda result, *_: result


def checked(name: str, seed: int) -> bool:
    return check(CALLS, name, seed, seen=seen_of(name), compiled=name not in UNTRACED)


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CALLS))
def test_drawn_calls_are_numpys(name: str) -> None:
    assert sum(checked(name, seed) for seed in range(108)) > 30
