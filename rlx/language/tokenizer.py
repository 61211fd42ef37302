"""Text to tokens and back, and conversations as prompts: all from what comes with a model.

Needs the packages `tokenizers` and, for chat templates, `jinja2` (`pip install rlx[language]`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import FormatError, UnsupportedError
from rlx.language.chat_template import prompt
from rlx.language.checkpoint import Checkpoint
from rlx.language.encoding import encoded, encoded_pair
from rlx.language.model_file import ModelFile
from rlx.language.pre_tokenizers import BY_NAME, PreTokenizer

_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4
"""Types of tokens in files."""

_UNKNOWN = "<unk>"
_BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")
"""The token of a byte, among pieces."""

_BRACKETED = re.compile(r"\[.*\]")
"""A token of BERT that is no text."""


@dataclass(frozen=True, slots=True)
class TextTokenizer:
    """A tokenizer of the library `tokenizers`, with the file's further settings."""

    library: Any
    tokens: Sequence[str]
    special: Mapping[str, int | None]
    """Ids of `bos`, `eos` and so on."""
    adds_start: bool
    template: str | None
    control: frozenset[int] = frozenset()
    """Tokens that are no text."""
    spelled_in_bytes: bool = True
    """True if each character of a token is a byte; else a space is written as `▁`."""
    prefix: str = ""
    """What a text begins with that was not in what was encoded."""
    further_ends: frozenset[int] = frozenset()
    """Tokens that end a text, besides those with names for it."""
    _bytes: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, file: ModelFile) -> TextTokenizer:
        """Build the tokenizer of a file; a FormatError names a key that is missing."""
        if isinstance(file, Checkpoint):
            from rlx.language.checkpoint_text import tokenizer_fields

            return cls(**tokenizer_fields(file))
        metadata = file.metadata
        tokens = _list(file, "tokenizer.ggml.tokens")
        special = {name: _special_token(file, name, len(tokens)) for name in ("bos", "eos", "eot")}
        library, template = _library_tokenizer(file, tokens), "tokenizer.chat_template"
        pieces = metadata["tokenizer.ggml.model"] in ("llama", "bert")
        by_default = pieces or _pre_tokenizer(file).adds_start
        adds_start = metadata.get("tokenizer.ggml.add_bos_token", by_default) is True
        if metadata["tokenizer.ggml.model"] != "bert":
            adds_end = metadata.get("tokenizer.ggml.add_eos_token") is True
            _surround(
                library, tokens, special["bos"] if adds_start else None,
                special["eos"] if adds_end else None,
            )  # fmt: skip
        has_prefix = pieces and metadata.get("tokenizer.ggml.add_space_prefix", True)
        types = _types(file, len(tokens))
        return cls(
            library,
            tokens,
            special,
            adds_start and special["bos"] is not None,
            _word(file, template, "") if template in metadata else None,
            frozenset(number for number, kind in enumerate(types) if kind == _CONTROL),
            not pieces,
            " " if has_prefix else "",
        )

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a text or a turn."""
        named = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>"}
        ends = {self.special["eos"], self.special["eot"]}
        ends |= {number for number, token in enumerate(self.tokens) if token in named}
        return self.further_ends.union(number for number in ends if number is not None)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; names of special tokens in it are those tokens."""
        start = self.special["bos"]
        ids = encoded(self.library, text)
        if self.adds_start and start is not None and ids[:1] != [start]:
            return [start, *ids]
        return ids

    def encode_whole(self, text: str) -> list[int]:
        """Return the tokens of a text of its own, with those that models put around it."""
        return encoded(self.library, text, with_special=True)

    def encode_pair(self, first: str, second: str) -> tuple[list[int], list[int]]:
        """Return the tokens of two texts as one, and which of them each is of: 0 or 1."""
        return encoded_pair(self.library, first, second)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; special tokens are left out."""
        text = b"".join(map(self.bytes_of, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(self.prefix)

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of a token's text: none for a special token, or one without a name."""
        if token not in self._bytes:
            # An embedding table may have more rows than there are tokens: these are no text.
            is_text = token < len(self.tokens) and token not in self.control
            self._bytes[token] = self._spelled(self.tokens[token]) if is_text else b""
        return self._bytes[token]

    def _spelled(self, token: str) -> bytes:
        if self.spelled_in_bytes:
            spelling = byte_spelling()
            in_bytes = spelling.keys() >= set(token)
            return bytes(spelling[c] for c in token) if in_bytes else token.encode()
        if _BYTE.fullmatch(token):
            return bytes([int(token[3:5], 16)])
        return token.replace("▁", " ").encode()

    def chat(self, messages: Sequence[Mapping[str, Any]], **values: Any) -> list[int]:
        """Return the prompt of a conversation, each message with `role` and `content`.

        `values` are further variables of the template, such as `tools` or `enable_thinking`.
        """
        if self.template is None:
            raise UnsupportedError(
                "the file has no chat template", remedy="encode a prompt of your own"
            )
        names = {"bos_token": self._name("bos"), "eos_token": self._name("eos")}
        text = prompt(self.template, messages, **names, **values)
        return self.encode(text)

    def _name(self, which: str) -> str:
        number = self.special[which]
        return "" if number is None else self.tokens[number]


