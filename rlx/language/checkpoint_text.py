"""The tokenizer of a folder: `tokenizer.json`, with its settings and chat template."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rlx.errors import FormatError
from rlx.files import read_file
from rlx.language.checkpoint import Checkpoint
from rlx.language.encoding import encoded, is_failure
from rlx.limits import loading

_MOST_TOKENS = 1 << 24
"""Above all numbers of tokens: there is a list of them."""
_SPECIAL = {"bos": "bos_token", "eos": "eos_token", "eot": "eot_token"}


def tokenizer_fields(folder: Checkpoint) -> dict[str, Any]:
    """Return the fields of a folder's `TextTokenizer`.

    A FormatError names a file that is missing or damaged.
    """
    path = folder.folder / "tokenizer.json"
    with loading(folder.limits, str(path)) as budget:
        try:
            text = read_file(path, budget).decode()
            library, parsed = _library(text), json.loads(text)
        except OSError as error:
            raise FormatError(
                f"{path} cannot be read: {error.strerror or error}",
                remedy="give a folder with tokenizer.json; `AutoTokenizer.save_pretrained` of a "
                "fast tokenizer writes one",
            ) from error
        except ValueError as error:
            raise FormatError(f"{path}: {error}", remedy="get the file again") from error
    settings = folder.settings("tokenizer_config.json")
    numbers = library.get_vocab(with_added_tokens=True)
    count = max(numbers.values(), default=-1) + 1
    if count > _MOST_TOKENS:
        raise FormatError(
            f"{path}: token number {count - 1}; there are {_MOST_TOKENS} tokens at most",
            remedy="get the file again",
        )
    tokens = [""] * count
    for token, number in numbers.items():
        tokens[number] = token
    special = {name: numbers.get(_content(settings.get(key))) for name, key in _SPECIAL.items()}
    starts = encoded(library, "", with_special=True)
    decoders = list(_parts(parsed.get("decoder")))
    kinds = {part.get("type") for part in decoders}
    control = (n for n, token in library.get_added_tokens_decoder().items() if token.special)
    return {
        "library": library,
        "tokens": tokens,
        "special": special,
        "adds_start": special["bos"] is not None and special["bos"] in starts[:1],
        "template": _template(folder, settings),
        "control": frozenset(control),
        "spelled_in_bytes": "ByteLevel" in kinds,
        "prefix": " " if any(map(_strips_start, decoders)) else "",
        "further_ends": _ends(folder, len(tokens)),
    }


def _library(text: str) -> Any:
    from tokenizers import Tokenizer

    try:
        library = Tokenizer.from_str(text)
        library.no_truncation()  # of texts that the tokenizer was trained with, not of prompts
        library.no_padding()
        return library
    except BaseException as error:  # the library raises nothing more exact
        if not is_failure(error):
            raise
        raise ValueError(f"the library tokenizers cannot read it: {str(error)[:300]}") from error


def _content(token: Any) -> str:
    """Return a token that is written as a string, or as an object with more of it."""
    found = token.get("content") if isinstance(token, Mapping) else token
    return found if isinstance(found, str) else ""


def _parts(step: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a decoder."""
    if isinstance(step, Mapping):
        yield step
        for inner in step.get("decoders") or ():
            yield from _parts(inner)


def _strips_start(step: Mapping[str, Any]) -> bool:
    """True for a decoder that takes away the space before a text."""
    if step.get("type") == "Metaspace":
        return bool(step.get("prepend_scheme", "always") != "never")
    return (step.get("type"), step.get("content"), step.get("start")) == ("Strip", " ", 1)


def _template(folder: Checkpoint, settings: Mapping[str, Any]) -> str | None:
    """Return the chat template: a file of its own, or a setting; of several the default."""
    path = folder.folder / "chat_template.jinja"
    if path.exists():
        with loading(folder.limits, str(path)) as budget:
            try:
                return read_file(path, budget).decode()
            except ValueError as error:
                raise FormatError(f"{path}: {error}", remedy="get the file again") from error
    found = settings.get(
        "chat_template", folder.settings("chat_template.json").get("chat_template")
    )
    if isinstance(found, list):
        named = [each for each in found if isinstance(each, dict)]
        found = next((e.get("template") for e in named if e.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def _ends(folder: Checkpoint, count: int) -> frozenset[int]:
    """Return the tokens that end a text by `generation_config.json`, or else by `config.json`."""
    found = folder.settings("generation_config.json").get("eos_token_id")
    found = folder.config.get("eos_token_id") if found is None else found
    numbers = found if isinstance(found, list) else [] if found is None else [found]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise FormatError(
            f"{folder.folder}: key 'eos_token_id' is {str(found)[:100]}; it must be tokens",
            remedy="get the folder again",
        )
    return frozenset(number for number in numbers if number < count)
