"""Entry points: the kernels through which the outside calls a module, and their ABI.

    <name>_setup(arena)                      what depends on params and constants only
    <name>_run(arena, extents...)            the hot path, on the calling thread

Extents are i64, one per symbol of the graph, sorted by name. `rlx.codegen.threaded` adds
entries for several threads.

Every entry is a `Kernel` listed in `Module.entries`; its native form is an exported function

    int <name>(unsigned char *arena, <other buffers>, <scalars>)

that returns a `Status`, 0 if all is well. The arena is 64-byte aligned and starts with a header:

    i64[0]  status of the first fault, 0 if none      i64[2]  its position (element or slice)
    i64[1]  its origin: the number of the graph node  i64[3]  1 once `setup` has run
    i64[6]  what was found there, as an index         i64[7]  its limit; 0 where none is stored

An origin counts all nodes of the program, those of loops and branches too (`ir.numbering`). Words
4 and 5 belong to exported libraries.

How emitters print failing kernels (the whole convention; both emitters follow it):

- A kernel fails if it contains a `Fail`, or an `Invoke` of a kernel that fails. Its native
  function then returns int. Unless it is an entry, it takes one more, last argument
  `int64_t *fault`, the header; an entry uses its first buffer, the arena.
- `Fail(status, position, details)` stores `fault[2] = position`, the details (if there are any)
  at `DETAIL_WORDS`, and returns `status`.
- `Invoke` of a failing kernel passes `fault` on; if the status is not 0 it stores
  `fault[0] = status; fault[1] = origin` (only where `origin >= 0`) and returns the status.
- A kernel with a parallel loop takes `int64_t begin, int64_t end` after its scalars (and before
  `fault`). `Invoke(bounds=None)` passes the loop's own bounds: see `full_range`.
- Entries always return int; a kernel that cannot fail and is no entry returns nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, TypeAlias, assert_never

from rlx.codegen.kernels.extents import Extents
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import (
    Address,
    Binary,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    Fail,
    For,
    If,
    Invoke,
    Kernel,
    Let,
    Prim,
    Unary,
    ValueType,
    Var,
    While,
    storage,
)
from rlx.codegen.schedule import (
    AnyThunk,
    BranchThunk,
    BufferRef,
    LoopThunk,
    Phase,
    Schedule,
    Thunk,
    number_of,
)
from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.graph import Node
from rlx.ir.inspect import computed_ops
from rlx.ir.op import Trait
from rlx.ir.reports import report_of
from rlx.passes.rewrite import bodies_of

Kernels: TypeAlias = Mapping[tuple[Any, ...], Kernel]
"""The kernel of each `Thunk.kernel_key`."""


def can_fail(kernel: Kernel) -> bool:
    """True if the kernel's native function returns a status (entries always do)."""
    if kernel.known_to_fail is None:
        object.__setattr__(kernel, "known_to_fail", _block_fails(kernel.body))
    return bool(kernel.known_to_fail)


def full_range(invoke: Invoke) -> tuple[Expr, Expr]:
    """Return the bounds of the callee's parallel loop, in the caller's terms."""
    loop = invoke.kernel.parallel_loop
    if loop is None:
        raise InternalError(f"kernel {invoke.kernel.name} has no parallel loop")
    known: dict[str, Expr] = {
        scalar.name: value
        for scalar, value in zip(invoke.kernel.scalars, invoke.scalars, strict=True)
    }
    for statement in invoke.kernel.body:
        if isinstance(statement, Let) and _is_bound_arithmetic(statement.value, known):
            known[statement.var.name] = _substitute(statement.value, known)
    return _substitute(loop.start, known), _substitute(loop.stop, known)


def _block_fails(block: Block) -> bool:
    for statement in block:
        match statement:
            case Fail():
                return True
            case Invoke(kernel=kernel) if can_fail(kernel):
                return True
            case For(body=body) | While(_, body) if _block_fails(body):
                return True
            case If(_, then, orelse) if _block_fails(then) or _block_fails(orelse):
                return True
            case _:
                pass
    return False


def _is_bound_arithmetic(expr: Expr, known: Mapping[str, Expr]) -> bool:
    """True for arithmetic on numbers that the caller has, too."""
    match expr:
        case Const():
            return True
        case Var(name, _):
            return name in known
        case Unary(_, x) | Cast(x, _):
            return _is_bound_arithmetic(x, known)
        case Binary(_, a, b):
            return _is_bound_arithmetic(a, known) and _is_bound_arithmetic(b, known)
        case _:
            return False


