"""What an op is: declared data made from one function signature.

An op is declared by its type inference. Positional parameters are operands, keyword-only
parameters are attributes, the return annotation says how many results there are, and the
docstring is the documentation:

    @op("reduction")
    def cumsum(x: TensorType, *, axis: int, exclusive: bool = False) -> TensorType:
        \"\"\"Sum running along `axis`; ...\"\"\"
        normalize_axis(axis, x.rank)
        return x

`cumsum` is then an `OpDef`, whose calls have types: a value, or a tuple of values. Its meaning
(`ir.reference`), derivatives, batching, lowering and kernel are registered in the rooms that
need them, by `Registry`s keyed by the op.
Rules take the attributes as keyword arguments of the same names.

Attributes that several ops share are declared once, as a record, and their rules take them as one:

    @dataclass(frozen=True, slots=True, kw_only=True, eq=False)
    class ConvAttributes(Attrs): ...

    @op("conv", attributes=ConvAttributes)
    def conv(x: TensorType, w: TensorType, window: ConvAttributes) -> TensorType: ...

    @reference(conv)
    @takes(ConvAttributes)
    def conv(x: Array, w: Array, window: ConvAttributes) -> Array: ...
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import numpy as np

from rlx.errors import GraphError, InternalError, RlxError
from rlx.ir.attributes import conform, describe_hint, exact
from rlx.ir.captures import Captures
from rlx.ir.types import TensorType

if TYPE_CHECKING:
    from rlx.ir.graph import Operand, Value


_EMBEDDED = (int, float, complex, np.ndarray, np.generic)
"""Operands that become constants of the graph of the other operands."""


INFERENCE_FAULTS = (RlxError, ArithmeticError, LookupError, TypeError, ValueError)
"""What type inference may raise when it meets attribute values that nobody meant."""


class Trait(enum.Enum):
    """What an op promises; default rules in every room are keyed on these.

    Every op has one of `KINDS`, and every elementwise primitive one of `COSTS`.
    """

    ELEMENTWISE = "each result element depends on the operands' elements at the same index"
    PROMOTES = "operands of different dtypes meet in `promote(...)` when building"
    COMMUTATIVE = "the two operands may be swapped"
    LINEAR = "linear in all operands jointly"
    BILINEAR = "linear in each of the two operands"
    REDUCTION = "folds axes away"
    CONTRACTION = "sums products of elements of its two operands over axes"
    ROW_WISE = "makes each row of the result of the same row of operand 0, read several times"
    MOVEMENT = "moves elements and computes nothing"
    GENERATED = "made of its attributes alone, element by element"
    INDEXED_READ = "an operand says at run time which elements of operand 0 are read"
    INDEXED_WRITE = "an operand says at run time where elements are written or added"
    CONTROL = "runs its bodies: a loop or a branch"
    WHOLE = "an element of the result may depend on all elements of the operands"
    WINDOWED = "slides windows over the last axes but `inner`; all axes in front are alike"
    SEARCH = "gives positions of elements"
    PART = "reads as much of operand 0 as it returns"
    MAY_FAULT = "may end the run: an index out of range, a singular matrix"
    EPILOGUE = "its kernel computes what follows on each element before it is stored"
    PROLOGUE = "its kernel computes what comes before operand 0 as it reads it"
    READS_SLICES = "its kernel reads slices of larger arrays where they lie"
    STORES_ONCE = "its kernel stores each element once, when it is final"
    CHEAP = "an element takes an instruction or two"
    MODERATE = "an element takes some instructions, and no longer than a load"
    DEAR = "an element takes longer than a load: a transcendental function, a remainder"
    EXPANDS = "makes many times the bytes it reads: computed where it is used, not kept"
    VIEW = "the result is the operand's memory under another type"
    EXACT = "rounds nothing: what it gives has the precision of its operands"
    IN_PLACE = "a result may overwrite an operand of the same byte size"
    LEAF = "has no operands and gets its value from outside or from an attribute"
    NAMED = "gets its value from outside, by its name"
    IMPURE = "two equal nodes need not have equal values"
    FOREIGN = "calls a function from outside of the program: at run time, and not before"
    EFFECT = "does more than give results: it runs once, in order, whoever reads them"
    LAYOUT = "changes where elements lie, for a kernel; transforms see its formula instead"
    FUSED = "made by a pass for speed; transforms see its body instead"

    __hash__ = object.__hash__  # of the one object that each is: Enum's own is Python code


KINDS = frozenset(
    {
        *(Trait.LEAF, Trait.GENERATED, Trait.ELEMENTWISE, Trait.MOVEMENT, Trait.REDUCTION),
        *(Trait.CONTRACTION, Trait.ROW_WISE, Trait.INDEXED_READ, Trait.INDEXED_WRITE),
        *(Trait.CONTROL, Trait.WHOLE, Trait.VIEW, Trait.LAYOUT, Trait.FUSED),
    }
)
"""What elements of a result depend on: each op says one of these."""

COSTS = frozenset({Trait.CHEAP, Trait.MODERATE, Trait.DEAR})
"""What an element costs: each elementwise primitive says one of these."""

ROW_WISE = (Trait.ROW_WISE, Trait.EPILOGUE, Trait.PROLOGUE)
"""Softmax and the norms: their kernels compute what surrounds them row by row."""


_HOLD_BODIES: dict[type, bool] = {}


def may_hold_bodies(attrs: type[Attrs]) -> bool:
    """True if graphs may be among the attributes of a class of records."""
    known = _HOLD_BODIES.get(attrs)
    if known is None:
        hints = (describe_hint(field.type) for field in dataclasses.fields(attrs))
        known = _HOLD_BODIES[attrs] = any("Graph" in hint for hint in hints)
    return known


@dataclass(frozen=True, slots=True, eq=False)
class Attrs:
    """Base of the frozen attribute record that each op gets from its signature.

    Records are equal when all attributes agree bit for bit: `-0.0` is not `0.0`.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name, in declaration order."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or `default` where an op has none of the name."""
        return getattr(self, name) if name in self.__dataclass_fields__ else default

    def _key(self) -> tuple[Any, ...]:
        return type(self), *(exact(value) for value in self.as_dict().values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attrs) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True, eq=False)
