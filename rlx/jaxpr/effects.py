"""Rules of callbacks."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from rlx.jaxpr.checks import error_if
from rlx.jaxpr.internals import JaxprEqn
from rlx.jaxpr.interpret import rule
from rlx.jaxpr.types import dtype_of, shape_of_aval
from rlx.transforms import callbacks
from rlx.transforms.abstract import ShapeDtypeStruct


def _results(equation: JaxprEqn) -> tuple[Any, ...]:
    avals = [v.aval for v in equation.outvars]
    return tuple(ShapeDtypeStruct(shape_of_aval(a), dtype_of(a)) for a in avals)


def _host_function(equation: JaxprEqn) -> Any:
    """Return the callback as a function of NumPy's arrays to a tuple of them."""
    callback = equation.params["callback"]

    def call(*operands: Any) -> tuple[Any, ...]:
        found = callback(*map(np.asarray, operands))
        return tuple(map(np.asarray, jax.tree_util.tree_leaves(found)))

    call.__name__ = getattr(getattr(callback, "callback_func", callback), "__name__", "callback")
    return call


@rule("pure_callback")
def pure_callback(equation: JaxprEqn, *operands: Any) -> Any:
    callback = equation.params["callback"]
    raised = error_if(equation, getattr(callback, "callback_func", callback), operands)
    if raised is not None:
        return raised
    method = equation.params["vmap_method"]
    found = callbacks.pure_callback(
        _host_function(equation), _results(equation), *operands, vmap_method=method
    )
    return list(found)


@rule("io_callback")
def io_callback(equation: JaxprEqn, *operands: Any) -> Any:
    found = callbacks.io_callback(
        _host_function(equation), _results(equation), *operands,
        ordered=bool(equation.params["ordered"]),
    )  # fmt: skip
    return list(found)


@rule("debug_callback")
def debug_callback(equation: JaxprEqn, *operands: Any) -> Any:
    callbacks.debug_callback(_host_function(equation), *operands)
    return []


@rule("debug_print")
def debug_print(equation: JaxprEqn, *operands: Any) -> Any:
    params = equation.params
    static = dict(params["static_args"])

    def show(*arrays: Any) -> None:
        moving = iter(arrays)
        count = params["in_tree"].num_leaves
        leaves = [static[i] if i in static else next(moving) for i in range(count)]
        args, kwargs = jax.tree_util.tree_unflatten(params["in_tree"], leaves)
        with np.printoptions(**dict(params["np_printoptions"])):
            print(params["fmt"].format(*args, **kwargs))

    callbacks.debug_callback(show, *operands)
    return []
