"""One builder method per op, mixed into `Graph`; ops that passes make of others have none.

A method is made of the op's declaration when it is first used. What editors and type checkers
read is a stub next to this file, `builders.pyi`, which `tools/generate_builders.py` writes when
the package is built or installed and before types are checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from rlx.ir.extensions import find_op
from rlx.ir.op import OPS, OpDef

Value = TypeVar("Value")
Operand: TypeAlias = Value | int | float | complex | np.ndarray[Any, Any] | np.generic


class _Methods(type):
    """Adds the methods to the class: `help(Graph.softmax)`, `dir(Graph)`."""

    def __getattr__(cls, name: str) -> Any:
        definition = None if name.startswith("_") else find_op(name)
        if definition is None:
            raise AttributeError(f"Graph has no op or attribute {name!r}", name=name, obj=cls)
        if not definition.is_public:
            raise AttributeError(f"{name} is an op that only passes create", name=name, obj=cls)
        method = _method(definition)
        setattr(Builders, name, method)
        return method

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *_public_ops()})


class Builders(Generic[Value], metaclass=_Methods):
    """A method of the op's name for every op that users add: infers shapes, promotes dtypes.

    What a graph and its values are is for the class that this is mixed into.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(type(self), name).__get__(self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_public_ops()})


def _public_ops() -> Iterator[str]:
    return (name for name, definition in OPS.items() if definition.is_public)


def _method(definition: OpDef) -> Callable[..., Any]:
    names = frozenset(definition.operands)

    def method(self: Any, *operands: Any, **attributes: Any) -> Any:
        if not names.isdisjoint(attributes):
            missing = definition.operands[len(operands) :]
            operands = (*operands, *(attributes.pop(name, None) for name in missing))
        return self.apply(definition, operands, **attributes)

    method.__name__, method.__doc__ = definition.name, definition.doc
    method.__qualname__ = f"Graph.{definition.name}"
    declared = inspect.signature(definition.declared).parameters.values()
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    setattr(method, "__signature__", inspect.Signature([own, *map(_parameter, declared)]))  # noqa: B010
    return method


def _parameter(declared: inspect.Parameter) -> inspect.Parameter:
    if declared.kind is declared.KEYWORD_ONLY:
        return declared
    annotation = "Operand | None" if declared.default is None else "Operand"
    return declared.replace(annotation=annotation)
