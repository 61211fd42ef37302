"""Indices inside and outside of arrays, in every mode, against NumPy on positions.

The model marks each element that is read or written by its number in the array, or by -1 where
the mode leaves it out, and goes through them one by one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx.errors import IndexOutOfRangeError
from tests.fuzz.draws.case import Call
from tests.fuzz.program import DTYPES, Array, draw

SHAPES: tuple[tuple[int, ...], ...] = (
    (1,), (3,), (5,), (17,), (130,), (300,), (2, 3), (7, 5), (4, 1), (3, 1, 4), (2, 3, 2),
)  # fmt: skip
_INDICES = ("i32",) * 4 + ("i64", "i64", "i8", "i16", "u8", "u16", "u32", "u64")
_INDEX_SHAPES: tuple[tuple[int, ...], ...] = ((), (), (1,), (2,), (4,), (2, 3), (0,))
_DTYPES = ("f32",) * 4 + ("f64", "i32", "i8", "u8", "bf16", "f16", "bool", "c64", "u32", "i64")
_MODES = (None, None, "clip", "fill", "drop", "wrap", "promise_in_bounds")
_FILLS = ("", "", ", fill_value=7", ", fill_value=0")
Fold = Callable[[Any, Any], Any]
_FOLDS: dict[str, Fold] = {
    "set": lambda _, v: v, "add": lambda a, v: a + v, "multiply": lambda a, v: a * v,
    "max": np.maximum, "min": np.minimum, "subtract": lambda a, v: a - v,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of an index: a slice, or positions along an axis in an argument or a constant."""

    text: str
    value: Any

    @property
    def is_slice(self) -> bool:
        return isinstance(self.value, slice)


def case(pick: random.Random) -> Call:
    """Return a read, an update, or a block, at indices that may be outside."""
    kinds = (read, read, update, update, update, taken, along, block, windows, segments)
    return pick.choice(kinds)(pick)


def read(pick: random.Random) -> Call:
    x = operand(pick)
    index, arrays = places(pick, x)
    mode, fill = pick.choice(_MODES), pick.choice(_FILLS)
    how = f".at[{text_of(index)}].get(mode={mode!r}{fill})"
    plain = mode is None and not fill
    source = f"v0[{text_of(index)}]" if plain and pick.random() < 0.7 else f"v0{how}"
    fill_value = None if not fill else int(fill[-1])

    def model(x: Array, *given: Array) -> Array:
        return read_at(x, numbers(x, bound(index, given), mode), fill_value)

    return called(source, x, arrays, model)


def update(pick: random.Random) -> Call:
    name = pick.choice(tuple(_FOLDS))
    dtypes = tuple(d for d in _DTYPES if name == "set" or d not in ("bool", "c64", "bf16", "f16"))
    x = operand(pick, dtypes)
    index, arrays = places(pick, x)
    mode = pick.choice(_MODES)
    picked = numbers(x, bound(index, arrays), "clip").shape
    values = small(pick, x.dtype, pick.choice(((), picked, picked[1:])))

    def model(x: Array, *given: Array) -> Array:
        at = numbers(x, bound(index, given), mode)
        return written(x, at, given[-1], _FOLDS[name])

    last = len(arrays) + 1
    source = f"v0.at[{text_of(index)}].{name}(v{last}, mode={mode!r})"
    return called(source, x, [*arrays, values], model)


def taken(pick: random.Random) -> Call:
    """`take` in its modes: clip is NumPy's, so that negative numbers are below the first."""
    x = operand(pick)
    axis = pick.choice((None, *range(-x.ndim, x.ndim)))
    extent = x.size if axis is None else x.shape[axis]
    indices, mode = positions(pick, extent), pick.choice((None, "clip", "wrap", "fill", "raise"))

    def model(x: Array, at: Array) -> Array:
        along = 0 if axis is None else axis
        x = x.ravel() if axis is None else x
        index = (*(slice(None),) * (along % x.ndim), at)
        if mode == "clip":
            inside = [min(max(int(i), 0), x.shape[along] - 1) for i in at.ravel()]
            return np.take(x, np.array(inside, int).reshape(at.shape), along)
        return read_at(x, numbers(x, index, None if mode == "raise" else mode), None)

    return called(f"np.take(v0, v1, axis={axis}, mode={mode!r})", x, [indices], model)


def along(pick: random.Random) -> Call:
    x = operand(pick)
    axis = pick.randrange(-x.ndim, x.ndim)
    shape = list(x.shape)
    shape[axis] = pick.randint(1, 4)
    at, mode = positions(pick, x.shape[axis], tuple(shape)), pick.choice((None, "clip", "fill"))

    def model(x: Array, at: Array) -> Array:
        index: list[Any] = list(np.indices(at.shape))
        index[axis] = at
        return read_at(x, numbers(x, tuple(index), mode), None)

    return called(f"np.take_along_axis(v0, v1, {axis}, mode={mode!r})", x, [at], model)


