"""Calls of LAPACK: arguments by address, column-major matrices, the status `info`.

A row-major matrix is the transpose of what LAPACK takes it for. Work space is in the kernel's
scratch, of the size that is best according to LAPACK's documentation, so that nothing is asked at
run time. Slices of a batch are shared by threads; one matrix is one call on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rlx.codegen.kernels.access import GroupedReader
from rlx.codegen.kernels.linalg.rows import Rows
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, scratch
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, const, index
from rlx.codegen.loops.nodes import Address, Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.foreign import LAPACK
from rlx.ir.lowering import Library
from rlx.ir.shape import Extent, product, upper
from rlx.ir.types import TensorType

RoomOf = TypeVar("RoomOf", bound="Callable[..., Room]")

BLOCK = 64
"""Columns that LAPACK works on together, at most: its work space has so many rows."""

_WORKERS = 16
"""Slices that are worked on at a time, at most: each has scratch of its own."""

_TILE = 8
"""Rows and columns moved together by a transpose: a cache line of each."""

_OF_NUMBERS = ("#work",)
"""Counts of complex numbers where matrices hold them."""

_INTEGERS = ("integers", "exchanged")
"""Arrays of C ints."""

_LETTERS = {Prim.F32: "s", Prim.F64: "d"}
_COMPLEX_LETTERS = {Prim.F32: "c", Prim.F64: "z"}


@dataclass(frozen=True, slots=True)
class Room:
    """Layout of one slice's arrays in scratch: names and numbers of elements, in order.

    An element is a real number: complex ones take two, an integer of 32 bits one.
    """

    counts: dict[str, int]
    parts: int = 1
    """2 if a count passed to LAPACK is one of complex numbers."""

    @property
    def elements(self) -> int:
        return sum(self.counts.values())

    def scratch_bytes(self, a: TensorType) -> int:
        """Return the bytes for all slices that are worked on at a time."""
        return (
            _workers(a)
            * self.elements
            * (a.dtype.size // 2 if a.dtype.is_complex else a.dtype.size)
        )


@dataclass(frozen=True, slots=True)
class Slice:
    """One matrix of a batch, and its arrays in scratch."""

    k: KernelBuilder
    memory: Buffer
    number: E
    base: E
    room: Room

    def at(self, name: str) -> E:
        """Return where an array begins."""
        names = list(self.room.counts)
        before = names[: names.index(name)]
        return self.base + sum(self.room.counts[each] for each in before)

    def call(
        self,
        name: str,
        letters: str,
        arguments: str,
        *,
        is_complex: bool | None = None,
        **others: int | E | Address,
    ) -> E:
        """Call a routine with `letters` and `arguments`; return `info`, 0 for success.

        Arguments are arrays by name, `#` and a name for how many elements one has, and `others`.
        Fortran passes the lengths of strings by value after all arguments.
        """
        k, is_complex = self.k, self.room.parts == 2 if is_complex is None else is_complex
        letter = (_COMPLEX_LETTERS if is_complex else _LETTERS)[self.memory.prim]
        if (symbol := f"{letter}{name}_") not in LAPACK:
            raise InternalError(f"{symbol} is not among the symbols that a library is asked for")
        places = {n: x if isinstance(x, Address) else integer(k, n, x) for n, x in others.items()}
        verdict = k.local("verdict", Prim.I32, 1)
        texts = [_byte(k, each) for each in letters]
        given = [places.get(each) or self._argument(each) for each in arguments.split()]
        lengths = [const(1, Prim.I64) for _ in letters]
        status = k.address(verdict, 0, writable=True)
        k.external(symbol, [*texts, *given, status, *lengths])
        return k.let("found", k.load(verdict, 0))

    def _argument(self, name: str) -> Address:
        if name.startswith("#"):
            count = self.room.counts[name[1:]] // (self.room.parts if name in _OF_NUMBERS else 1)
            return integer(self.k, f"{name[1:]}_extent", count)
        prim = Prim.I32 if name in _INTEGERS else None
        return self.k.address(self.memory, self.at(name), prim=prim, writable=True)

    def rows(self, name: str, width: int) -> Rows:
        """Return an array as rows of so many numbers, which LAPACK takes for columns."""
        return Rows(self.k, self.memory, self.at(name), width, self.room.parts)


@contextmanager
def slices(scope: Scope, a: TensorType, room: Room) -> Iterator[Slice]:
    """Loop over the matrices of a batch, divided among threads."""
    k, memory, workers = scope.k, scope.scratch_memory, _workers(a)
    count = scope.extents(product(a.shape[:-2]))
    with rows(k, "worker", index(workers), a.elements * BLOCK) as worker:
        base = k.let("base", worker * room.elements)
        first = k.let("first", worker * count / workers)
        last = k.let("last", (worker + 1) * count / workers)
        with k.loop("slice", last, start=first) as number:
            yield Slice(k, memory, number, base, room)


def needs_room(*kinds: str) -> Callable[[RoomOf], RoomOf]:
    """Register the scratch of calls of LAPACK for `kinds`: a room for each slice at work.

    The room is found from the operands' types and the attributes, first of all from the matrix.
    """

    def register(room_of: RoomOf) -> RoomOf:
        def scratch_bytes(*operands: TensorType, results: object, **attributes: Any) -> int:
            del results
            return room_of(*operands, **attributes).scratch_bytes(operands[0])

        for kind in kinds:
            scratch(kind, lowering=Library)(scratch_bytes)
        return room_of

    return register


def _workers(a: TensorType) -> int:
    return max(1, min(upper(product(a.shape[:-2])), _WORKERS))


def _byte(k: KernelBuilder, letter: str) -> Address:
    place = k.local("letter", Prim.U8, 1)
    k.store(place, 0, const(ord(letter), Prim.U8))
    return k.address(place, 0)


def integer(k: KernelBuilder, name: str, value: Operand) -> Address:
    """Return the address of `value` as a C int: LAPACK takes all by address."""
    place = k.local(name, Prim.I32, 1)
    k.store(place, 0, index(value).cast(Prim.I32))
    return k.address(place, 0)


def lay_out(columns: Rows, matrix: GroupedReader, wide: int) -> None:
    """Copy a matrix column by column."""
    k, high, whole = columns.k, columns.width, wide // _TILE * _TILE
    with (
        k.loop("j", whole, step=_TILE) as first,
        k.loop("i", high) as i,
        k.loop("j_inner", _TILE) as j,
    ):
        columns.store(first + j, i, matrix.read(i, first + j))
    with k.loop("j", wide, start=whole) as j, k.loop("i", high) as i:
        columns.store(j, i, matrix.read(i, j))


def lay_out_transposed(rows: Rows, matrix: GroupedReader, high: int) -> None:
    """Copy a matrix row by row, which is the transpose in LAPACK's column-major order."""
    with rows.k.loop("i", high) as i, rows.k.loop("j", rows.width, kind=LoopKind.SIMD) as j:
        rows.store(i, j, matrix.read(i, j))


def parts_in(a: TensorType) -> int:
    """Return how many machine numbers an element takes."""
    return 2 if a.dtype.is_complex else 1


def extents(a: TensorType) -> tuple[int, int]:
    """Return rows and columns of the matrices, at their most."""
    high, wide = a.shape[-2:]
    return upper(high), upper(wide)


def columns_of(b: TensorType, *, vector: bool) -> Extent:
    """Return how many right-hand sides a system has."""
    return 1 if vector else b.shape[-1]