class OpDef:
    """One op. Calling it appends a node to the graph of its operands."""

    name: str
    family: str
    infer: Callable[..., Any]
    operands: tuple[str, ...]
    optional_operands: int
    variadic: bool
    declared: Callable[..., Any]
    """Its signature says what the attributes are."""
    results: int | None  # None: as many as `infer` returns
    traits: frozenset[Trait]
    doc: str
    decompose: Callable[..., Any] | None = None
    captures: Captures | None = None
    """What becomes of params that its bodies read."""

    @property
    def attrs(self) -> type[Attrs]:
        """The record of its attributes, which is made when it is first used."""
        return _RECORDS.get(self) or _RECORDS.setdefault(self, _attrs_class(self))

    def infer_types(self, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
        """Return the result types, or raise a ShapeError or DTypeError."""
        inferred = self.infer(*operands, **attrs.as_dict())
        return inferred if isinstance(inferred, tuple) else (inferred,)

    def has(self, trait: Trait) -> bool:
        return trait in self.traits

    @property
    def holds_bodies(self) -> bool:
        """True if graphs are among the attributes; such an op may have no operands at all."""
        return may_hold_bodies(self.attrs)

    def __call__(self, *operands: Operand | None, **attributes: Any) -> Any:
        """Append this op to the graph of its operands; Python numbers become constants.

        Returns the result `Value`, or a tuple of them for an op with several results.
        """
        for operand in operands:
            if operand is not None and not isinstance(operand, _EMBEDDED):
                return operand.graph.apply(self, operands, **attributes)
        raise GraphError(
            f"{self.name}: no operand is a Value", remedy="call the builder method of a graph"
        )

    def __repr__(self) -> str:
        return f"ops.{self.name}"


class SingleResultOp(OpDef):
    """An op with one result, which a call returns."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __call__(self, *operands: Operand | None, **attributes: Any) -> Value: ...


class MultiResultOp(OpDef):
    """An op with several results, which a call returns as a tuple."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __call__(self, *operands: Operand | None, **attributes: Any) -> tuple[Value, ...]: ...


Returned = TypeVar("Returned")
Given = TypeVar("Given", contravariant=True)
"""What a declaring function returns for each result: its type, or its value."""


class Declaration(Protocol[Given]):
    """A decorator that makes an op of a function, which says how many results it has."""

    @overload
    def __call__(self, function: Callable[..., Given], /) -> SingleResultOp: ...
    @overload
    def __call__(self, function: Callable[..., tuple[Given, ...]], /) -> MultiResultOp: ...


class OpTable(MutableMapping[str, OpDef]):
    """Every op by name, in declaration order: declared when one that is not there is asked for.

    Declaring hundreds of ops takes longer than loading a program that is compiled already.
    """

    def __init__(self) -> None:
        self._known: dict[str, OpDef] = {}
        self._declare: Callable[[], None] = lambda: None

    def declared_by(self, declare: Callable[[], None]) -> None:
        """Have `declare` called before a look that may miss an op; it may be called often."""
        self._declare = declare

    def __getitem__(self, name: str) -> OpDef:
        if name not in self._known:
            self._declare()
        return self._known[name]

    def __setitem__(self, name: str, definition: OpDef) -> None:
        self._known[name] = definition

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._declare()
        return iter(self._known)

    def __len__(self) -> int:
        self._declare()
        return len(self._known)


OPS = OpTable()
"""Every op; read-only but for declarations."""


def op(
    family: str,
    *traits: Trait,
    decompose: Callable[..., Any] | None = None,
    captures: Captures | None = None,
    attributes: type[Attrs] | None = None,
) -> Declaration[TensorType]:
    """Declare an op from its type-inference function (see the module docstring).

    With `attributes`, the function takes such a record behind its operands.
    """

    def declare(infer: Callable[..., Any]) -> Any:
        return declare_op(
            infer.__name__,
            family,
            infer,
            traits=traits,
            doc=inspect.getdoc(infer) or "",
            decompose=decompose,
            captures=captures,
            attributes=attributes,
        )

    return declare


def takes(record: type[Attrs]) -> Callable[[Callable[..., Returned]], Callable[..., Returned]]:
    """Give a rule the attributes that `record` has as one, behind its positional arguments.

    What else it is given by name, such as a lowering record, it is given still.
    """
    names = tuple(field.name for field in dataclasses.fields(record))

    def decorate(rule: Callable[..., Returned]) -> Callable[..., Returned]:
        @functools.wraps(rule)
        def collected(*given: Any, **attributes: Any) -> Returned:
            own = {name: attributes.pop(name) for name in names if name in attributes}
            return rule(*given, record(**own), **attributes)

        return collected

    return decorate


def by_fields(function: Callable[..., Any], record: type[Attrs]) -> Any:
    """Return a declaring function whose signature has the fields of its record as keywords."""
    collected: Any = takes(record)(function)
    signature = inspect.signature(function)
    *operands, _ = signature.parameters.values()
    hints = typing.get_type_hints(record)
    keywords = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(record)
    ]
    collected.__signature__ = signature.replace(parameters=[*operands, *keywords])
    return collected


