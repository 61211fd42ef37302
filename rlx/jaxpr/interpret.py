"""Interpretation of jaxprs: every equation by the rule of its primitive, which emits ops of rlx.

A rule is a function of the equation and its operands that returns the result, or a list for a
primitive with several. Operands are arrays of rlx's open trace and NumPy's constants, in the
dtypes of the equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from rlx.errors import InternalError, NoRuleError
from rlx.ir.dtype import as_dtype
from rlx.ir.source_lines import attributed_to
from rlx.jaxpr.internals import (
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    closed_over,
    is_key,
    key_words,
    python_lowering,
    user_source,
)
from rlx.jaxpr.types import dtype_of, host_array, shape_of_aval, words_of_keys
from rlx.numpy.shaping import stack
from rlx.tracing.apply import convert
from rlx.tracing.trace import element_type, shape_of

Rule = Callable[..., Any]

_RULES: dict[str, Rule] = {}
_OF_KEYS: set[str] = set()
"""Primitives whose rules take keys whole; others move the words of keys one after the other."""


def rule(*names: str, takes_keys: bool = False) -> Callable[[Rule], Rule]:
    """Register a function as the rule of the primitives called `names`."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise InternalError(f"from_jax: two rules of primitive {name!r}")
            _RULES[name] = function
        if takes_keys:
            _OF_KEYS.update(names)
        return function

    return register


_REFUSED: dict[str, str] = {}
"""Why primitives have no rule, by name."""


def refuse(*names: str, because: str) -> None:
    """Declare that primitives have no rule, for errors, the documentation and its test."""
    for name in names:
        if name in _RULES or name in _REFUSED:
            raise InternalError(f"from_jax: primitive {name!r} has a rule, or is refused twice")
        _REFUSED[name] = because


def refused() -> dict[str, str]:
    """Return the primitives without a rule, each with its reason."""
    return dict(_REFUSED)


def rule_names() -> list[str]:
    """Return the names of the primitives with a rule."""
    return sorted(_RULES)


def run(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Return the results of a program for operands of its types."""
    return run_open(closed.jaxpr, closed.consts, args)


def run_open(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Return the results of a program whose constants are given apart."""
    values: dict[Any, Any] = {}
    values.update(zip(jaxpr.constvars, map(_constant, consts), strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    for equation in jaxpr.eqns:
        operands = [_read(values, v) for v in equation.invars]
        with attributed_to(user_source(equation)):
            results = apply(equation, operands)
        for variable, result in zip(equation.outvars, results, strict=True):
            if not isinstance(variable, DropVar):
                values[variable] = result
    return [_read(values, v) for v in jaxpr.outvars]


def _read(values: dict[Any, Any], atom: Any) -> Any:
    if isinstance(atom, Literal):
        return np.asarray(_constant(atom.val), dtype_of(atom.aval))
    return values[atom]


def _constant(x: Any) -> Any:
    """Return a constant of JAX as an array of NumPy's."""
    if isinstance(x, jax.Array) and is_key(x):
        return words_of_keys(x)
    return host_array(x)


def apply(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """Return the results of an equation, of the types that JAX gives them."""
    primitive = equation.primitive
    function: Rule = _RULES.get(primitive.name, _by_implementation)
    if primitive.name in _OF_KEYS or not _has_keys(equation) or function is _by_implementation:
        found = function(equation, *operands)
    else:
        found = _by_words(function, equation, operands)
    results = list(found) if primitive.multiple_results else [found]
    pairs = zip(equation.outvars, results, strict=True)
    return [_of_type(equation, variable.aval, result) for variable, result in pairs]


def _has_keys(equation: JaxprEqn) -> bool:
    return any(is_key(v.aval) for v in equation.invars)


def _by_words(function: Rule, equation: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Apply a rule that moves elements to each word of keys, and stack the words."""
    keys = [is_key(v.aval) for v in equation.invars]
    count = next(key_words(v.aval.dtype) for v in equation.invars if is_key(v.aval))
    found = []
    for word in range(count):
        given = [x[..., word] if key else x for x, key in zip(operands, keys, strict=True)]
        found.append(function(equation, *given))
    if not equation.primitive.multiple_results:
        return stack(found, -1)
    return [stack(list(words), -1) for words in zip(*found, strict=True)]


def _of_type(equation: JaxprEqn, aval: Any, result: Any) -> Any:
    """Return a result in the dtype of its abstract value; its shape must be that already."""
    if not hasattr(aval, "dtype"):
        return result  # a token
    dtype, shape = as_dtype(dtype_of(aval)), shape_of_aval(aval)
    if tuple(shape_of(result)) != shape:
        raise InternalError(
            f"from_jax: {equation.primitive.name} gives shape {shape_of(result)}, JAX {shape}",
            source=user_source(equation),
        )
    type = element_type(result)
    return result if type.dtype is dtype and not type.weak else convert(result, dtype)


def _by_implementation(equation: JaxprEqn, *operands: Any) -> Any:
    """Interpret what the implementation of a primitive without a rule traces to."""
    primitive = equation.primitive
    if primitive.name in _REFUSED:
        raise _no_rule(equation, _REFUSED[primitive.name])
    avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars]
    implementation = python_lowering(primitive) or primitive.impl
    try:
        traced = jax.make_jaxpr(lambda *xs: implementation(*xs, **equation.params))(*avals)
    except Exception as error:  # whatever a library's implementation raises for tracers
        raise _no_rule(
            equation, f"its implementation cannot be traced: {type(error).__name__}: {error}"
        ) from error
    if _mentions(traced.jaxpr, primitive):
        raise _no_rule(equation, "its implementation is native code")
    results = run(traced, operands)
    return results if primitive.multiple_results else results[0]


def _mentions(jaxpr: Jaxpr, primitive: Any) -> bool:
    for equation in jaxpr.eqns:
        inner = (x for value in equation.params.values() for x in _programs(value))
        if equation.primitive is primitive or any(_mentions(x, primitive) for x in inner):
            return True
    return False


def _programs(value: Any) -> list[Jaxpr]:
    given = value if isinstance(value, (tuple, list)) else [value]
    return [closed_over(x).jaxpr for x in given if isinstance(x, (Jaxpr, ClosedJaxpr))]


def _no_rule(equation: JaxprEqn, why: str) -> NoRuleError:
    return NoRuleError(
        f"from_jax: JAX's primitive {equation.primitive.name!r} has no rule: {why:.200}",
        source=user_source(equation),
        remedy="write that part with other functions of JAX, or call it by jax.pure_callback",
    )
