"""Side-effect analysis: which buffers, variables and outside state statements touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from rlx.codegen.loops.nodes import (
    Assign,
    Atomic,
    Block,
    Buffer,
    Declare,
    External,
    Fail,
    For,
    Invoke,
    Let,
    Load,
    Local,
    Pause,
    Prefetch,
    Stmt,
    Store,
    TileStep,
    Var,
    While,
)
from rlx.codegen.loops.visit import addresses, evaluated, walk
from rlx.dataclass import dataclass


@dataclass(slots=True)
class Effects:
    """What some statements do, nested ones included."""

    reads: set[Buffer] = field(default_factory=set)
    writes: set[Buffer] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    """Variables that are read or assigned."""
    binds: set[str] = field(default_factory=set)
    """Variables that are bound or assigned, and local buffers."""
    is_opaque: bool = False
    """True if they do what is ordered with everything else: calls, atomics, failing."""

    def __or__(self, other: Effects) -> Effects:
        return Effects(
            self.reads | other.reads,
            self.writes | other.writes,
            self.uses | other.uses,
            self.binds | other.binds,
            self.is_opaque or other.is_opaque,
        )


def effects(block: Iterable[Stmt]) -> Effects:
    """Return what the statements of `block` do together."""
    found = Effects()
    for statement in walk(tuple(block)):
        _enter(found, statement)
        for expr in evaluated(statement):
            match expr:
                case Var(name, _):
                    found.uses.add(name)
                case Load(buffer, _, _):
                    found.reads.add(buffer)
    return found


def _enter(found: Effects, statement: Stmt) -> None:
    found.binds |= bound_names(statement)
    match statement:
        case Store(buffer=buffer):
            found.writes.add(buffer)
        case Assign(var, _):
            found.uses.add(var.name)
        case For(accumulators=accumulators):
            found.uses.update(var.name for var, _ in accumulators)
        case (
            External() | Invoke() | Atomic() | Fail() | Prefetch() | TileStep() | Pause() | While()
        ):
            found.is_opaque = True
            found.writes.update(address.buffer for address in addresses(statement))
            found.reads.update(address.buffer for address in addresses(statement))
            if isinstance(statement, Atomic):
                found.writes.add(statement.buffer)


def bound_names(statement: Stmt) -> set[str]:
    """Return the names that a statement itself binds or assigns."""
    match statement:
        case Let(var, _) | Declare(var, _) | Assign(var, _) | For(var=var):
            return {var.name}
        case Local(buffer):
            return {buffer.name}
        case External(result=result) | Atomic(result=result) if result is not None:
            return {result.name}
        case _:
            return set()


def may_overlap(a: Buffer, b: Buffer) -> bool:
    """True if two buffers may be the same memory."""
    return a.name == b.name or (a.may_alias and b.may_alias)


def any_overlap(some: Iterable[Buffer], others: Iterable[Buffer]) -> bool:
    """True if one of `some` may be the memory of one of `others`."""
    known = tuple(others)
    return any(may_overlap(a, b) for a in some for b in known)


def conflict(first: Effects, second: Effects) -> bool:
    """True if two pieces of code may not change places."""
    if first.is_opaque or second.is_opaque:
        return True
    if first.binds & second.uses or second.binds & first.uses or first.binds & second.binds:
        return True
    return (
        any_overlap(first.writes, second.reads)
        or any_overlap(second.writes, first.reads)
        or any_overlap(first.writes, second.writes)
    )


def mutable_names(block: Block) -> set[str]:
    """Return the variables that may be assigned."""
    return {s.var.name for s in walk(block) if isinstance(s, Declare)}
