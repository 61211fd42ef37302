"""Rules by op: each package registers its rules of an op in a `Registry` of its own.

reference: Registry[Reference] = Registry("reference")

@reference(ops.cumsum)
def cumsum(x: Array, *, axis: int, exclusive: bool) -> Array: ...

reference.absent(ops.input, because="a leaf gets its value from outside")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from rlx.errors import InternalError
from rlx.ir.lazy_table import LazyTable
from rlx.ir.op import OpDef

Rule = TypeVar("Rule")


class Registry(Generic[Rule]):
    """A table of rules of one kind by op.

    The module of a rule is loaded when the rule is asked for (`ir.lazy_table`). A registry refuses
    a second rule for an op. `absent` declares that an op has no rule of this kind and why; the
    completeness test accepts a rule or a reason, nothing else.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._rules: LazyTable[Rule] = LazyTable(kind)
        self._reasons: LazyTable[str] = LazyTable(f"no {kind}")

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
        for table in (self._rules, self._reasons):
            if not table.is_free(definition.name):
                raise InternalError(f"{self.kind}: a second rule for op {definition.name}")
