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
import types
import typing
from collections.abc import Callable
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

    With `attributes`, the function takes such a record after its operands.
    """

    def declare(infer: Callable[..., Any]) -> Any:
        return declare_op(
            infer.__name__,
            family,
            infer,
            traits=traits,
            doc=infer.__doc__ or "",
            decompose=decompose,
            captures=captures,
            attributes=attributes,
        )

    return declare


def takes(record: type[Attrs]) -> Callable[[Callable[..., Returned]], Callable[..., Returned]]:
    """Give a rule the attributes that `record` has as one, after its positional arguments.

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
    With `attributes`, `infer` takes such a record after its operands.
    """
    if not OPS.is_free(name):
        raise InternalError(f"op {name} is declared twice")
    if attributes is not None:
        infer = by_fields(infer, attributes)
    declared = signature_of or infer
    operands, optional, is_variadic = _operands(declared)
    count = _result_count(declared)
    definition = (SingleResultOp if count == 1 else MultiResultOp)(
        name=name,
        family=family,
        infer=infer,
        operands=operands,
        optional_operands=optional,
        variadic=is_variadic,
        declared=declared,
        results=count,
        traits=frozenset(traits),
        doc=doc,
        decompose=decompose,
        captures=captures,
    )
    OPS[name] = definition
    return definition


def _operands(declared: Callable[..., Any]) -> tuple[tuple[str, ...], int, bool]:
    """Return the names of the positional parameters, how many default to None, and if one is `*`.

    Of plain functions they are read off the code object: `inspect.signature` takes ten times as
    long, and hundreds of ops are declared when rlx is imported.
    """
    if not isinstance(declared, types.FunctionType) or hasattr(declared, "__wrapped__"):
        parameters = inspect.signature(declared).parameters.values()
        given = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        is_variadic = any(p.kind is p.VAR_POSITIONAL for p in given)
        return tuple(p.name for p in given), sum(p.default is None for p in given), is_variadic
    code = declared.__code__
    names = code.co_varnames[: code.co_argcount]
    is_variadic = bool(code.co_flags & inspect.CO_VARARGS)
    if is_variadic:
        names += (code.co_varnames[code.co_argcount + code.co_kwonlyargcount],)
    return names, sum(default is None for default in declared.__defaults__ or ()), is_variadic


def _result_count(declared: Callable[..., Any]) -> int | None:
    if getattr(declared, "__annotations__", {}).get("return") in ("TensorType", "Value"):
        return 1
    returned = inspect.get_annotations(declared, eval_str=True).get("return")
    if typing.get_origin(returned) is not tuple:
        return 1
    arguments = typing.get_args(returned)
    return None if Ellipsis in arguments else len(arguments)
