"""Stages that compute every splat by itself: one formula is kernel and reference.

A formula takes where names go, a splat, and the op's attributes but for the size of the screen. It
yields parts of its results: a name, and the columns that follow those before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.custom.kernels import (
    Buffer,
    E,
    KernelBuilder,
    LoopKind,
    Prim,
    Reader,
    Scope,
    blocks,
    const,
    given,
    result,
    row_count,
    upper,
    vectorize,
)
from rlx.splat.arithmetic import Camera, Number, Operand

Array: TypeAlias = NDArray[Any]

_WORK_PER_SPLAT = 256
"""Elements of plain loops that projecting one splat costs as much as."""


_VECTOR_BYTES = 32
"""Four splats at a time: compilers of C do not find vectors in loops as long as these."""


@dataclass(frozen=True, slots=True)
class Splat:
    """What is known of a splat, or of all splats."""

    operands: Mapping[str, Operand]
    flags: Mapping[str, Number]
    """Operands of one bool for all splats."""
    camera: Camera

    def __getitem__(self, name: str) -> Operand:
        return self.operands[name]


Formula: TypeAlias = Callable[..., Iterator[tuple[str, Sequence[Number]]]]


@dataclass(frozen=True)
class EachSplat:
    """A stage by its formula, and the names of its operands, of which `meta` is last."""

    formula: Formula
    operands: tuple[str, ...]
    results: tuple[str, ...]
    """Where a name is `d_` and that of an operand, the result is like the operand."""
    wide: tuple[str, ...] = ()
    """Results in f64; others have the dtype of `meta`."""

    def kernel(
        self, scope: Scope, *arguments: Any, width: int, height: int, **attributes: Any
    ) -> None:
        k = scope.k
        readers: dict[str, Reader] = dict(zip(self.operands, arguments, strict=False))
        writers = dict(zip(self.results, arguments[len(readers) :], strict=True))
        stored = {name: result(writer) for name, writer in writers.items()}
        widths = {name: _width(writer.shape) for name, writer in writers.items()}
        camera = camera_in(k, given(readers.pop("meta")), width, height)
        flags = {name: x for name, x in readers.items() if x.prim is Prim.BOOL}
        known = {name: k.let(name, k.load(given(x), 0)) for name, x in flags.items()}
        rows = {name: x for name, x in readers.items() if name not in flags}
        with _each_splat(scope, row_count(next(iter(rows.values())))) as i:
            operands = {name: _Row.of(k, x, i) for name, x in rows.items()}
            done = Counter[str]()
            for name, columns in self.formula(k, Splat(operands, known, camera), **attributes):
                buffer = stored[name]
                for column in columns:
                    value = column.cast(buffer.prim) if isinstance(column, E) else column
                    k.store(buffer, i * widths[name] + done[name], value)
                    done[name] += 1

    def reference(
        self, *arrays: Array, width: int, height: int, **attributes: Any
    ) -> Array | tuple[Array, ...]:
        found = dict(zip(self.operands, arrays, strict=True))
        meta = found["meta"]
        flags = {name: x[0] for name, x in found.items() if x.dtype == np.bool_}
        rows = {name: x for name, x in found.items() if name != "meta" and name not in flags}
        operands = {name: _Rows.of(x) for name, x in rows.items()}
        columns: dict[str, list[Number]] = {name: [] for name in self.results}
        with np.errstate(all="ignore"):
            splat = Splat(operands, flags, camera_of(meta, width, height))
            for name, part in self.formula(_Unnamed(), splat, **attributes):
                columns[name] += part
        count = len(arrays[0])
        results = []
        for name, each in columns.items():
            like = found.get(name.removeprefix("d_"))
            shape = (count, len(each))[: 1 + (len(each) > 1)] if like is None else like.shape
            whole = np.stack([np.broadcast_to(column, count) for column in each], -1)
            dtype = np.float64 if name in self.wide else meta.dtype
            results.append(whole.reshape(shape).astype(dtype))
        return tuple(results) if len(results) > 1 else results[0]


@contextmanager
def _each_splat(scope: Scope, rows: int) -> Iterator[E]:
    """Open the loops over splats: blocks for threads, in lanes."""
    k = scope.k
    count = const(rows, Prim.I64)
    vector_bytes = _VECTOR_BYTES if scope.target.has_vectors else 0
    scope.passes.append(partial(vectorize, vector_bytes=vector_bytes))
    with (
        blocks(k, count, rows * _WORK_PER_SPLAT, size=512) as (start, stop),
        k.loop("i", stop, start=start, kind=LoopKind.SIMD) as i,
    ):
        yield i


def _width(shape: Sequence[Any]) -> int:
    """Return the numbers of a row."""
    return math.prod(map(upper, shape[1:]))


# Operands in kernels


@dataclass(frozen=True, slots=True)
class _Row:
    """A row in memory."""

    k: KernelBuilder
    memory: Buffer
    first: E
    width: int = 1

    @classmethod
    def of(cls, k: KernelBuilder, x: Reader, number: E) -> _Row:
        width = _width(x.shape)
        return cls(k, given(x), number * width, width)

    def number(self, column: int, name: str) -> E:
        return self.k.let(name, self.k.load(self.memory, self.first + column).cast(Prim.F64))


# Operands in NumPy


@dataclass(frozen=True, slots=True)
class _Rows:
    """All rows of an array, side by side."""

    array: Array

    @classmethod
    def of(cls, x: Array) -> _Rows:
        return cls(x.reshape(len(x), _width(x.shape)))

    @property
    def width(self) -> int:
        return self.array.shape[-1]

    def number(self, column: int, name: str) -> Array:
        del name
        number: Array = self.array[..., column].astype(np.float64)
        return number


class _Unnamed:
    """Intermediate results without names."""

    def let(self, name: str, value: Number) -> Number:
        del name
        return value


def camera_of(meta: Array, width: int, height: int) -> Camera:
    """Return the camera of `meta`, in numbers."""
    return Camera.of(_Unnamed(), _Rows(meta), width, height)


def camera_in(k: KernelBuilder, meta: Buffer, width: int, height: int) -> Camera:
    """Return the camera that is stored in `meta`, for a kernel."""
    return Camera.of(k, _Row(k, meta, const(0, Prim.I64)), width, height)
