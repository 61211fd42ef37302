"""Structure of Jacobians and Hessians: `jacobian_sparsity`, `hessian_sparsity`, `spy`.

The pattern is that of the derivative's own program: what the tangents of the results depend on
among the tangents of the arguments. It has an entry wherever `jvp` may give a nonzero number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlx.errors import SymbolicExtentError
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.source_lines import calling_source
from rlx.sparse.pattern import Pattern, from_entries, stack, union
from rlx.sparse.propagation import Reads
from rlx.sparse.rules import propagate
from rlx.tracing.arguments import Chosen, choose, positions
from rlx.tracing.pytree import tree_map, tree_unflatten
from rlx.tracing.trace import source_names
from rlx.tracing.traced_function import Specification, TracedFunction, trace
from rlx.transforms.abstract import ShapeDtypeStruct
from rlx.transforms.differentiate import jvp, require_differentiable, vjp

Function = Callable[..., Any]


def jacobian_sparsity(
    fun: Function, argnums: int | Sequence[int] = 0, *, nonlinear: bool = False
) -> Function:
    """Return a function that gives the `Pattern` of the Jacobian of `fun`.

    Rows are the elements of the result, columns those of the arguments `argnums`, both in the
    order of `rlx.ravel_pytree`. An entry that is missing is zero at every point: of the arguments
    `argnums` only shapes and dtypes count. A `ShapeDtypeStruct` may take their place. With
    `nonlinear`, only those entries whose value may depend on these arguments: the others are the
    same number at every point.

        rlx.jacobian_sparsity(lambda x: x[1:] - x[:-1])(x)      # two entries in each row

    Raises:
        NonDifferentiableError: an argument in `argnums` holds numbers that are not real floats.
        UnsupportedError: some value's pattern has more than 2**28 entries.
    """

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> Pattern:
        return pattern_of_tangents(lambda f, x, dx, _: jvp(f, (x,), (dx,))[1],
                                   real_arguments(fun, argnums, args, kwargs),
                                   nonlinear=nonlinear)  # fmt: skip

    return transformed


def hessian_sparsity(fun: Function, argnums: int | Sequence[int] = 0) -> Function:
    """Return a function that gives the symmetric `Pattern` of the Hessian of `fun`.

    Elements in which `fun` is linear have no entries. Of a result with several elements it is the
    union over them: the pattern of the Hessian of a Lagrangian.
    """

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> Pattern:
        chosen = real_arguments(fun, argnums, args, kwargs)
        results = trace(chosen.call, source_names(fun, "function"), chosen.inputs)

        def tangents(f: Function, x: Any, dx: Any, weights: list[Any]) -> Any:
            given = tree_unflatten(results.tree, weights)
            return jvp(lambda at: vjp(f, at)[1](given)[0], (x,), (dx,))[1]

        weights = [
            Specification(f"weight_{place}", output.type)
            for place, output in enumerate(results.graph.outputs)
        ]
        found = pattern_of_tangents(tangents, chosen, weights)
        return union([found, found.T])

    return transformed


def real_arguments(
    fun: Function, argnums: int | Sequence[int], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Chosen:
    """Return the leaves of the arguments `argnums`, real floats of static shapes."""
    wanted = positions(argnums, len(args), "argnums")
    given = [tree_map(_described, x) if at in wanted else x for at, x in enumerate(args)]
    chosen = choose(fun, tuple(given), kwargs, wanted)
    require_differentiable(chosen, "a sparse derivative", complex_too=False)
    for leaf in chosen.inputs:
        if not leaf.type.is_static:
            raise SymbolicExtentError(
                f"the pattern of a derivative by {leaf.name!r} of type {leaf.type}, which has no "
                "fixed number of columns",
                source=calling_source(),
                remedy="give an argument of a fixed shape",
            )
    return chosen


def _described(leaf: Any) -> Any:
    return leaf.type if isinstance(leaf, ShapeDtypeStruct) else leaf


def sizes_of(chosen: Chosen) -> list[int]:
    """Return the number of elements of each leaf."""
    return [int(leaf.type.elements) for leaf in chosen.inputs]


def pattern_of_tangents(
    tangents: Callable[[Function, list[Any], list[Any], list[Any]], Any],
    chosen: Chosen,
    more: Sequence[Specification] = (),
    *,
    nonlinear: bool = False,
) -> Pattern:
    """Return what the results of `tangents(f, leaves, tangents of leaves, more)` depend on.

    With `nonlinear`, among the tangents that are multiplied by what depends on the leaves.
    """
    count, sizes = len(chosen.leaves), sizes_of(chosen)
    moving = [replace(leaf, name=f"tangent_{at}") for at, leaf in enumerate(chosen.inputs)]

    def call(arrays: list[Any]) -> Any:
        rest = arrays[2 * count :]
        return tangents(chosen.call, arrays[:count], arrays[count : 2 * count], rest)

    name = f"{source_names(chosen.function, 'function')}_tangents"
    program = trace(call, name, [*chosen.inputs, *moving, *more])
    columns, starts = sum(sizes), np.cumsum([0, *sizes])
    seeds = {
        value: from_entries(np.arange(size), start + np.arange(size), (size, columns))
        for value, size, start in zip(program.inputs[count:], sizes, starts, strict=False)
    }
    if nonlinear:
        found = _nonlinear(program, seeds, columns)
    else:
        found = propagate(program.graph, seeds, columns)
    return stack(found) if found else from_entries([], [], (0, columns))


_READ_ALL = (Trait.ELEMENTWISE, Trait.MOVEMENT, Trait.REDUCTION, Trait.CONTRACTION)
"""Ops whose pattern is the union of all operands'; that of others may be without indices."""


