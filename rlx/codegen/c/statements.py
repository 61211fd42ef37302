"""Statements of the loop language in C."""

from __future__ import annotations

from typing import assert_never

from rlx.codegen.c.code import Level, fit, wrap
from rlx.codegen.c.expressions import ExpressionEmitter
from rlx.codegen.c.names import function_name
from rlx.codegen.c.prototypes import signature
from rlx.codegen.c.scopes import BEGIN, END, FAULT, STATUS, has_plain_bound, stop_of
from rlx.codegen.c.spelling import scalar_type
from rlx.codegen.entry import can_fail, full_range
from rlx.codegen.loops.nodes import (
    DETAIL_WORDS,
    Address,
    Assign,
    Atomic,
    AtomicOp,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Comment,
    Const,
    Declare,
    Expr,
    External,
    Fail,
    For,
    If,
    Invoke,
    Let,
    Load,
    Local,
    LoopKind,
    Pause,
    Prefetch,
    Prim,
    Stmt,
    Store,
    TileStep,
    Var,
    While,
)
from rlx.codegen.loops.passes.names import fold
from rlx.codegen.loops.visit import addresses
from rlx.codegen.text import c_comment, identifier

_REDUCTIONS = {
    BinaryOp.ADD: "+",
    BinaryOp.MUL: "*",
    BinaryOp.MIN: "min",
    BinaryOp.MAX: "max",
    BinaryOp.AND: "&",
    BinaryOp.OR: "|",
    BinaryOp.XOR: "^",
}
_COMPOUND = {BinaryOp.ADD: "+=", BinaryOp.SUB: "-=", BinaryOp.MUL: "*="}
_DYNAMIC_UNROLL = 4
_FEWEST, _MOST = 17, 64
"""Trips of loops that fill several vectors, and that LLVM unrolls fully all the same."""


