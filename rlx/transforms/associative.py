"""`associative_scan`: all prefixes of a sequence in logarithmically many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.ir.shape import normalize_axis
from rlx.ir.source_lines import calling_source
from rlx.numpy.axes import static_shape
from rlx.tracing.bodies import at_once, line_of, require_arguments
from rlx.tracing.pytree import TreeDef, leaf_paths, tree_flatten, tree_unflatten
from rlx.tracing.trace import shape_of, source_names

Combine = Callable[[list[Any], list[Any]], list[Any]]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Return the combinations of the first 1, 2, ... elements along `axis` by `fn`.

    `fn` is associative and combines many pairs at a time, element by element along `axis`.
    With `reverse` they are those of the last 1, 2, ... elements, and `fn` is given the later
    element first.
    """

    require_arguments("associative_scan", "function", fn, ("left", "right"))

    def run(elems: Any) -> Any:
        leaves, tree = tree_flatten(elems)
        places = _places(leaves, axis)

        def combine(left: list[Any], right: list[Any]) -> list[Any]:
            result = fn(tree_unflatten(tree, left), tree_unflatten(tree, right))
            return _combined(fn, tree, left, result)

        fronts = [rnp.moveaxis(x, place, 0) for x, place in zip(leaves, places, strict=True)]
        along = _along(combine, places) if any(places) else combine
        if reverse:
            fronts = [rnp.flip(x, 0) for x in fronts]
        done = _prefixes(along, fronts)
        if reverse:
            done = [rnp.flip(x, 0) for x in done]
        pairs = zip(done, places, strict=True)
        return tree_unflatten(tree, [rnp.moveaxis(x, 0, place) for x, place in pairs])

    return at_once("associative_scan", run, elems)


def _combined(
    fn: Callable[[Any, Any], Any], tree: TreeDef, like: list[Any], result: Any
) -> list[Any]:
    """Return the leaves of a combination, which has structure, shapes and dtypes of its parts."""
    leaves, own = tree_flatten(result)
    name = source_names(fn, "function")
    if own != tree:
        raise InputError(
            f"associative_scan: function {name!r} takes {tree} and returns {own}",
            source=line_of(fn),
            remedy="return a combination in the structure of the elements",
        )
    for path, part, leaf in zip(leaf_paths(tree, "elems"), like, leaves, strict=True):
        if shape_of(leaf) != shape_of(part):
            raise ShapeError(
                f"associative_scan: function {name!r} changes the shape of {path}: it is given "
                f"{shape_of(part)} and returns {shape_of(leaf)}",
                source=line_of(fn),
                remedy="combine element by element along the axis",
            )
    return leaves


def _along(combine: Combine, places: Sequence[int]) -> Combine:
    """Give the user's function its axis where it was, though the scan runs along axis 0."""

    def moved(left: list[Any], right: list[Any]) -> list[Any]:
        sides = [
            [rnp.moveaxis(x, 0, place) for x, place in zip(side, places, strict=True)]
            for side in (left, right)
        ]
        pairs = zip(combine(*sides), places, strict=True)
        return [rnp.moveaxis(x, place, 0) for x, place in pairs]

    return moved


def _prefixes(combine: Combine, elems: list[Any]) -> list[Any]:
    """Combine neighbors, scan those, and fill the places between."""
    count = elems[0].shape[0]
    if count < 2:
        return elems
    pairs = combine([x[: count - 1 : 2] for x in elems], [x[1::2] for x in elems])
    odd = _prefixes(combine, pairs)
    first = [x[:1] for x in elems]
    if count == 2:
        return [rnp.concatenate(both) for both in zip(first, odd, strict=True)]
    before = [x[: (count - 1) // 2] for x in odd]
    between = combine(before, [x[2::2] for x in elems])
    even = [rnp.concatenate(both) for both in zip(first, between, strict=True)]
    return [_interleaved(a, b) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any) -> Any:
    """Return even[0], odd[0], even[1], ...; `even` has as many rows or one more."""
    count = odd.shape[0]
    paired = rnp.stack([even[:count], odd], 1)
    merged = rnp.reshape(paired, (2 * count, *odd.shape[1:]))
    return merged if even.shape[0] == count else rnp.concatenate([merged, even[count:]])


def _places(leaves: Sequence[Any], axis: int) -> list[int]:
    """Return the scanned axis of each leaf, counted from the front."""
    if not leaves:
        raise InputError(
            "associative_scan is given no arrays",
            source=calling_source(),
            remedy="pass a tree with one array or more",
        )
    scalars = [x for x in leaves if not shape_of(x)]
    if scalars:
        raise ShapeError(
            "associative_scan is given a number, which has no axis",
            source=calling_source(),
            remedy="pass arrays with the axis to scan along",
        )
    places = [normalize_axis(axis, len(shape_of(x))) for x in leaves]
    counts = {static_shape(x)[place] for x, place in zip(leaves, places, strict=True)}
    if len(counts) > 1:
        raise ShapeError(
            f"associative_scan: the extents along axis {axis} differ: {sorted(counts)}",
            source=calling_source(),
            remedy="give all arrays one extent along that axis",
        )
    return places
