"""Traces: nested graphs under construction, and captures between them.

While a function is traced, its array arguments are `TracedArray`s for values of the
trace's graph. Operations go to the innermost open trace. An array of an enclosing trace that
uses one there is captured: it becomes one more input of the inner graph, bound when that graph
is inlined. An array of a trace that has ended has leaked.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx.errors import DTypeError, InputError, RlxError
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.from_python import require_unmasked
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim, Shape
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.passes.communication.varying import Varying
from rlx.runtime.arrays import Array, frozen
from rlx.tracing.errors import LeakedTracerError
from rlx.tracing.promotion import ElementType
from rlx.tracing.widths import PROCESS, are_usual, canonical, natural

if TYPE_CHECKING:  # functions of arrays return traced ones while they are traced
    from rlx.runtime.arrays import Array as _Interface
else:
    _Interface = object


class TracedArray(_Interface):
    """A value of the graph of a trace. `Tracer` adds what users do with it."""

    __slots__ = ("owner", "value", "weak")

    def __init__(self, owner: Trace, value: Value, weak: bool = False) -> None:
        self.owner = owner
        self.value = value
        self.weak = weak


class Trace:
    """One function being traced into `graph`."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self.is_open = True
        self.runs_once = False
        """A call outside `jit`: NumPy runs the graph, to which loops are dear."""
        self.is_final = False
        """`jit` compiles the graph as it is: nothing takes its derivative."""
        self.functionalizes_checks = False
        """`checkify` traces: a check becomes a result of the function."""
        self.captured: list[TracedArray] = []
        """Arrays of enclosing traces, in the order of the inputs that replace them."""
        self._inputs: dict[Value, Value] = {}
        self._numbers: dict[tuple[DType, bytes], Value] = {}
        """Constants without axes, one for each."""
        self.varying = Varying()
        """Over which axes of ranks its values vary, for `rlx.tracing.axes`, which adds captures."""

    def captures(self) -> Iterator[tuple[TracedArray, Value]]:
        """Yield each array of an enclosing trace with the input that replaces it."""
        return zip(self.captured, self._inputs.values(), strict=True)

    def constant(self, array: np.ndarray[Any, Any], *, structural: bool = False) -> Value:
        """Return a constant; the same one for equal numbers."""
        if array.ndim:
            return self.graph.constant(array, structural=structural)
        key = as_dtype(array.dtype), array.tobytes()
        value = self._numbers.get(key)
        if value is None:
            value = self._numbers[key] = self.graph.constant(array)
        return value

    def lift(self, traced: TracedArray) -> Value:
        """Return the value of this trace that `traced` is, capturing it if need be."""
        if traced.owner is self:
            return traced.value
        if traced.owner not in _state.open:
            raise leaked(traced)
        value = self._inputs.get(traced.value)
        if value is None:
            name = captured_name(traced, len(self.captured), self.graph.inputs)
            value = self.graph.input(name, traced.value.shape, traced.value.dtype)
            self.captured.append(traced)
            self._inputs[traced.value] = value
        return value


def captured_name(traced: TracedArray, number: int, others: Iterable[Value]) -> str:
    """Return what an inner graph calls an array of an outer one: as the outer, if it can."""
    taken = {other.node.name for other in others}
    numbered = (f"captured_{i}" for i in itertools.count(number))
    names = (traced.value.node.name, *itertools.islice(numbered, len(taken) + 1))
    return next(name for name in names if name is not None and name not in taken)


class _Open(threading.local):
    """The traces open in this thread, outermost first."""

    def __init__(self) -> None:
        self.open: list[Trace] = []


_state = _Open()


def current_trace() -> Trace | None:
    """Return the innermost open trace of this thread."""
    return _state.open[-1] if _state.open else None


def innermost() -> Trace:
    """Return the innermost open trace; there must be one."""
    return _state.open[-1]


def is_functionalized() -> bool:
    """True where `checkify` makes results of the checks of what is being traced."""
    return any(trace.functionalizes_checks for trace in _state.open)


@contextmanager
def opened(name: str) -> Iterator[Trace]:
    """Open a trace; arrays of it that survive the block have leaked."""
    trace = Trace(name)
    _state.open.append(trace)
    try:
        yield trace
    finally:
        _state.open.pop()
        trace.is_open = False


