"""Declare ops: each is made from one function signature.

An op is declared by its type inference. Positional parameters are operands, keyword-only
parameters are attributes, the return annotation says how many results there are, and the
docstring is the documentation:

    @op("reduction")
    def cumsum(x: TensorType, *, axis: int, exclusive: bool = False) -> TensorType:
        \"\"\"Sum running along `axis`; ...\"\"\"
        normalize_axis(axis, x.rank)
        return x

`cumsum` is then an `OpDef`, whose calls have types: a value, or a tuple of values. Rules take
the attributes as keyword arguments of the same names.

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
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from rlx.errors import InternalError
from rlx.ir.captures import Captures
from rlx.ir.graph import Operand, Value
from rlx.ir.op import OPS, Attrs, OpDef, Trait
from rlx.ir.types import TensorType


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


def _result_count(hints: Mapping[str, Any]) -> int | None:
    returned = hints.get("return")
    if typing.get_origin(returned) is not tuple:
        return 1
    arguments = typing.get_args(returned)
    return None if Ellipsis in arguments else len(arguments)
