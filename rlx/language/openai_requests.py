"""Bodies of OpenAI's HTTP interface: what is read of them, and errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.language.grammar import Grammar
from rlx.language.sampling import Sampling

_REFUSED = ("best_of", "echo", "suffix", "functions", "function_call", "audio")
_NUMBERS = ("top_k", "min_p", "typical_p", "repetition_penalty", "presence_penalty",
            "frequency_penalty")  # fmt: skip
_MOST_STOPS = 16
_LONGEST_GRAMMAR = 1 << 16
"""Characters: the time that a grammar takes to read grows with the square of its rules."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON object."""

    fields: Mapping[str, Any]

    @classmethod
    def of(cls, data: bytes) -> Body:
        """Parse a body; InputError for one that is no JSON object."""
        try:
            found = json.loads(data, parse_constant=_refuse_constant)
            json.dumps(found, ensure_ascii=False).encode()  # no half of a surrogate pair
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"the body is no JSON: {str(error)[:200]}", remedy="send a JSON object"
            ) from error
        if not isinstance(found, dict):
            raise InputError("the body is no JSON object", remedy="send a JSON object")
        for name in _REFUSED:
            if found.get(name):
                raise InputError(f"{name} is not supported", remedy=f"leave {name} out")
        return cls(found)

    def error(self, name: str, wanted: str) -> InputError:
        value = repr(self.fields.get(name))[:100]
        return InputError(f"{name} is {value}; it must be {wanted}", remedy=f"correct {name}")

    def integer(self, name: str, default: int | None, least: int, most: int) -> int | None:
        value = self.fields.get(name)
        if value is None:
            return default
        if type(value) is not int or not least <= value <= most:
            raise self.error(name, f"an integer from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        value = self.fields.get(name)
        if value not in (None, True, False):
            raise self.error(name, "a bool")
        return bool(value)

    def sampling(self) -> Sampling:
        """Return how tokens are chosen: as OpenAI's interface has it, at temperature 1."""
        given: dict[str, Any] = {"temperature": 1.0}
        for name in ("temperature", "top_p", *_NUMBERS):
            value = self.fields.get(name)
            if value is not None:
                is_number = isinstance(value, Real) and not isinstance(value, bool)
                if not is_number or not abs(value) <= _LARGEST:
                    raise self.error(name, "a number, finite in f32")
                given[name] = value
        bias = self.fields.get("logit_bias") or {}
        if not isinstance(bias, dict) or not all(key.isdecimal() for key in bias):
            raise self.error("logit_bias", "an object of tokens' numbers")
        given["logit_bias"] = {int(key[:20]): value for key, value in bias.items()}
        return Sampling(**given)

    def streams(self) -> tuple[bool, bool]:
        """Return whether an answer is streamed, and whether its usage is the last event."""
        options = self.fields.get("stream_options") or {}
        if not isinstance(options, dict):
            raise self.error("stream_options", "an object")
        return self.flag("stream"), bool(options.get("include_usage"))

    def stops(self) -> list[str]:
        value = self.fields.get("stop") or []
        stops = [value] if isinstance(value, str) else value
        fits = isinstance(stops, list) and len(stops) <= _MOST_STOPS
        if not fits or not all(isinstance(stop, str) and stop for stop in stops):
            raise self.error("stop", f"a string, or up to {_MOST_STOPS} of them, none empty")
        return list(stops)

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of a conversation, with text parts joined."""
        value = self.fields.get("messages")
        if not isinstance(value, list) or not value:
            raise self.error("messages", "a list of messages")
        return [self._message(message) for message in value]

    def _message(self, message: Any) -> dict[str, Any]:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise self.error("messages", "a list of objects, each with a role")
        content = message.get("content")
        if isinstance(content, list):
            texts = [part.get("text") for part in content if isinstance(part, dict)]
            strings = [text for text in texts if isinstance(text, str)]
            if len(strings) != len(content):
                raise self.error("messages", "made of text: other parts are not supported")
            content = "".join(strings)
        if content is not None and not isinstance(content, str):
            raise self.error("messages", "made of strings")
        calls = message.get("tool_calls")
        if calls is not None:
            if not isinstance(calls, list):
                raise self.error("messages", "with tool_calls as an answer has them")
            message = {**message, "tool_calls": [self._call(call) for call in calls]}
        return {**message, "content": content or ""}

    def _call(self, call: Any) -> Any:
        """Return a call of a tool with its arguments as an object, as templates write them."""
        try:
            function = call["function"]
            given = function["arguments"]
            parsed = json.loads(given) if isinstance(given, str) else given
            return {**call, "function": {**function, "arguments": parsed}}
        except (TypeError, LookupError, ValueError):
            raise self.error("messages", "with tool_calls as an answer has them") from None

    def tools(self) -> list[dict[str, Any]] | None:
        """Return the tools that the model is shown."""
        tools = self.fields.get("tools")
        if tools is None or self.fields.get("tool_choice") == "none":
            return None
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise self.error("tools", "a list of objects")
        return tools or None

    @property
    def has_grammar(self) -> bool:
        """True if a field may say what an answer must be."""
        return any(self.fields.get(name) for name in ("tool_choice", "response_format", "grammar"))

    def grammar(self) -> Grammar | None:
        """Return what an answer must be: calls of tools, JSON, or a text of a GBNF grammar."""
        given = [g for g in (self._forced_calls(), self._format(), self._gbnf()) if g is not None]
        if len(given) > 1:
            raise InputError(
                "an answer follows at most one grammar, and several are given",
                remedy="pass one of response_format, grammar and a tool_choice that forces calls",
            )
        return given[0] if given else None

    def _gbnf(self) -> Grammar | None:
        text = self.fields.get("grammar") or None
        if text is not None and not isinstance(text, str):
            raise self.error("grammar", "a GBNF grammar, as a string")
        if text is not None and len(text) > _LONGEST_GRAMMAR:
            raise InputError(
                f"a grammar of {len(text)} characters; it may have {_LONGEST_GRAMMAR}",
                remedy="send a shorter one, or a schema as response_format",
            )
        return None if text is None else Grammar.gbnf(text)

    def _format(self) -> Grammar | None:
        form = self.fields.get("response_format") or {"type": "text"}
        kind = form.get("type") if isinstance(form, dict) else None
        if kind == "text":
            return None
        if kind == "json_object":
            return Grammar.json_schema()
        named = form["json_schema"] if kind == "json_schema" and "json_schema" in form else None
        schema = named.get("schema") if isinstance(named, dict) else None
        if not isinstance(schema, dict):
            raise self.error(
                "response_format", "of type text, json_object, or json_schema with its schema"
            )
        return Grammar.json_schema(schema)

    def _forced_calls(self) -> Grammar | None:
        choice = self.fields.get("tool_choice")
        if choice in (None, "auto", "none"):
            return None
        functions = [self._function(tool) for tool in self.tools() or ()]
        most = None if self.fields.get("parallel_tool_calls", True) else 1
        if choice != "required":
            named = choice.get("function") if isinstance(choice, dict) else None
            name = named.get("name") if isinstance(named, dict) else None
            functions, most = [each for each in functions if each["name"] == name], 1
        if not functions:
            raise self.error("tool_choice", "auto, none, required, or the name of one of tools")
        return Grammar.tool_calls(functions, most=most)

    def _function(self, tool: dict[str, Any]) -> dict[str, Any]:
        function = tool.get("function")
        if (
            not isinstance(function, dict)
            or not isinstance(function.get("name"), str)
            or not isinstance(function.get("parameters") or {}, dict)
        ):
            raise self.error("tools", "functions, each with a name and a schema of parameters")
        return function


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def tool_calls(text: str) -> tuple[str, list[dict[str, str]]]:
    """Split an answer into its text and the calls of tools in it, each with name and arguments.

    Calls are JSON objects between `<tool_call>` and `</tool_call>`, as the templates of Qwen,
    Hermes and SmolLM have them; what is none remains text.
    """
    calls, rest = [], ""
    before, *parts = text.split(_OPEN)
    for part in parts:
        inner, closed, after = part.partition(_CLOSE)
        try:
            found = json.loads(inner)
            name, given = found["name"], found.get("arguments", {})
            calls.append({"name": str(name), "arguments": json.dumps(given, ensure_ascii=False)})
            rest += after
        except (ValueError, TypeError, LookupError, AttributeError):
            rest += _OPEN + inner + closed + after
    return (before + rest).strip() if calls else text, calls
