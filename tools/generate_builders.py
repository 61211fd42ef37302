"""Write `rlx/ir/builders.pyi`: the typed builder methods of `Graph`, read off the op declarations.

    python tools/generate_builders.py [directory of the package rlx]

For editors, which complete `graph.softmax(`, and type checkers, which check its attributes. The
file is not in version control: installing or building the package writes it, and `make lint`.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import typing
from pathlib import Path
from types import UnionType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rlx.ir import ops  # noqa: E402, F401 (fills OPS)
from rlx.ir.dtype import DType  # noqa: E402
from rlx.ir.graph import Graph  # noqa: E402
from rlx.ir.op import OPS, OpDef  # noqa: E402

WRITTEN_BY_HAND = frozenset({"input", "param", "constant"})
HEAD = """from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np

from rlx.ir.op import OpDef

if TYPE_CHECKING:  # mypy follows such imports later: they import the graph, which imports this
{imports}
Value = TypeVar("Value")
Operand: TypeAlias = Value | int | float | complex | np.ndarray[Any, Any] | np.generic

class Builders(Generic[Value]):
    def apply(
        self, definition: OpDef, operands: Sequence[Operand[Value] | None], /, **attributes: Any
    ) -> Any: ...
"""


def generate() -> str:
    """Return the text of the stub."""
    types: set[tuple[str, str]] = set()
    definitions = sorted(OPS.values(), key=lambda d: (d.family, d.name))
    methods = [
        _method(d, types) for d in definitions if d.is_public and d.name not in WRITTEN_BY_HAND
    ]
    imports = "".join(f"    from {module} import {name}\n" for module, name in sorted(types))
    return "".join([HEAD.format(imports=imports), *methods])


def _method(definition: OpDef, types: set[tuple[str, str]]) -> str:
    attributes = [_attribute(f, types) for f in dataclasses.fields(definition.attrs)]
    parameters = ["self", *_operands(definition)]
    if attributes and not definition.variadic:
        parameters.append("*")
    head = f"def {definition.name}({', '.join([*parameters, *attributes])})"
    doc = definition.doc.strip() or f"Apply {definition.name}."
    return f'    {head} -> {_result(definition)}:\n        r"""{doc}"""\n'


def _operands(definition: OpDef) -> list[str]:
    required = len(definition.operands) - definition.optional_operands
    parameters = [
        f"{name}: Operand[Value]" + (" | None = None" if i >= required else "")
        for i, name in enumerate(definition.operands)
    ]
    if definition.variadic:
        parameters[-1] = f"*{parameters[-1]}"
    return parameters


def _attribute(attribute: dataclasses.Field[Any], types: set[tuple[str, str]]) -> str:
    declared = f"{attribute.name}: {annotation(attribute.type, types)}"
    if attribute.default is dataclasses.MISSING:
        return declared
    is_enum = isinstance(attribute.default, enum.Enum)
    return f"{declared} = {'...' if is_enum else repr(attribute.default)}"


def annotation(hint: Any, types: set[tuple[str, str]]) -> str:
    """Return the source text of a type hint and note what it has to import."""
    if hint is Any:
        return "Any"
    if hint is type(None) or hint is None:
        return "None"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    inner = [annotation(argument, types) for argument in arguments if argument is not Ellipsis]
    if origin in (typing.Union, UnionType):
        return " | ".join(inner)
    if origin is tuple and arguments[-1] is Ellipsis:  # attributes turn lists into tuples
        return f"Sequence[{inner[0]}]"
    if origin is not None:
        return f"{annotation(origin, types)}[{', '.join(inner)}]"
    if hint is Graph:  # a body is a graph of the same kind
        return "Self"
    if hint.__module__ == "builtins":
        return str(hint.__name__)
    types.add((hint.__module__, hint.__name__))
    return "DType | str" if hint is DType else str(hint.__name__)


def _result(definition: OpDef) -> str:
    if definition.results == 1:
        return "Value"
    if definition.results is None:
        return "tuple[Value, ...]"
    return f"tuple[{', '.join(['Value'] * definition.results)}]"


def main() -> None:
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "rlx"
    (package / "ir" / "builders.pyi").write_text(generate(), encoding="utf-8")


if __name__ == "__main__":
    main()
