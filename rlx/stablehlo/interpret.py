"""Interpretation of StableHLO: every operation by its rule, which emits ops of rlx.

A rule is a function of the operation and its operands that returns the result, or a list for an
operation with several. Operands are arrays of rlx's open trace and NumPy's constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlx.errors import InternalError, NoRuleError, Source
from rlx.ir.dtype import DType
from rlx.ir.source_lines import attributed_to
from rlx.limits import current_budget
from rlx.stablehlo.extents import Numbers, folded, plain
from rlx.stablehlo.module import ParsedModule
from rlx.stablehlo.types import dtype_of, integers, is_tensor, shape_of_type, source_of, word
from rlx.tracing.apply import convert
from rlx.tracing.trace import element_type, shape_of

Rule = Callable[..., Any]

_RULES: dict[str, Rule] = {}
_OF_NUMBERS: set[str] = set()
"""Operations whose rules take extents as they are; others take arrays."""


def rule(*names: str, takes_numbers: bool = False) -> Callable[[Rule], Rule]:
    """Register a function as the rule of the operations called `names`."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise InternalError(f"from_stablehlo: two rules of {name}")
            _RULES[name] = function
        if takes_numbers:
            _OF_NUMBERS.update(names)
        return function

    return register


def rule_of(name: str) -> Rule | None:
    """Return the rule of an operation, if it has one."""
    return _RULES.get(name)


def rule_names() -> list[str]:
    """Return the names of the operations with a rule."""
    return sorted(_RULES)


@dataclass(slots=True)
class Scope:
    """Values of a function or region, and those around it."""

    program: ParsedModule
    around: Scope | None = None
    values: dict[Any, Any] = field(default_factory=dict)

    def __getitem__(self, value: Any) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if value in scope.values:
                return scope.values[value]
            scope = scope.around
        raise InternalError(f"from_stablehlo: {value} is read before it is computed")


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, its attributes in Python's types, and what its regions read."""

    op: Any
    scope: Scope
    given: Any = None
    """Attributes in the place of its own: those of a composite."""

    @property
    def name(self) -> str:
        return str(self.op.name)

    @property
    def source(self) -> Source | None:
        return source_of(self.op.location)

    def attribute(self, name: str) -> Any:
        """Return an attribute, or None where it is absent."""
        attributes = self.op.attributes if self.given is None else self.given
        return attributes[name] if name in attributes else None  # noqa: SIM401  MLIR's have no get

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        attribute = self.attribute(name)
        return tuple(default) if attribute is None else integers(attribute)

    def integer(self, name: str, default: int = 0) -> int:
        attribute = self.attribute(name)
        return default if attribute is None else int(attribute.value)

    def flag(self, name: str, default: bool = False) -> bool:
        attribute = self.attribute(name)
        return default if attribute is None else bool(attribute.value)

    def number(self, name: str) -> float:
        return float(self.attribute(name).value)

    def word(self, name: str, default: str = "") -> str:
        attribute = self.attribute(name)
        return default if attribute is None else word(attribute)

    def dtype(self, result: int = 0) -> DType:
        return dtype_of(self.op.results[result].type)

    def shape(self, result: int = 0) -> tuple[Any, ...]:
        """Return the extents of a result, None where its type leaves them open."""
        return shape_of_type(self.op.results[result].type)

    def operand_type(self, operand: int) -> Any:
        return self.op.operands[operand].type

    def block(self, region: int) -> Any:
        return self.op.regions[region].blocks[0]

    def region(self, number: int, *operands: Any) -> list[Any]:
        """Return what a region computes of operands."""
        with current_budget().nested(self.name):
            return run_block(self.block(number), operands, Scope(self.scope.program, self.scope))


def run_function(program: ParsedModule, name: str, operands: Sequence[Any]) -> list[Any]:
    """Return the results of a function of the module."""
    with current_budget().nested(name):
        return run_block(_entry(program.functions[name]), operands, Scope(program))


def run_main(program: ParsedModule, operands: Sequence[Any]) -> list[Any]:
    """Return the results of the module for arrays of the open trace."""
    found = run_block(_entry(program.main), operands, Scope(program))
    return [plain(x) for x in found]


def _entry(function: Any) -> Any:
    return function.regions[0].blocks[0]


def run_block(block: Any, operands: Sequence[Any], scope: Scope) -> list[Any]:
    """Return what a block returns, of values for its arguments."""
    scope.values.update(zip(block.arguments, operands, strict=True))
    budget = current_budget()
    for view in block.operations:
        op = view.operation
        budget.charge_nodes()
        operands = [scope[value] for value in op.operands]
        if op.name in ("func.return", "stablehlo.return"):
            return list(operands)
        operation = Operation(op, scope)
        with attributed_to(operation.source):
            results = apply(operation, operands)
        scope.values.update(zip(op.results, results, strict=True))
    raise InternalError("from_stablehlo: a block without a return")


def apply(operation: Operation, operands: Sequence[Any]) -> list[Any]:
    """Return the results of an operation, of its types."""
    known = folded(operation.name, operation, operands)
    if known is not None:
        return [known]
    function = _RULES.get(operation.name)
    if function is None:
        raise NoRuleError(
            f"from_stablehlo: the operation {operation.name} has no rule",
            source=operation.source,
            remedy="write that part with other operations; docs/from_stablehlo.md lists what is "
            "left out",
        )
    if operation.name not in _OF_NUMBERS:
        operands = [plain(x) for x in operands]
    found = function(operation, *operands)
    results = list(found) if isinstance(found, (list, tuple)) else [found]
    pairs = zip(operation.op.results, results, strict=True)
    return [_of_type(operation, value.type, result) for value, result in pairs]


def _of_type(operation: Operation, type: Any, result: Any) -> Any:
    """Return a result in the dtype of its type; its shape must be that already."""
    if not is_tensor(type) or isinstance(result, Numbers):
        return result
    dtype, shape = dtype_of(type), shape_of_type(type)
    given = tuple(shape_of(result))
    if len(given) != len(shape) or any(
        n is not None and isinstance(m, int) and n != m for n, m in zip(shape, given, strict=True)
    ):
        raise InternalError(
            f"from_stablehlo: {operation.name} gives shape {given}, its type is {type}",
            source=operation.source,
        )
    own = element_type(result)
    return result if own.dtype is dtype and not own.weak else convert(result, dtype)
