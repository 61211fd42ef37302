"""Operators on strings: computed by NumPy while a session runs, and never compiled."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import FormatError, InputError
from rlx.onnx.registry import operator

Array = np.ndarray[Any, Any]


def _each(function: Callable[..., str], *x: Array) -> Array:
    """Apply a function of strings to the elements of arrays that broadcast."""
    found = np.frompyfunc(function, len(x), 1)(*x)
    return np.asarray(found, object).reshape(np.broadcast_shapes(*(each.shape for each in x)))


@operator("StringConcat", on_host=True)
def string_concat(a: Any, b: Any) -> Any:
    return _each(lambda x, y: x + y, a, b)


@operator("StringSplit", on_host=True)
def string_split(x: Any, *, delimiter: str = "", maxsplit: int = -1) -> Any:
    """Parts along a new last axis, filled with empty strings, and how many there are."""
    parts = [text.split(delimiter or None, maxsplit) for text in x.ravel()]
    counts = np.asarray([len(each) for each in parts], np.int64)
    found = np.full((len(parts), counts.max(initial=0)), "", object)
    for row, each in enumerate(parts):
        found[row, : len(each)] = each
    return found.reshape(*x.shape, -1 if x.size else 0), counts.reshape(x.shape)


@operator("RegexFullMatch", on_host=True)
def regex_full_match(x: Any, *, pattern: str) -> Any:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise FormatError(
            f"pattern {pattern!r} is not a regular expression: {error}",
            remedy="write it in the syntax of re2 that Python's re shares",
        ) from None
    matches = [compiled.fullmatch(text) is not None for text in x.ravel()]
    return np.asarray(matches, bool).reshape(x.shape)


@operator("StringNormalizer", on_host=True)
def string_normalizer(
    x: Any,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: Any = (),
) -> Any:
    """Take accents and stop words out of strings, change their case, drop those left empty."""
    del locale  # letters have the same cases in all locales of Python
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case_change_action, str)
    words = set(stopwords) if is_case_sensitive else {change(word) for word in stopwords}

    def normalize(text: str) -> str:
        plain = _without_accents(text)
        if is_case_sensitive:
            return change(_without(plain, words))
        return _without(change(plain), words)

    found = _each(normalize, x)
    if found.ndim == 2 and found.shape[0] != 1:
        return found
    kept = [text for text in found.ravel() if text] or [""]
    return np.asarray(kept, object).reshape((1, -1) if found.ndim == 2 else -1)


def _without(text: str, words: set[str]) -> str:
    return " ".join(word for word in text.split(" ") if word not in words) if words else text


def _without_accents(text: str) -> str:
    parted = text if text.isascii() else unicodedata.normalize("NFKD", text)
    return "".join(c for c in parted if not unicodedata.combining(c))


@operator("CategoryMapper", domain="ai.onnx.ml", on_host=True)
def category_mapper(
    x: Any, *, cats_int64s: Any = (), cats_strings: Any = (), default_int64: int = -1,
    default_string: str = "_Unused",
) -> Any:  # fmt: skip
    """Strings to their numbers, or numbers to their strings."""
    pairs = list(zip(cats_strings, cats_int64s, strict=True))
    if x.dtype.kind == "O":
        return _mapped(x, dict(pairs), default_int64, np.dtype(np.int64))
    return _mapped(x, {n: s for s, n in pairs}, default_string, np.dtype(object))


def _mapped(x: Array, table: dict[Any, Any], default: Any, dtype: np.dtype[Any]) -> Array:
    found = [table.get(each, default) for each in x.ravel().tolist()]
    return np.asarray(found, dtype).reshape(x.shape)


def encoded_labels(
    x: Array,
    *,
    keys_int64s: Any = None,
    keys_floats: Any = None,
    keys_strings: Any = None,
    keys_tensor: Any = None,
    values_int64s: Any = None,
    values_floats: Any = None,
    values_strings: Any = None,
    values_tensor: Any = None,
    default_int64: int = -1,
    default_float: float = -0.0,
    default_string: str = "_Unused",
    default_tensor: Any = None,
    classes_strings: Any = None,
) -> Array:
    """`LabelEncoder` where keys or values are strings; the first version numbers its classes."""
    if classes_strings is not None:
        keys_strings, values_int64s = classes_strings, range(len(classes_strings))
    listed = (keys_strings, keys_int64s, keys_floats, keys_tensor)
    keys = next(each for each in listed if each is not None)
    kinds: tuple[tuple[Any, Any, Any], ...] = (
        (values_strings, default_string, object),
        (values_int64s, default_int64, np.int64),
        (values_floats, default_float, np.float32),
        (values_tensor, default_tensor, getattr(values_tensor, "dtype", None)),
    )
    values, default, dtype = next(kind for kind in kinds if kind[0] is not None)
    default = default.item() if isinstance(default, np.ndarray) else default
    table = dict(zip(np.asarray(keys).tolist(), np.asarray(values).tolist(), strict=True))
    return _mapped(x, table, default, np.dtype(dtype))


def encoded_categories(
    x: Array, *, cats_int64s: Any = None, cats_strings: Any = None, zeros: int = 1
) -> Array:
    """`OneHotEncoder` of strings, or with an error at what is no category."""
    known = cats_int64s if cats_strings is None else cats_strings
    elements = x if x.dtype.kind == "O" else x.astype(np.int64)
    found = np.stack([np.asarray(elements == each, np.float32) for each in known], -1)
    strange = elements[~found.any(-1)].tolist() if not zeros else []
    if strange:
        raise InputError(
            f"element {strange[0]!r} is none of the {len(known)} categories",
            remedy="pass elements of the model's vocabulary: zeros=0 makes others an error",
        )
    return found
