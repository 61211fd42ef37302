"""What every implementation makes of a program, and whether that is the same."""

from __future__ import annotations

import itertools
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

import rlx
from rlx.errors import InternalError, RlxError, SingularMatrixError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.verify import verify
from rlx.runtime.executable import Executable
from rlx.tracing.pytree import tree_leaves
from tests.fuzz.eager import unexplained
from tests.fuzz.export import ExportError, exported_results
from tests.fuzz.jax_library import UNDEFINED, of_jax
from tests.fuzz.native import lower
from tests.fuzz.program import Array, RandomProgram, of_rlx
from tests.fuzz.tolerance import bounds, wide

_SECONDS, _PATIENCE = 120, 5
_POISON = (0xCD, 0xFF)
"""Bytes of memory that was never written; 0xFF are NaN in every float type."""


RAW = (
    RecursionError, AssertionError, LookupError, AttributeError, ValueError, TypeError,
    ArithmeticError, NotImplementedError,
)  # fmt: skip
_WRONG = (RlxError, *RAW)
"""What no valid program raises."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A program that an implementation gets wrong: who, how, and the numbers."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class HangError(Exception):
    """A program that takes longer than any should."""


def check(
    program: RandomProgram,
    backends: Sequence[str] = ("llvm",),
    *,
    jax: bool = False,
    exports: Sequence[str] = (),
) -> Failure | None:
    """Return how the program fails; None if all agree, or if it is no valid program."""
    try:
        with time_limit(_SECONDS), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return _check(program, backends, jax, exports)
    except HangError:
        return Failure("hang", f"more than {_SECONDS} s of work, or {_PATIENCE} times as long")


def _check(
    program: RandomProgram, backends: Sequence[str], jax: bool, exports: Sequence[str]
) -> Failure | None:
    arrays = program.arrays()
    try:
        graph = trace(program)
        expected = evaluate(graph, feeds(graph, arrays))
    except RlxError as error:
        return Failure("trace", repr(error)) if isinstance(error, InternalError) else None
    except RAW as error:
        return Failure("trace", repr(error))
    judge = Judge(graph, arrays, expected, program.seed)
    failure = _compare_backends(graph, backends, judge) if backends else None
    if failure is None and judge.compiled:
        failure = _compare_eager(program, judge)
    if failure is None and exports:
        failure = _compare_exports(graph, exports, judge)
    if failure is None and jax:
        failure = _compare_jax(program, judge)
    return failure


@dataclass(slots=True)
class Judge:
    """Finds what differs from the reference by more than roundings explain."""

    graph: Graph
    arrays: Sequence[Array]
    expected: Sequence[Array]
    seed: int
    compiled: list[Array] = field(default_factory=list)
    """What compiled code gave, once a back end has run."""
    _bounds: list[list[Array]] = field(default_factory=list)
    _more: Iterator[list[Array]] | None = None

    def difference(self, found: Sequence[Array], *, dtypes: bool = True) -> str:
        """Say where results are wrong; an empty text if nowhere."""
        text, number = "no bound", 0
        while text and self._has(number):
            allowed = self._bounds[number]
            text = difference(found, self.expected, allowed, dtypes=dtypes)
            number += 1
        return text

    def _has(self, number: int) -> bool:
        """True if there is one more bound; it is computed at the first use."""
        if self._more is None:
            self._more = bounds(self.graph, self.arrays, self.expected, self.seed)
        if number == len(self._bounds):
            self._bounds.extend(itertools.islice(self._more, 1))
        return number < len(self._bounds)


def trace(program: RandomProgram) -> Graph:
    """Return the verified graph of a program."""
    n = rlx.Dim("n", min=0, max=_bound(program))
    types = [
        rlx.TensorType(DType(dtype), _symbolic(program, shape, n))
        for dtype, shape in program.inputs
    ]
    graph: Graph = rlx.jit(program.function(of_rlx())).graph(*types)
    verify(graph)
    return graph


def feeds(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    return {str(v.node.name): x for v, x in zip(graph.inputs, arrays, strict=True)}


def _compare_backends(graph: Graph, backends: Sequence[str], judge: Judge) -> Failure | None:
    try:
        lowered = lower(graph, judge.seed)
    except _WRONG as error:
        return Failure("lowering raises", _text(error))
    for backend in backends:
        try:
            text = _run(lowered.loaded(backend, judge.seed), judge)
        except SingularMatrixError:
            return None
        except _WRONG as error:
            return Failure(f"{backend} raises", _text(error))
        if text:
            return Failure(f"{backend} differs", text)
    return None


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


def _run(executable: Executable, judge: Judge) -> str:
    """Say what differs; runs find other bytes each in memory that was never written."""
    inputs = feeds(judge.graph, judge.arrays)
    for poison in _POISON:
        poison_arena(executable, poison)
        judge.compiled = list(executable.run(inputs))
        text = judge.difference(judge.compiled)
        if text:
            return text
    return ""


def _compare_eager(program: RandomProgram, judge: Judge) -> Failure | None:
    """Compare calls outside `jit`: their numbers with the reference's, their bits with code's."""
    function = program.function(of_rlx())
    try:
        results = tree_leaves(function(*map(rlx.numpy.asarray, judge.arrays)))
    except SingularMatrixError:
        return None
    except _WRONG as error:
        return Failure("eager raises", _text(error))
    found = [np.asarray(x) for x in results]
    text = judge.difference(found)
    if text:
        return Failure("eager differs", text)
    text = unexplained(judge.graph, found, judge.compiled)
    return Failure("bits of eager calls", text) if text else None


def _compare_exports(graph: Graph, targets: Sequence[str], judge: Judge) -> Failure | None:
    try:
        for how, found in exported_results(graph, targets, judge.arrays):
            text = judge.difference(found)
            if text:
                return Failure("export differs", f"{how}: {text}")
    except (RlxError, ExportError) as error:
        singular = "singular" in str(error)  # by a rounding: another compiler, another pivot
        return None if singular else Failure("export raises", str(error))
    return None


def poison_arena(executable: Executable, byte: int) -> None:
    """Fill what no run has written: temporaries that are read too early show."""
    header = executable.arena.header.copy()
    executable.arena.bytes[...] = byte
    executable.arena.header[...] = header
    executable._views.load_constants()
    executable.residents.needs_setup = True
    if executable._fast is not None:
        executable._fast.ready = False


def _compare_jax(program: RandomProgram, judge: Judge) -> Failure | None:
    import jax

    if any(text in line.template for line in program.lines for text in UNDEFINED):
        return None
    try:  # compiled whole: op by op, XLA would be asked once for every primitive
        function = jax.jit(program.function(of_jax()))
        found = jax.tree_util.tree_leaves(function(*map(jax.numpy.asarray, judge.arrays)))
    except Exception:  # JAX lacks what the program uses, or refuses it
        return None
    numbers = [np.asarray(x) for x in found]
    if len(numbers) != len(judge.expected) or any(x.dtype.kind not in "bifuc" for x in numbers):
        return None  # tangents of integers, which are nothing in JAX, or bfloat16
    text = judge.difference(numbers, dtypes=False)
    return Failure("JAX differs", text) if text else None


def difference(
    found: Sequence[Array],
    expected: Sequence[Array],
    allowed: Sequence[Array],
    *,
    dtypes: bool = True,
) -> str:
    """Say where results differ by more than they may; an empty text if nowhere."""
    for number, (x, y, bound) in enumerate(zip(found, expected, allowed, strict=True)):
        if x.shape != y.shape or (dtypes and x.dtype != y.dtype):
            return f"output {number} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        a, b = wide(x), wide(y)
        with np.errstate(invalid="ignore"):  # infinities less infinities
            near = (np.abs(a - b) <= bound) | ~np.isfinite(bound)
        same = (a == b) | ((a != a) & (b != b)) | near
        if not np.all(same):
            place = tuple(int(i) for i in np.argwhere(~same)[0])
            return (
                f"output {number} at {place}: {a[place]!r}, not {b[place]!r} +- {bound[place]:.3g}"
            )
    return ""


@contextmanager
def time_limit(seconds: float, *, patience: int = _PATIENCE) -> Iterator[None]:
    """Raise HangError after `seconds` of work, or `patience` times as long a wait for anything.

    A machine that is shared makes no hang of a program. Native code that never returns is killed
    by the caller.
    """
    started, ticks = time.process_time(), 0

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal ticks
        ticks += 1
        if ticks >= patience or time.process_time() - started >= 0.9 * seconds:
            raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _bound(program: RandomProgram) -> int:
    """Return a bound of the symbol above its extent, by which memory grows little."""
    extents = [shape[0] for _, shape in program.inputs if shape] or [1]
    return max(1, min(max(extents), extents[0] + 64))


def _symbolic(program: RandomProgram, shape: tuple[int, ...], n: Any) -> tuple[Any, ...]:
    first = next((s[0] for _, s in program.inputs if s), None)
    if not program.symbolic or not shape or shape[0] != first:
        return shape
    return (n, *shape[1:])