def _substitute(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    match expr:
        case Const():
            return expr
        case Var(name, _) if name in known:
            return known[name]
        case Unary(op, x):
            return Unary(op, _substitute(x, known))
        case Cast(x, prim):
            return Cast(_substitute(x, known), prim)
        case Binary(op, a, b):
            return Binary(op, _substitute(a, known), _substitute(b, known))
        case _:
            raise InternalError(
                f"a parallel loop's bound holds {type(expr).__name__}; only arithmetic on "
                "extents can be repeated by the caller"
            )


# Building


def entry_name(schedule: Schedule, kind: str) -> str:
    """Return the exported name of an entry: `setup`, `run`, `launch` or `worker`."""
    return f"{schedule.name}_{kind}"


def build_entries(
    schedule: Schedule, kernels: Kernels, symbols: Sequence[str]
) -> tuple[Kernel, Kernel]:
    """Return the `setup` and `run` entries; `symbols` are the graph's, sorted."""
    return (
        _phase_entry(schedule, kernels, Phase.SETUP, ()),
        _phase_entry(schedule, kernels, Phase.RUN, symbols),
    )


def declare_arena(k: KernelBuilder) -> Buffer:
    """Declare the arena; its header and everything in it may be reached otherwise too."""
    return k.argument("arena", Prim.U8, writable=True, may_alias=True)


def _phase_entry(
    schedule: Schedule, kernels: Kernels, phase: Phase, symbols: Sequence[str]
) -> Kernel:
    k = KernelBuilder(entry_name(schedule, phase.value))
    arena = declare_arena(k)
    extents = {symbol: k.scalar(symbol) for symbol in symbols}
    calls = ThunkCalls(k, arena, extents, kernels)
    for thunk in schedule.phase(phase):
        calls.emit(thunk)
    doc = "Depends on params and constants only." if phase is Phase.SETUP else "The run phase."
    return k.build([f"{schedule.name}: {doc}"])


class ThunkCalls:
    """Emits thunks into an entry as calls of their kernels on arena addresses."""

    def __init__(
        self, k: KernelBuilder, arena: Buffer, extents: Mapping[str, E], kernels: Kernels
    ) -> None:
        self.k = k
        self.arena = arena
        self.extents = extents
        self.kernels = kernels
        self.steps: dict[int, E] = {}
        """The current step of the loops around, by depth."""

    def emit(self, thunk: AnyThunk) -> None:
        match thunk:
            case Thunk():
                self.call(thunk)
            case LoopThunk():
                self._loop(thunk)
            case BranchThunk():
                self._branch(thunk)
            case _:
                assert_never(thunk)

    def call(self, thunk: Thunk, bounds: tuple[E, E] | None = None) -> None:
        """Invoke the thunk's kernel; `bounds` limits its parallel loop."""
        kernel = self.kernel(thunk)
        pairs = zip(thunk.passed(kernel), kernel.buffers, strict=True)
        addresses = [self._address(ref, buffer) for ref, buffer in pairs]
        origin = number_of(thunk) if can_fail(kernel) else -1
        self.k.comment(describe(thunk.node, thunk.number) + _in_place(thunk))
        self.k.invoke(kernel, addresses, self.scalars(thunk), bounds=bounds, origin=origin)

    def kernel(self, thunk: Thunk) -> Kernel:
        return self.kernels[thunk.kernel_key]

    def scalars(self, thunk: Thunk) -> list[E]:
        """Return the extents that the thunk's kernel takes: numbers, or the entry's arguments."""
        opened = () if thunk.opened is None else thunk.opened.numbers
        known = {name: const(number, Prim.I64) for name, number in opened}
        return [(known or self.extents)[symbol.name] for symbol in thunk.symbols]

    def place(self, offset: int) -> tuple[Buffer, int]:
        """Return the block that holds the byte at `offset` of the plan, and where it is there."""
        return self.arena, offset

    def _address(self, ref: BufferRef, buffer: Buffer) -> Address:
        block, offset = self._locate(ref)
        return self.k.address(block, offset, prim=buffer.prim, writable=buffer.writable)

    def _locate(self, ref: BufferRef) -> tuple[Buffer, E]:
        """Return the block of `ref` and its offset at the current steps of the enclosing loops."""
        block, start = self.place(ref.offset)
        name = f"{block.name} {ref.label}" if ref.label else ""
        total = E(Const(start, ValueType(Prim.I64), name))
        for advance in ref.advances:
            stride = Extents(self.extents).number(advance.stride)
            total = total + self.steps[advance.depth] * stride
        return block, total

    # Control flow

    def _loop(self, thunk: LoopThunk) -> None:
        self.k.comment(describe(thunk.node, thunk.number))
        if thunk.predicate is not None:
            self._while(thunk, thunk.predicate)
            return
        last = (thunk.steps or 0) - 1
        with self.k.loop("step", last + 1) as trip:
            self.steps[thunk.depth] = self.k.let("row", last - trip) if thunk.reverse else trip
            self._emit_all(thunk.body)

    def _while(self, thunk: LoopThunk, predicate: BufferRef) -> None:
        trips = self.k.mutable("trips", const(0, Prim.I64))
        self._emit_all(thunk.condition)
        running = self.k.mutable("running", self._read_integer(predicate))
        going = running.ne(0)
        with self.k.while_(going if thunk.steps is None else going & (trips < thunk.steps)):
            self._emit_all(thunk.body)
            trips.set(trips + 1)
            self._emit_all(thunk.condition)
            running.set(self._read_integer(predicate))
        if thunk.trips is not None:
            self._write_integer(thunk.trips, trips)

    def _emit_all(self, thunks: Sequence[AnyThunk]) -> None:
        for thunk in thunks:
            self.emit(thunk)

    def _branch(self, thunk: BranchThunk) -> None:
        self.k.comment(describe(thunk.node, thunk.number))
        selector = self.k.let("selector", self._read_integer(thunk.selector))
        self._branches(selector, thunk.branches, 0)

    def _branches(self, selector: E, branches: Sequence[Sequence[AnyThunk]], first: int) -> None:
        """Emit `if (selector <= first) ... else ...`; the last branch takes what is left."""
        if first == len(branches) - 1:
            self._emit_all(branches[first])
            return
        with self.k.if_(selector <= first):
            self._emit_all(branches[first])
        with self.k.else_():
            self._branches(selector, branches, first + 1)

    def _read_integer(self, ref: BufferRef) -> E:
        """Read a little-endian integer or bool from the arena, byte by byte."""
        prim = storage(ref.type.dtype)
        block, at = self._locate(ref)
        total = self.k.load(block, at).cast(Prim.I64)
        for byte in range(1, prim.size):
            digit = self.k.load(block, at + byte).cast(Prim.I64)
            total = total | (digit << (8 * byte))
        unused = 64 - 8 * prim.size
        return (total << unused) >> unused if prim.is_signed and unused else total

    def _write_integer(self, ref: BufferRef, value: E) -> None:
        """Write an i64 into the arena, byte by byte."""
        block, at = self._locate(ref)
        for byte in range(8):
            self.k.store(block, at + byte, (value >> (8 * byte)).cast(Prim.U8))


def describe(node: Node, number: int | None = None) -> str:
    """Return one line about a node: its number, op, name and source line."""
    own = node.index if number is None else number
    name = "" if node.name is None else f" {node.name!r}"
    place = ""
    if node.source is not None:
        place = f", {PurePath(node.source.file).name}:{node.source.line}"
    return f"%{own} {computed_ops(node)}{name}{place}"


def failing_node(node: Node) -> Node:
    """Return the node within a kernel's bodies that can fail, the first; else `node` itself."""
    for inner in _body_nodes(node) if node.is_one_kernel else ():
        if inner.op.has(Trait.MAY_FAULT):
            return inner
    return node


def _body_nodes(node: Node) -> Iterator[Node]:
    """Yield the nodes of all bodies of `node`, at any depth."""
    for body in bodies_of(node.attrs):
        for inner in body.nodes:
            yield inner
            yield from _body_nodes(inner)


def describe_fault(node: Node, number: int) -> str:
    """Return one line about a node whose kernel failed: with the line of what can fail in it."""
    failing = failing_node(node)
    line = describe(node if failing is node else replace(failing, name=node.name), number)
    if failing.op is not ops.check:
        return line
    return f"{line}: {report_of(failing.attribute('report')).summary()}"


def _in_place(thunk: Thunk) -> str:
    """Say which operands a thunk overwrites."""
    written = dict.fromkeys(thunk.operands[operand].label for operand, _ in thunk.aliased)
    named = ", ".join(label for label in written if label)
    return f", in place of {named}" if named else ", in place" if written else ""
