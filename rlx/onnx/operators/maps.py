"""Operators on maps: dictionaries that a session takes and gives, and that are never compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import FormatError
from rlx.onnx.registry import operator
from rlx.onnx.values import Map, deferred, map_type

_DOMAIN = "ai.onnx.ml"
Array = np.ndarray[Any, Any]
_MOST_WRITTEN = 256
"""Entries of a dictionary that is written out as Python."""


@operator("ZipMap", domain=_DOMAIN)
def zip_map(x: Any, *, classlabels_int64s: Any = None, classlabels_strings: Any = None) -> Any:
    """Return for every row a map from labels to its numbers, put together after the run."""
    labels = list(classlabels_strings or classlabels_int64s or ())
    if x.shape[-1] != len(labels):
        raise FormatError(
            f"ZipMap has {len(labels)} labels for rows of {x.shape[-1]} numbers",
            remedy="the model is malformed: export it again",
        )

    kind = map_type(np.dtype(x.dtype))

    def maps(rows: Array) -> list[Map]:
        table = rows.reshape(-1, len(labels)).tolist()
        return [kind(zip(labels, row, strict=True)) for row in table]

    written_out = _dictionaries(labels) if len(labels) <= _MOST_WRITTEN else None
    return deferred(x, maps, tuple(labels), for_callers=written_out)


def _dictionaries(labels: list[Any]) -> Callable[[Array], list[dict[Any, Any]]]:
    """Return a function from rows to dictionaries, written out: a third of the time of pairs."""
    names = [f"x{number}" for number in range(len(labels))]
    entries = ", ".join(f"{label!r}: {name}" for label, name in zip(labels, names, strict=True))
    made: Any = eval(f"lambda rows: [{{{entries}}} for [{', '.join(names)}] in rows]", {})

    def maps(rows: Array) -> list[dict[Any, Any]]:
        found: list[dict[Any, Any]] = made((rows if rows.ndim == 2 else rows[None]).tolist())
        return found

    return maps


@operator("DictVectorizer", domain=_DOMAIN, on_host=True)
def dict_vectorizer(x: Any, *, string_vocabulary: Any = None, int64_vocabulary: Any = None) -> Any:
    """Return the value of each word of a vocabulary, or nothing: 0 or an empty string."""
    nothing = "" if x.dtype == object else 0
    words = string_vocabulary or int64_vocabulary or ()
    return np.asarray([[x.get(word, nothing) for word in words]], x.dtype)


@operator("CastMap", domain=_DOMAIN, on_host=True)
def cast_map(
    x: Any, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> Any:
    """Return the values in the order of their keys, or each at its key among `max_map`."""
    as_text = cast_to == "TO_STRING"
    dtypes = {"TO_STRING": object, "TO_INT64": np.int64}
    dtype = np.dtype(dtypes.get(cast_to, np.float32))
    values = {key: str(value) if as_text else float(value) for key, value in x.items()}
    if map_form == "DENSE":
        return np.asarray([[values[key] for key in sorted(values)]], dtype)
    if values and not 0 <= max(values) < max_map:
        raise FormatError(
            f"CastMap: key {max(values)} is outside of {max_map} entries",
            remedy="give maps with keys from 0 to below max_map",
        )
    return np.asarray([[values.get(key, "" if as_text else 0) for key in range(max_map)]], dtype)
