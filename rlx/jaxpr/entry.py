"""Functions written for JAX as functions of rlx: traced by JAX once for each kind of arguments.

rlx interprets the jaxpr, under its own trace, by the rules of this package.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

import rlx.jaxpr.bit_generators
import rlx.jaxpr.collectives
import rlx.jaxpr.control
import rlx.jaxpr.effects
import rlx.jaxpr.elementwise
import rlx.jaxpr.folds
import rlx.jaxpr.indexing
import rlx.jaxpr.linear_algebra
import rlx.jaxpr.products
import rlx.jaxpr.random_numbers
import rlx.jaxpr.refused
import rlx.jaxpr.shapes
import rlx.jaxpr.shards  # noqa: F401  registers rules
from rlx.errors import InputError, ShapeError
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.shape import Extent
from rlx.ir.source_lines import calling_source
from rlx.jaxpr.custom_rules import final
from rlx.jaxpr.internals import (
    ClosedJaxpr,
    flatten,
    is_key,
    named_axes,
    trace_context,
    without_dead_code,
    without_references,
)
from rlx.jaxpr.interpret import run
from rlx.jaxpr.symbols import Symbols, bound_symbols
from rlx.jaxpr.trees import JAX_ARRAY, Fixed, Structure, split
from rlx.jaxpr.types import Key, argument_array, dtype_of, host_array
from rlx.runtime.arrays import ARRAY_CLASSES, Array, WeakArray
from rlx.signal_safe_lock import reentrant_lock
from rlx.tracing.apply import wrap
from rlx.tracing.axes import axis_sizes
from rlx.tracing.executor import QuickCall
from rlx.tracing.known_trees import Join
from rlx.tracing.pytree import register_pytree_node
from rlx.tracing.trace import (
    as_value,
    concrete,
    current_trace,
    element_type,
    innermost,
    shape_of,
    source_names,
)
from rlx.tracing.widths import PROCESS
from rlx.transforms.jit import JittedFunction, jit
from rlx.transforms.jit_entries import WEAK, FastPath
from rlx.transforms.wrapping import stand_for

Function = Callable[..., Any]
_RECENT = 4
_SHORT = 32
"""Bits of an integer with its sign, which JAX takes whatever its settings are."""
_PROGRAMS_KEPT = 64
"""Traced programs that a function keeps."""


def made(
    fun: Function,
    static_argnums: int | Sequence[int],
    static_argnames: str | Iterable[str],
    donate_argnums: int | Sequence[int],
) -> JaxFunction:
    """Return a function of rlx for one of JAX; see `from_jax`."""
    if not callable(fun):
        raise InputError(
            f"from_jax takes a function, not {type(fun).__name__}",
            source=calling_source(),
            remedy="pass the function itself, as in from_jax(f)",
        )
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    return JaxFunction(fun, _numbers(static_argnums), frozenset(names), _numbers(donate_argnums))


def _numbers(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A traced call: its equations, and what its results are parts of."""

    closed: ClosedJaxpr
    results: Structure
    symbols: Symbols

    def apply(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the results, arrays of the open trace, for arrays of the types traced."""
        pairs = zip(arrays, self.closed.in_avals, strict=True)
        with bound_symbols(self.symbols), final(innermost().is_final):
            found = run(self.closed, [_as_type(x, aval) for x, aval in pairs])
        pairs = zip(found, self.closed.out_avals, strict=True)
        return [_result(x, aval) for x, aval in pairs]


def _as_type(x: Any, aval: Any) -> Any:
    words = x.words if isinstance(x, Key) else host_array(x)
    return wrap(as_value(words, as_dtype(dtype_of(aval))))


def _result(x: Any, aval: Any) -> Any:
    if is_key(aval):
        return Key(x, str(aval.dtype._impl.name))
    if aval.dtype == jax.dtypes.float0:
        return np.zeros(aval.shape, bool)
    return wrap(as_value(x), weak=bool(aval.weak_type))


class JaxFunction:
    """A function written for JAX. Make it with `from_jax`."""

    def __init__(
        self,
        fun: Function,
        static: tuple[int, ...],
        static_names: frozenset[str],
        donated: tuple[int, ...],
    ) -> None:
        stand_for(self, fun)
        self._fun = fun
        self._static = static
        self._static_names = static_names
        self._donated = donated
        self._programs: OrderedDict[Any, TracedCall] = OrderedDict()
        self._compiled: OrderedDict[Any, JittedFunction] = OrderedDict()
        self._fast_paths: OrderedDict[Any, tuple[_FastCall, ...]] = OrderedDict()
        """Compiled calls by tree of arguments, JAX's settings and rlx's."""
        self._lock = reentrant_lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Trace the function into the open trace of rlx, or run it compiled."""
        if not kwargs and self._fast_paths and current_trace() is None:
            leaves, tree = flatten(args)
            for way in self._fast_paths.get((tree, trace_context(), PROCESS.is_narrow), ()):
                if (results := way.results(leaves)) is not None:
                    return way.join(results)
        call = _Call.of(self, args, kwargs)
        if current_trace() is None:
            return self._run(call)
        program = self.program(call)
        return program.results.join(program.apply(call.arrays))

    # What `rlx.aot` asks of a function

    @functools.cached_property
    def _exported(self) -> JittedFunction:
        """The function under `rlx.jit`, by whose names its arguments go to C."""

        @functools.wraps(self._fun)
        def whole(*args: Any, **kwargs: Any) -> Any:
            with final():
                return self(*args, **kwargs)

        return jit(
            whole, static_argnums=self._static, static_argnames=self._static_names,
            donate_argnums=self._donated,
        )  # fmt: skip

    def named_graph(self, *args: Any) -> tuple[Graph, list[str]]:
        """Return the graph of a call, and where each output is in the result."""
        found: tuple[Graph, list[str]] = self._exported.named_graph(*args)
        return found

    def argument_arrays(self, *args: Any) -> list[dict[str, Any]]:
        """Return, per argument, its arrays by the names of the graph's inputs."""
        found: list[dict[str, Any]] = self._exported.argument_arrays(*args)
        return found

    def _run(self, call: _Call) -> Any:
        key = call.structure, call.fixed, trace_context()
        arrays = list(map(_argument, call.arrays))
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is None:
                compiled = self._compiled[key] = _compiled(self, call)
                _forget_oldest(self._compiled)
        found = compiled(*arrays)
        args, kwargs = call.structure.join(call.arrays)
        kinds = call.structure.mark(list(map(_array_kind, call.arrays)))
        if not kwargs and not call.fixed and None not in kinds:
            self._remember(flatten(args)[1], kinds, compiled.fast_path(*arrays))
        return found

    def _remember(self, tree: Any, kinds: list[Any], path: FastPath | None) -> None:
        """Try `path` first for leaves of these kinds in this tree."""
        if path is None or path.join is None:
            return
        way = _FastCall(path.attempt, path.join, kinds)
        key = tree, trace_context(), PROCESS.is_narrow
        with self._lock:
            others = [known for known in self._fast_paths.get(key, ()) if known != way]
            self._fast_paths[key] = (way, *others[: _RECENT - 1])
            _forget_oldest(self._fast_paths)

    def program(self, call: _Call) -> TracedCall:
        """Return the jaxpr of a call, which is traced once for each kind."""
        axes = {name: _number(name, size) for name, size in axis_sizes().items()}
        key = (call.structure, call.fixed, call.types(), tuple(axes.items()), trace_context())
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = self._trace(call, axes)
                _forget_oldest(self._programs)
        return program

    def _trace(self, call: _Call, axes: dict[str, int]) -> TracedCall:
        results: list[Structure] = []
        symbols = Symbols([extent for x in call.arrays for extent in _shape(x)])

        def flat(*arrays: Any) -> list[Any]:
            found, structure = split(call.apply(self._fun, arrays))
            results.append(structure)
            return found

        with named_axes(axes):
            traced = jax.make_jaxpr(flat)(*(_abstract(x, symbols) for x in call.arrays))
        return TracedCall(without_dead_code(without_references(traced)), results[0], symbols)


def _argument(x: Any) -> Any:
    """Return `argument_array(x)`; DTypeError for an integer that JAX's does not hold."""
    if x.__class__ is int:
        concrete(x, as_dtype(jax.dtypes.canonicalize_dtype(np.int64)))
    return argument_array(x)


def _number(axis: str, size: Extent) -> int:
    if isinstance(size, int):
        return size
    raise ShapeError(
        f"axis {axis!r} has the symbolic extent {size}; JAX traces with numbers of members",
        remedy="map over an axis of a fixed extent",
    )


def _forget_oldest(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > _PROGRAMS_KEPT:
        kept.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _FastCall:
    """A compiled call, for leaves of arguments like those that it was made for."""

    attempt: QuickCall
    join: Join
    kinds: list[Any]
    """Of each leaf: whether an array is weakly typed, the class of a number, or what is fixed."""

    def results(self, leaves: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the results for leaves of these kinds; None for others."""
        arrays = self._arrays(leaves)
        if arrays is None:
            return None
        found = self.attempt(arrays)
        if found is None and not any(x.__class__ is JAX_ARRAY and x.weak_type for x in arrays):
            return self.attempt(list(map(host_array, arrays)))
        return found

    def _arrays(self, leaves: Sequence[Any]) -> list[Any] | None:
        """Return the arrays among the leaves; None if one is of another kind."""
        found = []
        for x, kind in zip(leaves, self.kinds):  # noqa: B905  hot; of one tree
            cls = x.__class__
            if cls is JAX_ARRAY:
                if kind is False:
                    found.append(x)  # `attempt` takes none of a weak type
                elif kind is True and x.weak_type:
                    found.append(np.asarray(x))
                else:
                    return None
            elif cls in ARRAY_CLASSES:
                if kind is not False:
                    return None
                found.append(x)
            elif (kind is cls and (cls is not int or x.bit_length() < _SHORT)) or (
                kind is True and cls is WeakArray
            ):
                found.append(concrete(x))
            elif kind.__class__ is not Fixed or kind.value is not x:
                return None
        return found


def _array_kind(x: Any) -> Any:
    """Return the kind of an array or number; None for what has no fast path: keys, bools."""
    if isinstance(x, (JAX_ARRAY, Array)):
        return x.weak_type
    if x.__class__ is np.ndarray:
        return False
    return x.__class__ if x.__class__ in WEAK else None


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of a call, separated into arrays or numbers and static values."""

    arrays: list[Any]
    structure: Structure
    """Of (args, kwargs) without static arguments."""
    fixed: tuple[tuple[int | str, Fixed], ...]
    """Static arguments, by position or name."""
    count: int
    """How many positional arguments there are."""

    @staticmethod
    def of(function: JaxFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        static = {
            place % len(args) for place in function._static if -len(args) <= place < len(args)
        }
        fixed: list[tuple[int | str, Fixed]] = [(i, Fixed(args[i])) for i in sorted(static)]
        names = sorted(function._static_names & kwargs.keys())
        fixed += [(name, Fixed(kwargs[name])) for name in names]
        moving = tuple(x for i, x in enumerate(args) if i not in static)
        named = {name: x for name, x in kwargs.items() if name not in names}
        arrays, structure = split((moving, named))
        return _Call(arrays, structure, tuple(fixed), len(args))

    def apply(self, fun: Function, arrays: Sequence[Any]) -> Any:
        """Call `fun` with other arrays."""
        moving, named = self.structure.join(arrays)
        fixed = dict(self.fixed)
        rest = iter(moving)
        args = [fixed[i].value if i in fixed else next(rest) for i in range(self.count)]
        static = {name: f.value for name, f in self.fixed if isinstance(name, str)}
        return fun(*args, **named, **static)

    def types(self) -> tuple[Any, ...]:
        """Return what a trace depends on of each array."""
        return tuple((_shape(x), *_element(x)) for x in self.arrays)


def _shape(x: Any) -> tuple[Any, ...]:
    if isinstance(x, Key):
        return tuple(shape_of(x.words)[:-1])
    return tuple(x.shape) if hasattr(x, "shape") else ()


def _element(x: Any) -> tuple[Any, bool]:
    """Return the dtype of an array or number, and whether it is weak."""
    if isinstance(x, Key):
        return x.implementation, False
    if isinstance(x, (jax.Array, jax.ShapeDtypeStruct)):
        return x.dtype, bool(getattr(x, "weak_type", False))
    type = element_type(x)
    return type.dtype.numpy, type.weak


def _abstract(x: Any, symbols: Symbols) -> Any:
    """Return what JAX is to trace in place of an array."""
    if isinstance(x, Key):
        return x.aval
    dtype, weak = _element(x)
    shape = tuple(map(symbols.dimension, _shape(x)))
    if not jax.numpy.issubdtype(dtype, jax.dtypes.extended):
        dtype = jax.dtypes.canonicalize_dtype(dtype)
    return jax.ShapeDtypeStruct(shape, dtype, weak_type=weak)


@dataclass(frozen=True, slots=True)
class _Results:
    """What a compiled call returns: arrays, in a structure of JAX's."""

    arrays: list[Any]
    structure: Structure


def _joined_results(structure: Any, arrays: list[Any]) -> Any:
    return structure.join(arrays)


register_pytree_node(_Results, lambda r: (r.arrays, r.structure), _joined_results)


def _compiled(function: JaxFunction, call: _Call) -> JittedFunction:
    """Return a function of arrays alone, compiled by `rlx.jit`, for one structure of arguments."""

    def flat(*arrays: Any) -> _Results:
        own = replace(call, arrays=list(arrays))
        program = function.program(own)
        return _Results(program.apply(own.arrays), program.results)

    flat.__name__ = source_names(function, "function")
    return jit(flat, donate_argnums=_donated(function, call))


def _donated(function: JaxFunction, call: _Call) -> tuple[int, ...]:
    """Return the places of the arrays of donated arguments."""
    if not function._donated:
        return ()
    donated = {place % call.count for place in function._donated}
    fixed = dict(call.fixed)
    moving, _ = call.structure.join(range(len(call.arrays)))
    rest = iter(moving)
    places = {i: next(rest) for i in range(call.count) if i not in fixed}
    return tuple(leaf for i in sorted(donated & places.keys()) for leaf in split(places[i])[0])