@overload
def declare_op(
    name: str,
    family: str,
    infer: Callable[..., TensorType],
    *,
    traits: tuple[Trait, ...] = (),
    doc: str,
    decompose: Callable[..., Any] | None = None,
    attributes: type[Attrs] | None = None,
) -> SingleResultOp: ...
@overload
def declare_op(
    name: str,
    family: str,
    infer: Callable[..., Any],
    *,
    traits: tuple[Trait, ...] = (),
    doc: str,
    decompose: Callable[..., Any] | None = None,
    signature_of: Callable[..., Any] | None = None,
    captures: Captures | None = None,
    attributes: type[Attrs] | None = None,
) -> OpDef: ...
def declare_op(
    name: str,
    family: str,
    infer: Callable[..., Any],
    *,
    traits: tuple[Trait, ...] = (),
    doc: str,
    decompose: Callable[..., Any] | None = None,
    signature_of: Callable[..., Any] | None = None,
    captures: Captures | None = None,
    attributes: type[Attrs] | None = None,
) -> OpDef:
    """Make an `OpDef` and enter it into `OPS`; names are unique.

    Operands, attributes and the number of results are read off `signature_of` (default: `infer`).
    With `attributes`, `infer` takes such a record behind its operands.
    """
    if name in OPS:
        raise InternalError(f"op {name} is declared twice")
    if attributes is not None:
        infer = by_fields(infer, attributes)
    declared = signature_of or infer
    parameters = inspect.signature(declared).parameters.values()
    positional = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    count = _result_count(inspect.get_annotations(declared, eval_str=True))
    definition = (SingleResultOp if count == 1 else MultiResultOp)(
        name=name,
        family=family,
        infer=infer,
        operands=tuple(p.name for p in positional),
        optional_operands=sum(p.default is None for p in positional),
        variadic=any(p.kind is p.VAR_POSITIONAL for p in positional),
        declared=declared,
        results=count,
        traits=frozenset(traits),
        doc=doc,
        decompose=decompose,
        captures=captures,
    )
    OPS[name] = definition
    return definition


