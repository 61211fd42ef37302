"""Linear parts of functions: `linearize` and `linear_transpose`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.tracing.pytree import tree_flatten, tree_map, tree_unflatten
from rlx.tracing.trace import element_type, shape_of
from rlx.transforms.abstract import ShapeDtypeStruct
from rlx.transforms.batch import vmap
from rlx.transforms.differentiate import jvp, vjp


def linearize(fun: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return `fun(*primals)` and the linear function from tangents to the result's tangent.

    That function computes what it needs of `fun` again; in one compiled graph the two merge.
    """

    def pushforward(*tangents: Any) -> Any:
        return jvp(fun, primals, tangents)[1]

    return fun(*primals), pushforward


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a function that is linear in arguments like `primals`.

    Integers have no derivatives: the function is mapped over the unit vectors of an integer
    argument, and their images are the rows of the transposed matrix.
    """
    origin = tuple(tree_map(_zeros, primal) for primal in primals)
    leaves, tree = tree_flatten(origin)
    integers = [i for i, x in enumerate(leaves) if element_type(x).dtype.is_int]

    def transposed(cotangent: Any) -> tuple[Any, ...]:
        pulled: tuple[Any, ...] = vjp(fun, *origin)[1](cotangent)
        if not integers:
            return pulled
        found = tree_flatten(pulled)[0]
        for place in integers:
            found[place] = _by_unit_vectors(image_of(place), leaves[place], cotangent)
        whole: tuple[Any, ...] = tree_unflatten(tree, found)
        return whole

    def image_of(place: int) -> Callable[[Any], Any]:
        return lambda x: fun(*tree_unflatten(tree, [*leaves[:place], x, *leaves[place + 1 :]]))

    return transposed


def _by_unit_vectors(image: Callable[[Any], Any], origin: Any, cotangent: Any) -> Any:
    """Return the cotangent of one argument of a function that is linear in it."""
    shape, dtype = shape_of(origin), element_type(origin).dtype.numpy
    count = rnp.size(origin)
    units = rnp.reshape(rnp.eye(count, dtype=dtype), (count, *shape))
    found = rnp.zeros(count, dtype)
    images, cotangents = (tree_flatten(x)[0] for x in (vmap(image)(units), cotangent))
    for rows, weights in zip(images, cotangents, strict=True):
        found = found + rnp.tensordot(rows, weights, len(shape_of(weights)))
    return rnp.reshape(rnp.astype(found, dtype), shape)


def _zeros(leaf: Any) -> Any:
    if isinstance(leaf, ShapeDtypeStruct):
        return rnp.zeros(leaf.shape, leaf.dtype)
    return rnp.zeros_like(leaf, element_type(leaf).dtype.numpy)
