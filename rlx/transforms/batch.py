"""`vmap` as a function transformation, and the Jacobians made of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.ir.graph import Graph
from rlx.ir.shape import Extent, normalize_axis
from rlx.ir.source_lines import calling_source
from rlx.numpy.axes import static_shape
from rlx.passes.vmap import vmap as batch
from rlx.tracing.arguments import call_names, positions
from rlx.tracing.axes import NamedAxis, bound_axis
from rlx.tracing.pytree import broadcast_prefix, tree_flatten, tree_map, tree_unflatten
from rlx.tracing.trace import UnitVectors, element_type, shape_of, source_names
from rlx.tracing.traced_function import (
    Specification,
    TracedFunction,
    at_shape,
    specify,
    splice,
    trace_body,
)
from rlx.transforms.differentiate import jvp, vjp

Function = Callable[..., Any]


def vmap(
    fun: Function,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: Extent | None = None,
) -> Function:
    """Return `fun` over one more axis of its arguments and results.

    `in_axes` is an axis for all positional arguments, or a tuple with an axis, `None` (the same
    for all) or a tree of those for each; `out_axes` likewise for the result. Keyword arguments
    are batched along axis 0. Collectives (`rlx.distributed.psum`, ...) reach the other examples by
    `axis_name`. `axis_size` is the extent, which is needed where no argument is mapped over.
    """

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        given = in_axes if not isinstance(in_axes, list) else tuple(in_axes)
        positional = broadcast_prefix(given, tree.children[0], "in_axes")
        axes = [*positional, *[0] * tree.children[1].leaf_count]
        inputs = specify(call_names(fun, tree, range(len(args))), leaves)
        fronts = [_axis(axis, leaf) for axis, leaf in zip(axes, leaves, strict=True)]
        size = _batch_size(inputs, fronts, axis_size)
        inner = [_without(s, axis) for s, axis in zip(inputs, fronts, strict=True)]

        def call(arrays: list[Any]) -> Any:
            positional, named = tree_unflatten(tree, arrays)
            with _naming(axis_name, size):
                return fun(*positional, **named)

        program = trace_body(call, source_names(fun, "function"), inner)
        ends = broadcast_prefix(out_axes, program.tree, "out_axes")
        batched = _batched(program, fronts, ends, size, axis_name)
        results = splice(batched, [*leaves, *program.captured], program.weak)
        return tree_unflatten(program.tree, results)

    return transformed


def jacfwd(fun: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Function:
    """Return the Jacobian of `fun`, a column at a time: for more results than arguments.

    Each leaf has the axes of the result, then those of the argument; for several `argnums` there
    is a tuple of such in the place of each result. With `has_aux`, `fun` returns `(value, aux)`
    and the result is `(jacobian, aux)`.
    """

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        of, primal = _by_arguments(fun, argnums, args, kwargs)

        def along(tangent: Any) -> Any:
            pushed = jvp(of, (primal,), (tangent,), has_aux)
            return pushed[1:] if has_aux else pushed[1]

        ends = (-1, None) if has_aux else -1
        columns = vmap(along, out_axes=ends)(_basis(primal))
        moved, aux = columns if has_aux else (columns, None)
        jacobian = tree_map(lambda leaf: _split(leaf, primal, -1), moved)
        return (jacobian, aux) if has_aux else jacobian

    return transformed


def jacrev(fun: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Function:
    """Return the Jacobian of `fun`, a row at a time: for more arguments than results.

    Its parts are as those of `jacfwd`.
    """

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        of, primal = _by_arguments(fun, argnums, args, kwargs)
        value, pullback, *aux = vjp(of, primal, has_aux=has_aux)
        rows = vmap(lambda cotangent: pullback(cotangent)[0])(_basis(value))
        jacobian = _split_rows(rows, value)
        return (jacobian, *aux) if has_aux else jacobian

    return transformed


jacobian = jacrev


def hessian(fun: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Function:
    """Return the matrix of second derivatives of `fun`, which gives a scalar."""
    return jacfwd(jacrev(fun, argnums, has_aux=has_aux), argnums, has_aux=has_aux)


def _by_arguments(
    fun: Function, argnums: int | Sequence[int], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Function, Any]:
    """Return `fun` as a function of the arguments `argnums` alone, a tuple if several, and them."""
    wanted = positions(argnums, len(args), "argnums")
    single = isinstance(argnums, int)

    def of(moving: Any) -> Any:
        given = list(args)
        for position, x in zip(wanted, (moving,) if single else moving, strict=True):
            given[position] = x
        return fun(*given, **kwargs)

    return of, args[wanted[0]] if single else tuple(args[position] for position in wanted)


def _naming(axis_name: str | None, size: Extent) -> AbstractContextManager[None]:
    return nullcontext() if axis_name is None else bound_axis(NamedAxis(axis_name, size))


def _batched(
    program: TracedFunction,
    fronts: list[int | None],
    ends: list[Any],
    size: Extent,
    axis_name: str | None,
) -> Graph:
    axes = [*fronts, *[None] * len(program.captured)]
    outputs = program.graph.outputs
    places = [
        None if end is None else normalize_axis(end, output.rank + 1)
        for end, output in zip(ends, outputs, strict=True)
    ]
    return batch(program.graph, axes, places, size=size, axis_name=axis_name)


def _axis(axis: Any, leaf: Any) -> int | None:
    if axis is None:
        return None
    shape = shape_of(leaf)
    if not shape:
        raise ShapeError(
            "vmap is given a number, which has no axis to map over",
            source=calling_source(),
            remedy="give that argument in_axes None",
        )
    try:
        return normalize_axis(axis, len(shape))
    except ShapeError as error:
        raise error.located("vmap: in_axes", calling_source()) from None


def _batch_size(
    inputs: list[Specification], axes: list[int | None], stated: Extent | None
) -> Extent:
    sizes: dict[str, Extent] = {} if stated is None else {"axis_size": stated}
    sizes |= {
        s.name: s.type.shape[axis] for s, axis in zip(inputs, axes, strict=True) if axis is not None
    }
    if not sizes:
        raise InputError(
            "vmap maps over no argument",
            source=calling_source(),
            remedy="give some argument an axis in in_axes, or state axis_size",
        )
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ShapeError(
            f"vmap: the mapped axes differ in extent: {listed}",
            source=calling_source(),
            remedy="give the mapped axes one extent, or in_axes=None to what is shared",
        )
    return next(iter(sizes.values()))


def _without(given: Specification, axis: int | None) -> Specification:
    if axis is None:
        return given
    shape = given.type.shape
    return at_shape(given, (*shape[:axis], *shape[axis + 1 :]))


def _basis(tree: Any) -> Any:
    """Return, for a tree of arrays with n elements, the n unit trees stacked along axis 0."""
    leaves, structure = tree_flatten(tree)
    shapes = [static_shape(leaf) for leaf in leaves]
    counts = [math.prod(shape) for shape in shapes]
    units = np.eye(sum(counts))
    bounds = np.cumsum([0, *counts])
    parts = [
        units[:, start:stop]
        .reshape(len(units), *shape)
        .astype(element_type(leaf).dtype.numpy)
        .view(UnitVectors)
        for start, stop, shape, leaf in zip(bounds, bounds[1:], shapes, leaves, strict=False)
    ]
    return tree_unflatten(structure, parts)


def _split(x: Any, tree: Any, axis: int) -> Any:
    """Split the last axis of `x` into the leaves of `tree`, each with its shape."""
    leaves, structure = tree_flatten(tree)
    bounds = np.cumsum([math.prod(static_shape(leaf)) for leaf in leaves])[:-1].tolist()
    parts = rnp.array_split(x, bounds, axis)
    pairs = zip(parts, leaves, strict=True)
    shaped = [rnp.reshape(part, (*part.shape[:-1], *shape_of(leaf))) for part, leaf in pairs]
    return tree_unflatten(structure, shaped)


def _split_rows(rows: Any, value: Any) -> Any:
    """Split axis 0 of every leaf of `rows` into the leaves of `value`; `value` is outermost."""
    outer, structure = tree_flatten(value)
    inner, below = tree_flatten(rows)
    bounds = np.cumsum([math.prod(static_shape(leaf)) for leaf in outer])[:-1].tolist()
    columns = [rnp.array_split(leaf, bounds, 0) for leaf in inner]
    blocks = [
        tree_unflatten(
            below, [rnp.reshape(c[place], (*shape_of(leaf), *c[place].shape[1:])) for c in columns]
        )
        for place, leaf in enumerate(outer)
    ]
    return tree_unflatten(structure, blocks)
