"""Taylor mode: the series of a function of a series, as `jax.experimental.jet`.

A series is a curve of one number `t`, whose derivatives at 0 it lists. Those of the function along
the curve are taken by forward mode, one order inside of the other: whatever has a derivative has a
series. Equal parts of an order are merged before the next one is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rlx.errors import InputError, ShapeError
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.simplify import simplify
from rlx.tracing.bodies import at_once, line_of
from rlx.tracing.pytree import tree_map, tree_unflatten
from rlx.tracing.trace import element_type, shape_of, source_names
from rlx.tracing.traced_function import specification, splice, trace
from rlx.transforms.differentiate import jvp

Function = Callable[..., Any]


def jet(
    fun: Function,
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """Return `fun(*primals)`, and its derivatives along the curve with the derivatives `series`.

    Each of the primals, an array, has a list of as many terms; so has each array of the result.
    Without `factorial_scaled` terms are the coefficients of `t^k`: derivatives divided by `k!`.
    """
    order = _order(fun, primals, series)
    scales = [math.factorial(k) if factorial_scaled else 1 for k in range(order + 1)]

    def run(primals: Any, series: Any) -> Any:
        def along(t: Any) -> list[Any]:
            given = [_curve(p, terms, scales, t) for p, terms in zip(primals, series, strict=True)]
            return [fun(*given)]

        derivatives: Callable[[Any], list[Any]] = along
        for _ in range(order):
            derivatives = _one_more(derivatives)
        value, *found = derivatives(0.0)
        unscaled = [
            tree_map(lambda leaf, s=scale, k=k: leaf * (s / math.factorial(k)), each)
            if scale != math.factorial(k) else each
            for k, (each, scale) in enumerate(zip(found, scales[1:], strict=True), 1)
        ]  # fmt: skip
        return value, tree_map(lambda _, *terms: list(terms), value, *unscaled)

    return at_once("jet", run, list(primals), [list(terms) for terms in series])  # type: ignore[no-any-return]  # a pair


def _one_more(derivatives: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Return a function of all derivatives and the one after them."""

    def further(t: Any) -> list[Any]:
        values, moved = jvp(derivatives, (t,), (1.0,))
        return [values[0], *moved]

    return _merged(further)


def _merged(function: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Return a function whose equal parts are computed once: the next order is of what is left."""

    def call(t: Any) -> list[Any]:
        program = trace(lambda arrays: function(arrays[0]), "jet", [specification("t", t)])
        graph = common_subexpressions(simplify(program.graph))
        results = splice(graph, [t, *program.captured], program.weak)
        return list(tree_unflatten(program.tree, results))

    return call


def _curve(primal: Any, terms: Sequence[Any], scales: Sequence[int], t: Any) -> Any:
    """Return the polynomial of `t` with these terms, by Horner's rule."""
    total = 0.0
    for term, scale in zip(reversed(terms), reversed(scales[1:]), strict=True):
        total = (total + term / scale) * t
    return primal + total


def _order(fun: Function, primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> int:
    """Return how many terms each series has; raise if they do not fit their primals."""
    name = source_names(fun, "function")
    if len(primals) != len(series) or len({len(terms) for terms in series}) != 1:
        counts = ", ".join(str(len(terms)) for terms in series)
        raise ShapeError(
            f"jet: {name!r} has {len(primals)} primals, and series of {counts} terms",
            source=line_of(fun),
            remedy="pass a series for each of the primals, all of as many terms",
        )
    if not series[0]:
        raise InputError(
            f"jet: the series of {name!r} have no terms",
            source=line_of(fun),
            remedy="pass a term for each order that is wanted",
        )
    for place, (primal, terms) in enumerate(zip(primals, series, strict=True)):
        for term in terms:
            if shape_of(term) != shape_of(primal):
                raise ShapeError(
                    f"jet: primal {place} of {name!r} has shape {shape_of(primal)}, and a term of "
                    f"its series {shape_of(term)}",
                    source=line_of(fun),
                    remedy="give terms the shape of their primal",
                )
            if not element_type(primal).dtype.is_differentiable:
                raise ShapeError(
                    f"jet: primal {place} of {name!r} has dtype {element_type(primal).dtype}",
                    source=line_of(fun),
                    remedy="pass floats",
                )
    return len(series[0])