def _special_token(file: ModelFile, name: str, count: int) -> int | None:
    """Return the number of a special token, where the file has one."""
    key = f"tokenizer.ggml.{name}_token_id"
    found = file.metadata.get(key)
    if found is None or (type(found) is int and 0 <= found < count):
        return found
    raise FormatError(
        f"{file.path}: key {key!r} is {found!r}; it must be one of the {count} tokens",
        remedy="use a file as its maker wrote it",
    )


def _library_tokenizer(file: ModelFile, tokens: list[str]) -> Any:
    kind = _word(file, "tokenizer.ggml.model", "none")
    builders = {"gpt2": _byte_level, "llama": _sentence_piece, "bert": _word_piece}
    if kind not in builders:
        raise UnsupportedError(
            f"{file.path}: a tokenizer of model {kind!r} is not supported",
            remedy=f"use a file with one of: {', '.join(builders)}",
        )
    library = builders[kind](file, tokens)
    _add_special(library, file, tokens)
    return library


def _byte_level(file: ModelFile, tokens: list[str]) -> Any:
    """Merges of pairs, over bytes."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [_pair(file, merge, vocabulary) for merge in _list(file, "tokenizer.ggml.merges")]
    words = _pre_tokenizer(file)
    library = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, ignore_merges=words.whole_words)
    )
    cuts = [
        pre_tokenizers.Split(Regex(expression), behavior="isolated")
        for expression in words.expressions
    ]
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([*cuts, spelled])
    library.decoder = decoders.ByteLevel()
    return library


def _pre_tokenizer(file: ModelFile) -> PreTokenizer:
    """Return how the words of a file's texts are cut."""
    name = _word(file, "tokenizer.ggml.pre", "default")
    if name not in BY_NAME:
        raise UnsupportedError(
            f"{file.path}: the pre-tokenizer {name!r} is not supported",
            remedy=f"use a file with one of: {', '.join(BY_NAME)}",
        )
    return BY_NAME[name]


@functools.cache
def byte_spelling() -> Mapping[str, int]:
    """Return the byte that each character of a token of bytes is, as GPT-2 spells them.

    Bytes that are printable characters are those; the others come after them, from U+0100 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{chr(byte): byte for byte in printable},
        **{chr(256 + number): byte for number, byte in enumerate(others)},
    }


def _pair(file: ModelFile, merge: str, vocabulary: Mapping[str, int]) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not (space and left in vocabulary and right in vocabulary and left + right in vocabulary):
        raise FormatError(
            f"{file.path}: key 'tokenizer.ggml.merges': {merge!r} is not a pair of tokens that "
            "makes a token",
            remedy="use a file as its maker wrote it",
        )
    return left, right


def _sentence_piece(file: ModelFile, tokens: list[str]) -> Any:
    """Pieces with scores: merges are all ways to make a piece of two, likeliest first."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    numbers = {token: number for number, token in enumerate(tokens)}
    scores = _numbers(file, "tokenizer.ggml.scores", len(tokens))
    if _UNKNOWN not in numbers:
        raise FormatError(
            f"{file.path}: key 'tokenizer.ggml.tokens' lacks {_UNKNOWN}, the token of unknown text",
            remedy="use a file as its maker wrote it",
        )
    pairs = [
        (-float(scores[number]), number, (token[:cut], token[cut:]))
        for token, number in numbers.items()
        for cut in range(1, len(token))
        if token[:cut] in numbers and token[cut:] in numbers
    ]
    merges = [pair for _, _, pair in sorted(pairs)]
    library = Tokenizer(
        models.BPE(vocab=numbers, merges=merges, unk_token=_UNKNOWN, fuse_unk=True,
                   byte_fallback=True)
    )  # fmt: skip
    prefix = file.metadata.get("tokenizer.ggml.add_space_prefix", True)
    steps: list[Any] = [normalizers.Prepend("▁")] if prefix else []
    library.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    undo: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    library.decoder = decoders.Sequence([*undo, *([decoders.Strip(" ", 1, 0)] if prefix else [])])
    return library


