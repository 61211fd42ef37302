"""Accesses of kernels to the memory that the threads of a pool share, and calls of the system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, index
from rlx.codegen.loops.nodes import AtomicOp, Buffer, Kernel, Prim, ValueType
from rlx.codegen.sync import CLOCK, MUTEX

STATUS = ValueType(Prim.I32)


def declare_sync(k: KernelBuilder) -> Buffer:
    """Declare the sync block of a pool."""
    return k.argument("sync", Prim.I64, writable=True, may_alias=True)


def atomic_load(k: KernelBuilder, sync: Buffer, word: int) -> E:
    return bound(k.atomic(AtomicOp.LOAD, sync, word))


def atomic_add(k: KernelBuilder, sync: Buffer, word: Operand, value: Operand) -> E:
    """Add `value` and return what the word held before."""
    return bound(k.atomic(AtomicOp.ADD, sync, word, value))


def atomic_store(k: KernelBuilder, sync: Buffer, word: Operand, value: Operand) -> None:
    k.atomic(AtomicOp.STORE, sync, word, value)


def bound(value: E | None) -> E:
    assert value is not None, "the statement binds a result"
    return value


def invoke(k: KernelBuilder, kernel: Kernel, sync: Buffer, *scalars: E) -> None:
    k.invoke(kernel, [k.address(sync, writable=True)], scalars)


@contextmanager
def locked(k: KernelBuilder, sync: Buffer) -> Iterator[None]:
    call_pthread(k, sync, "mutex_lock", MUTEX)
    yield
    call_pthread(k, sync, "mutex_unlock", MUTEX)


def call_pthread(k: KernelBuilder, sync: Buffer, function: str, *words: int) -> None:
    objects = [k.address(sync, word, writable=True) for word in words]
    k.external(f"pthread_{function}", objects, STATUS)


def read_clock(k: KernelBuilder, sync: Buffer, clock_word: int = CLOCK) -> E:
    """Return the time of a clock in nanoseconds."""
    time = k.local("time", Prim.I64, 2)
    clock = k.load(sync, clock_word).cast(Prim.I32)
    k.external("clock_gettime", (clock, k.address(time, writable=True)), STATUS)
    return k.let("now", k.load(time, 0) * 1_000_000_000 + k.load(time, 1))


def i64(value: Operand) -> E:
    return index(value)
