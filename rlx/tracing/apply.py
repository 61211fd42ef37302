"""Application of the functions of `rlx.numpy` to traced and concrete arrays.

`function` makes a function of traced arrays work on NumPy arrays too: outside any trace it is
traced by itself and run by the reference interpreter. Inside, `emit` appends an op.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import DTypeError, RlxError, ShapeError, Source
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OpDef
from rlx.ir.reference import evaluate
from rlx.ir.reference.replay import Replay
from rlx.ir.shape import Dim, needs_a_trace
from rlx.ir.source_lines import calling_source, is_ours
from rlx.runtime.arrays import Array, Plain, frozen, plain, unshared
from rlx.runtime.eager_gateway import HANDLED, FastCalls, forget_fast_calls
from rlx.tracing import eager, tracer
from rlx.tracing.only import without_out
from rlx.tracing.promotion import ElementType, promote_types, to_inexact
from rlx.tracing.pytree import LEAF, TreeDef, tree_flatten, tree_unflatten
from rlx.tracing.trace import (
    Trace,
    TracedArray,
    _state,
    as_value,
    concrete,
    element_type,
    innermost,
    opened,
)
from rlx.tracing.widths import (
    PROCESS,
    are_narrow,
    are_usual,
    canonical,
    when_widths_change,
    width_rules,
)

P = ParamSpec("P")
R = TypeVar("R")


def function(body: Callable[P, R]) -> Callable[P, R]:
    """Make `body`, written for traced arrays, run at once where no trace is open."""
    body = without_out(body)
    fast = FastCalls()

    @functools.wraps(body)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            if _state.open:
                return body(*args, **kwargs)
            made = fast.call(args, kwargs)
            return _run_again(body, args, kwargs, fast) if made is None else made
        except RlxError as error:
            if error.source is not None or _is_inside(sys._getframe().f_code):
                raise  # the function that the user called gives it its name and line
            raise error.located(body.__name__, calling_source()) from None

    return call


def _is_inside(code: CodeType) -> bool:
    """True if the caller was called by `code`, with none of the user's frames in between."""
    frame = sys._getframe(1).f_back
    while frame is not None and is_ours(frame):
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


@dataclass(frozen=True, slots=True)
class _Known:
    """Cached trace of a call on arrays of given types and other arguments."""

    replay: Replay
    traced: tuple[bool, ...]
    """Which leaves of the result are outputs of the graph."""
    weak: tuple[bool, ...]
    """Which outputs are of a weak type."""
    results: tuple[Any, ...]
    tree: TreeDef
    single: bool
    """The result is one output, without a container."""
    work: int
    """What interpreting costs, in nanoseconds; 0 where nothing would be gained by compiling."""

    def outputs(self, key: Any, arrays: Sequence[Plain]) -> Sequence[Plain]:
        """Return the outputs of the graph for a call of the kind `key`."""
        given = [plain(x) for x in arrays]
        if self.work:
            made = eager.run_compiled(key, self.replay.graph, self.work, self.weak, given)
            if made is not None:
                return made
        return unshared(self.replay(given), arrays)


when_widths_change(forget_fast_calls)

_known: dict[Any, _Known] = {}
_asking: set[Any] = set()
"""Kinds of calls that ask for the numbers that arrays without axes hold."""
_MOST_KNOWN = 2048
_MOST_CONSTANT_BYTES = 1 << 14
_STATIC = frozenset({int, bool, str, type(None), type, np.dtype, type(np.dtype("f4"))})


def _run_again(body: Callable[..., Any], args: Any, kwargs: Any, fast: FastCalls) -> Any:
    """Run as `_run` does, without tracing where a call of the same kind was traced before.

    From then on such calls are `fast`, where they are small.
    """
    arrays: list[Plain] = []
    key = _key_of(body, args, kwargs, arrays)
    asks = key in _asking
    if asks:
        key, arrays = _key_with_numbers(key, arrays)
    known = None if key is None else _known.get(key)
    if known is None:
        return _run_asking(body, args, kwargs, key, asks=asks)
    try:
        given = [concrete(x) for x in arrays] if PROCESS.is_narrow and are_narrow() else arrays
        outputs = known.outputs(key, given)
    except HANDLED:  # traced anew, it is raised at the right line
        return _run_asking(body, args, kwargs, None)
    if known.single:
        if not known.work and not asks and are_usual():
            fast.add(args, kwargs, known.replay, weak=known.weak[0])
            if not are_usual():  # another thread has changed it meanwhile
                fast.forget()
        return frozen(outputs[0], known.weak[0])
    rest = (frozen(x, weak) for x, weak in zip(outputs, known.weak, strict=True))
    pairs = zip(known.results, known.traced, strict=True)
    return tree_unflatten(known.tree, [next(rest) if traced else r for r, traced in pairs])


