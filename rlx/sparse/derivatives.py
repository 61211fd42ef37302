"""`sparse_jacobian` and `sparse_hessian`: passes over colours, and where each entry is in them.

    value_and_sparse_jacobian(f)(x)
        pattern, colours                 when the program is traced
        vmap(jvp), vmap(vjp)             over the sums of unit vectors of each colour
        data = results[constant indices]

Seeds are comparisons with the vector of colours, not tables.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.ir.source_lines import calling_source
from rlx.passes.autodiff.directions import in_many_directions
from rlx.sparse.coloring import color_hessian, color_jacobian, readable
from rlx.sparse.constant_indices import as_indices, taken
from rlx.sparse.matrix import SparseMatrix
from rlx.sparse.pattern import Integers, Pattern
from rlx.sparse.structure import (
    Function,
    hessian_sparsity,
    jacobian_sparsity,
    real_arguments,
    sizes_of,
)
from rlx.tracing.arguments import Chosen
from rlx.tracing.pytree import tree_flatten, tree_unflatten
from rlx.tracing.trace import element_type, shape_of
from rlx.transforms.batch import vmap
from rlx.transforms.differentiate import grad, jvp, vjp
from rlx.transforms.ravel import ravel_pytree


def value_and_sparse_jacobian(
    fun: Function, argnums: int | Sequence[int] = 0, *, sparsity: Pattern | None = None
) -> Function:
    """Return a function that gives the value of `fun` and its Jacobian, a `SparseMatrix`.

    Rows are the elements of the result, columns those of the arguments `argnums`, both in the
    order of `rlx.ravel_pytree`. `sparsity` is the pattern where it is known; without, that of
    `rlx.jacobian_sparsity` is found at every trace.

        value, jacobian = rlx.jit(rlx.value_and_sparse_jacobian(residual))(x)

    Raises:
        ShapeError: `sparsity` has another shape than the Jacobian.
    """

    def derived(chosen: Chosen, pattern: Pattern) -> Any:
        value, data = _first(chosen, pattern)
        return value, SparseMatrix(data, pattern)

    return _derivative(derived, fun, argnums, sparsity, jacobian_sparsity)


def sparse_jacobian(
    fun: Function, argnums: int | Sequence[int] = 0, *, sparsity: Pattern | None = None
) -> Function:
    """Return a function that gives the Jacobian of `fun`, a `SparseMatrix`.

    It is computed by as many passes forward (`jvp`) as columns have colours, in reverse (`vjp`)
    as rows have, or by some of both, whichever costs less. See `rlx.value_and_sparse_jacobian`.
    """
    both = value_and_sparse_jacobian(fun, argnums, sparsity=sparsity)

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> SparseMatrix:
        jacobian: SparseMatrix = both(*args, **kwargs)[1]
        return jacobian

    return transformed


def sparse_hessian(
    fun: Function, argnums: int | Sequence[int] = 0, *, sparsity: Pattern | None = None
) -> Function:
    """Return a function that gives the Hessian of `fun`, a scalar, as a `SparseMatrix`.

    Forward over reverse, one pass for each colour of a star colouring: an entry may be read from
    the pass of its row or of its column. `sparsity` is a symmetric pattern where one is known.
    """

    def derived(chosen: Chosen, pattern: Pattern) -> SparseMatrix:
        size = sum(sizes_of(chosen))
        _require_shape(pattern, (size, size), "hessian")
        return SparseMatrix(_second(chosen, pattern), pattern)

    return _derivative(derived, fun, argnums, sparsity, hessian_sparsity)


def _derivative(
    derived: Callable[[Chosen, Pattern], Any],
    fun: Function,
    argnums: int | Sequence[int],
    sparsity: Pattern | None,
    structure: Function,
) -> Function:
    """Return a function of the arguments of `fun`, with the given pattern or that it has."""
    if not isinstance(sparsity, Pattern | None):
        raise InputError(
            f"sparsity is an object of type {type(sparsity).__name__}, not a Pattern",
            source=calling_source(),
            remedy=f"give the pattern that rlx.{structure.__name__} returns, or none",
        )

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        chosen = real_arguments(fun, argnums, args, kwargs)
        known = structure(fun, argnums)(*args, **kwargs) if sparsity is None else sparsity
        return derived(chosen, known)

    return transformed


def _require_shape(pattern: Pattern, shape: tuple[int, int], what: str) -> None:
    if pattern.shape != shape:
        raise ShapeError(
            f"sparsity has shape {pattern.shape}; the {what} has {shape}",
            source=calling_source(),
            remedy=f"give the pattern that rlx.{what}_sparsity returns, or none",
        )


def _second(chosen: Chosen, pattern: Pattern) -> Any:
    """Return the values of a Hessian, each from the pass of its column or of its row."""
    colors = color_hessian(pattern)
    by_column = readable(pattern, colors)
    rows, columns = pattern.rows, pattern.indices
    seed, place = np.where(by_column, columns, rows), np.where(by_column, rows, columns)
    gradient = grad(chosen.call)

    def push(tangents: list[Any]) -> Any:
        with in_many_directions():
            return _vector(jvp(gradient, (chosen.leaves,), (tangents,))[1])

    passes = vmap(push)(_seeds(colors, chosen.leaves))
    return taken(rnp.ravel(passes), colors[seed] * pattern.shape[1] + place)


def _first(chosen: Chosen, pattern: Pattern) -> tuple[Any, Any]:
    """Return the value of a function and those of its Jacobian, each read from one pass."""
    value, pullback = vjp(chosen.call, chosen.leaves)
    count = sum(math.prod(map(int, shape_of(leaf))) for leaf in tree_flatten(value)[0])
    _require_shape(pattern, (count, sum(sizes_of(chosen))), "jacobian")
    coloring = color_jacobian(pattern)
    rows, columns = pattern.rows, pattern.indices
    places = np.where(
        readable(pattern, coloring.columns),
        coloring.columns[columns] * pattern.shape[0] + rows,
        coloring.forward * pattern.shape[0] + coloring.rows[rows] * pattern.shape[1] + columns,
    )
    passes: list[Any] = []

    def push(tangents: list[Any]) -> Any:
        with in_many_directions():
            moved, slope = jvp(chosen.call, (chosen.leaves,), (tangents,))
        return moved, _vector(slope)

    def pull(cotangents: Any) -> Any:
        with in_many_directions():
            return _vector(pullback(cotangents)[0])

    if coloring.forward:
        value, pushed = vmap(push, out_axes=(None, 0))(_seeds(coloring.columns, chosen.leaves))
        passes.append(rnp.ravel(pushed))
    if coloring.reverse:
        leaves, tree = tree_flatten(value)
        seeds = tree_unflatten(tree, _seeds(coloring.rows, leaves))
        passes.append(rnp.ravel(vmap(pull)(seeds)))
    if not passes:
        return value, _vector(value)[:0]
    return value, taken(rnp.concatenate(passes), places)


def _vector(tree: Any) -> Any:
    return ravel_pytree(tree)[0]


def _seeds(colors: Integers, leaves: Sequence[Any]) -> list[Any]:
    """Return, for each colour, arrays like `leaves` with ones where elements have it."""
    count = int(colors.max(initial=-1)) + 1
    seeds, start = [], 0
    for leaf in leaves:
        shape = shape_of(leaf)
        own = colors[start : start + math.prod(shape)]
        numbers = np.arange(count, dtype=np.int32).reshape(-1, *(1,) * len(shape))
        is_own = rnp.equal(rnp.reshape(as_indices(own), shape), numbers)
        seeds.append(is_own.astype(element_type(leaf).dtype.numpy))
        start += own.size
    return seeds
