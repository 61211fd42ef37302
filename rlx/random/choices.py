"""Draws of positions and elements: categories, permutations and samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.shape import normalize_axis
from rlx.numpy import elementwise as e
from rlx.numpy.axes import shape_from, static_shape
from rlx.numpy.creation import arange
from rlx.numpy.cumulative import cumsum
from rlx.numpy.indexing import take, take_along_axis
from rlx.numpy.reductions import argmax
from rlx.numpy.shaping import expand_dims, moveaxis, reshape
from rlx.numpy.sorting import argsort, searchsorted
from rlx.random.continuous import gumbel
from rlx.random.keys import random_words, split
from rlx.random.uniforms import (
    default_int,
    jax_randint,
    randint,
    require_broadcast,
    uniform,
)
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, function, inexact

_WORD = 2**32 - 1


@function
def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True,
    mode: str | None = None,
) -> Array:  # fmt: skip
    """Positions along `axis`, each with the probability whose logarithm, up to a sum, is given."""
    (scores,) = inexact(logits)
    axis = normalize_axis(axis, scores.ndim) - scores.ndim
    extents = static_shape(scores)
    batch = extents[:axis] + extents[axis:][1:]
    drawn = batch if shape is None else shape_from(shape)
    require_broadcast("categorical", drawn, np.zeros(batch, np.bool_))
    prefix, suffix = drawn[: len(drawn) - len(batch)], list(drawn[len(drawn) - len(batch) :])
    dtype = scores.value.dtype
    if not replace:
        return _without_replacement(key, scores, axis, prefix, drawn, mode)
    suffix.insert(axis % scores.ndim, extents[axis])
    noise = gumbel(key, (*prefix, *suffix), dtype, mode)
    aligned = expand_dims(scores, tuple(range(len(prefix))))
    return convert(argmax(e.add(noise, aligned), axis=axis), default_int())


def _without_replacement(
    key: Any, scores: Any, axis: int, prefix: Any, drawn: Any, mode: str | None
) -> Array:
    count, categories = math.prod(prefix), static_shape(scores)[axis]
    if count > categories:
        raise ShapeError(
            f"{count} positions are drawn without replacement from {categories} categories",
            remedy="draw at most as many as there are, or pass replace=True",
        )
    noisy = e.add(scores, gumbel(key, scores.shape, scores.value.dtype, mode))
    positions = _largest(moveaxis(noisy, axis, -1), count)
    return reshape(moveaxis(positions, -1, 0), drawn)


def _largest(x: Any, count: int) -> Any:
    """Return the positions of the largest elements of rows, the largest first."""
    order = argsort(e.negative(x), axis=-1)
    return convert(order[..., :count], default_int())


@function
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Array:
    """`x` in random order along `axis`, or the integers below `x`; rows stay whole.

    With `independent` every row is shuffled on its own.
    """
    if isinstance(x, (int, np.integer)):
        return _shuffled(key, arange(int(x), dtype=default_int().numpy), 0)
    x = as_tracer(x)
    axis = normalize_axis(axis, x.ndim)
    if independent or x.ndim == 1:
        return _shuffled(key, x, axis)
    order = _shuffled(key, arange(static_shape(x)[axis], dtype=default_int().numpy), 0)
    return take(x, order, axis)


def _shuffled(key: Any, x: Array, axis: int) -> Array:
    """Sort by random keys, so often that those of two elements are hardly the same each time."""
    extents = static_shape(x)
    rounds = math.ceil(3 * math.log(max(1, math.prod(extents))) / math.log(_WORD))
    for _ in range(rounds):
        keys: Any = split(key)
        key = keys[0]
        order = argsort(random_words(keys[1], extents, "both"), axis=axis)
        x = take_along_axis(x, order, axis)
    return x


@function
def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0,
    mode: str | None = None,
) -> Array:  # fmt: skip
    """Elements of `a` along `axis`, or integers below `a`, with the probabilities `p`."""
    return _choice(randint, key, a, shape, replace, p, axis, mode)


@function
def jax_choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0,
    mode: str | None = None,
) -> Array:  # fmt: skip
    """`choice` with the bits of JAX, whose integers are not uniform above 65536 elements."""
    return _choice(jax_randint, key, a, shape, replace, p, axis, mode)


def _choice(
    integers: Callable[..., Any], key: Any, a: Any, shape: Any, replace: bool, p: Any, axis: int,
    mode: str | None,
) -> Array:  # fmt: skip
    drawn = shape_from(shape)
    population = None if isinstance(a, (int, np.integer)) else as_tracer(a)
    axis = 0 if population is None else normalize_axis(axis, population.ndim)
    size = int(a) if population is None else static_shape(population)[axis]
    count = math.prod(drawn)
    if size <= 0 < count or (not replace and count > size):
        raise ShapeError(
            f"{count} elements are drawn from {size}" + ("" if replace else " without replacement"),
            remedy="draw fewer, or pass replace=True",
        )
    if p is None and not replace:
        shuffled = permutation(key, size if population is None else population, axis)
        first: Any = moveaxis(moveaxis(shuffled, axis, 0)[:count], 0, axis)
        return reshape(first, (*first.shape[:axis], *drawn, *first.shape[axis + 1 :]))
    if p is None:
        index = integers(key, drawn, 0, size)
    else:
        index = _positions(key, drawn, size, p, replace, mode)
    return index if population is None else take(population, index, axis)


def _positions(key: Any, drawn: Any, size: int, p: Any, replace: bool, mode: str | None) -> Any:
    (chances,) = inexact(p)
    if chances.shape != (size,):
        raise ShapeError(
            f"p has shape {chances.shape}; it must be ({size},)",
            remedy="give one probability for each element",
        )
    if not replace:
        noisy = e.add(gumbel(key, (size,), chances.value.dtype, mode), e.log(chances))
        return reshape(_largest(noisy, math.prod(drawn)), drawn)
    total: Any = cumsum(chances)
    unit = uniform(key, drawn, chances.value.dtype)
    return convert(searchsorted(total, e.multiply(total[-1], e.subtract(1.0, unit))), default_int())
