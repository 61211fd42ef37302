"""Base of functions with custom derivatives.

Such a function becomes one `custom_call`, whose bodies are the function and its rule. Arrays that
they capture instead of taking them as arguments are constants to it.
"""

from __future__ import annotations

import inspect
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import DTypeError, InputError, ShapeError, Source
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.numbering import program_nodes
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.tracing.apply import wrap
from rlx.tracing.arguments import Chosen, choose, positions
from rlx.tracing.axes import without_ranks
from rlx.tracing.bodies import apply, line_of, tracers, values_of
from rlx.tracing.orders import derivatives_taken
from rlx.tracing.pytree import TreeDef, tree_unflatten
from rlx.tracing.trace import (
    TracedArray,
    as_value,
    current_trace,
    element_type,
    is_functionalized,
    shape_of,
    source_names,
)
from rlx.tracing.traced_function import TracedFunction
from rlx.tracing.widths import width_rules
from rlx.transforms.closures import state_of
from rlx.transforms.wrapping import stand_for

Function = Callable[..., Any]

_MOST_LASTING = 8
"""Calls of the library's functions whose traces a thread keeps."""
_MOST_NODES = 150_000
"""Nodes of these together, 60 MB: one such trace may have 65,000."""

_LEAST_NESTED = 2
"""A rule that calls the function itself gets its rule so many times, or once for every derivative
that is being taken, and plain derivatives beyond: graphs may be differentiated later."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A function and its derivatives, traced for arguments of some types."""

    tree: TreeDef
    weak: tuple[bool, ...]
    captured: Sequence[TracedArray]
    bodies: Mapping[str, Graph | str | None]
    """The attributes of the call."""

    def call(self, chosen: Chosen) -> Any:
        """Append the call to the innermost trace."""
        operands = [*values_of(chosen.leaves, chosen.inputs), *map(as_value, self.captured)]
        results = apply(ops.custom_call, operands, **self.bodies)
        return tree_unflatten(self.tree, tracers(results, self.weak))

    @property
    def nodes(self) -> int:
        """Return how many nodes the bodies have; one that several hold counts once in each."""
        bodies = (body for body in self.bodies.values() if isinstance(body, Graph))
        return sum(len(program_nodes(body)) for body in bodies)

    @property
    def is_valid(self) -> bool:
        """True while what it captured may be used."""
        return all(traced.owner.is_open for traced in self.captured)


Rule = Callable[[Chosen, list[Any], str], Stated]
"""Traces a function, whose name is given last, and its derivatives."""


class _Nesting(threading.local):
    """The rules that are being traced in this thread.

    A rule that calls functions with rules traces them once for each type of arguments and depth:
    rules that call each other would otherwise take exponential time in the order of derivatives.
    """

    def __init__(self) -> None:
        self.depths: dict[CustomFunction, int] = {}
        """How deep in its own rule each function is."""
        self._stated: dict[Hashable, tuple[Stated, list[Any]]] = {}
        """What was traced, besides the arguments that are compared by identity."""
        self._lasting: OrderedDict[Hashable, tuple[Stated, int]] = OrderedDict()
        """What was traced of functions of the library, which depend on nothing else; its nodes."""

    @contextmanager
    def _deeper(self, function: CustomFunction) -> Iterator[None]:
        outer = self.depths.get(function, 0)
        self.depths[function] = outer + 1
        try:
            yield
        finally:
            self.depths[function] = outer
            if not outer:
                del self.depths[function]
            if not self.depths:
                self._stated.clear()

    def stated(
        self, function: CustomFunction, rule: Rule, chosen: Chosen, fixed: list[Any], name: str
    ) -> Stated:
        """Trace a function and its derivatives, or return what was traced for such arguments."""
        if not self.depths and function.is_librarys and not fixed:
            return self._kept(function, rule, chosen, name)
        key = self._key(function, chosen, fixed) if self.depths else None
        known = self._stated.get(key) if key is not None else None
        if known is not None and known[0].is_valid:
            return known[0]
        with self._deeper(function):
            stated = rule(chosen, fixed, name)
        if key is not None:
            self._stated[key] = stated, fixed
        return stated

    def _kept(self, function: CustomFunction, rule: Rule, chosen: Chosen, name: str) -> Stated:
        """Trace a function of the library, unless the same line did on arguments of these types."""
        known = self._key(function, chosen, [])
        key = known, calling_source(), width_rules(), is_functionalized()
        if key in self._lasting:
            self._lasting.move_to_end(key)
            return self._lasting[key][0]
        with self._deeper(function):
            stated = rule(chosen, [], name)
        if known is not None and not stated.captured:
            self._lasting[key] = stated, stated.nodes
            self._forget()
        return stated

    def _forget(self) -> None:
        """Forget the traces that were asked for the longest ago, until few enough are kept."""
        total = sum(nodes for _, nodes in self._lasting.values())
        while total > _MOST_NODES or len(self._lasting) > _MOST_LASTING:
            _, (_, nodes) = self._lasting.popitem(last=False)
            total -= nodes

    def _key(self, function: CustomFunction, chosen: Chosen, fixed: list[Any]) -> Hashable:
        read = state_of(*function.reads())
        if read is None:
            return None
        arguments = chosen.positions, chosen.trees, tuple(chosen.inputs), tuple(map(id, fixed))
        return function, arguments, read, derivatives_taken(), frozenset(self.depths.items())


