"""Text to tokens and back, and conversations as prompts: all from a GGUF file's metadata.

Needs the packages `tokenizers` and, for chat templates, `jinja2` (`pip install rlx[language]`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import FormatError, UnsupportedError
from rlx.gguf import GgufFile
from rlx.language.chat_template import prompt

_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4
"""Types of tokens in files."""

_UNKNOWN = "<unk>"

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = (
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {
    "llama-bpe": _CONTRACTIONS + _REST.replace("{DIGITS}", "{1,3}"),
    "qwen2": _CONTRACTIONS + _REST.replace("{DIGITS}", ""),
}
"""How text is cut into words before they are merged, by `tokenizer.ggml.pre`."""
_SINGLE_DIGITS = ("smollm", "default", "gpt-2")
"""Cut as GPT-2 does; the first also takes every digit for itself."""


@dataclass(frozen=True, slots=True)
class TextTokenizer:
    """A tokenizer of the library `tokenizers`, with the file's further settings."""

    library: Any
    tokens: Sequence[str]
    special: Mapping[str, int | None]
    """Ids of `bos`, `eos` and so on."""
    adds_start: bool
    template: str | None

    @classmethod
    def of(cls, file: GgufFile) -> TextTokenizer:
        """Build the tokenizer of a file; a FormatError names a key that is missing."""
        metadata = file.metadata
        tokens = _list(file, "tokenizer.ggml.tokens")
        special = {name: _special_token(file, name, len(tokens)) for name in ("bos", "eos", "eot")}
        library, template = _library_tokenizer(file, tokens), "tokenizer.chat_template"
        pieces = metadata["tokenizer.ggml.model"] == "llama"
        adds_start = metadata.get("tokenizer.ggml.add_bos_token", pieces) is True
        return cls(
            library,
            tokens,
            special,
            adds_start and special["bos"] is not None,
            _word(file, template, "") if template in metadata else None,
        )

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a text or a turn."""
        named = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>"}
        ends = {self.special["eos"], self.special["eot"]}
        ends |= {number for number, token in enumerate(self.tokens) if token in named}
        return frozenset(number for number in ends if number is not None)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; names of special tokens in it are those tokens."""
        start = self.special["bos"]
        ids: list[int] = self.library.encode(text, add_special_tokens=False).ids
        if self.adds_start and start is not None and ids[:1] != [start]:
            return [start, *ids]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; special tokens are left out."""
        text: str = self.library.decode(list(ids), skip_special_tokens=True)
        return text

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Return the prompt of a conversation, each message with `role` and `content`."""
        if self.template is None:
            raise UnsupportedError(
                "the file has no chat template", remedy="encode a prompt of your own"
            )
        names = {"bos_token": self._name("bos"), "eos_token": self._name("eos")}
        text = prompt(self.template, messages, **names)
        return self.encode(text)

    def _name(self, which: str) -> str:
        number = self.special[which]
        return "" if number is None else self.tokens[number]


def _special_token(file: GgufFile, name: str, count: int) -> int | None:
    """Return the number of a special token, where the file has one."""
    key = f"tokenizer.ggml.{name}_token_id"
    found = file.metadata.get(key)
    if found is None or (type(found) is int and 0 <= found < count):
        return found
    raise FormatError(
        f"{file.path}: key {key!r} is {found!r}; it must be one of the {count} tokens",
        remedy="use a file as its maker wrote it",
    )


def _library_tokenizer(file: GgufFile, tokens: list[str]) -> Any:
    kind = _word(file, "tokenizer.ggml.model", "none")
    builders = {"gpt2": _byte_level, "llama": _sentence_piece}
    if kind not in builders:
        raise UnsupportedError(
            f"{file.path}: a tokenizer of model {kind!r} is not supported",
            remedy=f"use a file with one of: {', '.join(builders)}",
        )
    library = builders[kind](file, tokens)
    _add_special(library, file, tokens)
    return library


def _byte_level(file: GgufFile, tokens: list[str]) -> Any:
    """Merges of pairs, over bytes."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [_pair(file, merge, vocabulary) for merge in _list(file, "tokenizer.ggml.merges")]
    library = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    name = _word(file, "tokenizer.ggml.pre", "default")
    pattern = _PATTERNS.get(name)
    if pattern is None and name not in _SINGLE_DIGITS:
        raise UnsupportedError(
            f"{file.path}: words cut as {name!r} does are not supported",
            remedy=f"use a file with one of: {', '.join([*_PATTERNS, *_SINGLE_DIGITS])}",
        )
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    before: list[Any] = []
    if pattern is not None:
        before.append(pre_tokenizers.Split(Regex(pattern), behavior="isolated"))
    elif name == "smollm":
        before.append(pre_tokenizers.Digits(individual_digits=True))
    library.pre_tokenizer = pre_tokenizers.Sequence([*before, words])
    library.decoder = decoders.ByteLevel()
    return library


def _pair(file: GgufFile, merge: str, vocabulary: Mapping[str, int]) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not (space and left in vocabulary and right in vocabulary and left + right in vocabulary):
        raise FormatError(
            f"{file.path}: key 'tokenizer.ggml.merges': {merge!r} is no pair of tokens that "
            "makes a token",
            remedy="use a file as its maker wrote it",
        )
    return left, right


def _sentence_piece(file: GgufFile, tokens: list[str]) -> Any:
    """Pieces with scores: merges are all ways to make a piece of two, likeliest first."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    numbers = {token: number for number, token in enumerate(tokens)}
    scores = _numbers(file, "tokenizer.ggml.scores", len(tokens))
    if _UNKNOWN not in numbers:
        raise FormatError(
            f"{file.path}: key 'tokenizer.ggml.tokens' has no {_UNKNOWN}, for what is no piece",
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


def _add_special(library: Any, file: GgufFile, tokens: list[str]) -> None:
    """Declare the tokens that are no text."""
    from tokenizers import AddedToken

    key = "tokenizer.ggml.token_type"
    known = key in file.metadata
    types = _numbers(file, key, len(tokens)) if known else [_NORMAL] * len(tokens)
    pairs = list(zip(tokens, types, strict=True))
    control = [token for token, kind in pairs if kind == _CONTROL]
    own = [token for token, kind in pairs if kind == _USER_DEFINED]
    library.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    library.add_tokens([AddedToken(token, normalized=False) for token in own])


def _list(file: GgufFile, key: str) -> list[str]:
    found = file.metadata.get(key)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise FormatError(
            f"{file.path}: key {key!r} is missing, or no list of strings",
            remedy="use the file of a language model, as its maker wrote it",
        )
    return found


def _numbers(file: GgufFile, key: str, count: int) -> list[float]:
    """Return the numbers of a key, one for each token."""
    found = np.asarray(file.metadata.get(key, ()))
    if found.shape != (count,) or found.dtype.kind not in "biuf":
        raise FormatError(
            f"{file.path}: key {key!r} is missing, or not one number for each of {count} tokens",
            remedy="use a file as its maker wrote it",
        )
    numbers: list[float] = found.tolist()
    return numbers


def _word(file: GgufFile, key: str, default: str) -> str:
    found = file.metadata.get(key, default)
    if not isinstance(found, str):
        raise FormatError(
            f"{file.path}: key {key!r} is {found!r}; it must be a string",
            remedy="use a file as its maker wrote it",
        )
    return found
