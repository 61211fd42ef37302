"""Checks of a running program that become results of it, as `jax.experimental.checkify`.

def f(x):
    check(x > 0, "{} must be positive", x)
    return rlx.numpy.log(x)

error, y = rlx.jit(checkify(f))(-1.0)
error.throw()                             # raises CheckError: -1.0 must be positive
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import (
    CheckError,
    DivisionByZeroError,
    FailedCheckError,
    InputError,
    NaNError,
    OOBError,
)
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.reports import Report, number_of
from rlx.ir.source_lines import calling_source
from rlx.passes.checks import functionalize
from rlx.tracing.apply import emit
from rlx.tracing.pytree import (
    TreeDef,
    register_pytree_node,
    tree_flatten,
    tree_map,
    tree_unflatten,
)
from rlx.tracing.trace import (
    TracedArray,
    current_trace,
    element_type,
    innermost,
    is_functionalized,
    shape_of,
    source_names,
)
from rlx.tracing.traced_function import is_array, specify, splice, trace

Function = Callable[..., Any]
ErrorCategory = type[CheckError]

user_checks: frozenset[ErrorCategory] = frozenset({FailedCheckError})
nan_checks: frozenset[ErrorCategory] = frozenset({NaNError})
index_checks: frozenset[ErrorCategory] = frozenset({OOBError})
div_checks: frozenset[ErrorCategory] = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class BatchedError(CheckError):
    """The errors of the examples of a batch."""


@dataclass(frozen=True)
class _Message(Report):
    """A user's format string, and what the values that fill it are leaves of."""

    text: str
    tree: TreeDef

    def summary(self) -> str:
        return self.text

    def message(self, values: Sequence[Any]) -> str:
        positional, named = tree_unflatten(self.tree, map(np.asarray, values))
        return self.text.format(*positional, **named) + " (`check` failed)"


class Error:
    """What went wrong first in a call of a checkified function, if anything did: a pytree."""

    def __init__(self, number: Any, payload: tuple[Any, ...], reports: tuple[Report, ...]) -> None:
        self._number = number
        self._payload = payload
        self._reports = reports

    def get(self) -> str | None:
        """Return the message of the first check that failed; None if none did."""
        error = self.get_exception()
        return None if error is None else error.message

    def get_exception(self) -> CheckError | None:
        """Return the first error, or None."""
        numbers = np.asarray(self._number)
        if numbers.ndim == 0:
            return self._at(int(numbers), self._payload)
        found: dict[tuple[int, ...], CheckError] = {}
        for index in np.ndindex(*numbers.shape):
            payload = tree_map(lambda x, i=index: np.asarray(x)[i], self._payload)
            if (error := self._at(int(numbers[index]), payload)) is not None:
                found[index] = error
        lines = [f"at mapped index {', '.join(map(str, i))}: {e.message}" for i, e in found.items()]
        return BatchedError("\n".join(lines)) if lines else None

    def _at(self, number: int, payload: tuple[Any, ...]) -> CheckError | None:
        return None if number == 0 else self._reports[number - 1].raised(payload[number - 1])

    def throw(self) -> None:
        """Raise the error, if there is one."""
        check_error(self)

    def __str__(self) -> str:
        return f"Error({self.get()})"

    def __repr__(self) -> str:
        return str(self) if not isinstance(self._number, TracedArray) else "Error(<traced>)"


def _joined(reports: Any, children: list[Any]) -> Error:
    number, payload = children
    return Error(number, payload, reports)


register_pytree_node(Error, lambda e: ((e._number, e._payload), e._reports), _joined)

init_error = Error(np.int32(0), (), ())