_nesting = _Nesting()


class CustomFunction:
    """A function with a rule; until it has one, it cannot be called."""

    __name__: str
    _states_derivative = True

    def __init__(self, fun: Function, nondiff_argnums: Sequence[int]) -> None:
        self.__name__ = source_names(fun, "function")
        stand_for(self, fun)
        self._fun = fun
        self._fixed = tuple(nondiff_argnums)
        self._rule: Rule | None = None

    def reads(self) -> tuple[Function, ...]:
        """What its traces depend on: the function and its rule."""
        return (self._fun, *((self._rule,) if self._rule is not None else ()))

    @property
    def is_librarys(self) -> bool:
        """True for a function of this package that depends on its arguments alone."""
        module, name = (
            str(getattr(self._fun, part, "")) for part in ("__module__", "__qualname__")
        )
        return module.startswith("rlx.") and "<locals>" not in name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return the method of `instance`, which is argument 0."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = source_names(self._fun, "function")
        if self._rule is None:
            raise InputError(
                f"{name} has no rule yet",
                source=line_of(self._fun),
                remedy="call its defvjp, defjvp or def_vmap before the function is used",
            )
        given = _positional(self._fun, args, kwargs)
        nested = max(_LEAST_NESTED, derivatives_taken())
        trace = current_trace()
        if trace is None or trace.runs_once or _nesting.depths.get(self, 0) >= nested:
            return self._fun(*given)  # nothing derives a call that runs at once
        if trace.is_final and self._states_derivative:
            return self._fun(*given)
        fixed = positions(self._fixed, len(given), "nondiff_argnums")
        moving = tuple(i for i in range(len(given)) if i not in fixed)
        chosen = choose(self._fun, given, {}, moving)
        alone = self.is_librarys and not fixed
        with without_ranks() if alone else nullcontext():
            stated = _nesting.stated(self, self._rule, chosen, [given[i] for i in fixed], name)
        return stated.call(chosen)


def _positional(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments by position, defaults included."""
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except ValueError:  # a function without a signature
        return args
    bound.apply_defaults()
    if bound.kwargs:
        raise InputError(
            f"{source_names(fun, 'function')}: keyword argument {next(iter(bound.kwargs))!r} has "
            "no position, by which a derivative rule could name it",
            source=line_of(fun),
            remedy="make it a positional argument",
        )
    return bound.args


def refuse_symbolic_zeros(name: str, wanted: bool) -> None:
    """Raise where a rule asks for symbolic zeros: all that it gets are arrays.

    Those that are zero are constants in the traced rule, and vanish when it is compiled.
    """
    if wanted:
        raise InputError(
            f"the rule of {name!r} asks for symbolic zeros; a rule is given arrays alone",
            source=calling_source(),
            remedy="leave symbolic_zeros out: what is multiplied by zeros is not computed",
        )


def recomputed(
    graph: Graph, program: TracedFunction, operands: Sequence[Value], results: Sequence[Value]
) -> dict[Value, Value]:
    """Append a rule's program; what it got by calling the function itself is in `results`."""
    pairs = zip(program.graph.outputs, results, strict=False)
    known = {v: result for v, result in pairs if v.op is ops.custom_call and v.type == result.type}
    value_map = dict(zip(program.graph.inputs, operands, strict=True)) | known
    for node in program.graph.nodes:
        if not all(result in value_map for result in node.results):
            graph.copy_node(node, value_map)
            value_map |= known
    return value_map


class Captured:
    """What a function and its rules captured, as inputs of one graph."""

    def __init__(self, graph: Graph, captured: Sequence[TracedArray]) -> None:
        self.values = declared(graph, [traced.value.type for traced in captured], "captured")
        sources = [traced.value for traced in captured]
        self._places = dict(zip(sources, self.values, strict=True))

    def of(self, program: TracedFunction) -> list[Value]:
        return [self._places[traced.value] for traced in program.captured]


def declared(graph: Graph, types: Sequence[TensorType], name: str) -> list[Value]:
    return [graph.input(f"{name}_{i}", t.shape, t.dtype) for i, t in enumerate(types)]


def of_type(what: str, type: TensorType, leaf: Any, rule: Function) -> Any:
    """Return a derivative in the type of its primal; only a weakly typed one is converted."""
    if shape_of(leaf) != type.shape:
        raise ShapeError(
            f"{what} has shape {shape_of(leaf)}; it must be {type.describe_shape()}",
            source=_made_at(leaf) or line_of(rule),
            remedy="a derivative has the shape of what it belongs to",
        )
    given = element_type(leaf)
    if given.dtype is not type.dtype and not given.weak:
        raise DTypeError(
            f"{what} has dtype {given.dtype}; it must be {type.dtype}",
            source=_made_at(leaf) or line_of(rule),
            remedy=f"cast it with .astype('{type.dtype}')",
        )
    return wrap(as_value(leaf, type.dtype))


def _made_at(leaf: Any) -> Source | None:
    return leaf.value.node.source if isinstance(leaf, TracedArray) else None
