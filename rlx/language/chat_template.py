"""Chat templates of model files: untrusted programs, run in a sandbox.

Jinja's sandbox keeps them from Python's objects. Here are bounds on what they compute: trips of
loops, numbers, and what single operators and functions make of them.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlx.errors import FormatError, RlxError, UnsupportedError

_LARGEST_NUMBER = 2**53
_LONGEST_TEXT = 1 << 24
_MOST_TRIPS = 1 << 20
_MOST_INDENT = 16
_PADDING = frozenset(("center", "expandtabs", "ljust", "rjust", "zfill"))
"""Methods of strings that make long ones of a number."""


def prompt(template: str, messages: Sequence[Mapping[str, Any]], **values: Any) -> str:
    """Return the text that a template makes of messages; FormatError if it fails."""
    trips = 0

    def count_trip() -> None:
        nonlocal trips
        trips += 1
        if trips > _MOST_TRIPS:
            raise OverflowError(f"its loops have more than {_MOST_TRIPS} trips")

    try:
        compiled = _compiled(template)
        given = {**values, "messages": list(messages), _COUNT_TRIP: count_trip}
        return str(compiled.render({"add_generation_prompt": True, **given}))
    except RlxError:
        raise
    except Exception as error:  # the template computes, and any operation may fail
        raise FormatError(
            "key 'tokenizer.chat_template' is not a template for these messages: "
            f"{type(error).__name__}: {str(error)[:500]}",
            remedy="encode a prompt of your own, or change the messages",
        ) from error


_COUNT_TRIP = "0count_trip"
"""A variable that no template can name or set: it starts with a digit."""


@functools.lru_cache(maxsize=8)
def _compiled(template: str) -> Any:
    """Compile a template; each trip of a loop and each call of a macro is counted."""
    from jinja2 import nodes

    environment = _environment()
    tree = environment.parse(template)
    for block in tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock)):
        call = nodes.Call(nodes.Name(_COUNT_TRIP, "load"), [], [], None, None)
        block.body.insert(0, nodes.ExprStmt(call, lineno=block.lineno))
    return environment.from_string(tree)


@functools.cache
def _environment() -> Any:
    from jinja2 import sandbox
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols

    class Environment(sandbox.ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("+", "*", "**", "%"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """Apply an operator to small numbers, and join short texts and lists."""
            if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
                if len(left) + len(right) > _LONGEST_TEXT:
                    raise OverflowError(f"a text of more than {_LONGEST_TEXT} characters")
            elif operator == "**" or not (_is_small(left) and _is_small(right)):
                raise OverflowError(f"{operator} is for numbers below 2^53 here")
            return super().call_binop(context, operator, left, right)

        def wrap_str_format(self, value: Any) -> Any:
            """Refuse `str.format`, whose widths pad; anything else is no format."""
            if super().wrap_str_format(value) is not None:
                raise SecurityError("str.format is not for chat templates")
            return None

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return attr not in _PADDING and super().is_safe_attribute(obj, attr, value)

    def refuse(message: str) -> None:
        raise UnsupportedError(f"the chat template refuses: {message}", remedy="change messages")

    class Generation(Extension):
        """`{% generation %}`, which marks what an assistant said for those who train."""

        tags = {"generation"}  # noqa: RUF012 (the type of the base class)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    made = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    for name in ("center", "format"):
        del made.filters[name]
    del made.globals["lipsum"]
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = _now
    made.filters["tojson"] = _json
    return made


def _now(layout: str) -> str:
    """Return the time of now, as transformers' `strftime_now` does."""
    if not re.fullmatch(r"(?:[^%]|%-?[A-Za-z%]){0,200}", layout):
        raise ValueError(f"{layout[:200]!r} is not a format of times")
    return datetime.datetime.now().astimezone().strftime(layout)


def _json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None,
    separators: tuple[str, str] | None = None, sort_keys: bool = False,
) -> str:  # fmt: skip
    """Return JSON, as transformers' `tojson` does: nothing of it is escaped for HTML."""
    if indent is not None and not 0 <= indent <= _MOST_INDENT:
        raise OverflowError(f"an indent of {indent}; at most {_MOST_INDENT} is accepted")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
        sort_keys=sort_keys,
    )  # fmt: skip


def _is_small(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < _LARGEST_NUMBER
