"""Definition of ops: traits, attribute records, and the table of all ops.

An `OpDef` is data, made from one function signature (`ir.declaration`). Its meaning
(`ir.reference`), derivatives, batching, lowering and kernel are registered in the rooms that
need them (`ir.registry`). Nothing here depends on graphs: a call finds that of its operands.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field
from typing import Any, Protocol

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import GraphError, RlxError
from rlx.ir.attributes import conform, describe_hint, exact
from rlx.ir.lazy_table import LazyTable
from rlx.ir.types import TensorType

_EMBEDDED = (int, float, complex, np.ndarray, np.generic)
"""Operands that become constants of the graph of the other operands."""


INFERENCE_FAULTS = (RlxError, ArithmeticError, LookupError, TypeError, ValueError)
"""What type inference may raise at invalid attribute values."""


class Trait(enum.Enum):
    """Properties of an op, on which default rules of passes, batching and kernels depend.

    Every op has one of `KINDS`, and every elementwise primitive one of `COSTS`.
    """

    ELEMENTWISE = "each result element depends on the operands' elements at the same index"
    PROMOTES = "operands of different dtypes are promoted by `promote(...)` when building"
    COMMUTATIVE = "the two operands may be swapped"
    LINEAR = "linear in all operands jointly"
    BILINEAR = "linear in each of the two operands"
    REDUCTION = "folds axes away"
    CONTRACTION = "sums products of elements of its two operands over axes"
    ROW_WISE = "makes each row of the result of the same row of operand 0, read several times"
    MOVEMENT = "moves elements and computes nothing"
    REINDEXES = "each element of the result is one of operand 0, at an index made of attributes"
    GENERATED = "made of its attributes alone, element by element"
    INDEXED_READ = "an operand says at run time which elements of operand 0 are read"
    INDEXED_WRITE = "an operand says at run time where elements are written or added"
    SCATTERS_SUM = "adds operand 0 to zeros, where operand 1 says at run time"
    CONTROL = "runs its bodies: a loop or a branch"
    ALL_ELEMENTS = "an element of the result may depend on all elements of the operands"
    WINDOWED = "slides windows over the last axes but `inner`; all axes in front are alike"
    SEARCH = "gives positions of elements"
    SUBSET = "reads as much of operand 0 as it returns"
    MAY_FAULT = "may end the run: an index out of range, a singular matrix"
    EPILOGUE = "its kernel computes what follows on each element before it is stored"
    PROLOGUE = "its kernel computes what comes before operand 0 as it reads it"
    READS_SLICES = "its kernel reads slices of larger arrays in place"
    STORES_ONCE = "its kernel stores each element once, when it is final"
    CHEAP = "an element takes an instruction or two"
    MODERATE = "an element takes some instructions, and no longer than a load"
    EXPENSIVE = "an element takes longer than a load: a transcendental function, a remainder"
    EXPANDS = "makes many times the bytes it reads: computed where it is used, not kept"
    VIEW = "the result is the operand's memory under another type"
    NONNEGATIVE = "no element of the result is below zero or -0.0; one may be NaN"
    EXACT = "rounds nothing: what it gives has the precision of its operands"
    IN_PLACE = "a result may overwrite an operand of the same byte size"
    LEAF = "has no operands and gets its value from outside or from an attribute"
    NAMED = "gets its value from outside, by its name"
    RESIDENT = "has one value for all runs, which stays in memory between them"
    IMPURE = "two equal nodes need not have equal values"
    FOREIGN = "calls a function from outside of the program: at run time, and not before"
    EQUALIZES = "exchanges between ranks, and gives all ranks of the axis the same"
    DISTRIBUTES = "exchanges between ranks, and gives each rank of the axis its own"
    EFFECT = "does more than give results: it runs once, in order, even if they are unread"
    LAYOUT = "changes the layout of elements, for a kernel; transforms see its formula instead"
    FUSED = "made by a pass for speed; transforms see its body instead"
    LOWERED = "made of other ops, by passes and by formulas alone"

    __hash__ = object.__hash__  # of the one object that each is: Enum's own is Python code


KINDS = frozenset(
    {
        *(Trait.LEAF, Trait.GENERATED, Trait.ELEMENTWISE, Trait.MOVEMENT, Trait.REDUCTION),
        *(Trait.CONTRACTION, Trait.ROW_WISE, Trait.INDEXED_READ, Trait.INDEXED_WRITE),
        *(Trait.CONTROL, Trait.ALL_ELEMENTS, Trait.VIEW, Trait.LAYOUT, Trait.FUSED),
    }
)
"""What elements of a result depend on: each op says one of these."""

COSTS = frozenset({Trait.CHEAP, Trait.MODERATE, Trait.EXPENSIVE})
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


class _Keyed:
    """Room for what `Attrs._key` returns."""

    __slots__ = ("_exact",)
    _exact: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Attrs(_Keyed):
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
        try:
            return self._exact
        except AttributeError:
            key = type(self), *(exact(value) for value in self.as_dict().values())
            object.__setattr__(self, "_exact", key)
            return key

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Attrs) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


class Closure(Protocol):
    """Converts values that bodies capture to operands of the op (`ir.captures`)."""

    def close(
        self, graph: Any, operands: Sequence[Any], attributes: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return operands and attributes of the op with bodies that have no params."""
        ...


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
    captures: Closure | None = None
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
    def is_public(self) -> bool:
        """True if `Graph` has a method that adds it."""
        return self.traits.isdisjoint((Trait.LAYOUT, Trait.FUSED, Trait.LOWERED))

    @property
    def folds_values(self) -> bool:
        """True if it folds axes to values of the operand's kind, not to positions."""
        return self.has(Trait.REDUCTION) and not self.has(Trait.SEARCH)

    @property
    def holds_bodies(self) -> bool:
        """True if graphs are among the attributes; such an op may have no operands at all."""
        return may_hold_bodies(self.attrs)

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
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


OPS: LazyTable[OpDef] = LazyTable("op")
"""Every op by name, declared when it is asked for; read-only but for declarations."""


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


def check_arity(definition: OpDef, given: int) -> None:
    """Raise GraphError unless `definition` takes `given` operands."""
    most = len(definition.operands)
    least = most - definition.optional_operands
    if definition.variadic:
        may_be_none = definition.holds_bodies or definition.has(Trait.FOREIGN)
        fewest = most - 1 if most > 1 or may_be_none else most
        if given < fewest:
            raise GraphError(
                f"takes at least {fewest} operands and was given {given}",
                remedy="pass the missing operands",
            )
    elif not least <= given <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise GraphError(
            f"takes {expected} operands and was given {given}",
            remedy="pass as many operands as the op takes",
        )


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
