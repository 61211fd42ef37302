"""Rules of errors of a running program: `checkify.check`, and `error_if` of Equinox.

Both become ops `check`: a call from Python raises their message, an artifact in C returns the
status CHECK_FAILED.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import FailedCheckError
from rlx.ir import ops
from rlx.ir.reports import Report, number_of
from rlx.jaxpr.internals import JaxprEqn, user_source
from rlx.jaxpr.interpret import rule
from rlx.jaxpr.types import dtype_of, shape_of_aval
from rlx.tracing.apply import emit
from rlx.tracing.trace import shape_of


@dataclass(frozen=True)
class _Checkified(Report):
    """An error of `jax.experimental.checkify`; the values are the leaves of its tree."""

    tree: Any

    def summary(self) -> str:
        blank = jax.tree_util.tree_unflatten(self.tree, range(self.tree.num_leaves))
        made = (jax.tree_util.tree_unflatten(t, range(t.num_leaves)) for t in _kinds(blank))
        return "; ".join(getattr(error, "fmt_string", type(error).__name__) for error in made)

    def content(self) -> str:
        """The texts; JAX numbers errors per process, and its trees have those numbers."""
        return f"{type(self).__qualname__} {self.error.__qualname__} {self.summary()!r}"

    def message(self, values: Sequence[Any]) -> str:
        error = jax.tree_util.tree_unflatten(self.tree, values)
        return str(_with_code(error, next(iter(error._metadata))).get())


def _kinds(error: Any) -> list[Any]:
    """Return the trees of the exceptions that an error may hold."""
    return list(error._metadata.values())


def _with_code(error: Any, code: int) -> Any:
    """Return an error with this code in place of its own; one of several codes keeps them.

    JAX counts codes per process: a graph has 0 in place of the one, to be the same in all.
    """
    if len(error._metadata) > 1:
        return error
    codes = {kind: np.full(shape_of(x), code, np.int32) for kind, x in error._code.items()}
    return error._replace(_code=codes)


@rule("check")
def check(equation: JaxprEqn, *operands: Any) -> Any:
    """A check that `checkify` has not made a result: it ends the run."""
    if equation.params["debug"]:
        return []
    tree = equation.params["err_tree"]
    report = _Checkified(FailedCheckError, tree, source=user_source(equation))
    error = _with_code(jax.tree_util.tree_unflatten(tree, operands), 0)
    values = jax.tree_util.tree_leaves(error)
    for failed in error._pred.values():
        emit(ops.check, rnp.any(failed), *values, report=number_of(report))
    return []


@dataclass(frozen=True)
class _Formatted(Report):
    """A message with places for values."""

    text: str

    def summary(self) -> str:
        return self.text

    def message(self, values: Sequence[Any]) -> str:
        return self.text.format(*values)


@rule("shape_assertion")
def shape_assertion(equation: JaxprEqn, holds: Any, *values: Any) -> Any:
    """A condition of symbolic extents that JAX leaves for the run."""
    report = _Formatted(
        FailedCheckError, equation.params["error_message"], source=user_source(equation)
    )
    emit(ops.check, rnp.logical_not(holds), *values, report=number_of(report))
    return []


@dataclass(frozen=True)
class _Numbered(Report):
    """Messages of which a value is the number."""

    messages: tuple[str, ...]

    def summary(self) -> str:
        """The message, or the first line of each that it may be."""
        if len(self.messages) == 1:
            return self.messages[0]
        lines = (message.strip().partition("\n")[0] for message in self.messages)
        return "one of: " + "; ".join(dict.fromkeys(filter(None, lines)))

    def message(self, values: Sequence[Any]) -> str:
        return self.messages[int(values[0])]


def error_if(equation: JaxprEqn, callback: Any, operands: Sequence[Any]) -> list[Any] | None:
    """Return the results of a callback of Equinox's that raises; None for another callback.

    Equinox calls it in the branch of a failed check.
    """
    if getattr(callback, "__module__", None) != "equinox._errors":
        return None
    if callback.__qualname__ == "_error.<locals>.tpu_msg":
        return list(operands[:-1])  # the CPU does not come so far
    if callback.__qualname__ != "_error.<locals>.raises":
        return None
    messages = tuple(inspect.getclosurevars(callback).nonlocals["msgs"])
    report = _Numbered(FailedCheckError, messages, source=user_source(equation))
    emit(ops.check, np.asarray(True), *operands, report=number_of(report))
    return [rnp.zeros(shape_of_aval(v.aval), dtype_of(v.aval)) for v in equation.outvars]
