"""Math functions in C: emitted when a kernel calls them, at the lanes it calls them with."""

from __future__ import annotations

from rlx.codegen.c.code import comment, wrap
from rlx.codegen.c.expressions import ExpressionEmitter
from rlx.codegen.c.half_conversions import HALF_HEADER, half_instruction
from rlx.codegen.c.names import function_name, variable_name
from rlx.codegen.c.prelude import Prelude
from rlx.codegen.loops.nodes import Function, Let, Prim, Var
from rlx.codegen.loops.passes.vectorize_functions import lift_function
from rlx.codegen.loops.visit import walk_expression

_RESULT = "(result)"  # no variable has this name
_PRIMS = frozenset(prim.value for prim in Prim)


class FunctionTable:
    """The functions of one translation unit, callees before callers."""

    def __init__(self, prelude: Prelude) -> None:
        self._prelude = prelude
        self._texts: dict[str, str] = {}

    @property
    def texts(self) -> list[str]:
        return list(self._texts.values())

    def request(self, function: Function, lanes: int) -> str:
        """Return the C name of `function` over `lanes`, emitting it at the first request."""
        name = _versioned(function.name, lanes)
        if name not in self._texts:
            instruction = half_instruction(function, lanes)
            self._texts[name] = self._emit(name, lift_function(function, lanes), instruction)
        return name

    def _emit(self, name: str, function: Function, instruction: str) -> str:
        emitter = ExpressionEmitter(self._prelude, {}, set(), self.request)
        params = ", ".join(f"{emitter.type_of(p)} {variable_name(p.name)}" for p in function.params)
        body = []
        for let in _used_lets(function):
            type = emitter.declare(let.var, let.value)
            text = emitter.assigned(let.var, let.value)
            body += wrap(f"  const {type} {variable_name(let.var.name)} = {text};")
        returned = emitter.type_of(Var(_RESULT, function.result.type))
        value = emitter.assigned(Var(_RESULT, function.result.type), function.result)
        doc = comment(function.doc)
        head = f"static inline {returned} {name}({params}) {{"
        header, first = ([HALF_HEADER], [instruction]) if instruction else ([], [])
        return "\n".join([*header, *doc, head, *first, *body, *wrap(f"  return {value};"), "}"])


def _used_lets(function: Function) -> list[Let]:
    """Return the lets that the result needs, in order."""
    needed = {e.name for e in walk_expression(function.result) if isinstance(e, Var)}
    kept: list[Let] = []
    for let in reversed(function.lets):
        if let.var.name in needed:
            kept.insert(0, let)
            needed |= {e.name for e in walk_expression(let.value) if isinstance(e, Var)}
    return kept


def _versioned(name: str, lanes: int) -> str:
    """`exp_f32` over 16 lanes is `exp_f32x16`; a name without a type gets `_x16`."""
    if lanes == 1:
        return function_name(name)
    separator = "" if name.rpartition("_")[2] in _PRIMS else "_"
    return f"{name}{separator}x{lanes}"
