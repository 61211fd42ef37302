"""Rules of functions with derivatives of their own: the user's rules are carried over.

Their bodies alone would be wrong where rlx differentiates: a `custom_vjp` may clip a cotangent.
"""

from __future__ import annotations

import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

import rlx.numpy as rnp
from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.source_lines import is_ours
from rlx.jaxpr.internals import (
    ClosedJaxpr,
    JaxprEqn,
    Literal,
    closed_over,
    cotangent_aval,
    forget_trace,
)
from rlx.jaxpr.interpret import rule, run
from rlx.jaxpr.types import dtype_of, shape_of_aval
from rlx.tracing.apply import emit
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
def final(holds: bool = True) -> Iterator[None]:
    """Leave out derivative rules inside, if it `holds` that the program is compiled as it is."""
    before = _tracing.is_final
    _tracing.is_final = before or holds
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
def custom_jvp_call(equation: JaxprEqn, *given: Any) -> Any:
    params = equation.params
    body, count = params["call_jaxpr"], params["num_consts"]
    if _is_plain(body, given):
        return run(body, given)

    def trace_rule(moves: Sequence[bool]) -> Any:
        return params["jvp_jaxpr_fun"].call_wrapped(*(not m for m in moves))

    moves, operands = _without_refused(trace_rule, equation, given)
    if not any(moves):
        return run(body, operands)

    @custom_jvp
    def function(*xs: Any) -> Any:
        return tuple(run(body, xs))

    @function.defjvp
    def moved(primals: Any, tangents: Any) -> Any:
        program, consts, zeros = trace_rule(moves)
        given = [t for t, is_moving in zip(tangents[count:], moves, strict=True) if is_moving]
        with _in_rule_of(body):
            found = run(closed_over(program, consts), [*primals[count:], *given])
        results, rest = found[: len(zeros)], iter(found[len(zeros) :])
        changes = [
            _zeros(v.aval) if is_zero else next(rest)
            for v, is_zero in zip(equation.outvars, zeros, strict=True)
        ]
        return tuple(results), tuple(changes)

    return function(*operands)


def _without_refused(
    trace_rule: Callable[[Sequence[bool]], Any], equation: JaxprEqn, operands: Sequence[Any]
) -> tuple[list[bool], list[Any]]:
    """Return which arguments may have derivatives, and operands that refuse those of the others.

    A rule of JAX is traced for arguments of which some have derivatives, and may raise for these
    (`equinox.internal.nondifferentiable`); rlx finds out later which arguments have any.
    """
    count = equation.params["num_consts"]
    floats = [_moves(v.aval) for v in equation.invars[count:]]
    moves, refused = list(floats), list(operands)
    while any(moves) and (reason := _objection(trace_rule, moves)) is not None:
        place = _first_refused(trace_rule, moves)
        moves[place] = False
        if isinstance(operands[count + place], TracedArray):
            refused[count + place] = emit(
                ops.refuse_derivative, operands[count + place], because=reason
            )
    return moves, refused


def _first_refused(trace_rule: Callable[[Sequence[bool]], Any], moves: Sequence[bool]) -> int:
    """Return the first argument whose derivative a rule refuses, given those of all before it."""

    def objects(count: int) -> bool:
        given = [m and i < count for i, m in enumerate(moves)]
        return _objection(trace_rule, given) is not None

    moving = [i for i, m in enumerate(moves) if m]
    low, high = 0, len(moving) - 1
    while low < high:
        middle = (low + high) // 2
        if objects(moving[middle] + 1):
            high = middle
        else:
            low = middle + 1
    return moving[low]


def _objection(trace_rule: Callable[[Sequence[bool]], Any], moves: Sequence[bool]) -> str | None:
    """Return what a rule raises for arguments of which some have derivatives, None for nothing."""
    try:
        trace_rule(moves)
    except Exception as error:  # whatever a user's rule raises is the reason that is given
        if _is_ours(error):
            raise
        return f"a derivative rule of the program raises {type(error).__name__}: {error}"
    return None