def checkify(f: Function, errors: frozenset[ErrorCategory] = user_checks) -> Function:
    """Return a function that gives `(error, f(...))`: the first check that failed, if one did.

    `errors` are the kinds of checks that are made: those that `f` states (`user_checks`), or also
    of every NaN, division and index. `f` is traced: its arrays and numbers are not known.
    """
    kinds = frozenset(errors)

    def checked(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        moving = [is_array(leaf) and not isinstance(leaf, bool) for leaf in leaves]
        arrays = [leaf for leaf, moves in zip(leaves, moving, strict=True) if moves]
        names = [f"x{i}" for i in range(len(arrays))]

        def call(traced: list[Any]) -> Any:
            innermost().functionalizes_checks = True
            given = iter(traced)
            whole = [next(given) if m else x for x, m in zip(leaves, moving, strict=True)]
            positional, named = tree_unflatten(tree, whole)
            return f(*positional, **named)

        program = trace(call, source_names(f, "function"), specify(names, arrays))
        made = functionalize(program.graph, kinds)
        weak = (*(False,) * made.state, *program.weak)
        results = splice(made.graph, [*arrays, *program.captured], weak)
        payload = iter(results[1 : made.state])
        values = tuple(tuple(next(payload) for _ in range(count)) for count in made.counts)
        error = Error(results[0], values, made.reports)
        return error, tree_unflatten(program.tree, results[made.state :])

    return checked


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Check that `pred`, one bool, holds; `msg.format(*fmt_args, **fmt_kwargs)` says what is wrong.

    Under `checkify` it becomes part of the error that is returned. Elsewhere a CheckError is
    raised, by a compiled program when it runs; an artifact in C returns the status CHECK_FAILED.
    """
    if debug and not is_functionalized():
        return
    if element_type(pred).dtype is not DType.BOOL or shape_of(pred):
        raise InputError(
            f"check takes one bool and was given {pred!r:.80}",
            source=calling_source(),
            remedy="compare, and fold with rlx.numpy.all",
        )
    values, tree = tree_flatten((fmt_args, fmt_kwargs))
    for value in values:
        if not is_array(value):
            raise InputError(
                f"check formats arrays and was given an object of type {type(value).__name__}",
                source=calling_source(),
                remedy="put what is not an array into the message itself",
            )
    report = _Message(FailedCheckError, msg, tree, source=calling_source())
    _require(pred, False, report, values)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """Check as `check` does where `checkify` traces, and nowhere else."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raise the error that a checkified function returned, or check for it where one is traced."""
    if not isinstance(error, Error):
        raise InputError(
            f"check_error takes an Error, not {type(error).__name__}",
            source=calling_source(),
            remedy="pass the first result of a checkified function",
        )
    if current_trace() is None:
        found = error.get_exception()
        if found is not None:
            raise found
        return
    if shape := shape_of(error._number):
        if 0 in shape:
            return  # of no examples none has failed
        error = _of_last(error)
    for position, report in enumerate(error._reports):
        _require(error._number, position + 1, report, error._payload[position])


def _of_last(error: Error) -> Error:
    """Return the error of the last example that has one, as JAX does."""
    numbers = rnp.ravel(error._number)
    failed = rnp.where(numbers != 0, rnp.arange(numbers.shape[0]), 0)
    last = rnp.max(failed)
    rank = len(shape_of(error._number))
    payload = tree_map(lambda x: rnp.reshape(x, (-1, *shape_of(x)[rank:]))[last], error._payload)
    return Error(numbers[last], payload, error._reports)


def _require(given: Any, failing: Any, report: Report, values: Sequence[Any]) -> None:
    """Check that `given` is not `failing`."""
    if isinstance(given, TracedArray) or is_functionalized():
        emit(ops.check, emit(ops.eq, given, np.asarray(failing, element_type(given).dtype.numpy)),
             *values, report=number_of(report))  # fmt: skip
    elif given == failing:
        raise report.raised(values)


__all__ = [
    "Error", "ErrorCategory", "all_checks", "automatic_checks", "check", "check_error", "checkify",
    "debug_check", "div_checks", "float_checks", "index_checks", "init_error", "nan_checks",
    "user_checks",
]  # fmt: skip
