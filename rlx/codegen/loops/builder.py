"""`KernelBuilder`: the one way to build a kernel.

k = KernelBuilder("scale")
x = k.argument("x", Prim.F32)
y = k.argument("y", Prim.F32, writable=True)
with k.loop("i", 1024, kind=LoopKind.SIMD) as i:
    k.store(y, i, k.load(x, i) * 2.0)
kernel = k.build()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rlx.codegen.loops.expr import E, Operand, const, index
from rlx.codegen.loops.nodes import (
    Address,
    Assign,
    Atomic,
    AtomicOp,
    BinaryOp,
    Block,
    Buffer,
    Comment,
    Const,
    Declare,
    External,
    Fail,
    For,
    Function,
    If,
    Invoke,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Pause,
    Prefetch,
    Prim,
    Status,
    Stmt,
    Store,
    TileOp,
    TileStep,
    ValueType,
    Var,
    While,
)
from rlx.codegen.text import identifier


class Mutable(E):
    """A variable that may be assigned."""

    __slots__ = ("_builder", "var")

    def __init__(self, builder: KernelBuilder, var: Var) -> None:
        super().__init__(var)
        self.var = var
        self._builder = builder

    def set(self, value: Operand) -> None:
        self._builder.emit(Assign(self.var, coerce(value, self.type).node))


class KernelBuilder:
    """Collects statements; context managers open and close blocks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wakes_threads = True
        self._buffers: list[Buffer] = []
        self._scalars: list[Var] = []
        self._blocks: list[list[Stmt]] = [[]]
        self._names: dict[str, int] = {}
        self._mutable: set[str] = set()

    # Signature

    def argument(
        self, name: str, prim: Prim, *, writable: bool = False, may_alias: bool = False
    ) -> Buffer:
        """Declare a pointer argument."""
        buffer = Buffer(self.fresh(name), prim, writable, may_alias)
        self._buffers.append(buffer)
        return buffer

    def buffer_at(self, position: int) -> Buffer:
        """Return the pointer argument that was declared at `position`."""
        return self._buffers[position]

    def scalar(self, name: str, prim: Prim = Prim.I64) -> E:
        """Declare a scalar argument, such as a symbolic extent."""
        var = Var(self.fresh(name), ValueType(prim))
        self._scalars.append(var)
        return E(var)

    # Values

    def let(self, name: str, value: Operand) -> E:
        """Name a value; expressions that are used twice need this.

        Literals and what has a name already stay as they are, so that indices fold.
        """
        expression = index(value)
        if self._is_plain(expression):
            return expression
        var = Var(self.fresh(name), expression.type)
        self.emit(Let(var, expression.node))
        return E(var)

    def mutable(self, name: str, value: E) -> Mutable:
        """Declare a variable that starts as `value`."""
        var = Var(self.fresh(name), value.type)
        self._mutable.add(var.name)
        self.emit(Declare(var, value.node))
        return Mutable(self, var)

    def local(self, name: str, prim: Prim, extent: int) -> Buffer:
        """Reserve `extent` elements of stack scratch, 64-byte aligned, undefined contents."""
        buffer = Buffer(self.fresh(name), prim, writable=True, extent=extent)
        self.emit(Local(buffer))
        return buffer

    def load(self, buffer: Buffer, at: Operand, lanes: int = 1) -> E:
        return E(Load(buffer, index(at).node, lanes))

    def store(
        self, buffer: Buffer, at: Operand, value: Operand, *, streaming: bool = False
    ) -> None:
        stored = value if isinstance(value, E) else const(value, buffer.prim)
        self.emit(Store(buffer, index(at).node, stored.node, streaming))

    # Control

    @contextmanager
    def loop(
        self,
        name: str,
        stop: Operand,
        *,
        start: Operand = 0,
        step: int = 1,
        kind: LoopKind = LoopKind.SERIAL,
        accumulators: Sequence[tuple[Mutable, BinaryOp]] = (),
    ) -> Iterator[E]:
        """Open `for name in range(start, stop, step)`; yields the loop variable.

        A loop of exactly one trip is its body, around `start`.
        """
        if kind is not LoopKind.PARALLEL and _runs_once(start, stop, step):
            yield index(start)
            return
        var = Var(self.fresh(name), ValueType(Prim.I64))
        with self._block() as body:
            yield E(var)
        folded = tuple((mutable.var, op) for mutable, op in accumulators)
        self.emit(For(var, index(start).node, index(stop).node, step, kind, tuple(body), folded))

    @contextmanager
    def while_(self, condition: E) -> Iterator[None]:
        with self._block() as body:
            yield
        self.emit(While(condition.node, tuple(body)))

    @contextmanager
    def if_(self, condition: E) -> Iterator[None]:
        with self._block() as body:
            yield
        self.emit(If(condition.node, tuple(body)))

    @contextmanager
    def else_(self) -> Iterator[None]:
        """Open the other branch of the `if_` just closed."""
        last = self._blocks[-1].pop()
        if not isinstance(last, If) or last.orelse:
            raise TypeError("else_ must follow an if_ block")
        with self._block() as body:
            yield
        self.emit(If(last.condition, last.then, tuple(body)))

    def fail(self, status: Status, position: Operand, *details: Operand) -> None:
        """Leave the kernel; `details` are what was found at `position` and its limit."""
        self.emit(Fail(status, index(position).node, tuple(index(each).node for each in details)))

    # Calls

    def external(
        self,
        symbol: str,
        args: Sequence[E | Address],
        result: ValueType | None = None,
        *,
        name: str = "",
        address: E | None = None,
    ) -> E | None:
        """Call a C function, by its `address` if given; returns its result, called `name`."""
        var = None if result is None else Var(self.fresh(name or f"{symbol}_result"), result)
        plain = tuple(arg.node if isinstance(arg, E) else arg for arg in args)
        self.emit(External(symbol, plain, var, None if address is None else address.node))
        return None if var is None else E(var)

    def invoke(
        self,
        kernel: Kernel,
        buffers: Sequence[Address],
        scalars: Sequence[E] = (),
        *,
        bounds: tuple[E, E] | None = None,
        origin: int = -1,
    ) -> None:
        limits = None if bounds is None else (bounds[0].node, bounds[1].node)
        self.emit(Invoke(kernel, tuple(buffers), tuple(s.node for s in scalars), limits, origin))

    def address(
        self, buffer: Buffer, at: Operand = 0, *, prim: Prim | None = None, writable: bool = False
    ) -> Address:
        return Address(buffer, index(at).node, prim or buffer.prim, writable)

    def atomic(
        self, op: AtomicOp, buffer: Buffer, at: Operand, value: Operand | None = None
    ) -> E | None:
        """Access an i64 atomically; `load` and `add` return a value."""
        stored = None if value is None else index(value).node
        result = None
        if op is not AtomicOp.STORE:
            result = Var(self.fresh("seen"), ValueType(Prim.I64))
        self.emit(Atomic(op, buffer, index(at).node, stored, result))
        return None if result is None else E(result)

    def prefetch(self, buffer: Buffer, at: Operand) -> None:
        """Hint that `buffer[at]` will be read soon."""
        self.emit(Prefetch(buffer, index(at).node))

    def tile_step(
        self,
        op: TileOp,
        *tiles: int,
        address: Address | None = None,
        stride: Operand | None = None,
    ) -> None:
        """Execute one instruction on tile registers."""
        self.emit(TileStep(op, tiles, address, None if stride is None else index(stride).node))

    def pause(self) -> None:
        self.emit(Pause())

    def comment(self, text: str) -> None:
        self.emit(Comment(text))

    # Finishing

    def build(self, doc: Sequence[str] = ()) -> Kernel:
        return Kernel(
            self.name,
            tuple(self._buffers),
            tuple(self._scalars),
            tuple(self._blocks[0]),
            tuple(doc),
            self.wakes_threads,
        )

    def emit(self, statement: Stmt) -> None:
        self._blocks[-1].append(statement)

    def fresh(self, name: str) -> str:
        """Return `name`, or `name_2`, `name_3`, ... if it is taken.

        Names are printed as identifiers: what a user called something may be none, and is an error.
        """
        count = self._names.get(name, 0) + 1
        self._names[name] = count
        return identifier(name) if count == 1 else self.fresh(f"{name}_{count}")

    def _is_plain(self, expression: E) -> bool:
        """True for a literal, or a variable that keeps its value."""
        node = expression.node
        return isinstance(node, Const) or (isinstance(node, Var) and node.name not in self._mutable)

    @contextmanager
    def _block(self) -> Iterator[list[Stmt]]:
        block: list[Stmt] = []
        self._blocks.append(block)
        yield block
        self._blocks.pop()


def _runs_once(start: Operand, stop: Operand, step: int) -> bool:
    first, last = index(start).node, index(stop).node
    if last in ((index(start) + 1).node, (index(start) + step).node):
        return True
    if not isinstance(first, Const) or not isinstance(last, Const):
        return False
    return 0 < last.value - first.value <= step


def function(name: str, doc: str, params: Sequence[Var], result: E, lets: Block = ()) -> Function:
    """Make a pure function; `lets` may hold only `Let`s."""
    bindings = tuple(statement for statement in lets if isinstance(statement, Let))
    return Function(name, tuple(params), bindings, result.node, doc)


def coerce(value: Operand, type: ValueType) -> E:
    """Return `value` as an expression of `type`."""
    if isinstance(value, E):
        return value.splat(type.lanes)
    return const(value, type.prim, type.lanes)
