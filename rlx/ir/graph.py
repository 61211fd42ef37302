"""The graph IR (MIR): nodes in topological order, each with typed results.

A `Graph` only grows: nodes are frozen once appended, and passes build a new graph. A node
applies an op to operand values and has one or more results; a `Value` is one of them. Loops
and branches carry sub-graphs as attributes.

    g = Graph("mlp")
    x = g.input("x", (128, 784), "f32")
    w = g.param("w", (784, 10), "f32")
    g.set_outputs([g.softmax(g.matmul(x, w), axis=-1)])
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rlx.dataclass import dataclass
from rlx.errors import (
    GraphError,
    RlxError,
    ShapeError,
    Source,
    UnsupportedError,
)
from rlx.ir import builders
from rlx.ir.dtype import DType, as_dtype, promote
from rlx.ir.literal import Literal, array_of
from rlx.ir.lowering import Lowering, OneKernel, check_lowering
from rlx.ir.op import OPS, Attrs, OpDef, Trait, check_arity, make_attrs
from rlx.ir.ranks import RankAxis
from rlx.ir.shape import Extent, Shape, Symbol, symbols_of
from rlx.ir.source_lines import calling_source
from rlx.ir.types import LARGEST_VALUE, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One application of an op. `index` is its place in the graph's topological order."""

    index: int
    op: OpDef
    operands: tuple[Value, ...]
    attrs: Attrs
    name: str | None
    source: Source | None
    scope: str | None = None
    """The block that the node belongs to, as `encoder.0.attention`."""
    lowering: Lowering | None = None
    """How the node is computed, where a pass has chosen; no part of what it means."""
    results: tuple[Value, ...] = field(default=(), repr=False)

    @property
    def result(self) -> Value:
        """The only result; an error for a node with several."""
        (result,) = self.results
        return result

    @property
    def title(self) -> str:
        """The op, after the user's spelling of it where that is recorded: for messages."""
        return self.op.name if self.scope is None else f"{self.scope}: {self.op.name}"

    @property
    def is_one_kernel(self) -> bool:
        """True if its bodies belong to code generation: a fused node, or a loop in one kernel."""
        return self.op.has(Trait.FUSED) or isinstance(self.lowering, OneKernel)

    def attribute(self, name: str) -> Any:
        return self.attrs[name]


