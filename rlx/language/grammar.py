"""Grammars of answers: masks of the tokens that may follow, from the library `llguidance`.

    grammar = Grammar.json_schema({"type": "object", "properties": {"age": {"type": "integer"}}})
    tokens = list(model.generate(prompt, max_tokens=100, grammar=grammar))

Needs `pip install rlx[language]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError, UnsupportedError
from rlx.language.encoding import encoded
from rlx.language.tokenizer import TextTokenizer

_WHITESPACE = r"[ ]?|\n[ \t]{0,20}"
"""Between the parts of JSON: bounded, so that no model writes spaces without end."""

Mask: TypeAlias = NDArray[np.bool_]
"""Which tokens may follow, bool[vocabulary]."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """What an answer must be, whole: a text of a grammar, or JSON of a schema."""

    source: str
    """In the form that the library reads."""

    @classmethod
    def gbnf(cls, text: str) -> Grammar:
        """Return a grammar in llama.cpp's notation; its rule `root` is the answer."""
        library = _library()
        try:
            return cls(library.grammar_from("gbnf", _in_common_notation(text)))
        except (ValueError, OverflowError, RecursionError) as error:
            raise InputError(
                f"the grammar cannot be read: {str(error)[:300]}",
                remedy="write rules as `name ::= ...`, one of them called root",
            ) from error

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | bool | str | None = None) -> Grammar:
        """Return the grammar of JSON by a schema, or of any object.

        `schema` is an object, or its text. Keywords that cannot be enforced are an InputError when
        a model first uses the grammar.
        """
        given = {"type": "object"} if schema is None else schema
        try:
            text = given if isinstance(given, str) else json.dumps(given)
            options = {"whitespace_pattern": _WHITESPACE}
            return cls(_library().LLMatcher.grammar_from_json_schema(text, overrides=options))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"the schema is no JSON: {str(error)[:300]}", remedy="give a JSON schema"
            ) from error

    @classmethod
    def tool_calls(cls, tools: Sequence[Mapping[str, Any]], *, most: int | None = None) -> Grammar:
        """Return the grammar of calls of tools, as `<tool_call>` and `</tool_call>` enclose them.

        Each tool has a name and maybe a schema of its `parameters`; at least one call is made, and
        `most` at most.
        """
        calls = [
            {
                "type": "object",
                "properties": {
                    "name": {"const": tool["name"]},
                    "arguments": tool.get("parameters") or {"type": "object"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
                "x-guidance": {"whitespace_pattern": _WHITESPACE},
            }
            for tool in tools
        ]
        numbers = range(len(calls))
        further = "" if most == 1 else f'("\\n" call){{0,{most - 1 if most else ""}}}'
        rules = [
            f"start: call {further}",
            'call: "<tool_call>\\n" (' + " | ".join(f"call_{i}" for i in numbers) + ')'
            ' "\\n</tool_call>"',
            *(f"call_{i}: %json {json.dumps(call)}" for i, call in enumerate(calls)),
        ]  # fmt: skip
        return cls(_library().grammar_from("lark", "\n".join(rules)))


@dataclass(eq=False)
class Matcher:
    """How far an answer has come in a grammar, and which tokens may follow."""

    state: Any
    vocabulary: int
    mask: Mask = field(init=False)
    """Tokens that end a text are in it where the grammar allows an end."""

    def __post_init__(self) -> None:
        self.mask = self._allowed()

    @property
    def is_complete(self) -> bool:
        """True if nothing may follow."""
        return bool(self.state.is_stopped())

    def accept(self, token: int) -> None:
        """Take the token that was chosen."""
        self.state.consume_token(token)
        if not self.is_complete or self.state.is_error():
            self.mask = self._allowed()

    def masks(self, tokens: Sequence[int]) -> list[Mask]:
        """Return the masks here and after each of some tokens, up to the first that ends it."""
        ahead, found = Matcher(self.state.deep_copy(), self.vocabulary), [self.mask]
        for token in tokens:
            if not ahead.mask[token]:
                break
            ahead.accept(token)
            if ahead.is_complete:
                break
            found.append(ahead.mask)
        return found

    def _allowed(self) -> Mask:
        bits = None if self.state.is_error() else self.state.compute_bitmask()
        if bits is None or self.state.is_error():
            reason, _, _ = self.state.get_error().partition("\n<state>")  # of the library's parser
            raise InputError(
                f"the grammar cannot be enforced: {reason[:300]}",
                remedy="correct the grammar, or make it simpler",
            )
        each = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
        return each[: self.vocabulary].astype(np.bool_)


@dataclass(eq=False)
class GrammarTokens:
    """The tokens of a model as the library has them."""

    tokenizer: TextTokenizer
    vocabulary: int
    library: Any

    @classmethod
    def of(cls, tokenizer: TextTokenizer, vocabulary: int) -> GrammarTokens:
        ends = sorted(tokenizer.end_tokens)
        if not ends:
            raise UnsupportedError(
                "a grammar needs a token that ends texts, and the model's file names none",
                remedy="use a file with tokenizer.ggml.eos_token_id",
            )
        library = _library()
        wrapped = library.TokenizerWrapper(_Spelling(tokenizer, ends[0], vocabulary))
        made = library.LLTokenizer(wrapped, n_vocab=vocabulary, eos_token=ends)
        return cls(tokenizer, vocabulary, made)

    def matcher(self, grammar: Grammar) -> Matcher:
        """Return the beginning of an answer; InputError for a grammar that cannot be enforced."""
        state = _library().LLMatcher(self.library, grammar.source, log_level=0)
        return Matcher(state, self.vocabulary)


class _Spelling:
    """A tokenizer with the attributes that the library reads."""

    bos_token_id = None

    def __init__(self, tokenizer: TextTokenizer, end: int, vocabulary: int) -> None:
        self.tokenizer, self.eos_token_id = tokenizer, end
        named = range(min(len(tokenizer.tokens), vocabulary))
        self.tokens = [tokenizer.bytes_of(number) for number in named]
        special = tokenizer.control | tokenizer.end_tokens
        self.special_token_ids = sorted(special.intersection(named))
        for number in self.special_token_ids:
            self.tokens[number] = tokenizer.tokens[number].encode()
        self._numbers = {t: i for i, t in enumerate(self.tokens) if t and i not in special}
        self._longest = max(map(len, self._numbers), default=0)

    def __call__(self, text: str) -> list[int]:
        """Return the tokens of a text that the grammar leaves no choice of."""
        if not isinstance(text, str):
            raise TypeError("a text is a str")
        wanted, found = text.encode(), encoded(self.tokenizer.library, text)
        if b"".join(map(self.tokenizer.bytes_of, found)) == wanted:
            return found
        return self._longest_first(wanted)  # where the tokenizer adds a space, or makes one token

    def _longest_first(self, text: bytes) -> list[int]:
        found, at = list[int](), 0
        while at < len(text):
            sizes = range(min(self._longest, len(text) - at), 0, -1)
            size = next((size for size in sizes if text[at : at + size] in self._numbers), 0)
            if not size:
                break
            found.append(self._numbers[text[at : at + size]])
            at += size
        return found


_PART = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*|\.', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)


def _in_common_notation(text: str) -> str:
    """Return GBNF with what the library's reader of it takes otherwise: escapes, and `.`."""

    def unescaped(match: re.Match[str]) -> str:
        digits = match[1] or match[2]
        if digits is None or int(digits, 16) < 128:
            return f"\\x{int(digits, 16):02x}" if digits else match[0]
        return chr(int(digits, 16))

    def part(match: re.Match[str]) -> str:
        if match[0] == ".":
            return '(. | "\\n")'
        return match[0] if match[0][0] == "#" else _ESCAPE.sub(unescaped, match[0])

    return _PART.sub(part, text)


def _library() -> Any:
    try:
        import llguidance
    except ImportError as error:
        raise UnsupportedError(
            "grammars need the package llguidance", remedy="pip install rlx[language]"
        ) from error
    return llguidance