_RECORDS: dict[OpDef, type[Attrs]] = {}
"""Those in use: a program has a few ops of hundreds, and a dataclass takes long to make."""


def _attrs_class(definition: OpDef) -> type[Attrs]:
    signature = inspect.signature(definition.declared, eval_str=True)
    keywords = [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    title = f"{''.join(part.capitalize() for part in definition.name.split('_'))}Attrs"
    fields: list[Any] = []
    for parameter in keywords:
        hint = Any if parameter.annotation is parameter.empty else parameter.annotation
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, field(default=parameter.default)))
    return dataclasses.make_dataclass(
        title, fields, bases=(Attrs,), frozen=True, slots=True, kw_only=True, eq=False
    )


def _result_count(hints: Mapping[str, Any]) -> int | None:
    returned = hints.get("return")
    if typing.get_origin(returned) is not tuple:
        return 1
    arguments = typing.get_args(returned)
    return None if Ellipsis in arguments else len(arguments)


Rule = TypeVar("Rule")


class Registry(Generic[Rule]):
    """Rules of one kind by op: one room's half of the op table.

    A registry refuses a second rule for an op. `absent` declares that an op has no rule of
    this kind and why; the completeness test accepts a rule or a reason, nothing else.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._rules: dict[str, Rule] = {}
        self._reasons: dict[str, str] = {}

    def register(self, definition: OpDef, rule: Rule) -> None:
        self._claim(definition)
        self._rules[definition.name] = rule

    def __call__(self, *definitions: OpDef) -> Callable[[Rule], Rule]:
        """Return a decorator that registers one rule for each of `definitions`."""

        def decorate(rule: Rule) -> Rule:
            for definition in definitions:
                self.register(definition, rule)
            return rule

        return decorate

    def absent(self, *definitions: OpDef, because: str) -> None:
        for definition in definitions:
            self._claim(definition)
            self._reasons[definition.name] = because

    def get(self, definition: OpDef) -> Rule | None:
        return self._rules.get(definition.name)

    def reason(self, definition: OpDef) -> str | None:
        return self._reasons.get(definition.name)

    def __contains__(self, definition: OpDef) -> bool:
        return definition.name in self._rules

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def _claim(self, definition: OpDef) -> None:
        if definition.name in self._rules or definition.name in self._reasons:
            raise InternalError(f"{self.kind}: a second rule for op {definition.name}")


def make_attrs(definition: OpDef, attributes: Mapping[str, Any]) -> Attrs:
    """Return the attribute record of `definition`; GraphError for a wrong name or type."""
    declared = _fields(definition)
    if not attributes and not declared:
        return _no_attributes(definition)
    for name in attributes:
        if name not in declared:
            raise GraphError(
                f"has no attribute {name!r} (has: {', '.join(declared) or 'none'})",
                remedy="use one of the attributes that the op has",
            )
    for name, attribute in declared.items():
        if name not in attributes and attribute.default is MISSING:
            raise GraphError(
                f"needs attribute {name!r} and was not given it",
                remedy=f"pass {name}=",
            )
    fitted = {n: conform(n, declared[n].type, value) for n, value in attributes.items()}
    return definition.attrs(**fitted)


@functools.cache
def _fields(definition: OpDef) -> Mapping[str, dataclasses.Field[Any]]:
    return {declared.name: declared for declared in dataclasses.fields(definition.attrs)}


@functools.cache
def _no_attributes(definition: OpDef) -> Attrs:
    """Return the one record of ops like `add`: records are immutable."""
    return definition.attrs()