class Value:
    """One result of a node. Operators append nodes to the value's graph.

    Python numbers adapt to the value's dtype; two values of different dtypes promote in
    `promote(left, right)`.
    """

    __slots__ = ("graph", "index", "node", "type")
    __array_ufunc__ = None  # `array + value` must reach `Value.__radd__`

    def __init__(self, graph: Graph, node: Node, index: int, type: TensorType) -> None:
        self.graph = graph
        self.node = node
        self.index = index
        self.type = type

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def rank(self) -> int:
        return self.type.rank

    @property
    def op(self) -> OpDef:
        return self.node.op

    @property
    def label(self) -> str:
        """The value's name in the text form: `%3`, or `%3.1` for a second result."""
        suffix = f".{self.index}" if len(self.node.results) > 1 else ""
        return f"%{self.node.index}{suffix}"

    def __repr__(self) -> str:
        return f"<{self.label}: {self.type} = {self.op.name}>"

    def __bool__(self) -> bool:
        raise GraphError(
            f"{self.label} has no truth value while the graph is built",
            source=self.node.source,
            remedy="use `where`, or rlx.cond, for a choice that depends on data",
        )

    def _binary(self, name: str, other: Operand) -> Value:
        return _one(self.graph.apply(OPS[name], (self, other)))

    def _reflected(self, name: str, other: Operand) -> Value:
        return _one(self.graph.apply(OPS[name], (other, self)))

    def __add__(self, other: Operand) -> Value:
        return self._binary("add", other)

    def __radd__(self, other: Operand) -> Value:
        return self._reflected("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("sub", other)

    def __rsub__(self, other: Operand) -> Value:
        return self._reflected("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("mul", other)

    def __rmul__(self, other: Operand) -> Value:
        return self._reflected("mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._binary("div", other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._reflected("div", other)

    def __pow__(self, other: Operand) -> Value:
        return self._binary("pow", other)

    def __matmul__(self, other: Value) -> Value:
        return self._binary("matmul", other)

    def __rpow__(self, other: Operand) -> Value:
        return self._reflected("pow", other)

    def __mod__(self, other: Operand) -> Value:
        return self._binary("mod", other)

    def __rmod__(self, other: Operand) -> Value:
        return self._reflected("mod", other)

    def __abs__(self) -> Value:
        return _one(self.graph.apply(OPS["abs"], (self,)))

    def __neg__(self) -> Value:
        return _one(self.graph.apply(OPS["neg"], (self,)))

    def __lt__(self, other: Operand) -> Value:
        return self._binary("lt", other)

    def __le__(self, other: Operand) -> Value:
        return self._binary("le", other)

    def __gt__(self, other: Operand) -> Value:
        return self._binary("gt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._binary("ge", other)


Operand: TypeAlias = builders.Operand[Value]
Found = TypeVar("Found")


class Graph(builders.Builders[Value]):
    """A DAG of nodes in topological order, with named inputs and ordered outputs."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.outputs: tuple[Value, ...] = ()
        self.donations: dict[str, int] = {}
        """Leaf name -> position of the output that replaces it in place."""
        self.communicators: dict[str, RankAxis] = {}
        """Input name -> the axis of a mesh whose ranks it reaches."""
        self.param_values: dict[str, np.ndarray[Any, Any]] = {}
        """Arrays that came with params, from the file that the graph was read from."""
        self.output_names: tuple[str, ...] = ()
        """What that file calls the outputs."""
        self.output_labels: tuple[tuple[str | int, ...], ...] = ()
        """Names of classes, by output: what its numbers or its columns are the indices of."""
        self.effects: tuple[int, bool] | None = None
        """How many nodes it had when it was known whether one of them has an effect."""
        self._leaves: dict[str, Value] = {}
        self._found: dict[Callable[..., Any], tuple[Hashable, Any]] = {}
        """What `once` found, and of which state of the graph; the tables of `facts`."""
        self._source: Source | None = None
        self._scope: str | None = None

    # Leaves

    def input(self, name: str, shape: Sequence[Extent], dtype: DType | str = DType.F32) -> Value:
        """Declare an array given at every call."""
        return self._leaf("input", name, shape, dtype)

    def input_of(self, name: str, type: TensorType) -> Value:
        """Declare the input of a body, of exactly this type: its layout, too."""
        attrs = make_attrs(OPS["input"], {"name": name, "type": type})
        return self.append(OPS["input"], (), attrs, name=name)[0]

    def param(self, name: str, shape: Sequence[Extent], dtype: DType | str = DType.F32) -> Value:
        """Declare an array set once (`params=`, `set_param`) and kept between calls."""
        return self._leaf("param", name, shape, dtype)

    def constant(
        self, value: ArrayLike, dtype: DType | str | None = None, *, structural: bool = False
    ) -> Value:
        """Embed `value`; Python numbers without `dtype` become f32, i64 or bool.

        Zeros of a `structural` constant are absent entries (see the op).
        """
        try:
            literal = Literal(array_of(value, None if dtype is None else as_dtype(dtype)))
        except RlxError as error:
            raise error.located("constant", calling_source()) from error
        attrs = {"value": literal, "structural": structural}
        return self.append(OPS["constant"], (), make_attrs(OPS["constant"], attrs))[0]

    def _leaf(self, op_name: str, name: str, shape: Sequence[Extent], dtype: DType | str) -> Value:
        source = self._source or calling_source()
        definition = OPS[op_name]
        try:
            type = TensorType(as_dtype(dtype), _as_shape(shape))
            attrs = make_attrs(definition, {"name": name, "type": type})
            return self.append(definition, (), attrs, name=name, source=source)[0]
        except RlxError as error:
            raise error if error.source else error.located(op_name, source) from None

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The `input` leaves in declaration order."""
        return tuple(v for v in self._leaves.values() if v.op.name == "input")

    @property
    def params(self) -> tuple[Value, ...]:
        """The `param` leaves in declaration order."""
        return tuple(v for v in self._leaves.values() if v.op.name == "param")

    def leaf(self, name: str) -> Value:
        """Return the input or param called `name`."""
        if name not in self._leaves:
            known = ", ".join(self._leaves) or "none"
            raise GraphError(
                f"graph {self.name!r} has no input or param {name!r} (has: {known})",
                remedy="use a name that it has, or declare one with graph.input or graph.param",
            )
        return self._leaves[name]

    # Growing

    def apply(
        self, definition: OpDef, operands: Sequence[Operand | None], /, **attributes: Any
    ) -> Value | tuple[Value, ...]:
        """Append `definition` applied to `operands`: coerce numbers, promote, infer.

        Returns the single result, or the tuple of results for an op that has several.
        """
        source = self._source or calling_source()
        try:
            given: Sequence[Operand] = [operand for operand in operands if operand is not None]
            if definition.captures is not None:
                given, attributes = definition.captures.close(self, given, attributes)
            check_arity(definition, len(given))
            values = self._promote(definition, self._coerce(definition, given))
            attrs = make_attrs(definition, attributes)
            results = self.append(definition, values, attrs, source=source)
        except RlxError as error:
            if error.source is None:
                raise error.located(definition.name, source) from None
            raise
        return results[0] if definition.results == 1 else results

    def append(
        self,
        definition: OpDef,
        operands: Sequence[Value],
        attrs: Attrs,
        *,
        name: str | None = None,
        source: Source | None = None,
        scope: str | None = None,
        copied: Node | None = None,
        lowering: Lowering | None = None,
    ) -> tuple[Value, ...]:
        """Append a node exactly as given, with inferred result types; return its results.

        `copied` is the node that this one copies: over operands of equal types and with its
        attributes it lends its result types, and its lowering if none is given.
        """
        known = None if copied is None else _types_of_copy(copied, operands, attrs)
        if known is None:
            check_arity(definition, len(operands))
        declares = definition.has(Trait.NAMED)
        if declares:
            self._require_new_leaf(attrs)
        self._require_own(operands)
        if lowering is not None:
            check_lowering(lowering, definition, _types(operands), attrs)
        elif copied is not None and known is not None:
            lowering = copied.lowering
        types = definition.infer_types(_types(operands), attrs) if known is None else known
        node = Node(
            index=len(self.nodes),
            op=definition,
            operands=tuple(operands),
            attrs=attrs,
            name=attrs["name"] if declares else name,
            source=source or self._source or calling_source(),
            scope=scope or self._scope,
            lowering=lowering,
        )
        results = tuple([Value(self, node, i, type) for i, type in enumerate(types)])
        for result in results if known is None else ():
            if result.type.is_static:  # others are looked at when their symbols have bounds
                require_addressable(result)
        object.__setattr__(node, "results", results)  # the one cycle: a node and its results
        self.nodes.append(node)
        if declares:
            self._leaves[attrs["name"]] = results[0]
        return results

    def _require_new_leaf(self, attrs: Attrs) -> None:
        name = attrs["name"]
        if name in self._leaves:
            raise GraphError(
                f"graph {self.name!r} already has an input or param named {name!r}",
                remedy="names of inputs and params are unique in a graph",
            )

    def _require_own(self, operands: Sequence[Value]) -> None:
        for operand in operands:
            if operand.graph is not self:
                raise GraphError(
                    f"operand {operand.label} belongs to graph {operand.graph.name!r}, "
                    f"not to {self.name!r}",
                    remedy="pass outer values into a body as operands",
                )

    def keep(self, nodes: Sequence[Node], like: Mapping[Node, Node]) -> None:
        """Drop all nodes but `nodes`; `like` lends its name, source line and scope to some.

        Only for builders of a graph that is not shared yet: nodes are frozen from then on.
        """
        for index, node in enumerate(nodes):
            change = functools.partial(object.__setattr__, node)
            change("index", index)
            lender = like.get(node)
            if lender is not None and not node.op.has(Trait.NAMED):
                change("name", node.name or lender.name)
                change("source", lender.source or node.source)
                change("scope", lender.scope or node.scope)
        self.nodes = list(nodes)
        self._found.clear()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Mark the nodes appended meanwhile as part of block `name`; scopes nest with a dot."""
        previous = self._scope
        self._scope = name if previous is None else f"{previous}.{name}"
        try:
            yield
        finally:
            self._scope = previous

    def attributed(
        self, source: Source | None, scope: str | None = None
    ) -> AbstractContextManager[None]:
        """Give the nodes appended meanwhile this `source` and `scope` (those of a primal)."""
        return _Attribution(self, source, scope)

    def inline(self, body: Graph, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Append copies of `body`'s nodes, its inputs bound to `operands` in order."""
        inputs = body.inputs
        if len(inputs) != len(operands):
            raise GraphError(
                f"body {body.name!r} takes {len(inputs)} inputs and was given {len(operands)}",
                remedy="pass one operand for each input of the body",
            )
        value_map: dict[Value, Value] = dict(zip(inputs, operands, strict=True))
        for node in body.nodes:
            if node.op.name != "input":
                self.copy_node(node, value_map)
        return tuple(value_map[output] for output in body.outputs)

    def copy_node(self, node: Node, value_map: dict[Value, Value]) -> None:
        """Append a copy of another graph's `node`; `value_map` maps old values to new ones."""
        operands = tuple([value_map[operand] for operand in node.operands])
        results = self.append(
            node.op,
            operands,
            node.attrs,
            name=node.name,
            source=node.source,
            scope=node.scope,
            copied=node,
        )
        value_map.update(zip(node.results, results, strict=True))

    def set_outputs(
        self, outputs: Iterable[Value], *, donated: Mapping[Value, Value] | None = None
    ) -> None:
        """Declare the results; `donated` maps a leaf to the output that replaces it in place."""
        self.outputs = tuple(outputs)
        for output in self.outputs:
            if output.graph is not self:
                raise GraphError(
                    f"output {output.label} belongs to graph {output.graph.name!r}, "
                    f"not to {self.name!r}",
                    remedy="pass values made by this graph",
                )
        self.donations = {}
        for leaf, output in (donated or {}).items():
            if output not in self.outputs:
                raise GraphError(
                    f"donated value {output.label} is not an output",
                    remedy="donate a value that set_outputs was given",
                )
            if leaf.node.name is None or self._leaves.get(leaf.node.name) is not leaf:
                raise GraphError(
                    f"{leaf.label} ({leaf.op.name}) cannot be replaced in place",
                    remedy="donate to an input or a param of this graph",
                )
            self.donate(leaf.node.name, self.outputs.index(output))

    def donate(self, name: str, position: int) -> None:
        """Declare that output number `position` replaces leaf `name` in place."""
        leaf, output = self.leaf(name), self.outputs[position]
        if leaf.type != output.type:
            raise GraphError(
                f"output {output.label} of type {output.type} cannot replace "
                f"{name!r} of type {leaf.type}",
                remedy="cast or reshape the output to the type of what it replaces",
            )
        if position in self.donations.values():
            raise GraphError(
                f"output {output.label} replaces two leaves, the second is {name!r}",
                remedy="let it replace one of them, and a copy of it the other",
            )
        self.donations[name] = position

    def connect(self, name: str, axis: RankAxis) -> None:
        """Declare that input `name` is the communicator of the ranks along `axis`."""
        leaf, number = self.leaf(name), TensorType(DType.I64, ())
        if leaf.type != number:
            raise GraphError(
                f"{name!r} of type {leaf.type} cannot be the communicator of axis {axis.name!r}",
                remedy=f"declare it with type {number}: the number that MPI_Comm_c2f gives",
            )
        self.communicators[name] = axis

    def take_roles(self, source: Graph) -> None:
        """Give leaves and outputs the roles of their namesakes in `source`: donated, connected."""
        self.donations = dict(source.donations)
        self.communicators = dict(source.communicators)

    def _coerce(self, definition: OpDef, operands: Sequence[Operand]) -> list[Value]:
        chooses = definition.operands[:1] == ("condition",)  # of a dtype of its own
        anchor = next((o.dtype for o in operands[chooses:] if isinstance(o, Value)), None)
        return [
            operand if isinstance(operand, Value) else self._embed(operand, anchor)
            for operand in operands
        ]

    def _embed(self, operand: Operand, anchor: DType | None) -> Value:
        if isinstance(operand, (int, float, complex)):
            return self._scalar(operand, anchor)
        if isinstance(operand, (np.ndarray, np.generic)):
            return self.constant(operand)
        raise GraphError(
            f"operand {operand!r} is a {type(operand).__name__}; "
            "operands are values of this graph, numbers or arrays",
            remedy="pass values made by this graph's own methods, numbers or arrays",
        )

    def _scalar(self, number: int | float | complex, anchor: DType | None) -> Value:
        natural = as_dtype(array_of(number, None).dtype)
        if anchor is None:
            return self.constant(number)
        keeps = anchor.is_complex or (anchor.is_float and not natural.is_complex)
        keeps = keeps or (anchor.is_int and not natural.is_float) or anchor is natural
        return self.constant(number, anchor if keeps else promote(anchor, natural))

    def _promote(self, definition: OpDef, values: list[Value]) -> list[Value]:
        if not definition.has(Trait.PROMOTES):
            return values
        movable = [i for i, name in enumerate(definition.operands) if name != "condition"]
        target = values[movable[0]].dtype
        for index in movable[1:]:
            target = promote(target, values[index].dtype)
        for index in movable:
            if values[index].dtype is not target:
                values[index] = _one(self.apply(OPS["cast"], (values[index],), to=target))
        return values

    # Reading

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Symbols of the leaves' shapes, sorted by name."""
        found = {s for leaf in self._leaves.values() for s in symbols_of(leaf.shape)}
        return tuple(sorted(found))

    def users(self) -> dict[Value, list[Node]]:
        """Return, for every value, the nodes that read it, in order, once each."""
        found: dict[Value, list[Node]] = {r: [] for node in self.nodes for r in node.results}
        for node in self.nodes:
            for operand in dict.fromkeys(node.operands):
                found[operand].append(node)
        return found

    def once(self, find: Callable[[Graph], Found]) -> Found:
        """Return `find(self)`, kept until the graph changes: many nodes may hold one body."""
        state = self.state()
        kept = self._found.get(find)
        if kept is None or kept[0] != state:
            kept = self._found[find] = state, find(self)
        found: Found = kept[1]
        return found

    def facts(self, finder: Callable[..., Found]) -> dict[Node, Found]:
        """Return the table of what `finder` found of nodes, kept while the leaves' roles stay.

        A graph that grows changes no node that it has, nor what the node depends on.
        """
        kept = self._found.get(finder)
        if kept is None or kept[0] != self._roles():
            kept = self._found[finder] = self._roles(), {}
        table: dict[Node, Found] = kept[1]
        return table

    def _roles(self) -> Hashable:
        return *self.donations.items(), *self.communicators.items()

    def state(self) -> Hashable:
        """Return what changes when the graph grows, or its outputs or roles change."""
        return len(self.nodes), self.name, self.outputs, self._roles()

    def structure(self) -> tuple[Any, ...]:
        """Return a hashable key: equal exactly for graphs that print the same."""

        def key(value: Value) -> tuple[int, int]:
            return value.node.index, value.index

        return (
            self.name,
            tuple(
                (n.op.name, tuple(map(key, n.operands)), n.attrs, n.name, n.scope, n.lowering)
                for n in self.nodes
            ),
            tuple(map(key, self.outputs)),
            tuple(sorted(self.donations.items())),
            tuple(sorted(self.communicators.items(), key=lambda item: item[0])),
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Graph) or hash(self) != hash(other):
            return False
        return self.structure() == other.structure()

    def __hash__(self) -> int:
        return self.once(_hash)


def _hash(graph: Graph) -> int:
    return hash((graph.name, tuple((node.op.name, node.attrs) for node in graph.nodes)))


def _types(values: Sequence[Value]) -> tuple[TensorType, ...]:
    return tuple(value.type for value in values)


def _types_of_copy(
    node: Node, operands: Sequence[Value], attrs: Attrs
) -> tuple[TensorType, ...] | None:
    """Return the types of `node`'s results if its operands had the types of `operands`."""
    if attrs is not node.attrs or len(operands) != len(node.operands):
        return None
    for old, new in zip(node.operands, operands, strict=True):
        if old.type is not new.type and old.type != new.type:
            return None
    return tuple(result.type for result in node.results)


class _Attribution:
    """What `attributed` returns: a class, as it is entered for every node that a rule looks at."""

    __slots__ = ("_given", "_graph", "_previous")

    def __init__(self, graph: Graph, source: Source | None, scope: str | None) -> None:
        self._graph = graph
        self._given = source, scope

    def __enter__(self) -> None:
        graph, (source, scope) = self._graph, self._given
        self._previous = graph._source, graph._scope
        graph._source, graph._scope = source or graph._source, scope or graph._scope

    def __exit__(self, *_: object) -> None:
        self._graph._source, self._graph._scope = self._previous


def require_addressable(value: Value) -> None:
    """Raise UnsupportedError for a value that takes more than `LARGEST_VALUE` bytes."""
    if value.type.bytes > LARGEST_VALUE:
        raise UnsupportedError(
            f"{value.op.name}: {value.label} of type {value.type} takes {value.type.bytes} bytes; "
            f"a value takes at most {LARGEST_VALUE}",
            source=value.node.source,
            remedy="compute it in blocks of fewer elements",
        )


def _one(results: Value | tuple[Value, ...]) -> Value:
    return results if isinstance(results, Value) else results[0]


def _as_shape(shape: Sequence[Extent]) -> Shape:
    """Return `shape` as a tuple; NumPy's integers are integers."""
    if not isinstance(shape, Iterable):
        raise ShapeError(f"shape is {shape!r}; it must be a tuple of extents", remedy="write (n,)")
    return tuple(int(extent) if isinstance(extent, np.integer) else extent for extent in shape)
