"""The table of ATen operators: a name and the function of arrays that computes it.

A rule's name is the operator's without its namespace, as in `add.Tensor`; `add` is the rule of all
overloads that have none of their own. Operators of other namespaces are named in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, Shape, row_major_strides

Rule = Callable[..., Any]
Promotion = Literal["result", "operands"]


@dataclass(frozen=True, slots=True)
class Entry:
    """How an operator is computed."""

    apply: Rule
    promotion: Promotion | None = None
    """Operands are brought to the result's dtype, or to their own common one."""
    is_typed: bool = False
    """The first argument of the rule is the type of the result."""
    reads_strides: bool = False
    """The rule takes `memory`, where PyTorch has the elements of the first operand."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Where PyTorch has the elements of a tensor, in elements."""

    strides: Shape
    offset: Extent

    def is_row_major(self, shape: Shape) -> bool:
        """True for a tensor of `shape` whose rows follow each other without gaps."""
        triples = zip(shape, self.strides, row_major_strides(shape), strict=True)
        return 0 in shape or all(extent == 1 or own == dense for extent, own, dense in triples)


RULES: dict[str, Entry] = {}


def rule(*names: str, typed: bool = False, strides: bool = False) -> Callable[[Rule], Rule]:
    """Enter the decorated function as the rule of the operators `names`."""

    def enter(apply: Rule) -> Rule:
        for name in names:
            RULES[name] = Entry(apply, is_typed=typed, reads_strides=strides)
        return apply

    return enter


def enter(table: Mapping[str, Rule], promotion: Promotion | None = None) -> None:
    """Enter a table of rules by name; several names are separated by blanks."""
    for names, apply in table.items():
        for name in names.split():
            RULES[name] = Entry(apply, promotion)


def elementwise(*names: str, promotion: Promotion = "result") -> Callable[[Rule], Rule]:
    """Enter the decorated function, whose operands are brought to one dtype."""

    def add(apply: Rule) -> Rule:
        for name in names:
            RULES[name] = Entry(apply, promotion)
        return apply

    return add


def name_of(target: Any) -> str:
    """Return the name under which an operator of an FX graph is in the table."""
    text = target if isinstance(target, str) else _full_name(target)
    return text.removeprefix("aten.").removesuffix(".default")


def _full_name(target: Any) -> str:
    packet = getattr(target, "overloadpacket", None)
    if packet is not None:
        return str(target)
    name = getattr(target, "name", None)
    if callable(name):  # a higher-order operator
        return f"higher_order.{name()}"
    return f"{target.__module__}.{target.__name__}".replace("_operator.", "operator.")


def entry_of(target: Any) -> Entry | None:
    """Return the rule of an operator, or None."""
    name = name_of(target)
    return RULES.get(name) or RULES.get(_base(name))


def _base(name: str) -> str:
    """Return the operator's name without its overload."""
    parts = name.split(".")
    return (
        name
        if len(parts) == 1 or name.startswith(("higher_order", "operator"))
        else (".".join(parts[:-1]))
    )
