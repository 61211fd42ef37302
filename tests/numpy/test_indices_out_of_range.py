"""Indices below `-extent`, or at `extent` and above: refused, or moved as a mode states, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.lax as lax
import rlx.numpy as rnp
from rlx.errors import IndexOutOfRangeError

PLACES: dict[str, tuple[tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "x[i]": ((6, 2), lambda at, i: at[i]),
    "x[i] of a vector": ((6,), lambda at, i: at[i]),
    "x[:, i]": ((3, 6), lambda at, i: at[:, i]),
    "x[1, i]": ((3, 6), lambda at, i: at[1, i]),
    "x[1:, i]": ((3, 6), lambda at, i: at[1:, i]),
    "x[i, i]": ((6, 6), lambda at, i: at[i, i]),
    "x[i, None]": ((6, 2), lambda at, i: at[i, None]),
    "x[..., i]": ((2, 3, 6), lambda at, i: at[..., i]),
}
METHODS = ["get", "set", "add", "subtract", "multiply", "divide", "power", "min", "max", "apply"]


def at_index(place: str, method: str) -> Callable[[Any, Any], Any]:
    def run(x: Any, i: Any) -> Any:
        target = PLACES[place][1](x.at, i)
        values = {"get": (), "apply": (rnp.sin,)}.get(method, (9.0,))
        return getattr(target, method)(*values)

    return run


def ways(f: Callable[[Any, Any], Any]) -> dict[str, Callable[[Any, Any], Any]]:
    jitted = {backend: rlx.jit(f, backend=backend) for backend in ("c", "llvm", "reference")}
    eager = {"eager": lambda x, i: f(rnp.asarray(x), rnp.asarray(i))}
    mapped = {"vmap": lambda x, i: rlx.vmap(f, in_axes=(None, 0))(x, np.stack([i * 0, i]))}
    return jitted | eager | mapped


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("method", METHODS)
def test_no_update_and_no_read_wraps_twice(place: str, method: str) -> None:
    """An index in [-2n, -n) was counted from the end, and counted from the end again."""
    x = np.ones(PLACES[place][0])
    for run in ways(at_index(place, method)).values():
        run(x, np.array([0, -6]))
        for index in ([0, -7], [-12, -1], [6, 0]):
            with pytest.raises(IndexOutOfRangeError):
                run(x, np.array(index))


def moved(index: int, extent: int, mode: str) -> int | None:
    """The position by the definition of a mode; none for what is left out."""
    if mode == "wrap":
        return index % extent
    counted = index + extent if index < 0 else index
    if mode == "clip":
        return min(max(counted, 0), extent - 1)
    return counted if 0 <= counted < extent else None


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8"])
@pytest.mark.parametrize("mode", ["fill", "clip", "wrap", "drop"])
def test_modes_move_indices_of_every_dtype(mode: str, dtype: str) -> None:
    """The extent, 300, is no number of i8; the last unsigned indices are no numbers of i64."""
    x = np.arange(300.0)
    index = np.array([0, -1, 5, -128, 127]).astype(dtype)
    places = [moved(int(i), 300, mode) for i in index]
    read = [np.nan if place is None else place for place in places]
    written = x.copy()
    written[[place for place in places if place is not None]] = -7.0
    for apply in (lambda f: f, rlx.jit):
        get = apply(lambda x, i: x.at[i].get(mode=mode))
        put = apply(lambda x, i: x.at[i].set(-7.0, mode=mode))
        np.testing.assert_array_equal(get(rnp.asarray(x), rnp.asarray(index)), read)
        np.testing.assert_array_equal(put(rnp.asarray(x), rnp.asarray(index)), written)


@pytest.mark.parametrize("known", [False, True])
def test_unsigned_indices_beyond_i64_are_not_negative(known: bool) -> None:
    x, index = np.arange(3.0), np.array([2**64 - 1, 0], np.uint64)
    with pytest.raises(IndexOutOfRangeError):
        rlx.jit(lambda x, i: x[index if known else i])(x, index)
    with pytest.raises(IndexOutOfRangeError):
        rlx.jit(lambda x, i: x.at[index if known else i].set(0.0))(x, index)
    assert rlx.jit(lambda x, i: lax.dynamic_slice(x, (i[0],), (1,)))(x, index).tolist() == [2.0]


@pytest.mark.parametrize("start", [-300, -301, -1, 127])
def test_starts_of_narrow_integers_count_from_the_end_once(start: int) -> None:
    x = np.arange(300.0)
    expected = x[[min(max(start + 300 if start < 0 else start, 0), 299)]]
    found = rlx.jit(lambda x, s: lax.dynamic_slice(x, (s,), (1,)))(x, np.int16(start))
    np.testing.assert_array_equal(found, expected)
    if start >= -128:
        found = rlx.jit(lambda x, s: lax.dynamic_slice(x, (s,), (1,)))(x, np.int8(start))
        np.testing.assert_array_equal(found, expected)