def _key_of(
    body: Callable[..., Any], args: Any, kwargs: Any, arrays: list[Plain]
) -> tuple[Any, ...] | None:
    """Return what a trace of the call depends on, its arrays apart; None where it is not known.

    A trace sees of an array its type only, and of other arguments their values.
    """
    parts: list[Any] = [body, width_rules()]
    # In the order of the leaves of (args, kwargs): dicts are flattened by their sorted keys.
    given = (*enumerate(args), *sorted(kwargs.items())) if kwargs else enumerate(args)
    for name, x in given:
        cls = x.__class__
        if cls is np.ndarray:
            arrays.append(x)
            parts.append((name, x.dtype, x.shape))
        elif issubclass(cls, Array):
            arrays.append(x)
            parts.append((name, x.dtype, x.shape, cls))
        elif cls in _STATIC:
            parts.append((name, cls, x))
        elif cls is float or cls is complex:
            parts.append((name, cls, repr(x)))  # separates 0.0 from -0.0, and equals itself for NaN
        elif isinstance(x, np.generic):
            arrays.append(np.asarray(x))
            parts.append((name, arrays[-1].dtype, ()))
        elif cls is tuple and all(each.__class__ is int for each in x):
            parts.append((name, cls, x))
        else:
            return None
    return tuple(parts)


def _run_asking(
    body: Callable[..., Any], args: Any, kwargs: Any, key: Any, *, asks: bool = False
) -> Any:
    """Run `body` as `_run` does; where it asks for a number, arrays without axes are numbers.

    So NumPy's integers may be axes, extents, shifts. `asks`: it is known to, and `key` has them.
    """
    leaves, tree = tree_flatten((args, kwargs))
    if not asks:
        try:
            return _run(body, leaves, tree, key)
        except RlxError:
            if not any(map(_is_number, leaves)):
                raise
    own = key
    if key is not None and not asks:
        arrays = [leaf for leaf in leaves if isinstance(leaf, (np.ndarray, np.generic))]
        own, _ = _key_with_numbers(key, arrays)
    numbers = [_number(leaf) if _is_number(leaf) else leaf for leaf in leaves]
    result = _run(body, numbers, tree, own, known_numbers=True)
    if own is not key:
        _asking.add(key)
    return result


