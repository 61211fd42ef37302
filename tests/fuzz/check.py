"""What every implementation makes of a program, and whether that is the same."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

import rlx
from rlx.errors import InternalError, RlxError, SingularMatrixError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.verify import verify
from rlx.runtime.executable import Executable
from tests.fuzz.export import ExportError, exported_results
from tests.fuzz.jax_library import UNDEFINED, of_jax
from tests.fuzz.program import FLOATS, NAMES, Array, Program, of_rlx

_SECONDS, _PATIENCE = 120, 5
_EPSILON = {"f64": 2.3e-16, "f32": 1.2e-7, "c64": 1.2e-7, "f16": 1e-3, "bf16": 8e-3}
_ROUNDINGS = 400.0
"""How many roundings of its largest element a result may be off by, beside its condition."""
_PERTURBATION = 16.0
_POISON = (0xCD, 0xFF)
"""Bytes of memory that was never written; 0xFF are NaN in every float type."""


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
    program: Program,
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
    program: Program, backends: Sequence[str], jax: bool, exports: Sequence[str]
) -> Failure | None:
    arrays = program.arrays()
    try:
        graph = trace(program)
        expected = evaluate(graph, feeds(graph, arrays))
    except RlxError as error:
        return Failure("trace", repr(error)) if isinstance(error, InternalError) else None
    except RecursionError as error:
        return Failure("trace", repr(error))
    if graph is None:
        return None
    allowed = tolerances(program, graph, arrays, expected)
    for backend in backends:
        failure = _compare_backend(graph, backend, arrays, expected, allowed)
        if failure is not None:
            return failure
    if exports and not graph.symbols:
        failure = _compare_exports(graph, exports, arrays, expected, allowed)
        if failure is not None:
            return failure
    return _compare_jax(program, arrays, expected, allowed) if jax else None


def trace(program: Program) -> Graph:
    """Return the verified graph of a program."""
    n = rlx.Dim("n", min=0, max=max([1, *(shape[0] for _, shape in program.inputs if shape)]))
    types = [
        rlx.TensorType(_dtype(dtype), _symbolic(program, shape, n))
        for dtype, shape in program.inputs
    ]
    graph: Graph = rlx.jit(program.function(of_rlx())).graph(*types)
    verify(graph)
    return graph


def feeds(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    return {str(v.node.name): x for v, x in zip(graph.inputs, arrays, strict=True)}


def tolerances(
    program: Program, graph: Graph, arrays: Sequence[Array], expected: Sequence[Array]
) -> list[Array]:
    """Return how far each element may be off: roundings, and what roundings of inputs change."""
    epsilon = max((_EPSILON.get(dtype, 0.0) for dtype in _dtypes(graph)), default=0.0)
    changes = [np.zeros(np.shape(y)) for y in expected]
    for seed in range(3):
        nudged = [nudge(x, epsilon, [program.seed, seed]) for x in arrays]
        try:
            others = evaluate(graph, feeds(graph, nudged))
        except RlxError:
            continue
        changes = [_larger(c, y, o) for c, y, o in zip(changes, expected, others, strict=True)]
    return [
        4 * change + _ROUNDINGS * _epsilon(y, epsilon) * _scale(y)
        for change, y in zip(changes, expected, strict=True)
    ]


def nudge(x: Array, epsilon: float, seed: Sequence[int]) -> Array:
    """Return floats off by some roundings, the others as they are."""
    if NAMES[x.dtype] not in (*FLOATS, "c64"):
        return x
    signs = np.random.default_rng(seed).uniform(-1, 1, x.shape)
    return np.asarray(_wide(x) * (1 + _PERTURBATION * epsilon * signs)).astype(x.dtype)


def _compare_backend(
    graph: Graph,
    backend: str,
    arrays: Sequence[Array],
    expected: Sequence[Array],
    allowed: Sequence[Array],
) -> Failure | None:
    try:
        executable = rlx.compile(graph, backend=backend, threads=2)
        assert isinstance(executable, Executable)
        for poison in _POISON:
            poison_arena(executable, poison)
            found = executable.run(feeds(graph, arrays))
            text = difference(found, expected, allowed)
            if text:
                return Failure(f"{backend} differs", text)
    except SingularMatrixError:
        return None
    except (RlxError, RecursionError, AssertionError, KeyError, ValueError, TypeError) as error:
        return Failure(f"{backend} raises", f"{type(error).__name__}: {error}"[:2000])
    return None


def _compare_exports(
    graph: Graph,
    targets: Sequence[str],
    arrays: Sequence[Array],
    expected: Sequence[Array],
    allowed: Sequence[Array],
) -> Failure | None:
    try:
        for how, found in exported_results(graph, targets, arrays):
            text = difference(found, expected, allowed)
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
    executable._load_constants()
    executable.residents.needs_setup = True
    if executable._fast is not None:
        executable._fast.ready = False


def _compare_jax(
    program: Program,
    arrays: Sequence[Array],
    expected: Sequence[Array],
    allowed: Sequence[Array],
) -> Failure | None:
    import jax

    if any(text in line.template for line in program.lines for text in UNDEFINED):
        return None
    try:  # compiled whole: op by op, XLA would be asked once for every primitive
        function = jax.jit(program.function(of_jax()))
        found = jax.tree_util.tree_leaves(function(*map(jax.numpy.asarray, arrays)))
    except Exception:  # JAX lacks what the program uses, or refuses it
        return None
    numbers = [np.asarray(x) for x in found]
    if len(numbers) != len(expected) or any(x.dtype.kind not in "bifuc" for x in numbers):
        return None  # tangents of integers, which are nothing in JAX, or bfloat16
    text = difference(numbers, expected, allowed, dtypes=False)
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
        a, b = _wide(x), _wide(y)
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


def _dtype(name: str) -> Any:
    from rlx.ir.dtype import DType

    return DType(name)


def _symbolic(program: Program, shape: tuple[int, ...], n: Any) -> tuple[Any, ...]:
    first = next((s[0] for _, s in program.inputs if s), None)
    if not program.symbolic or not shape or shape[0] != first:
        return shape
    return (n, *shape[1:])


def _dtypes(graph: Graph) -> set[str]:
    return {value.dtype.value for node in graph.nodes for value in node.results}


def _wide(x: Array) -> Array:
    return np.asarray(x).astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _epsilon(y: Array, epsilon: float) -> float:
    return epsilon if NAMES[y.dtype] in (*FLOATS, "c64") else 0.0


def _scale(y: Array) -> float:
    wide = np.abs(_wide(y))
    finite = wide[np.isfinite(wide)]
    return max(1.0, float(finite.max())) if finite.size else 1.0


def _larger(change: Array, y: Array, other: Array) -> Array:
    a, b = _wide(y), _wide(other)
    same = (a == b) | ((a != a) & (b != b))
    moved = np.where(same, 0.0, np.abs(a - b))
    return np.maximum(change, np.where(np.isnan(moved), np.inf, moved))