def _is_ours(error: Exception) -> bool:
    """True for an error that code of rlx raised, and no rule of the program."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, InternalError) or is_ours(frames[-1])


def _moves(aval: Any) -> bool:
    """True if an argument may have a tangent."""
    return bool(jax.numpy.issubdtype(aval.dtype, np.inexact))


def _zeros(aval: Any) -> Any:
    return rnp.zeros(shape_of_aval(aval), dtype_of(aval))


@rule("custom_vjp_call", takes_keys=True)
def custom_vjp_call(equation: JaxprEqn, *given: Any) -> Any:
    params = equation.params
    body, count = params["call_jaxpr"], params["num_consts"]
    if _is_plain(body, given):
        return run(body, given)

    def trace_rule(moves: Sequence[bool]) -> Any:
        return _traced_forward(params["fwd_jaxpr_thunk"], params["out_trees"], tuple(moves))

    moves, operands = _without_refused(trace_rule, equation, given)
    if not any(moves):
        return run(body, operands)
    residuals = _Residuals()

    @custom_vjp
    def function(*xs: Any) -> Any:
        return tuple(run(body, xs))

    def forward(*xs: Any) -> Any:
        program, (_, tree, forwarded) = trace_rule(moves)
        with _in_rule_of(body):
            found = run(program, xs[count:])
        split = tree.num_leaves - sum(place is not None for place in forwarded)
        own = zip(found[:split], program.out_avals, _constants(program), strict=False)
        known = [(x, v.aval, None) for x, v in zip(xs, equation.invars, strict=True)]
        saved = [next(own) if place is None else known[place] for place in forwarded]
        residuals.avals = [aval for _, aval, _ in saved]
        residuals.constants = [constant for _, _, constant in saved]
        return tuple(found[split:]), tuple(x for x, _, constant in saved if constant is None)

    def backward(saved: Any, cotangents: Any) -> Any:
        bwd = params["bwd"]
        avals = [*residuals.moving, *(cotangent_aval(v.aval) for v in equation.outvars)]
        present: list[bool] = []

        def pull(*xs: Any) -> list[Any]:
            found = bwd.call_wrapped(*residuals.filled(xs))
            present[:] = [hasattr(ct, "dtype") for ct in found]  # others are zero by their type
            return [ct for ct in found if hasattr(ct, "dtype")]

        traced = jax.make_jaxpr(pull)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
        with _in_rule_of(body):
            found = iter(run(traced, [*saved, *cotangents]))
        pulled = [next(found) if is_there else None for is_there in present]
        return (*[None] * count, *(x if m else None for x, m in zip(pulled, moves, strict=True)))

    function.defvjp(forward, backward)
    return function(*operands)


_last_forward: weakref.WeakKeyDictionary[Any, tuple[bool, ...]] = weakref.WeakKeyDictionary()
"""For which arguments with derivatives a forward rule was traced last."""


def _traced_forward(thunk: Any, trees: Callable[[], Any], moves: tuple[bool, ...]) -> Any:
    """Return the program of a forward rule, and the trees of its results.

    JAX keeps every program, and of the trees, which the backward rule reads, the last ones.
    """
    if _last_forward.pop(thunk.f, None) != moves:
        forget_trace(thunk, moves)
    program = closed_over(*thunk.call_wrapped(*moves))
    _last_forward[thunk.f] = moves
    return program, trees()


class _Residuals:
    """What a forward rule saves. Constants among it stay constants: a rule may branch on them."""

    def __init__(self) -> None:
        self.avals: list[Any] = []
        self.constants: list[Any] = []
        """The value of each that is a constant, else None."""

    @property
    def moving(self) -> list[Any]:
        """The abstract values of those that are no constants."""
        pairs = zip(self.avals, self.constants, strict=True)
        return [aval for aval, constant in pairs if constant is None]

    def filled(self, xs: Sequence[Any]) -> list[Any]:
        """Return all residuals, and what follows in `xs` those that are no constants."""
        given = iter(xs)
        whole = [next(given) if c is None else c for c in self.constants]
        return [*whole, *given]


def _constants(program: ClosedJaxpr) -> list[Any]:
    """Return the value of each result that is a constant, None for others."""
    known = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    return [v.val if isinstance(v, Literal) else known.get(v) for v in program.jaxpr.outvars]