def _nonlinear(
    program: TracedFunction, seeds: Mapping[Value, Pattern], columns: int
) -> list[Pattern]:
    """Return the tangents that are multiplied by what depends on the leaves, for each output.

    Column `columns + j` is tangent `j` so multiplied, and the last one is the leaves themselves.
    """
    last = 2 * columns
    widened = {
        value: from_entries(seed.rows, seed.indices, (seed.shape[0], last + 1))
        for value, seed in seeds.items()
    }
    for value in program.inputs[: len(seeds)]:
        size = int(value.type.elements)
        widened[value] = from_entries(np.arange(size), np.full(size, last), (size, last + 1))

    def multiplied(reads: Reads, pattern: Pattern) -> Pattern:
        rows, indices = pattern.rows, pattern.indices
        varies = np.zeros(pattern.shape[0], np.bool_)
        varies[rows[indices == last]] = True
        if not any(map(reads.node.op.has, _READ_ALL)):  # indices, selectors and bounds vary, too
            varies |= any((p.indices == last).any() for p in reads.patterns if p is not None)
        new = varies[rows] & (indices < columns)
        is_tangent = np.zeros(pattern.shape[0], np.bool_)
        is_tangent[rows[indices < last]] = True
        kept = (indices < last) | ~is_tangent[rows]
        every = np.append(rows[kept], rows[new]), np.append(indices[kept], indices[new] + columns)
        return from_entries(*every, pattern.shape)

    found = propagate(program.graph, widened, last + 1, after=multiplied)
    chosen = [(p, (p.indices >= columns) & (p.indices < last)) for p in found]
    return [
        from_entries(p.rows[own], p.indices[own] - columns, (p.shape[0], columns))
        for p, own in chosen
    ]


_HEIGHT, _WIDTH = 24, 64
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def spy(pattern: Any, *, width: int = _WIDTH, height: int = _HEIGHT) -> str:
    """Return a picture of a `Pattern` or a sparse matrix as text, of Braille dots.

    A dot is an element, or, of a matrix of more than `2 * width` columns or `4 * height` rows, a
    block of elements of which one is nonzero.
    """
    pattern = getattr(pattern, "pattern", pattern)
    rows, columns = pattern.shape
    scale = max(-(-rows // (4 * height)), -(-columns // (2 * width)), 1)
    down, across = -(-rows // (4 * scale)), -(-columns // (2 * scale))
    dots = np.zeros((4 * down, 2 * across), np.bool_)
    dots[pattern.rows // scale, pattern.indices // scale] = True
    cells = dots.reshape(down, 4, across, 2).transpose(0, 2, 1, 3)
    codes = (cells * _DOTS).sum((2, 3)) + 0x2800
    lines = ["".join(map(chr, line)) for line in codes]
    size = "" if scale == 1 else f", {scale} x {scale} elements a dot"
    return "\n".join([*lines, f"{rows} x {columns}, {pattern.nnz} nonzeros{size}"])
