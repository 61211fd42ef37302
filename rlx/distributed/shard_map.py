"""`shard_map`: a function of the local parts of arrays, compiled once and run by all ranks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from rlx.dataclass import dataclass
from rlx.distributed.mesh import Mesh
from rlx.distributed.sharding import P, Sharded, local_part, require_axes
from rlx.errors import CommunicationError, InputError
from rlx.ir.digest import graph_digest
from rlx.ir.graph import Graph, Value
from rlx.ir.source_lines import calling_source
from rlx.passes.communication.varying import Axes, Varying
from rlx.runtime.arrays import ARRAY_CLASSES
from rlx.tracing.arguments import positions
from rlx.tracing.axes import NamedAxis, bound_axis, declare_varying
from rlx.tracing.known_trees import Join, Split, joiner, splitter
from rlx.tracing.pytree import TreeDef, broadcast_prefix, kind_of, leaf_names, tree_flatten
from rlx.tracing.trace import TracedArray, concrete, source_names
from rlx.transforms.jit import jit
from rlx.transforms.wrapping import stand_for

_KNOWN = 4
"""A training loop calls one function with one structure, and perhaps a last batch."""

_COMPARED = "programs are compared"


def _with_communicator(fun: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of `fun` after one more argument, for the names of inputs."""
    first = inspect.Parameter("communicator", inspect.Parameter.POSITIONAL_ONLY)
    kept = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = inspect.signature(fun).parameters.values()
    rest = [p.replace(kind=p.POSITIONAL_ONLY) for p in own if p.kind in kept]
    return inspect.Signature([first, *rest])


def shard_map(
    fun: Callable[..., Any],
    mesh: Mesh,
    in_specs: Any,
    out_specs: Any,
    *,
    donate_argnums: int | Sequence[int] = (),
    backend: str = "auto",
    threads: int | None = None,
) -> ShardMapped:
    """Return `fun`, a function of local parts, as one of whole arrays that all ranks call.

    `in_specs` is a `P` for each argument, or a tree of them; a whole NumPy array is split as they
    say, a `Sharded` one comes as it is. Results are `Sharded` as `out_specs` says, but for
    `P()`: a plain array, equal on all ranks. A result that may differ along an axis of the mesh
    that its spec does not name is an InputError. Every rank calls with the same
    shapes, in the same order; the first call of each kind compares the programs of all ranks.
    """
    is_tree = isinstance(in_specs, P) or not isinstance(in_specs, tuple)
    each = (in_specs,) if is_tree else tuple(in_specs)
    donated = positions(donate_argnums, len(each), "donate_argnums")
    return ShardMapped(fun, mesh, each, out_specs, donated, backend, threads)


@dataclass(frozen=True, slots=True)
class _Failure:
    """Sent in place of a program by a rank that failed to trace it."""

    text: str


def _reads_any(graph: Graph, communicators: Sequence[Value]) -> bool:
    return any(operand in communicators for node in graph.nodes for operand in node.operands)


@dataclass(frozen=True, slots=True)
class _Results:
    """Cached properties of the results of one program."""

    split: Split
    join: Join
    specs: list[P]


@dataclass(frozen=True, slots=True)
class _Checked:
    """One program, as it was compared with those of the other ranks."""

    digest: str | None
    exchanges: bool
    """It has collectives: a rank that fails in it leaves others waiting."""
    results: _Results | None = None


@dataclass(frozen=True, slots=True)
class _Arguments:
    """Cached properties of arguments of one structure."""

    split: Split
    join: Join
    specs: list[P]
    whole: list[bool]
    """Which leaves are the same on all ranks, so that there is nothing to split."""
    names: list[str]
    programs: dict[Hashable, _Checked]
    """By the types of the local leaves."""


def _is_container(leaf: Any) -> bool:
    return leaf.__class__ not in ARRAY_CLASSES and kind_of(leaf) is not None


