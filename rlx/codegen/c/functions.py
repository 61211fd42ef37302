"""Math functions in C: emitted when a kernel calls them, at the lanes it calls them with."""

from __future__ import annotations

from collections import Counter

from rlx.codegen.c import vectors
from rlx.codegen.c.code import Code, comment, wrap
from rlx.codegen.c.expressions import ExpressionEmitter
from rlx.codegen.c.half_conversions import HALF_HEADER, half_instruction
from rlx.codegen.c.names import function_name, variable_name
from rlx.codegen.c.prelude import Prelude
from rlx.codegen.loops.nodes import Call, Function, Let, Prim, ValueType, Var
from rlx.codegen.loops.passes.vectorize_functions import lift_function
from rlx.codegen.loops.visit import count_lets, walk_expression

_LONG = 40
"""Values in a function from which narrow vectors are computed by the function over wider ones."""
_LINKAGE = "(linkage)"
_PART = "static inline __attribute__((always_inline))"
"""Compilers find what the sine and the cosine of an angle share where both are inlined."""
_RESULT = "(result)"  # no variable has this name
_PRIMS = frozenset(prim.value for prim in Prim)


class FunctionTable:
    """The functions of one translation unit, callees before callers."""

    def __init__(self, prelude: Prelude) -> None:
        self._prelude = prelude
        self._texts: dict[str, str] = {}
        self._calls: Counter[str] = Counter()
        self._parts: set[str] = set()

    @property
    def texts(self) -> list[str]:
        return [
            text.replace(_LINKAGE, _PART if self._is_inlined(name) else "static inline", 1)
            for name, text in self._texts.items()
        ]

    def _is_inlined(self, name: str) -> bool:
        """True for what other functions call, unless kernels call it more than once, too."""
        return name in self._parts and self._calls[name] <= 1

    def request(self, function: Function, lanes: int) -> str:
        """Return the C name of `function` over `lanes`, emitting it at the first request."""
        name = self._emitted(function, lanes)
        self._calls[name] += 1
        return name

    def _request_part(self, function: Function, lanes: int) -> str:
        """Return the same of what another function calls."""
        name = self._emitted(function, lanes)
        is_vectorized = function.result.type.prim is Prim.F64  # by compilers, from plain loops
        if lanes > 1 or (is_vectorized and not self._prelude.is_plain):
            self._parts.add(name)
        return name

    def _emitted(self, function: Function, lanes: int) -> str:
        name = _versioned(function.name, lanes)
        if name not in self._texts:
            wide = _versioned(function.name, 2 * lanes)
            if lanes > 1 and wide in self._texts and _is_long(function):
                self._texts[name] = self._narrow(name, function, lanes)
            else:
                instruction = half_instruction(function, lanes)
                self._texts[name] = self._emit(name, lift_function(function, lanes), instruction)
        return name

    def _narrow(self, name: str, function: Function, lanes: int) -> str:
        """Emit a function over narrow vectors, as half of what it is over wide ones."""
        prelude, positions = self._prelude, tuple(range(lanes))
        given, result = (
            ValueType(each.type.prim, lanes) for each in (function.params[0], function.result)
        )
        x = Code(variable_name(function.params[0].name))
        twice = vectors.shuffle(prelude, given, x, x, positions * 2)
        both = Code(f"{self._request_part(function, 2 * lanes)}({twice.text})")
        half = vectors.shuffle(prelude, ValueType(result.prim, 2 * lanes), both, both, positions)
        head = f"{_LINKAGE} {prelude.vector(result)} {name}({prelude.vector(given)} {x.text}) {{"
        return "\n".join([head, *wrap(f"  return {half.text};"), "}"])

    def _emit(self, name: str, function: Function, instruction: str) -> str:
        emitter = ExpressionEmitter(self._prelude, {}, set(), self._request_part)
        params = ", ".join(f"{emitter.type_of(p)} {variable_name(p.name)}" for p in function.params)
        body = []
        for let in _used_lets(function):
            type = emitter.declare(let.var, let.value)
            text = emitter.assigned(let.var, let.value)
            body += wrap(f"  const {type} {variable_name(let.var.name)} = {text};")
        returned = emitter.type_of(Var(_RESULT, function.result.type))
        value = emitter.assigned(Var(_RESULT, function.result.type), function.result)
        doc = comment(function.doc)
        head = f"{_LINKAGE} {returned} {name}({params}) {{"
        header, first = ([HALF_HEADER], [instruction]) if instruction else ([], [])
        return "\n".join([*header, *doc, head, *first, *body, *wrap(f"  return {value};"), "}"])


def _is_long(function: Function) -> bool:
    """True if a function of one number has many values, its own and those of what it calls."""
    types = [function.result.type, *(param.type for param in function.params)]
    if len(types) != 2 or any(type.prim is Prim.BOOL for type in types):
        return False
    return count_lets(Call(function, function.params)) > _LONG


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
