"""Rules of functions with derivatives of their own: the user's rules are carried over.

Their bodies alone would be wrong where rlx differentiates: a `custom_vjp` may clip a cotangent.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

import rlx.numpy as rnp
from rlx.jaxpr.internals import ClosedJaxpr, JaxprEqn, closed_over
from rlx.jaxpr.interpret import rule, run
from rlx.jaxpr.types import dtype_of, shape_of_aval
from rlx.tracing.orders import derivatives_taken
from rlx.tracing.trace import TracedArray
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.custom_vjp import custom_vjp


class _Tracing(threading.local):
    """What is being traced in this thread."""

    def __init__(self) -> None:
        self.is_final = False
        """Nothing differentiates the program: bodies alone are its meaning."""
        self.depths: Counter[Any] = Counter()
        """How deep in rules of its own each function of the user's is."""


_tracing = _Tracing()


@contextmanager
def final() -> Iterator[None]:
    """Leave out derivative rules inside: the program is compiled as it is."""
    before, _tracing.is_final = _tracing.is_final, True
    try:
        yield
    finally:
        _tracing.is_final = before


def _is_plain(body: ClosedJaxpr, operands: Sequence[Any]) -> bool:
    """True for a call whose rules nothing will ask for.

    A rule may call its function again, of which JAX makes another equation: rules are carried as
    deep as derivatives are taken.
    """
    if _tracing.is_final or not any(isinstance(x, TracedArray) for x in operands):
        return True
    return _tracing.depths[_name(body)] >= max(2, derivatives_taken())


def _name(body: ClosedJaxpr) -> Any:
    return body.jaxpr.debug_info.func_src_info


@contextmanager
def _in_rule_of(body: ClosedJaxpr) -> Iterator[None]:
    name = _name(body)
    _tracing.depths[name] += 1
    try:
        yield
    finally:
        _tracing.depths[name] -= 1


@rule("custom_jvp_call", takes_keys=True)
def custom_jvp_call(equation: JaxprEqn, *operands: Any) -> Any:
    params = equation.params
    body, count = params["call_jaxpr"], params["num_consts"]
    if _is_plain(body, operands):
        return run(body, operands)

    @custom_jvp
    def function(*xs: Any) -> Any:
        return tuple(run(body, xs))

    @function.defjvp
    def moved(primals: Any, tangents: Any) -> Any:
        inputs = equation.invars[count:]
        still = [not _moves(v.aval) for v in inputs]
        program, consts, zeros = params["jvp_jaxpr_fun"].call_wrapped(*still)
        pairs = zip(tangents[count:], still, strict=True)
        given = [t for t, is_still in pairs if not is_still]
        with _in_rule_of(body):
            found = run(closed_over(program, consts), [*primals[count:], *given])
        results, rest = found[: len(zeros)], iter(found[len(zeros) :])
        changes = [
            _zeros(v.aval) if is_zero else next(rest)
            for v, is_zero in zip(equation.outvars, zeros, strict=True)
        ]
        return tuple(results), tuple(changes)

    return function(*operands)


def _moves(aval: Any) -> bool:
    """True if an argument may have a tangent."""
    return bool(jax.numpy.issubdtype(aval.dtype, np.inexact))


def _zeros(aval: Any) -> Any:
    return rnp.zeros(shape_of_aval(aval), dtype_of(aval))


@rule("custom_vjp_call", takes_keys=True)
def custom_vjp_call(equation: JaxprEqn, *operands: Any) -> Any:
    params = equation.params
    body, count = params["call_jaxpr"], params["num_consts"]
    if _is_plain(body, operands):
        return run(body, operands)
    residuals: list[Any] = []
    """Abstract values of what the forward rule saves."""

    @custom_vjp
    def function(*xs: Any) -> Any:
        return tuple(run(body, xs))

    def forward(*xs: Any) -> Any:
        moves = [_moves(v.aval) for v in equation.invars[count:]]
        program = closed_over(*params["fwd_jaxpr_thunk"].call_wrapped(*moves))
        with _in_rule_of(body):
            found = run(program, xs[count:])
        _, tree, forwarded = params["out_trees"]()
        split = tree.num_leaves - sum(place is not None for place in forwarded)
        own = iter(zip(found[:split], program.out_avals, strict=False))
        given = [(x, v.aval) for x, v in zip(xs, equation.invars, strict=True)]
        saved = [next(own) if place is None else given[place] for place in forwarded]
        residuals[:] = [aval for _, aval in saved]
        return tuple(found[split:]), tuple(x for x, _ in saved)

    def backward(saved: Any, cotangents: Any) -> Any:
        avals = [*residuals, *(v.aval.to_ct_aval() for v in equation.outvars)]
        traced = jax.make_jaxpr(lambda *xs: _arrays(params["bwd"].call_wrapped(*xs)))(
            *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals)
        )
        with _in_rule_of(body):
            found = iter(run(traced, [*saved, *cotangents]))
        moved = [v.aval for v in equation.invars[count:]]
        present = _present(params["bwd"], avals)
        pulled = [next(found) if is_there else None for is_there in present]
        pairs = zip(pulled, moved, strict=True)
        return (*[None] * count, *(x if _moves(aval) else None for x, aval in pairs))

    function.defvjp(forward, backward)
    return function(*operands)


def _arrays(cotangents: Sequence[Any]) -> list[Any]:
    return [ct for ct in cotangents if hasattr(ct, "dtype")]


def _present(bwd: Any, avals: Sequence[Any]) -> list[bool]:
    """Return which cotangents a backward rule returns as arrays; others are zero by their type."""
    present: list[bool] = []

    def look(*xs: Any) -> Any:
        found = bwd.call_wrapped(*xs)
        present.extend(hasattr(ct, "dtype") for ct in found)
        return _arrays(found)

    jax.eval_shape(look, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
    return present