def _word_piece(file: ModelFile, tokens: list[str]) -> Any:
    """The longest pieces of each word; files write `▁` before those that begin words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    spelled = [
        token if kind == _CONTROL or _BRACKETED.fullmatch(token) else _as_word_piece(token)
        for token, kind in zip(tokens, _types(file, len(tokens)), strict=True)
    ]
    numbers = {token: number for number, token in enumerate(spelled)}
    unknown, start, end = (
        numbers.get(name, _special_token(file, key, len(tokens)))
        for name, key in (("[UNK]", "unknown"), ("[CLS]", "cls"), ("[SEP]", "seperator"))
    )
    if unknown is None:
        raise FormatError(
            f"{file.path}: key 'tokenizer.ggml.tokens' lacks [UNK], the token of unknown text",
            remedy="use a file as its maker wrote it",
        )
    library = Tokenizer(models.WordPiece(vocab=numbers, unk_token=spelled[unknown]))
    # Files do not say whether case matters: it does if there are capitals among the pieces.
    has_case = any(token != token.lower() for token in tokens if not _BRACKETED.fullmatch(token))
    library.normalizer = normalizers.BertNormalizer(lowercase=not has_case)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    _surround(library, tokens, start, end)
    return library


def _as_word_piece(token: str) -> str:
    """Return a token as the library writes it: `##` before what continues a word."""
    return token[1:] if token.startswith("▁") else f"##{token}"


def _surround(library: Any, tokens: list[str], start: int | None, end: int | None) -> None:
    """Put tokens around texts that are encoded with special tokens."""
    from tokenizers import processors

    named = {"start": start, "end": end}
    given = [
        {"id": name, "ids": [number], "tokens": [tokens[number]]}
        for name, number in named.items()
        if number is not None
    ]
    single = [
        "$A" if name == "text" else name
        for name in ("start", "text", "end")
        if name == "text" or named[name] is not None
    ]
    pair = [*single, *(f"{part.replace('$A', '$B')}:1" for part in single if part != "start")]
    library.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=given
    )


def _add_special(library: Any, file: ModelFile, tokens: list[str]) -> None:
    """Declare the tokens that are no text."""
    from tokenizers import AddedToken

    pairs = list(zip(tokens, _types(file, len(tokens)), strict=True))
    control = [token for token, kind in pairs if kind == _CONTROL]
    own = [token for token, kind in pairs if kind == _USER_DEFINED]
    library.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    library.add_tokens([AddedToken(token, normalized=False) for token in own])


def _types(file: ModelFile, count: int) -> list[float]:
    key = "tokenizer.ggml.token_type"
    return _numbers(file, key, count) if key in file.metadata else [_NORMAL] * count


def _list(file: ModelFile, key: str) -> list[str]:
    found = file.metadata.get(key)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise FormatError(
            f"{file.path}: key {key!r} is missing, or no list of strings",
            remedy="use the file of a language model, as its maker wrote it",
        )
    return found


def _numbers(file: ModelFile, key: str, count: int) -> list[float]:
    """Return the numbers of a key, one for each token."""
    found = np.asarray(file.metadata.get(key, ()))
    if found.shape != (count,) or found.dtype.kind not in "biuf":
        raise FormatError(
            f"{file.path}: key {key!r} is missing, or not one number for each of {count} tokens",
            remedy="use a file as its maker wrote it",
        )
    numbers: list[float] = found.tolist()
    return numbers


def _word(file: ModelFile, key: str, default: str) -> str:
    found = file.metadata.get(key, default)
    if not isinstance(found, str):
        raise FormatError(
            f"{file.path}: key {key!r} is {found!r}; it must be a string",
            remedy="use a file as its maker wrote it",
        )
    return found
