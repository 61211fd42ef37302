"""Rules of collectives: named axes are those of `rlx.vmap` and of `rlx.distributed`."""

from __future__ import annotations

from typing import Any

import rlx.lax as lax
from rlx.errors import UnsupportedError
from rlx.jaxpr.internals import JaxprEqn, user_source
from rlx.jaxpr.interpret import rule


def _names(equation: JaxprEqn, given: Any) -> tuple[str, ...]:
    if equation.params.get("axis_index_groups") is not None:
        raise UnsupportedError(
            f"from_jax: {equation.primitive.name} in groups of an axis (axis_index_groups)",
            source=user_source(equation),
            remedy="split the axis in two named ones",
        )
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def _name(equation: JaxprEqn) -> str:
    names = _names(equation, equation.params["axis_name"])
    if len(names) != 1:
        raise UnsupportedError(
            f"from_jax: {equation.primitive.name} over the axes {', '.join(names)} at once",
            source=user_source(equation),
            remedy="exchange over one named axis after the other",
        )
    return names[0]


def _folded(name: str, along: Any) -> Any:
    fold, across = getattr(lax, name), along

    def apply(equation: JaxprEqn, *operands: Any) -> Any:
        given = _names(equation, equation.params["axes"])
        named = [axis for axis in given if isinstance(axis, str)]
        own = [axis for axis in given if not isinstance(axis, str)]
        found = [across(x, own) if own else x for x in operands]
        found = [fold(x, named) if named else x for x in found]
        return found if equation.primitive.multiple_results else found[0]

    return apply


for _kind, _along in (
    ("psum", lax.reduce_sum), ("pmax", lax.reduce_max), ("pmin", lax.reduce_min),
):  # fmt: skip
    rule(_kind)(_folded(_kind, _along))
rule("psum_invariant")(_folded("psum", lax.reduce_sum))


@rule("axis_index")
def axis_index(equation: JaxprEqn) -> Any:
    return lax.axis_index(_name(equation))


@rule("all_gather", "all_gather_invariant")
def all_gather(equation: JaxprEqn, x: Any) -> Any:
    params = equation.params
    axis = int(params["all_gather_dimension"])
    return lax.all_gather(x, _name(equation), axis=axis, tiled=bool(params["tiled"]))


@rule("reduce_scatter")
def reduce_scatter(equation: JaxprEqn, x: Any) -> Any:
    params = equation.params
    return lax.psum_scatter(
        x, _name(equation), scatter_dimension=int(params["scatter_dimension"]),
        tiled=bool(params["tiled"]),
    )  # fmt: skip


@rule("all_to_all")
def all_to_all(equation: JaxprEqn, x: Any) -> Any:
    params = equation.params
    split, concat = int(params["split_axis"]), int(params["concat_axis"])
    return lax.all_to_all(x, _name(equation), split, concat, tiled=bool(params["tiled"]))


@rule("ppermute")
def ppermute(equation: JaxprEqn, x: Any) -> Any:
    return lax.ppermute(x, _name(equation), equation.params["perm"])


@rule("pbroadcast")
def pbroadcast(equation: JaxprEqn, x: Any) -> Any:
    return lax.pbroadcast(x, _name(equation), int(equation.params["source"]))
