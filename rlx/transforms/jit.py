"""`jit`: a function compiled once per structure, shapes, dtypes and static values of its arguments.

@rlx.jit
def predict(w, x): ...

predict(W, X)                  # NumPy in, NumPy out
predict.graph(W, X)            # the traced graph; also .executable, .c_source, .llvm_ir
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from rlx.errors import InputError
from rlx.garbage import collecting_rarely
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Shape
from rlx.ir.source_lines import calling_source
from rlx.locks import unforkable
from rlx.passes.precision.policy import Precision, as_policy
from rlx.runtime.arrays import ARRAY_CLASSES
from rlx.tracing.arguments import argument_name, call_names, positions
from rlx.tracing.eager import CacheInfo
from rlx.tracing.executor import compile_program, quick_call
from rlx.tracing.pytree import LEAF, TreeDef, leaf_names, tree_flatten, tree_unflatten
from rlx.tracing.trace import _state, concrete, source_names
from rlx.tracing.traced_function import (
    TracedFunction,
    at_shape,
    is_array,
    require_array,
    specify,
    trace,
    unique_names,
)
from rlx.tracing.widths import are_narrow, when_widths_change, width_rules
from rlx.transforms.abstract import ShapeDtypeStruct
from rlx.transforms.buckets import Axes, checked_buckets, symbolic_shapes
from rlx.transforms.jit_entries import (
    WEAK,
    Entry,
    FastPath,
    Key,
    describe_key,
    donate,
    type_of_call,
)
from rlx.transforms.stages import Compiled, Lowered, Traced
from rlx.transforms.static_arguments import static_key, static_positions
from rlx.transforms.wrapping import stand_for

_STATE = _state
_RECENT = 4
_ENTRIES_KEPT = 256


@overload
def jit(
    fun: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Iterable[str] = ...,
    donate_argnums: int | Sequence[int] = ...,
    buckets: Mapping[str, Axes] | None = ...,
    backend: str = ...,
    threads: int | None = ...,
    precision: Precision = ...,
    without: Iterable[str] = ...,
    wait: bool | None = ...,
) -> JittedFunction: ...


@overload
def jit(
    *,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Iterable[str] = ...,
    donate_argnums: int | Sequence[int] = ...,
    buckets: Mapping[str, Axes] | None = ...,
    backend: str = ...,
    threads: int | None = ...,
    precision: Precision = ...,
    without: Iterable[str] = ...,
    wait: bool | None = ...,
) -> Callable[[Callable[..., Any]], JittedFunction]: ...


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Sequence[int] = (),
    buckets: Mapping[str, Axes] | None = None,
    backend: str = "auto",
    threads: int | None = None,
    precision: Precision = None,
    without: Iterable[str] = (),
    wait: bool | None = None,
) -> JittedFunction | Callable[[Callable[..., Any]], JittedFunction]:
    """Compile `fun` when it is called with arguments of a new kind.

    Static arguments are hashable Python values that the function may branch on. Arguments in
    `donate_argnums` are replaced in place by results of their type: a training step's params.
    `buckets` maps names of arguments to axes to `rlx.Buckets`: sizes that share a program.
    `backend`, `threads`, `precision`, `without` and `wait` are those of `rlx.compile`, of the
    outermost `jit`. The 256 programs used last are kept; `cache_info()` counts them.
    """
    if fun is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, buckets=buckets, backend=backend, threads=threads,
            precision=precision, without=without, wait=wait,
        )  # fmt: skip
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if not callable(fun):
        raise InputError(
            f"jit takes a function, not {type(fun).__name__}",
            source=calling_source(),
            remedy="pass the function itself, as in jit(f), and call what is returned",
        )
    return JittedFunction(
        fun,
        static=static_positions(fun, static_argnums, names),
        static_names=frozenset(names),
        donated=(donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums),
        buckets=checked_buckets(buckets),
        backend=backend,
        threads=threads,
        precision=precision,
        without=_pass_names(without),
        wait=wait,
    )


_made: weakref.WeakSet[JittedFunction] = weakref.WeakSet()


@when_widths_change
def _forget_fast_paths() -> None:
    for function in _made:
        function._recent = []


def _pass_names(without: Iterable[str]) -> tuple[str, ...]:
    if not without:
        return ()
    from rlx.passes.optional_passes import pass_names  # no pass is needed to run programs

    return pass_names(without)


class JittedFunction:
    """A function and what was compiled of it. Make it with `jit`."""

    def __init__(
        self,
        fun: Callable[..., Any],
        *,
        static: frozenset[int],
        static_names: frozenset[str],
        donated: tuple[int, ...],
        buckets: dict[str, Axes],
        backend: str,
        threads: int | None,
        precision: Precision,
        without: tuple[str, ...],
        wait: bool | None,
    ) -> None:
        stand_for(self, fun)
        self._fun = fun
        self._static = static
        self._static_names = static_names
        self._donated = donated
        self._buckets = buckets
        self._backend = backend
        self._threads = threads
        as_policy(precision)  # raises for what is none
        self._precision = precision
        self._without = without
        self._wait = wait
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._compiled = 0
        self._recent: list[FastPath] = []
        """To the last entries that have one."""
        _made.add(self)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return the method of `instance`, which is argument 0."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function; inside a trace, trace the function itself."""
        if _STATE.open:
            return self._fun(*args, **kwargs)
        if not kwargs:
            for way in self._recent:
                leaves: Any = args if way.split is None else way.leaves(args)
                if leaves is not None and (results := way.attempt(leaves)) is not None:
                    return results[0] if way.join is None else way.join(results)
        entry, leaves = self._entry(args, kwargs)
        if not kwargs and not self._static:
            self._remember(entry, args)
        return entry.results(leaves)

    def fast_path(self, *args: Any) -> FastPath | None:
        """Return the fast path of calls with arguments like `args`; None where there is none."""
        entry, _ = self._entry(args, {})
        attempt = quick_call(entry.run)
        return None if attempt is None else FastPath.to(entry, attempt, args)

    def _remember(self, entry: Entry, args: tuple[Any, ...]) -> None:
        """Try `entry` first the next time."""
        attempt = quick_call(entry.run)
        if attempt is not None:
            others = [way for way in self._recent if way.entry is not entry]
            way = FastPath.to(entry, attempt, args)
            self._recent = [way, *others[: _RECENT - 1]]

    # Looking inside

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the traced graph of a call; a `TensorType` may replace an array."""
        return self._trace(args, kwargs).graph

    def graph_and_tree(self, *args: Any, **kwargs: Any) -> tuple[Graph, TreeDef]:
        """Return the traced graph of a call, and the tree whose leaves are its outputs."""
        program = self._trace(args, kwargs)
        return program.graph, program.tree

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace a call; a `ShapeDtypeStruct` may replace an array."""

        def compile() -> Compiled:
            leaves, tree = tree_flatten((args, kwargs))
            arrays = [
                np.zeros(x.type.static_shape, x.dtype) if isinstance(x, ShapeDtypeStruct) else x
                for x in leaves
            ]
            given, named = tree_unflatten(tree, arrays)
            return self._fixed(given, named)

        return Traced(self.graph(*args, **kwargs), compile)

    def _fixed(self, given: tuple[Any, ...], named: dict[str, Any]) -> Compiled:
        """Return a call's program, which refuses arguments of other types."""
        own, _ = self._described(given, named)
        entry, _ = self._entry(given, named)

        def run(*args: Any, **kwargs: Any) -> Any:
            asked, leaves = self._described(args, kwargs)
            if type_of_call(asked) != type_of_call(own):
                name = source_names(self._fun, "the function")
                raise InputError(
                    f"{name} was compiled for {describe_key(own)} "
                    f"and is given {describe_key(asked)}",
                    source=calling_source(),
                    remedy="call the function itself, which compiles for every new type",
                )
            return entry.results(leaves)

        return Compiled(entry.run, run)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace a call, to be compiled: `.as_text()`, `.compile()`."""
        return self.trace(*args, **kwargs).lower()

    def argument_arrays(self, *args: Any) -> list[dict[str, Any]]:
        """Return, per argument, its arrays by the names of the graph's inputs."""
        moving, _ = self._partition(args, {})
        _, tree = tree_flatten(moving)
        names = iter(unique_names(self._names(tree)))
        return [
            {} if place in self._static else {next(names): x for x in tree_flatten(argument)[0]}
            for place, argument in enumerate(args)
        ]

    def named_graph(self, *args: Any) -> tuple[Graph, list[str]]:
        """Return the traced graph, and where each output is in the result, as in `y_1_slope`."""
        program = self._trace(args, {})
        tree = program.tree
        is_named = bool(tree.children) and tree.cls not in (tuple, list)
        return program.graph, unique_names(leaf_names(tree, "" if is_named else "y"))

    def executable(self, *args: Any, **kwargs: Any) -> Any:
        """Return what `rlx.compile` makes of the graph of a call."""
        return self._entry(args, kwargs)[0].run

    def c_source(self, *args: Any, **kwargs: Any) -> str:
        """Return the generated C of a call."""
        source: str = self.executable(*args, **kwargs).c_source
        return source

    def llvm_ir(self, *args: Any, **kwargs: Any) -> str:
        """Return the generated LLVM IR of a call."""
        text: str = self.executable(*args, **kwargs).llvm_ir
        return text

    def cache_info(self) -> CacheInfo:
        """Return how many programs were compiled, how many are kept, and how many may be."""
        return CacheInfo(self._compiled, len(self._entries), _ENTRIES_KEPT)

    def clear_cache(self) -> None:
        """Forget everything that was compiled."""
        self._entries.clear()
        self._recent.clear()

    # Compiling

    def _described(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Key, list[Any]]:
        """Return what a program for a call depends on, and the leaves to run it on."""
        moving, fixed = self._partition(args, kwargs)
        leaves, tree = tree_flatten(moving)
        ready = frozenset() if are_narrow() else ARRAY_CLASSES
        arrays = [
            x if x.__class__ in ready else self._as_array(x, tree, position)
            for position, x in enumerate(leaves)
        ]
        # A number of Python's is weakly typed; `np.float64`, which is a `float` too, is not.
        kinds = [x.__class__ if x.__class__ in WEAK else None for x in leaves]
        shapes: list[Any] = [x.shape for x in arrays]
        if self._buckets:
            shapes = self._bucketed(tree, shapes)
        parts = zip(arrays, shapes, kinds, strict=True)
        types = tuple((x.dtype, shape, kind) for x, shape, kind in parts)
        return (width_rules(), tree, fixed, types), arrays

    def _entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Entry, list[Any]]:
        """Return the compiled entry for a call, and the leaves to run it on."""
        key, arrays = self._described(args, kwargs)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._compile(args, kwargs)
            self._compiled += 1
            if len(self._entries) > _ENTRIES_KEPT:
                self._entries.popitem(last=False)
        with contextlib.suppress(KeyError):  # another thread may have forgotten it
            self._entries.move_to_end(key)
        return entry, arrays

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        with unforkable(), collecting_rarely():
            program = self._trace(args, kwargs, is_final=True)
            run = compile_program(
                program.graph, self._backend, self._threads, self._precision,
                without=self._without, weak=program.weak, wait=self._wait,
            )  # fmt: skip
        return Entry(run, program.tree, program, program.tree == LEAF)

    def _trace(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_final: bool = False
    ) -> TracedFunction:
        moving, _ = self._partition(args, kwargs)
        leaves, tree = tree_flatten(moving)
        described = [x.type if isinstance(x, ShapeDtypeStruct) else x for x in leaves]
        inputs = specify(self._names(tree), described)
        if self._buckets:
            shapes = self._bucketed(tree, [given.type.shape for given in inputs])
            inputs = [at_shape(given, shape) for given, shape in zip(inputs, shapes, strict=True)]

        def call(arrays: list[Any]) -> Any:
            given, named = tree_unflatten(tree, arrays)
            positional = iter(given)
            filled = [a if i in self._static else next(positional) for i, a in enumerate(args)]
            fixed = {name: kwargs[name] for name in kwargs if name in self._static_names}
            return self._fun(*filled, **named, **fixed)

        name = source_names(self._fun, "function")
        program = trace(call, name, inputs, is_final=is_final)
        donate(program, self._donated_inputs(program, moving, len(args)))
        return program

    def _partition(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Separate the arguments that are traced from the static ones."""
        if not self._static and not self._static_names:
            return (args, kwargs), ()
        moving = tuple(a for i, a in enumerate(args) if i not in self._static)
        named = {n: x for n, x in kwargs.items() if n not in self._static_names}
        fixed = [static_key(i, a) for i, a in enumerate(args) if i in self._static]
        fixed += [static_key(n, x) for n, x in kwargs.items() if n in self._static_names]
        return (moving, named), tuple(fixed)

    def _names(self, tree: TreeDef) -> list[str]:
        """Return a name for each leaf of (args, kwargs)."""
        count = len(tree.children[0].children) + len(self._static)
        places = [i for i in range(count) if i not in self._static]
        return call_names(self._fun, tree, places[: len(tree.children[0].children)])

    def _bucketed(self, tree: TreeDef, shapes: Sequence[Shape]) -> list[Shape]:
        """Return the shapes of the leaves of (args, kwargs), symbolic where there are buckets."""
        positional, named = tree.children
        places = (i for i in itertools.count() if i not in self._static)
        owners = [(argument_name(self._fun, i), t) for i, t in zip(places, positional.children)]  # noqa: B905  endless
        owners += zip(named.extra, named.children, strict=True)  # type: ignore[call-overload]  # its keys
        names = [name for name, child in owners for _ in range(child.leaf_count)]
        unknown = self._buckets.keys() - names
        if unknown:
            raise InputError(
                f"buckets name {', '.join(map(repr, sorted(unknown)))}; the arguments are "
                f"{', '.join(map(repr, dict.fromkeys(names))) or 'none'}",
                source=calling_source(),
                remedy="name arguments of the function",
            )
        return symbolic_shapes(zip(names, shapes, strict=True), self._buckets)

    def _as_array(self, leaf: Any, tree: TreeDef, position: int) -> Any:
        """Return leaf number `position` of the arguments as an array."""
        if not is_array(leaf):
            require_array(self._names(tree)[position], leaf)
        return concrete(leaf)

    def _donated_inputs(self, program: TracedFunction, moving: Any, count: int) -> list[Value]:
        """Return the inputs that belong to donated arguments."""
        donated = positions(self._donated, count, "donate_argnums")
        found: list[Value] = []
        inputs = iter(program.inputs)
        places = [i for i in range(count) if i not in self._static]
        for place, argument in zip(places, moving[0], strict=True):
            own = [next(inputs) for _ in tree_flatten(argument)[0]]
            found += own if place in donated else []
        return found


def make_graph(fun: Callable[..., Any], *, return_shape: bool = False, **options: Any) -> Any:
    """Return a function that gives the traced graph of a call; options are those of `jit`.

    The graph's text form is for reading, as that of a jaxpr is. With `return_shape` the types of
    the results, in their tree, come with the graph.
    """
    traced = jit(fun, **options)

    def graph_and_types(*args: Any, **kwargs: Any) -> tuple[Graph, Any]:
        program = traced._trace(args, kwargs)
        types = [ShapeDtypeStruct(x.type.shape, x.type.dtype) for x in program.graph.outputs]
        return program.graph, tree_unflatten(program.tree, types)

    return graph_and_types if return_shape else traced.graph