def block(pick: random.Random) -> Call:
    """Blocks that stick out are moved inside; negative starts count from the end."""
    x = operand(pick)
    sizes = tuple(pick.randint(1, n) for n in x.shape)
    starts = [positions(pick, n, ()) for n in x.shape]
    names = ", ".join(f"v{i + 1}" for i in range(x.ndim))
    is_update = pick.random() < 0.5
    values = small(pick, x.dtype, sizes)

    def model(x: Array, *given: Array) -> Array:
        at = tuple(
            slice(first, first + size)
            for n, size, start in zip(x.shape, sizes, given, strict=False)
            for first in [min(max(int(start) + (n if start < 0 else 0), 0), n - size)]
        )
        if not is_update:
            return x[at]
        changed = x.copy()
        changed[at] = given[-1]
        return changed

    if is_update:
        source = f"lax.dynamic_update_slice(v0, v{x.ndim + 1}, ({names},))"
        return called(source, x, [*starts, values], model)
    return called(f"lax.dynamic_slice(v0, ({names},), {sizes})", x, starts, model)


def windows(pick: random.Random) -> Call:
    """Gathers and scatters of windows of rows, by XLA's dimension numbers; no start is wrapped."""
    name = pick.choice(("gather", "gather", "scatter", "scatter_add", "scatter_max"))
    x = operand(pick, ("f32", "f64", "i32", "u8"))
    rank, size = x.ndim, pick.randint(1, x.shape[0])
    starts = positions(pick, x.shape[0], (pick.randint(1, 4), 1))
    mode = pick.choice(("clip", "fill", "drop", "promise_in_bounds"))
    offsets = tuple(range(1, rank + 1))
    updates = small(pick, x.dtype, (len(starts), size, *x.shape[1:]))
    fold = _FOLDS[{"scatter_add": "add", "scatter_max": "max"}.get(name, "set")]

    def inside(x: Array, starts: Array) -> list[int | None]:
        """Return where windows begin; None for those that are left out."""
        last = x.shape[0] - size
        found = [int(start) for start in starts[:, 0]]
        if mode in ("clip", "promise_in_bounds"):
            return [min(max(start, 0), last) for start in found]
        return [start if 0 <= start <= last else None for start in found]

    def gathered(x: Array, starts: Array) -> Array:
        parts = []
        for start in inside(x, starts):
            missing = read_at(x, np.full((size, *x.shape[1:]), -1), None)
            parts.append(missing if start is None else x[start : start + size])
        return np.stack(parts)

    def scattered(x: Array, starts: Array, updates: Array) -> Array:
        changed = x.copy()
        for start, block in zip(inside(x, starts), updates, strict=True):
            if start is not None:
                part = changed[start : start + size]
                part[...] = fold(part, block)
        return changed

    if name == "gather":
        numbers = f"lax.GatherDimensionNumbers({offsets}, (), (0,))"
        source = f"lax.gather(v0, v1, {numbers}, {(size, *x.shape[1:])}, mode={mode!r})"
        return called(source, x, [starts], gathered)
    numbers = f"lax.ScatterDimensionNumbers({offsets}, (), (0,))"
    source = f"lax.{name}(v0, v1, v2, {numbers}, mode={mode!r})"
    return called(source, x, [starts, updates], scattered)


def segments(pick: random.Random) -> Call:
    """Folds of rows by numbers of segments that may not be there."""
    x = operand(pick, ("f32", "i32", "i64", "f64", "u8"))
    count, name = pick.randint(1, 4), pick.choice(("sum", "prod", "max", "min"))
    ids = positions(pick, count, x.shape[:1])
    mode = pick.choice((None, "drop", "fill", "clip"))

    def model(x: Array, ids: Array) -> Array:
        at = [int(i) for i in ids]
        if mode == "clip":
            at = [min(max(i, 0), count - 1) for i in at]
        if mode is None and any(not 0 <= i < count for i in at):
            raise IndexOutOfRangeError("")
        result = np.full((count, *x.shape[1:]), _identity(name, x.dtype), x.dtype)
        fold = _FOLDS[{"sum": "add", "prod": "multiply"}.get(name, name)]
        for row, i in zip(x, at, strict=True):
            if 0 <= i < count:
                result[i] = fold(result[i], row)
        return result

    return called(f"np.segment_{name}(v0, v1, {count}, mode={mode!r})", x, [ids], model)


def _identity(name: str, dtype: np.dtype[Any]) -> Any:
    if name in ("sum", "prod"):
        return int(name == "prod")
    limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else None
    low, high = (limits.min, limits.max) if limits else (-np.inf, np.inf)
    return low if name == "max" else high


# Drawing


def called(source: str, x: Array, arrays: Sequence[Array], model: Callable[..., Any]) -> Call:
    names = ", ".join(f"v{i}" for i in range(len(arrays) + 1))
    return Call(f"def f({names}):\n    return {source}\n", (x, *arrays), model, rounds=8)