class ShardMapped:
    """A function over a mesh. Make it with `shard_map`."""

    def __init__(
        self,
        fun: Callable[..., Any],
        mesh: Mesh,
        in_specs: tuple[Any, ...],
        out_specs: Any,
        donated: tuple[int, ...],
        backend: str,
        threads: int | None,
    ) -> None:
        stand_for(self, fun)
        self._mesh = mesh
        self._in_specs = in_specs
        self._out_specs = out_specs
        self._name = source_names(fun, "function")
        self._known: list[_Arguments] = []
        """The structures of arguments that were seen last."""
        self._jitted = jit(
            self._over_axes(fun),
            donate_argnums=tuple(number + 1 for number in donated),
            backend=backend if mesh.world.connection.is_compiled else "reference",
            threads=threads,
        )

    def __call__(self, *args: Any) -> Any:
        connection, communicators = self._mesh.world.connection, self._mesh.communicators
        try:
            known, kinds, given = self._local(args)
            checked = known.programs.get(kinds) or self._traced(given, known)
        except Exception as error:  # whatever it is, the others wait for this rank
            text = f"{type(error).__name__}: {error}"
            connection.gather(_Failure(text), _COMPARED, reason=f"{self._name}: {text}")
            raise
        program = (self, kinds)
        if connection.last_program != program:
            self._compare(checked.digest)
        call = functools.partial(self._jitted, communicators, *given)
        results = connection.run(program, call, exchanges=checked.exchanges)
        placing = checked.results or self._results(results)
        if checked.results is None:
            known.programs[kinds] = replace(checked, results=placing)
        return self._placed(results, placing)

    def graph(self, *args: Any) -> Graph:
        """Return the graph that each rank runs; its first inputs are the communicators."""
        graph = self._jitted.graph(self._mesh.communicators, *self._local(args)[2])
        inputs = dict(zip(sorted(self._mesh.axes), graph.inputs, strict=False))
        for axis in self._mesh.rank_axes():
            graph.connect(str(inputs[axis.name].node.name), axis)
        return graph

    def _traced(self, given: Any, known: _Arguments) -> _Checked:
        graph, tree = self._jitted.graph_and_tree(self._mesh.communicators, *given)
        count = len(self._mesh.axes)
        axes = (frozenset(filter(None, spec)) for spec in known.specs)
        varying = Varying(dict(zip(graph.inputs[count:], axes, strict=True)))
        specs = broadcast_prefix(self._out_specs, tree, "out_specs")
        for name, output, spec in zip(
            leaf_names(tree, "result"), graph.outputs, specs, strict=True
        ):
            self._require_named(name, output, spec, varying.of(output))
        return _Checked(graph_digest(graph), _reads_any(graph, graph.inputs[:count]))

    def _require_named(self, name: str, output: Value, spec: P, varying: Axes) -> None:
        """Raise where a result may differ along an axis that its spec does not name."""
        missing = sorted(varying.difference(filter(None, spec)))
        if missing:
            axes = ", ".join(map(repr, missing))
            raise InputError(
                f"{name} of {self._name} may differ between the ranks of {axes}, and out_specs "
                f"says {spec!r}: equal on all of them",
                source=output.node.source or calling_source(),
                remedy=f"name {axes} in its spec, or make it equal: psum, pmean, all_gather of "
                f"rlx.distributed, or rlx.distributed.pbroadcast(x, {missing[0]!r}, 0) if it is",
            )

    def _over_axes(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        def local(communicators: dict[str, Any], *args: Any) -> Any:
            with ExitStack() as axes:
                for name, axis in self._mesh.axes.items():
                    bound = NamedAxis(name, axis.size, communicators[name])
                    axes.enter_context(bound_axis(bound))
                leaves, tree = tree_flatten(args)
                for leaf, spec in zip(leaves, self._specs_of(tree, len(args)), strict=True):
                    declare_varying(leaf, frozenset(filter(None, spec)))
                return fun(*args)

        local.__name__ = self._name
        local.__signature__ = _with_communicator(fun)  # type: ignore[attr-defined]
        return local

    def _local(self, args: tuple[Any, ...]) -> tuple[_Arguments, Hashable, Any]:
        """Return properties of arguments, the types of their local parts, and the parts."""
        known, leaves = self._arguments(args)
        local = [
            x if whole and x.__class__ in ARRAY_CLASSES else self._local_leaf(name, x, spec)
            for name, x, spec, whole in zip(
                known.names, leaves, known.specs, known.whole, strict=True
            )
        ]
        kinds = tuple(
            [(x.__class__, getattr(x, "dtype", None), getattr(x, "shape", ())) for x in local]
        )
        return known, kinds, known.join(local)

    def _arguments(self, args: tuple[Any, ...]) -> tuple[_Arguments, list[Any]]:
        """Return the leaves of `args`, and the cached properties of their structure."""
        for known in self._known:
            leaves = known.split(args)
            if leaves is not None and not any(map(_is_container, leaves)):
                return known, leaves
        leaves, tree = tree_flatten(args)
        specs, names = self._specs_of(tree, len(args)), leaf_names(tree, self._name)
        whole = [not any(spec) for spec in specs]
        known = _Arguments(splitter(tree), joiner(tree), specs, whole, names, {})
        self._known = [known, *self._known[: _KNOWN - 1]]
        return known, leaves

    def _specs_of(self, tree: TreeDef, count: int) -> list[P]:
        if len(self._in_specs) != count:
            raise InputError(
                f"{self._name} is given {count} arguments, and in_specs has {len(self._in_specs)}",
                source=calling_source(),
                remedy="give one P, or a tree of them, for each argument",
            )
        return broadcast_prefix(self._in_specs, tree, "in_specs")

    def _local_leaf(self, name: str, leaf: Any, spec: P) -> Any:
        if isinstance(leaf, TracedArray):
            raise InputError(
                f"{name} is a traced array: what shard_map returns is called from Python",
                source=calling_source(),
                remedy="use jit, grad and vmap inside of the function that it is given",
            )
        if not isinstance(leaf, Sharded):
            is_number = leaf.__class__ in (bool, int, float, complex) and not any(spec)
            return leaf if is_number else local_part(name, concrete(leaf), spec, self._mesh)
        if leaf.spec != spec:
            raise InputError(
                f"{name} is split as {leaf.spec}, and in_specs says {spec}",
                source=calling_source(),
                remedy="gather() it, or change in_specs",
            )
        if leaf.mesh is not self._mesh and leaf.mesh.extents != self._mesh.extents:
            raise InputError(
                f"{name} is split over the mesh {dict(leaf.mesh.extents)}, and {self._name} runs "
                f"on {dict(self._mesh.extents)}",
                source=calling_source(),
                remedy="gather() it, or use one mesh",
            )
        return leaf.local

    def _results(self, results: Any) -> _Results:
        leaves, tree = tree_flatten(results)
        specs = broadcast_prefix(self._out_specs, tree, "out_specs")
        for x, spec in zip(leaves, specs, strict=True):
            require_axes(f"a result of {self._name}", x, spec)
        return _Results(splitter(tree), joiner(tree), specs)

    def _placed(self, results: Any, known: _Results) -> Any:
        """Return results with those that are split as `Sharded`."""
        if not any(map(any, known.specs)):
            return results
        leaves = known.split(results)
        assert leaves is not None  # one program has one structure
        pairs = zip(leaves, known.specs, strict=True)
        return known.join([Sharded(x, spec, self._mesh) if any(spec) else x for x, spec in pairs])

    def _compare(self, own: str | None) -> None:
        """Check that all ranks run the same program."""
        world = self._mesh.world
        reason = f"{_COMPARED}, here {self._name}"
        digests = world.connection.gather(own, _COMPARED, reason=reason)
        for rank, digest in enumerate(digests):
            if isinstance(digest, _Failure):
                raise CommunicationError(
                    f"rank {rank} could not run {self._name}: {digest.text}",
                    source=calling_source(),
                    remedy="correct the cause on that rank; all ranks must run one program",
                )
        if any(digest != own for digest in digests):
            others = ", ".join(str(r) for r, digest in enumerate(digests) if digest != own)
            raise CommunicationError(
                f"rank {world.rank} runs another program for {self._name} than rank {others}",
                source=calling_source(),
                remedy="call it on all ranks with equal shapes, and trace nothing that depends on "
                "the rank: use rlx.distributed.axis_index",
            )
