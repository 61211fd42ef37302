"""The registry of operators: a translator for each (domain, operator, since version).

A translator is a function of arrays, traced or known, in the names of the standard. Its
positional parameters are the inputs, `None` where one is left out; one annotated `Static` is a
NumPy array, since its numbers decide the shape of the result. Keyword-only parameters are the
attributes with their defaults; one called `node` is the node itself.

    @operator("Gather")
    def gather(data: Any, indices: Any, *, axis: int = 0) -> Any: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from rlx.dataclass import dataclass

Static: TypeAlias = Any
"""An input that must be known when the graph is built: a NumPy array."""

Translator: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Operator:
    """A translator, and what its signature says."""

    name: str
    domain: str
    since: int
    translate: Translator
    static: frozenset[int]
    """Positions of the inputs that must be known."""
    all_static: bool
    """The variadic inputs must be known."""
    inputs: int | None
    """How many inputs there may be; None for any number."""
    required: int
    """How many inputs there must be."""
    attributes: dict[str, Any]
    """Names and defaults; `inspect.Parameter.empty` where there is none."""
    takes_node: bool
    on_host: bool = False
    """It computes on known arrays, in NumPy, and is never compiled."""
    sums_products: bool = False
    """Its weights are operands of sums of products only, and are read without subnormals."""


OPERATORS: dict[tuple[str, str], list[Operator]] = {}
"""Translators by domain and operator, newest first."""


def operator(
    *names: str,
    since: int = 1,
    domain: str = "",
    on_host: bool = False,
    sums_products: bool = False,
    rest: Callable[..., Any] | None = None,
) -> Callable[[Translator], Translator]:
    """Register a translator for operators, from a version of their opset on.

    `Operator` documents `on_host` and `sums_products`; `rest` is the function to which it
    passes on attributes that operators have in common.
    """

    def register(translate: Translator) -> Translator:
        for name in names:
            found = OPERATORS.setdefault((domain, name), [])
            described = _described(name, domain, since, translate, rest)
            found.append(replace(described, on_host=on_host, sums_products=sums_products))
            found.sort(key=lambda each: -each.since)
        return translate

    return register


def find_operator(domain: str, name: str, version: int) -> Operator | None:
    """Return the translator for an operator as of `version` of its opset."""
    found = OPERATORS.get((domain, name), ())
    return next((each for each in found if each.since <= version), None)


def _described(
    name: str,
    domain: str,
    since: int,
    translate: Translator,
    rest: Callable[..., Any] | None,
) -> Operator:
    parameters = [*inspect.signature(translate).parameters.values()]
    common = [] if rest is None else inspect.signature(rest).parameters.values()
    keywords = {p.name: p.default for p in (*parameters, *common) if p.kind is p.KEYWORD_ONLY}
    takes_node = keywords.pop("node", None) is not None
    variadic = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    plain = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return Operator(
        name,
        domain,
        since,
        translate,
        frozenset(i for i, p in enumerate(plain) if p.annotation in (Static, "Static")),
        any(p.annotation == "Static" for p in variadic),
        None if variadic else len(plain),
        sum(p.default is p.empty for p in plain),
        keywords,
        takes_node,
    )