@contextmanager
def suspended() -> Iterator[None]:
    """Run functions at once inside, as if no trace were open."""
    traces, _state.open = _state.open, []
    try:
        yield
    finally:
        _state.open = traces


def leaked(traced: TracedArray) -> RlxError:
    made = traced.value.node.source
    origin = "" if made is None else f", made at {made},"
    return LeakedTracerError(
        f"a traced array of type {traced.value.type}{origin} is used after the trace of "
        f"{traced.value.graph.name!r} has ended",
        source=calling_source(),
        remedy="return it from the traced function instead of keeping it elsewhere",
    )


def element_type(x: Any) -> ElementType:
    """Return dtype and weakness of anything that counts as an array."""
    if isinstance(x, TracedArray):
        return ElementType(x.value.dtype, x.weak)
    if isinstance(x, (np.ndarray, np.generic)):
        require_unmasked(x)
        dtype = _supported(x.dtype)
        weak = isinstance(x, Array) and x.weak_type
        return ElementType(canonical(dtype) if PROCESS.is_narrow else dtype, weak)
    if isinstance(x, bool):
        return ElementType(DType.BOOL)
    if isinstance(x, Dim):
        return ElementType(canonical(DType.I64), weak=True)
    for kind, dtype in _PYTHON_NUMBERS:
        if isinstance(x, kind):
            return ElementType(dtype if are_usual() else natural(dtype), weak=True)
    raise InputError(
        f"an object of type {type(x).__name__} is not an array: {x!r:.80}",
        source=calling_source(),
        remedy="use an array or a number; convert a list with rlx.numpy.array, or pass what is "
        "no array as a static argument",
    )


def shape_of(x: Any) -> Shape:
    """Return the shape of anything that counts as an array."""
    if isinstance(x, TracedArray):
        return x.value.shape
    return x.shape if isinstance(x, (np.ndarray, np.generic)) else ()


def tensor_type(x: Any) -> TensorType:
    return TensorType(element_type(x).dtype, shape_of(x))


class UnitVectors(np.ndarray[Any, Any]):
    """Directions that a derivative is taken along: their zeros are absent entries."""


def as_value(x: Any, dtype: DType | None = None) -> Value:
    """Return `x` as a value of the innermost trace, converted to `dtype`.

    Numbers and NumPy arrays become constants of that dtype at once.
    """
    trace = innermost()
    if dtype is not None and PROCESS.is_narrow:
        dtype = canonical(dtype)
    if isinstance(x, TracedArray):
        value = trace.lift(x)
    elif isinstance(x, Dim):
        value = trace.graph.extent(value=x)
    else:
        return trace.constant(concrete(x, dtype), structural=isinstance(x, UnitVectors))
    if dtype is None or value.dtype is dtype:
        return value
    converted: Value = trace.graph.cast(value, to=dtype)
    return converted


def concrete(x: Any, dtype: DType | None = None) -> np.ndarray[Any, Any]:
    """Return a number or NumPy array as an array of `dtype`, by default its own."""
    target = dtype or element_type(x).dtype
    try:
        return np.asarray(x, dtype=target.numpy)
    except (OverflowError, ValueError) as error:  # of what is too large, and of NaN
        raise DTypeError(
            f"the number {x!r} does not fit {target}",
            source=calling_source(),
            remedy="use a wider dtype, or a smaller number",
        ) from error


def arrays_of(found: Any) -> Any:
    """Return an array, or a tuple of them, that a function of NumPy's made, as of here."""
    if isinstance(found, tuple):
        return tuple(map(arrays_of, found))
    return frozen(concrete(np.asarray(found)))


def source_names(function: Any, fallback: str) -> str:
    """Return a graph's name for `function`."""
    name = str(getattr(function, "__name__", fallback))
    return name if name.isidentifier() else fallback


def _supported(dtype: np.dtype[Any]) -> DType:
    try:
        return as_dtype(dtype)
    except DTypeError as error:
        raise DTypeError(
            f"an array has dtype {dtype}, which rlx lacks",
            source=calling_source(),
            remedy="convert it with .astype(...) to one of: "
            + " ".join(known.value for known in DType),
        ) from error


_PYTHON_NUMBERS: Sequence[tuple[type, DType]] = (
    (int, DType.I64),
    (float, DType.F64),
    (complex, DType.C128),
)
