"""Texts to tokens by the library `tokenizers`, whose failures are typed errors here."""

from __future__ import annotations

from typing import Any

from rlx.errors import FormatError, InputError


def encoded(library: Any, text: str, *, with_special: bool = False) -> list[int]:
    """Return the tokens that the library makes of a text."""
    found: list[int] = _encoding(library, text, with_special=with_special).ids
    return found


def encoded_pair(library: Any, first: str, second: str) -> tuple[list[int], list[int]]:
    """Return the tokens of two texts with those around them, and which text each is of: 0 or 1."""
    found = _encoding(library, first, second, with_special=True)
    return found.ids, found.type_ids


def _encoding(library: Any, *texts: str, with_special: bool) -> Any:
    text = " ".join(texts)
    try:
        text.encode()
        return library.encode(*texts, add_special_tokens=with_special)
    except UnicodeEncodeError as error:
        raise InputError(
            f"a text has the character {text[error.start]!r}, which is not Unicode text",
            remedy="leave it out",
        ) from error
    except BaseException as error:
        if not is_failure(error):
            raise
        raise FormatError(
            f"the library tokenizers cannot encode {text[:50]!r}: {str(error)[:300]}",
            remedy="get the tokenizer's file again",
        ) from error


def is_failure(error: BaseException) -> bool:
    """True for an error of the library `tokenizers`, whose panics are no `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
