"""Sequences and optionals: lists and `None`, resolved while the model is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import IndexOutOfRangeError
from rlx.ir import ops
from rlx.ir.shape import normalize_axis
from rlx.onnx.operators.shape import integers
from rlx.onnx.registry import Static, operator
from rlx.tracing.apply import emit


@operator("SequenceConstruct")
def sequence_construct(*inputs: Any) -> Any:
    return list(inputs)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Any:
    del dtype
    return []


def _place(position: Any, count: int) -> int:
    place = int(np.reshape(position, ()))
    if not -count <= place < count:
        raise IndexOutOfRangeError(
            f"position {place} is outside of a sequence of {count}",
            remedy="use a position inside of the sequence",
        )
    return place % count


@operator("SequenceInsert")
def sequence_insert(sequence: Any, tensor: Any, position: Static = None) -> Any:
    place = len(sequence) if position is None else int(np.reshape(position, ()))
    place = place if place >= 0 else place + len(sequence)
    return [*sequence[:place], tensor, *sequence[place:]]


@operator("SequenceErase")
def sequence_erase(sequence: Any, position: Static = None) -> Any:
    place = _place(-1 if position is None else position, len(sequence))
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("SequenceAt")
def sequence_at(sequence: Any, position: Static) -> Any:
    return sequence[_place(position, len(sequence))]


@operator("SequenceLength")
def sequence_length(sequence: Any) -> Any:
    return np.asarray(len(sequence), np.int64)


@operator("SplitToSequence")
def split_to_sequence(x: Any, split: Static = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    position = normalize_axis(axis, x.ndim)
    extent = x.shape[position]
    drops = split is None and not keepdims
    if split is None:
        lengths: list[int] = [1] * extent
    elif split.ndim == 0:
        size = int(split)
        lengths = [min(size, extent - start) for start in range(0, extent, size)]
    else:
        lengths = list(integers(split))
    parts = []
    for number, length in enumerate(lengths):
        start = sum(lengths[:number])
        part = emit(ops.narrow, x, axis=position, start=start, length=length)
        parts.append(rnp.squeeze(part, position) if drops else part)
    return parts


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: Any, *, axis: int, new_axis: int = 0) -> Any:
    return rnp.stack(sequence, axis) if new_axis else rnp.concatenate(sequence, axis)


@operator("Optional")
def optional(x: Any = None, *, type: Any = None) -> Any:
    del type
    return x


@operator("OptionalHasElement")
def optional_has_element(x: Any = None) -> Any:
    return np.asarray(x is not None)


@operator("OptionalGetElement")
def optional_get_element(x: Any) -> Any:
    return x