def operand(pick: random.Random, dtypes: Sequence[str] = _DTYPES) -> Array:
    numbers = np.random.default_rng(pick.getrandbits(32))
    return draw(numbers, pick.choice(dtypes), pick.choice(SHAPES))


def small(pick: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(pick.getrandbits(32))
    return np.asarray(random.integers(0, 2 if dtype.kind == "b" else 4, shape)).astype(dtype)


def positions(pick: random.Random, extent: int, shape: tuple[int, ...] | None = None) -> Array:
    """Return positions, mostly inside; a fourth of the arrays may have any."""
    shape = pick.choice(_INDEX_SHAPES) if shape is None else shape
    dtype = np.dtype(DTYPES[pick.choice(_INDICES)])
    limits = np.iinfo(dtype)
    low, high = pick.choice(((-extent, extent - 1), (0, extent - 1), (-2 * extent - 2, 3 * extent),
                             (-extent - 1, extent), (limits.min, limits.max)))  # fmt: skip
    low, high = max(low, limits.min), min(high, limits.max)
    found = [pick.choice((low, high, pick.randint(low, high))) for _ in range(int(np.prod(shape)))]
    return np.array(found, dtype).reshape(shape)


def places(pick: random.Random, x: Array) -> tuple[list[Place], list[Array]]:
    """Return an index into the leading axes, and the arrays that it takes as arguments."""
    index, arrays = list[Place](), list[Array]()
    shape = pick.choice(_INDEX_SHAPES)
    for axis in range(pick.randint(1, x.ndim)):
        form = pick.choice(("argument",) * 3 + ("constant", "number", "slice"))
        if form == "slice":
            step = pick.choice((1, 2, -1))
            index.append(Place(f"::{step}", slice(None, None, step)))
            continue
        at = positions(pick, x.shape[axis], () if form == "number" else pick.choice((shape, ())))
        if form == "argument":
            arrays.append(at)
            index.append(Place(f"v{len(arrays)}", len(arrays) - 1))
        elif form == "constant":
            index.append(Place(f"array({at.tolist()}, {at.dtype.str[1:]!r})", at))
        else:
            index.append(Place(str(int(at)), at.astype(object)))
    return index, arrays


def text_of(index: Sequence[Place]) -> str:
    return ", ".join(place.text for place in index)


# The model


def bound(index: Sequence[Place], given: Sequence[Array]) -> tuple[Any, ...]:
    """Return the index with the arguments in it."""
    return tuple(given[p.value] if isinstance(p.value, int) else p.value for p in index)


def numbers(x: Array, index: tuple[Any, ...], mode: str | None) -> Array:
    """Return the number in `x` of each element at an index; -1 of those that are left out."""
    if any(np.size(item) == 0 for item in index if not isinstance(item, slice)):
        mode = mode or "clip"  # positions that pick nothing are not checked, as in NumPy
    room = [1 if _is_position(index, axis) else 0 for axis in range(x.ndim)]
    of = np.pad(np.arange(x.size).reshape(x.shape), [(0, extra) for extra in room],
                constant_values=-1)  # fmt: skip
    items = [_whole(item, n, mode) for item, n in zip(index, x.shape, strict=False)]
    return np.asarray(of[tuple(items)])


def _is_position(index: tuple[Any, ...], axis: int) -> bool:
    return axis < len(index) and not isinstance(index[axis], slice)


def _whole(item: Any, extent: int, mode: str | None) -> Any:
    if isinstance(item, slice):
        return slice(extent - 1, None, -1) if item.step == -1 else slice(0, extent, item.step)
    at = np.array([_moved(int(i), extent, mode) for i in np.ravel(item)], np.int64)
    return at.reshape(np.shape(item))


def _moved(i: int, extent: int, mode: str | None) -> int:
    """Return where a position is in an axis; the extent for those that are left out."""
    if mode == "wrap":
        return i % extent
    i = i + extent if i < 0 else i
    if mode in ("clip", "promise_in_bounds"):
        return min(max(i, 0), extent - 1)
    if 0 <= i < extent:
        return i
    if mode is None:
        raise IndexOutOfRangeError("")
    return extent


def read_at(x: Array, at: Array, fill: Any) -> Array:
    """Return elements by their numbers; what JAX reads outside where no fill is given."""
    missing: Any = fill
    if fill is None:
        limits: Any = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        missing = np.nan if limits is None else limits.max if x.dtype.kind == "u" else limits.min
        missing = True if x.dtype.kind == "b" else missing
    return np.where(at < 0, np.asarray(missing).astype(x.dtype), x.ravel()[np.maximum(at, 0)])


def written(x: Array, at: Array, values: Array, fold: Fold) -> Array:
    """Return `x` with each value folded into the element of its number, one by one."""
    flat = x.ravel().copy()
    for i, value in zip(at.ravel(), np.broadcast_to(values, at.shape).ravel(), strict=True):
        if i >= 0:
            flat[i] = fold(flat[i], value)
    return flat.reshape(x.shape)