def _key_with_numbers(key: Any, arrays: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the key of a call that depends on its numbers, too, and the arrays that are none."""
    numbers = tuple(repr(x.item()) for x in arrays if x.ndim == 0)
    return (key, numbers), [x for x in arrays if x.ndim > 0]


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic)) and leaf.ndim == 0


def _number(leaf: Any) -> Any:
    """Return an array without axes as a number: NumPy's, or Python's if its type is weak."""
    return leaf.item() if element_type(leaf).weak else np.asarray(leaf)[()]


def _run(
    body: Callable[..., Any],
    leaves: list[Any],
    tree: TreeDef,
    key: Any,
    *,
    known_numbers: bool = False,
) -> Any:
    """Trace `body` with the NumPy arrays among the arguments as inputs; evaluate the graph.

    What was traced is kept under `key`, unless that is None. With `known_numbers` those without
    axes are no inputs, but constants.
    """
    leaves = list(leaves)
    for leaf in leaves:
        if isinstance(leaf, Dim):
            raise needs_a_trace(leaf)
    feeds: dict[str, Any] = {}
    narrow = PROCESS.is_narrow and are_narrow()
    with opened(body.__name__) as trace:
        trace.runs_once = True
        for index, leaf in enumerate(leaves):
            is_constant = known_numbers and _is_number(leaf)
            if isinstance(leaf, (np.ndarray, np.generic)) and not is_constant:
                name = f"x{len(feeds)}"
                own = isinstance(leaf, Array) and not narrow
                feeds[name] = leaf if own else concrete(leaf)
                leaves[index] = input_array(trace, name, leaf)
        moved_args, moved_kwargs = tree_unflatten(tree, leaves)
        results, results_tree = tree_flatten(body(*moved_args, **moved_kwargs))
        traced = [isinstance(result, TracedArray) for result in results]
        outputs = [r for r, is_traced in zip(results, traced, strict=True) if is_traced]
        trace.graph.set_outputs([as_value(output) for output in outputs])
    weak = tuple(output.weak for output in outputs)
    evaluated = unshared(evaluate(trace.graph, feeds), list(feeds.values()))
    if key is not None and len(feeds) == len(trace.graph.inputs):
        _keep(key, _Known(Replay(trace.graph), tuple(traced), weak, tuple(results), results_tree,
                          results_tree == LEAF and traced == [True],
                          eager.counted_work(trace.graph)))  # fmt: skip
    arrays = (frozen(array, w) for array, w in zip(evaluated, weak, strict=True))
    filled = [next(arrays) if t else r for r, t in zip(results, traced, strict=True)]
    return tree_unflatten(results_tree, filled)


def _keep(key: Any, known: _Known) -> None:
    if known.replay.constant_bytes > _MOST_CONSTANT_BYTES:
        return
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
        _asking.clear()
    outputs = [None if traced else r for r, traced in zip(known.results, known.traced, strict=True)]
    _known[key] = replace(known, results=tuple(outputs))


def input_array(trace: Trace, name: str, like: Any) -> tracer.Tracer:
    """Declare an input of the type of `like`."""
    type = element_type(like)
    value = trace.graph.input(name, like.shape, type.dtype)
    return tracer.Tracer(trace, value, type.weak)


def wrap(value: Value, *, weak: bool = False) -> tracer.Tracer:
    """Return a value of the innermost trace as an array."""
    trace = innermost()
    if PROCESS.is_narrow and (dtype := canonical(value.dtype)) is not value.dtype:
        value = trace.graph.cast(value, to=dtype)
    return tracer.Tracer(trace, value, weak)


def graph() -> Graph:
    """Return the graph of the innermost trace."""
    return innermost().graph


def as_tracer(x: Any) -> Array:
    """Return anything that counts as an array as one of the innermost trace."""
    if isinstance(x, tracer.Tracer) and x.owner is innermost():
        return x
    return wrap(as_value(x), weak=element_type(x).weak)


def emit(definition: OpDef, *operands: Any, weak: bool = False, **attributes: Any) -> Array:
    """Append an op with one result; operands are converted as they are, without promotion."""
    values = [as_value(operand) for operand in operands]
    result = graph().apply(definition, values, **attributes)
    assert isinstance(result, Value)
    return wrap(result, weak=weak)


def emit_several(definition: OpDef, *operands: Any, **attributes: Any) -> list[Array]:
    """Append an op with several results."""
    results = graph().apply(definition, [as_value(x) for x in operands], **attributes)
    assert not isinstance(results, Value)
    return [wrap(result) for result in results]


def emit_promoted(definition: OpDef, *operands: Any, keeps_weak: bool = True) -> Array:
    """Append an op on operands brought to their common dtype."""
    type = promote_types(element_type(x) for x in operands)
    return emit_as(type, definition, *operands, weak=type.weak and keeps_weak)


def emit_inexact(definition: OpDef, *operands: Any) -> Array:
    """Append an op on operands brought to their common floating dtype."""
    type = to_inexact(promote_types(element_type(x) for x in operands))
    return emit_as(type, definition, *operands, weak=type.weak)


def emit_as(
    type: ElementType, definition: OpDef, *operands: Any, weak: bool = False, **attributes: Any
) -> Array:
    """Append an op on operands converted to `type`."""
    values = [as_value(operand, type.dtype) for operand in operands]
    result = graph().apply(definition, values, **attributes)
    assert isinstance(result, Value)
    return wrap(result, weak=weak)


def convert(x: Any, dtype: DType) -> Array:
    """Return `x` converted to `dtype`, which is then no longer weak."""
    return wrap(as_value(x, dtype))


def promoted(arrays: Sequence[Any]) -> list[Array]:
    """Return `arrays` in their common dtype."""
    type = promote_types(element_type(x) for x in arrays)
    return [wrap(as_value(x, type.dtype), weak=type.weak) for x in arrays]


def inexact(*arrays: Any) -> list[Array]:
    """Return `arrays` in their common floating dtype."""
    type = to_inexact(promote_types(element_type(x) for x in arrays))
    return [wrap(as_value(x, type.dtype), weak=type.weak) for x in arrays]


def static_int(x: Any, what: str, source: Source | None = None) -> int:
    """Return `x` as a Python integer: what a shape or an axis is made of.

    Callers that pass no `function` pass the `source` of the call.
    """
    if isinstance(x, TracedArray):
        raise ShapeError(
            f"{what} is a traced array; shapes and axes are known when the function is traced",
            source=source,
            remedy="pass it as a static argument (static_argnums)",
        )
    try:
        return int(x.__index__())
    except (AttributeError, TypeError):
        raise DTypeError(
            f"{what} is {x!r}; it must be an integer",
            source=source,
            remedy="pass a Python integer; round numbers first with int()",
        ) from None