class StatementEmitter:
    """Emits the body of one kernel, line by line; `used` holds the names that something reads."""

    def __init__(self, expressions: ExpressionEmitter, used: set[str]) -> None:
        self.expressions = expressions
        self.prelude = expressions.prelude
        self.lines: list[str] = []
        self._used = used
        self._depth = 1

    def block(self, block: Block) -> None:
        for statement in block:
            self.statement(statement)

    def line(self, text: str) -> None:
        whole = text.startswith(("#", "//"))
        indented = "  " * self._depth + text
        self.lines += [indented] if whole else wrap(indented)

    def statement(self, statement: Stmt) -> None:
        match statement:
            case Let():
                self._bind("const ", statement.var, statement.value)
            case Declare():
                self._bind("", statement.var, statement.value)
                self._discard(statement.var.name)
            case Assign():
                self._assign(statement)
            case Local():
                self._local(statement)
            case Store():
                self._store(statement)
            case For():
                self._for(statement)
            case While(condition, body):
                self.line(f"while ({self.expressions.text(condition)}) {{")
                self._nested(body)
            case If():
                self._if(statement)
            case Fail():
                self._fail(statement)
            case External():
                self._external(statement)
            case Invoke():
                self._invoke(statement)
            case Atomic():
                self._atomic(statement)
            case Prefetch(buffer, index):
                self._prefetch(buffer, index)
            case TileStep():
                self._tile_step(statement)
            case Pause():
                self.line(f"{self.prelude.pause()}();")
            case Comment(text):
                self.line(f"// {c_comment(text)}")
            case _:
                assert_never(statement)

    def _prefetch(self, buffer: Buffer, index: Expr) -> None:
        """Ask for a line of memory; plain C cannot, and has no prefetches (`drop_prefetches`)."""
        place = self.expressions.pointer(buffer, index)
        self.line(f"{self.prelude.prefetch()}({place.text});")

    def _tile_step(self, statement: TileStep) -> None:
        place = [self._argument(each) for each in addresses(statement)]
        if statement.stride is not None:
            size = 0 if statement.address is None else statement.address.buffer.prim.size
            rows = fold(Binary(BinaryOp.MUL, statement.stride, Const(size, statement.stride.type)))
            place.append(self.expressions.text(rows))
        self._call(f"{self.prelude.tile_step(statement.op, statement.tiles)}(", place)

    # Variables and memory

    def _bind(self, const: str, var: Var, value: Expr) -> None:
        type = self.expressions.declare(var, value)
        text = self.expressions.assigned(var, value)
        self.line(f"{const}{type} {self.expressions.name(var.name)} = {text};")

    def _assign(self, statement: Assign) -> None:
        var, value = statement.var, statement.value
        name = self.expressions.name(var.name)
        plain = var.type.prim.is_float or var.name in self.expressions.indices
        operator, operand = _combined(value, var) if plain else ("=", value)
        self.line(f"{name} {operator} {self.expressions.assigned(var, operand)};")

    def _discard(self, name: str) -> None:
        """Silence the compiler about a name that is set and never read."""
        if name not in self._used:
            self.line(f"(void){self.expressions.name(name)};")

    def _local(self, statement: Local) -> None:
        buffer = statement.buffer
        name, type = self.expressions.name(buffer.name), scalar_type(buffer.prim)
        aligned = "" if self.prelude.is_plain else "_Alignas(64) "
        self.line(f"{aligned}{type} {name}[{buffer.extent}];")
        self._discard(buffer.name)

    def _store(self, statement: Store) -> None:
        value = statement.value
        if value.type.lanes == 1:
            self._store_element(statement)
            return
        streams = statement.streaming and value.type.prim is not Prim.BOOL
        function = (self.prelude.stream if streams else self.prelude.store)(value.type)
        place = self.expressions.pointer(statement.buffer, statement.index)
        self.line(f"{function}({place.text}, {self.expressions.stored(value).text});")

    def _store_element(self, statement: Store) -> None:
        emitter, buffer = self.expressions, statement.buffer
        place = f"{emitter.name(buffer.name)}[{emitter.index(statement.index).text}]"
        operator, operand = "=", statement.value
        if buffer.prim.is_float:
            operator, operand = _combined(operand, Load(buffer, statement.index))
        self.line(f"{place} {operator} {emitter.text(operand)};")

    # Control

    def _nested(self, body: Block, close: str = "}") -> None:
        self._depth += 1
        self.block(body)
        self._depth -= 1
        self.line(close)

    def _if(self, statement: If) -> None:
        self.line(f"if ({self.expressions.text(statement.condition)}) {{")
        if not statement.orelse:
            self._nested(statement.then)
            return
        self._nested(statement.then, "} else {")
        self._nested(statement.orelse)

    def _for(self, loop: For) -> None:
        name = self.expressions.name(loop.var.name)
        start, stop = self._bounds(loop)
        self._pragma(loop)
        step = f"++{name}" if loop.step == 1 else f"{name} += {loop.step}"
        self.line(f"for (int64_t {name} = {start}; {name} < {stop}; {step}) {{")
        self._nested(loop.body)

    def _bounds(self, loop: For) -> tuple[str, str]:
        if loop.kind is LoopKind.PARALLEL:
            return self.expressions.name(BEGIN), self.expressions.name(END)
        start, stop = self.expressions.index(loop.start), self.expressions.index(loop.stop)
        if has_plain_bound(loop):
            return start.text, stop.at(Level.SHIFT)
        # Bounds are evaluated once, before the loop.
        limit = self.expressions.name(stop_of(loop))
        self.line(f"const int64_t {limit} = {stop.text};")
        return start.text, limit

    def _pragma(self, loop: For) -> None:
        if loop.kind is LoopKind.UNROLL:
            self.line(f"#pragma GCC unroll {_trip_count(loop)}")
        if loop.kind is LoopKind.SIMD:
            clauses = "".join(
                f" reduction({_REDUCTIONS[op]}:{self.expressions.name(var.name)})"
                for var, op in loop.accumulators
            )
            self.line(f"#pragma omp simd{clauses}")
            if self._depth > 1 and not self.prelude.is_plain and _is_spelled_out_by_llvm(loop):
                self.line(self.prelude.rolled())

    # Calls

    def _fail(self, statement: Fail) -> None:
        self.prelude.faults.add(statement.status)
        fault = self.expressions.name(FAULT)
        self.line(f"{fault}[2] = {self.expressions.text(statement.position)};")
        for word, detail in zip(DETAIL_WORDS, statement.details, strict=False):
            self.line(f"{fault}[{word}] = {self.expressions.text(detail)};")
        self.line(f"return STATUS_{statement.status.name};")

    def _external(self, statement: External) -> None:
        args = [self._argument(arg) for arg in statement.args]
        function, result = self._function(statement), statement.result
        if result is None:
            self._call(f"{function}(", args)
        elif result.name not in self._used:
            self._call(f"(void){function}(", args)
        else:
            type = scalar_type(result.type.prim)
            self._call(f"const {type} {self.expressions.name(result.name)} = {function}(", args)

    def _function(self, statement: External) -> str:
        """Return the called function: its name, or its address as a function pointer."""
        if statement.address is None:
            return identifier(statement.symbol)
        result, params = signature(statement)
        address = self.expressions.text(statement.address)
        return f"(({result} (*)({', '.join(params) or 'void'}))(uintptr_t)({address}))"

    def _argument(self, arg: Expr | Address) -> str:
        if isinstance(arg, Address):
            return self.expressions.address(arg).text
        return self.expressions.text(arg)

    def _invoke(self, statement: Invoke) -> None:
        kernel = statement.kernel
        args = [self.expressions.address(address).text for address in statement.buffers]
        args += [self.expressions.text(scalar) for scalar in statement.scalars]
        if kernel.parallel_loop is not None:
            bounds = statement.bounds or full_range(statement)
            args += [self.expressions.index(bound).text for bound in bounds]
        if not can_fail(kernel):
            self._call(f"{function_name(kernel.name)}(", args)
            return
        args.append(self.expressions.name(FAULT))
        status = self.expressions.name(STATUS)
        self._call(f"{status} = {function_name(kernel.name)}(", args)
        self._check_status(statement.origin)

    def _call(self, head: str, args: list[str]) -> None:
        self.lines += fit(head, args, ");", "  " * self._depth)

    def _check_status(self, origin: int) -> None:
        status, fault = self.expressions.name(STATUS), self.expressions.name(FAULT)
        self.line(f"if ({status} != 0) {{")
        if origin < 0:
            self.line(f"  return {status};")
        else:
            record = self.prelude.record_fault()
            self.line(f"  return {record}({fault}, {status}, {origin});")
        self.line("}")

    def _atomic(self, statement: Atomic) -> None:
        index = self.expressions.index(statement.index).text
        place = f"&{self.expressions.name(statement.buffer.name)}[{index}]"
        value = "" if statement.value is None else self.expressions.text(statement.value)
        match statement.op:
            case AtomicOp.LOAD:
                call = f"__atomic_load_n({place}, __ATOMIC_ACQUIRE)"
            case AtomicOp.STORE:
                self.line(f"__atomic_store_n({place}, {value}, __ATOMIC_RELEASE);")
                return
            case AtomicOp.ADD:
                call = f"__atomic_fetch_add({place}, {value}, __ATOMIC_ACQ_REL)"
        result = statement.result
        if result is None or result.name not in self._used:
            self.line(f"(void){call};")
        else:
            self.line(
                f"const {scalar_type(Prim.I64)} {self.expressions.name(result.name)} = {call};"
            )


def _combined(value: Expr, old: Expr) -> tuple[str, Expr]:
    """Return how `value` replaces `old`: by an operator and what is combined with it, or whole."""
    match value:
        case Binary(op, a, b) if a == old and op in _COMPOUND:
            return _COMPOUND[op], b
        case Binary(BinaryOp.ADD | BinaryOp.MUL as op, a, b) if b == old:
            return _COMPOUND[op], a
        case _:
            return "=", value


def _trip_count(loop: For) -> int:
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        trips = -(-(int(loop.stop.value) - int(loop.start.value)) // loop.step)
        return max(1, min(trips, 65534))
    return _DYNAMIC_UNROLL


def _is_spelled_out_by_llvm(loop: For) -> bool:
    """True if clang at -O3 would unroll this inner loop, and then vectorize the outer one."""
    if not isinstance(loop.start, Const) or not isinstance(loop.stop, Const):
        return False
    return _FEWEST <= int(loop.stop.value) - int(loop.start.value) <= _MOST
