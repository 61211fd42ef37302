"""Rules of reductions, running folds, windows and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.lax as lax
from rlx.jaxpr.internals import JaxprEqn, closed_over
from rlx.jaxpr.interpret import rule, run
from rlx.jaxpr.shapes import integers
from rlx.jaxpr.types import dtype_of
from rlx.tracing.trace import element_type
from rlx.transforms.associative import associative_scan
from rlx.transforms.vectorize import vectorize

_OF_PAIRS = {"max": lax.max, "min": lax.min}


def _is_complex(equation: JaxprEqn) -> bool:
    return dtype_of(equation.invars[0].aval).kind == "c"


def _start(equation: JaxprEqn, name: str) -> Any:
    """Return what `max` or `min` of no elements is."""
    dtype = dtype_of(equation.invars[0].aval)
    if dtype.kind == "b":
        value: Any = name == "min"
    elif dtype.kind in "iu":
        value = np.iinfo(dtype).min if name == "max" else np.iinfo(dtype).max
    else:
        value = -np.inf if name == "max" else np.inf
    return dtype.type(complex(value, value)) if dtype.kind == "c" else value


def _reduced(name: str) -> Any:
    fold = getattr(lax, f"reduce_{name}")

    def apply(equation: JaxprEqn, x: Any) -> Any:
        axes = integers(equation.params["axes"])
        if not axes:
            return x
        if name in _OF_PAIRS and _is_complex(equation):
            return lax.reduce(x, _start(equation, name), _OF_PAIRS[name], axes)
        return fold(x, axes)

    return apply


for _name in ("sum", "prod", "max", "min", "and", "or", "xor"):
    rule(f"reduce_{_name}")(_reduced(_name))


def _running(name: str) -> Any:
    fold = getattr(lax, name)

    def apply(equation: JaxprEqn, x: Any) -> Any:
        axis, reverse = int(equation.params["axis"]), bool(equation.params["reverse"])
        of_pairs = _OF_PAIRS.get(name.removeprefix("cum"))
        if of_pairs is not None and _is_complex(equation):
            return associative_scan(of_pairs, x, reverse, axis)
        return fold(x, axis, reverse)

    return apply


for _name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
    rule(_name)(_running(_name))


def _index_of(name: str) -> Any:
    fold = getattr(lax, name)

    def apply(equation: JaxprEqn, x: Any) -> Any:
        (axis,) = integers(equation.params["axes"])
        return fold(x, axis, np.dtype(equation.params["index_dtype"]))

    return apply


for _name in ("argmax", "argmin"):
    rule(_name)(_index_of(_name))


@rule("reduce")
def reduce(equation: JaxprEqn, *operands: Any) -> Any:
    count = len(operands) // 2
    found = lax.reduce(
        list(operands[:count]),
        list(operands[count:]),
        _computation(equation.params["jaxpr"], ()),
        integers(equation.params["dimensions"]),
    )
    return list(found)


@rule("reduce_window")
def reduce_window(equation: JaxprEqn, *operands: Any) -> Any:
    count, params = len(operands) // 2, equation.params
    computation = _computation(params["jaxpr"], params["consts"])
    found = lax.reduce_window(
        list(operands[:count]), list(operands[count:]), computation, **window(equation)
    )
    return list(found)


def _computation(jaxpr: Any, consts: Any) -> Any:
    """Return the function of two lists of arrays that a reducer, a program of numbers, is."""
    closed = closed_over(jaxpr, consts)
    of_elements = vectorize(lambda *xs: run(closed, xs))

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        return list(of_elements(*left, *right))

    return combine


def window(equation: JaxprEqn) -> dict[str, Any]:
    """Return the arguments that say which elements a window holds."""
    params = equation.params
    ones = (1,) * len(params["window_dimensions"])
    return {
        "window_dimensions": integers(params["window_dimensions"]),
        "window_strides": integers(params["window_strides"]),
        "padding": [integers(each) for each in params["padding"]],
        "base_dilation": integers(params.get("base_dilation") or ones),
        "window_dilation": integers(params.get("window_dilation") or ones),
    }


def _windowed(name: str) -> Any:
    def apply(equation: JaxprEqn, x: Any) -> Any:
        return lax.reduce_window(x, _start(equation, name), _OF_PAIRS[name], **window(equation))

    return apply


for _name in _OF_PAIRS:
    rule(f"reduce_window_{_name}")(_windowed(_name))


@rule("reduce_window_sum")
def reduce_window_sum(equation: JaxprEqn, x: Any) -> Any:
    return lax.reduce_window(x, 0, lax.add, **window(equation))


@rule("select_and_scatter_add")
def select_and_scatter_add(equation: JaxprEqn, source: Any, x: Any) -> Any:
    return lax.select_and_scatter_add(
        x, source, _selects_greater(equation), **_without_dilation(window(equation))
    )


@rule("select_and_gather_add")
def select_and_gather_add(equation: JaxprEqn, tangent: Any, x: Any) -> Any:
    return lax.select_and_gather_add(tangent, x, _selects_greater(equation), **window(equation))


def _selects_greater(equation: JaxprEqn) -> bool:
    return bool(equation.params["select_prim"].name == "ge")


def _without_dilation(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in arguments.items() if "dilation" not in name}


@rule("sort")
def sort(equation: JaxprEqn, *operands: Any) -> Any:
    """Complex keys order by real, then imaginary parts."""
    axis, count = int(equation.params["dimension"]), int(equation.params["num_keys"])
    keys: list[Any] = []
    for x in operands[:count]:
        is_complex = element_type(x).dtype.is_complex
        keys += [lax.real(x), lax.imag(x)] if is_complex else [x]
    if len(keys) == count:
        return list(lax.sort(tuple(operands), axis, True, count))
    return list(lax.sort((*keys, *operands), axis, True, len(keys)))[len(keys) :]


@rule("top_k")
def top_k(equation: JaxprEqn, x: Any) -> Any:
    return list(lax.top_k(x, int(equation.params["k"]), axis=int(equation.params.get("axis", -1))))


@rule("approx_top_k")
def approx_top_k(equation: JaxprEqn, x: Any) -> Any:
    params = equation.params
    search = lax.approx_max_k if params["is_max_k"] else lax.approx_min_k
    return list(search(x, int(params["k"]), int(params["reduction_dimension"])))
