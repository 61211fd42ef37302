"""Rules of gathers and scatters, in all of their modes."""

from __future__ import annotations

from typing import Any

import rlx.lax as lax
from rlx.jaxpr.internals import JaxprEqn, closed_over
from rlx.jaxpr.interpret import rule, run
from rlx.jaxpr.shapes import integers
from rlx.jaxpr.symbols import extents
from rlx.tracing.trace import shape_of
from rlx.transforms.vectorize import vectorize


@rule("gather")
def gather(equation: JaxprEqn, x: Any, indices: Any) -> Any:
    params = equation.params
    numbers = lax.GatherDimensionNumbers(*map(integers, _gather_axes(params["dimension_numbers"])))
    return lax.gather(
        x,
        indices,
        numbers,
        extents(params["slice_sizes"]),
        mode=params["mode"].name.lower(),
        fill_value=params["fill_value"],
    )


def _gather_axes(numbers: Any) -> tuple[Any, ...]:
    return (
        numbers.offset_dims,
        numbers.collapsed_slice_dims,
        numbers.start_index_map,
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
    )


def _scatter_axes(numbers: Any) -> tuple[Any, ...]:
    return (
        numbers.update_window_dims,
        numbers.inserted_window_dims,
        numbers.scatter_dims_to_operand_dims,
        numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims,
    )


def _scatter(name: str) -> Any:
    function = getattr(lax, name)

    def apply(equation: JaxprEqn, x: Any, indices: Any, updates: Any) -> Any:
        return function(x, indices, updates, **_scattered(equation))

    return apply


def _scattered(equation: JaxprEqn) -> dict[str, Any]:
    """Return the arguments that say where a scatter writes."""
    params = equation.params
    axes = _scatter_axes(params["dimension_numbers"])
    return {
        "dimension_numbers": lax.ScatterDimensionNumbers(*map(integers, axes)),
        "unique_indices": params["unique_indices"],
        "mode": params["mode"].name.lower(),
    }


@rule("scatter")
def scatter(equation: JaxprEqn, x: Any, indices: Any, updates: Any) -> Any:
    """Updates as they are, or, of `x.at[i].apply`, a function of the elements of `x`."""
    change = equation.params["update_jaxpr"]
    if change is None or change.outvars == change.invars[1:]:
        return lax.scatter(x, indices, updates, **_scattered(equation))
    program = closed_over(change, equation.params["update_consts"])
    func = vectorize(lambda element: run(program, [element, element])[0])
    shape = shape_of(updates)
    return lax.scatter_apply(x, indices, func, update_shape=shape, **_scattered(equation))


for _kind in ("-add", "-sub", "-mul", "-min", "-max"):
    rule(f"scatter{_kind}")(_scatter(f"scatter{_kind.replace('-', '_')}"))
