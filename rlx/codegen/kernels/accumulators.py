"""Accumulators of folds: variables of a row, or local arrays with an element per column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from rlx.codegen.kernels.folds import FoldOf, State
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind

AnyFold: TypeAlias = FoldOf[Any]


def accumulators(k: KernelBuilder, fold: AnyFold, lanes: int = 1) -> list[Mutable]:
    """Declare one variable per accumulator of `fold`, at its start."""
    pairs = zip(fold.names, fold.start, strict=True)
    return [k.mutable(name, start.splat(lanes)) for name, start in pairs]


def assign(k: KernelBuilder, fold: AnyFold, state: Sequence[Mutable], values: State) -> None:
    for variable, value in zip(state, settled(k, fold, values), strict=True):
        variable.set(value)


def settled(k: KernelBuilder, fold: AnyFold, values: State) -> State:
    """Bind all new values before the first assignment, where they depend on the old ones."""
    return values if len(values) == 1 else carried(k, fold, values)


def carried(k: KernelBuilder, fold: AnyFold, values: State) -> State:
    """Name the values that the next element reads more than once.

    Written out, an extremum of eight lines would hold its first line 256 times.
    """
    if fold.free_order is not None:
        return values
    return tuple(k.let(f"next_{name}", x) for name, x in zip(fold.names, values, strict=True))


def loop_kind(fold: AnyFold) -> LoopKind:
    return LoopKind.SERIAL if fold.free_order is None else LoopKind.SIMD


def declared(fold: AnyFold, states: Sequence[Sequence[Mutable]]) -> list[tuple[Mutable, BinaryOp]]:
    if fold.free_order is None:
        return []
    return [pair for state in states for pair in zip(state, fold.free_order, strict=True)]


def local_state(
    k: KernelBuilder, fold: AnyFold, width: int, prefix: str = ""
) -> tuple[Buffer, ...]:
    """Reserve one local array per accumulator."""
    pairs = zip(fold.names, fold.start, strict=True)
    return tuple(k.local(prefix + name, start.type.prim, width) for name, start in pairs)


def fill(k: KernelBuilder, fold: AnyFold, state: Sequence[Buffer], width: E) -> None:
    """Set the accumulators of every column to the fold's start."""
    with k.loop("j", width, kind=LoopKind.SIMD) as j:
        stored(k, fold, state, j, fold.start)


def loaded(k: KernelBuilder, state: Sequence[Buffer], j: E) -> State:
    return tuple(k.load(buffer, j) for buffer in state)


def stored(k: KernelBuilder, fold: AnyFold, state: Sequence[Buffer], j: E, values: State) -> None:
    for buffer, value in zip(state, settled(k, fold, values), strict=True):
        k.store(buffer, j, value)
