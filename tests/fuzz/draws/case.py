"""What a kind of draw makes: a function as Python source, its arguments, and what it must give.

The function is called outside `jit`, interpreted as a graph, and compiled by LLVM and C. All must
agree: on the bits where `tests.fuzz.eager` gives no reason for others, on the error where there is
one, and with the model, if the kind of draw has one.
"""

from __future__ import annotations

import functools
import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

import numpy as np

import rlx
import rlx.lax
import rlx.nn
import rlx.numpy
import rlx.random
import rlx.scipy
from rlx.errors import InternalError, RlxError, SingularMatrixError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.verify import verify
from rlx.runtime.executable import Executable
from rlx.tracing.errors import ConcretizationError
from rlx.tracing.pytree import tree_leaves
from tests.fuzz.check import (
    RAW,
    Failure,
    HangError,
    Judge,
    difference,
    feeds,
    poison_arena,
    time_limit,
)
from tests.fuzz.eager import unexplained
from tests.fuzz.native import lower
from tests.fuzz.program import DTYPES, Array

SECONDS = 60
LARGEST = 2_000_000
"""Elements of the largest value of a graph that is run."""


class Case(Protocol):
    """One draw: it is checked, and printed if it fails."""

    def failure(self, seed: int, backends: Sequence[str]) -> Failure | None:
        """Return how an implementation gets the case wrong."""

    def script(self) -> str:
        """Return the case as Python, to paste into a test."""


Kind: TypeAlias = Callable[[random.Random], Case]
"""Draws a case: one for each file of this package."""
Outcome: TypeAlias = "list[Array] | RlxError"


def library() -> dict[str, Any]:
    """Return the names that sources are written in."""
    return {
        "np": rlx.numpy, "nn": rlx.nn, "rlx": rlx, "lax": rlx.lax, "scipy": rlx.scipy,
        "numpy": np, "DTYPES": DTYPES, "nan": np.nan, "inf": np.inf, "array": np.array,
        "S": SimpleNamespace,
    }  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call of `f`, which `source` defines over `library()`, on `arrays`.

    `model` gives the results by NumPy alone, or raises the class of error that is right;
    `rounds` is how many roundings of the largest element they may be off by, or None for bits.
    """

    source: str
    arrays: tuple[Array, ...]
    model: Callable[..., Any] | None = field(default=None, compare=False)
    rounds: float | None = None
    names: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further names of the source: functions from outside."""

    @property
    def function(self) -> Callable[..., Any]:
        namespace = {**library(), **self.names}
        exec(compile(self.source, "<fuzz>", "exec"), namespace)
        made: Callable[..., Any] = namespace["f"]
        return made

    def script(self) -> str:
        inputs = [f"# v{i} = numpy.{x!r}" for i, x in enumerate(self.arrays)]
        return "\n".join([*inputs, self.source])

    def failure(self, seed: int, backends: Sequence[str]) -> Failure | None:
        return guarded(lambda: _Comparison(self, seed).failure(backends))


def guarded(check: Callable[[], Failure | None]) -> Failure | None:
    """Return what a check finds; errors that no valid program has are failures, too."""
    try:
        with time_limit(SECONDS), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return check()
    except HangError:
        return Failure("hang", f"more than {SECONDS} s")
    except InternalError as error:
        return Failure("internal error", str(error))
    except RlxError as error:
        return Failure("raises", f"{type(error).__name__}: {error}")
    except RAW as error:
        return Failure("raises without a type", f"{type(error).__name__}: {error}")


