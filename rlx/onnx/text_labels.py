"""Operators on strings, computed on the numbers of the strings in a table.

What moves strings (a gather, a reshape, a concatenation) moves their numbers in the program, and
the strings are put in after the run, as for the labels of classifiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.onnx import host
from rlx.onnx.operators.scores import Labels
from rlx.onnx.registry import Operator
from rlx.onnx.values import Deferred

_MOVEMENT = {
    ("ai.onnx.ml", "ArrayFeatureExtractor"),
    *(
        ("", name)
        for name in (
            "Compress", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
            "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
        )
    ),
}  # fmt: skip
_ELEMENTWISE = {("", "Cast"), ("ai.onnx.ml", "LabelEncoder")}


def applied(found: Operator, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Return the results of an operator that has strings among its inputs; None for others."""
    operator = found.domain, found.name
    if operator in _ELEMENTWISE and isinstance(inputs[0], Deferred) and inputs[0].is_elementwise:
        table = host.apply(found, [_table(inputs[0]), *inputs[1:]], attributes)
        return Labels(table).at(inputs[0].array)
    if operator not in _MOVEMENT or not any(map(_is_text, inputs)):
        return None
    tables: list[np.ndarray[Any, Any]] = []
    numbers = []
    for value in inputs:
        if _is_text(value):
            numbers.append(_numbers(value, first=sum(table.size for table in tables)))
            tables.append(_table(value))
        else:
            numbers.append(value)
    labels = Labels(np.concatenate(tables))
    results = found.translate(*numbers, **attributes)
    return tuple(map(labels.at, results)) if isinstance(results, tuple) else labels.at(results)


def _is_text(value: Any) -> bool:
    if isinstance(value, Deferred):
        return value.is_elementwise
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def _table(value: Any) -> np.ndarray[Any, Any]:
    """Return the strings that the numbers of `value` are places of."""
    return np.asarray(value.labels if isinstance(value, Deferred) else value.ravel(), object)


def _numbers(value: Any, first: int) -> Any:
    """Return the place of each string in a table, of which its own part begins at `first`."""
    if isinstance(value, Deferred):
        return rnp.add(rnp.astype(value.array, "i64"), first)
    return np.arange(first, first + value.size).reshape(value.shape)