@dataclass
class _Comparison:
    call: Call
    seed: int

    def failure(self, backends: Sequence[str]) -> Failure | None:
        eager = _outcome(lambda: self.call.function(*map(rlx.numpy.asarray, self.call.arrays)))
        graph = _outcome_of_graph(self.call)
        if isinstance(graph, RlxError):
            return self._refused(eager, graph)
        if _is_large(graph):
            return None
        expected = _outcome(lambda: evaluate(graph, feeds(graph, self.call.arrays)))
        return (
            self._against_model(expected)
            or self._compiled(graph, expected, backends, eager)
            or self._alike("eager", eager, expected, graph)
        )

    def _refused(self, eager: Outcome, refusal: RlxError) -> Failure | None:
        """Compare what tracing refuses; what needs values is refused there alone."""
        if isinstance(eager, RlxError):
            return self._against_model(eager)
        if isinstance(refusal, ConcretizationError):
            return self._against_model(eager)
        return Failure("traced only is refused", f"{type(refusal).__name__}: {refusal}")

    def _against_model(self, found: Outcome) -> Failure | None:
        if self.call.model is None:
            return None
        expected = _of_model(self.call.model, self.call.arrays)
        if isinstance(expected, type):
            right = isinstance(found, expected)
            return None if right else Failure("model", f"{_brief(found)}, not {expected.__name__}")
        if isinstance(found, RlxError):
            return Failure("model", f"{type(found).__name__}: {found}, not {_brief(expected)}")
        text = _apart_from_model(found, expected, self.call.rounds)
        return Failure("model", text) if text else None

    def _compiled(
        self, graph: Graph, expected: Outcome, backends: Sequence[str], eager: Outcome
    ) -> Failure | None:
        for backend in backends:
            executable = self._loaded(graph, backend)
            inputs = feeds(graph, self.call.arrays)
            for byte in (0xCD, 0xFF):
                poison_arena(executable, byte)
                found = _outcome(functools.partial(executable.run, inputs))
                failure = self._alike(backend, found, expected, graph)
                if failure is not None:
                    return failure
            text = unexplained(graph, eager, found)
            if text:
                return Failure("bits of eager calls", f"{text} ({backend})")
        return None

    def _loaded(self, graph: Graph, backend: str) -> Executable:
        """Return the graph compiled as a seed says; as users do where it calls other code."""
        if self.call.names:
            executable = rlx.compile(graph, backend=backend)
            assert isinstance(executable, Executable), "compiled code"
            return executable
        return lower(graph, self.seed).loaded(backend, self.seed)

    def _alike(self, who: str, found: Outcome, expected: Outcome, graph: Graph) -> Failure | None:
        if isinstance(expected, RlxError) or isinstance(found, RlxError):
            if type(found) is type(expected) or _by_a_rounding(found, expected):
                return None
            return Failure(f"{who} differs", f"{_brief(found)}, not {_brief(expected)}")
        judge = Judge(graph, self.call.arrays, expected, self.seed)
        if len(found) != len(expected):
            return Failure(f"{who} differs", f"{len(found)} results, not {len(expected)}")
        text = judge.difference(found)
        return Failure(f"{who} differs", text) if text else None


def _by_a_rounding(found: Outcome, expected: Outcome) -> bool:
    """True if one has a singular matrix, which a rounding may make of another."""
    return isinstance(found, SingularMatrixError) or isinstance(expected, SingularMatrixError)


def _outcome(call: Callable[[], Any]) -> Outcome:
    try:
        return [np.asarray(x) for x in tree_leaves(call())]
    except InternalError:
        raise
    except RlxError as error:
        return error


def _outcome_of_graph(call: Call) -> Graph | RlxError:
    try:
        graph: Graph = rlx.jit(call.function).graph(*call.arrays)
    except InternalError:
        raise
    except RlxError as error:
        return error
    verify(graph)
    return graph


def _of_model(model: Callable[..., Any], arrays: Sequence[Array]) -> list[Array] | type[RlxError]:
    """Return what the model gives; one that raises gives the class of the error."""
    try:
        found = model(*arrays)
    except RlxError as error:
        return type(error)
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def _apart_from_model(
    found: Sequence[Array], expected: Sequence[Array], rounds: float | None
) -> str:
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    return difference(found, expected, [_allowed(y, rounds) for y in expected])


def _allowed(y: Array, rounds: float | None) -> Array:
    wide = np.abs(y.astype(np.complex128 if y.dtype.kind == "c" else np.float64))
    finite = wide[np.isfinite(wide)]
    if rounds is None or y.dtype.kind in "iub":
        return np.zeros(y.shape)
    kind = np.finfo(y.dtype) if y.dtype.kind in "fc" else rlx.numpy.finfo(y.dtype)
    return np.full(y.shape, rounds * float(kind.eps) * max(1.0, float(finite.max(initial=0.0))))


def _is_large(graph: Graph) -> bool:
    sizes = (math.prod(v.type.static_shape) for node in graph.nodes for v in node.results)
    return max(sizes, default=0) > LARGEST


def _brief(found: Any) -> str:
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {found}"[:600]
    return repr(found)[:600]
