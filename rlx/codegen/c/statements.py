"""Statements of the loop language in C."""

from __future__ import annotations

from typing import assert_never

from rlx.codegen.c.code import Level, fit, wrap
from rlx.codegen.c.expressions import ExpressionEmitter
from rlx.codegen.c.names import function_name, variable_name
from rlx.codegen.c.spelling import scalar_type
from rlx.codegen.entry import can_fail, full_range
from rlx.codegen.loops.nodes import (
    Address,
    Assign,
    Atomic,
    AtomicOp,
    Binary,
    BinaryOp,
    Block,
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
    Local,
    LoopKind,
    Pause,
    Prim,
    Stmt,
    Store,
    Var,
    While,
)

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


class StatementEmitter:
    """Emits the body of one kernel, line by line.

    `names` gives the arguments that the emitter adds to a kernel (`begin`, `end`, `fault`) names
    that are free in it; `live` holds the ids of the statements worth printing.
    """

    def __init__(
        self, expressions: ExpressionEmitter, names: dict[str, str], live: set[int], used: set[str]
    ) -> None:
        self.expressions = expressions
        self.prelude = expressions.prelude
        self.lines: list[str] = []
        self._names = names
        self._live = live
        self._used = used
        self._depth = 1

    def block(self, block: Block) -> None:
        for statement in block:
            if id(statement) in self._live:
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
            case Pause():
                self.line(f"{self.prelude.pause()}();")
            case Comment(text):
                self.line(f"// {' '.join(text.split())}".rstrip("\\"))
            case _:
                assert_never(statement)

    # Variables and memory

    def _bind(self, const: str, var: Var, value: Expr) -> None:
        type = self.expressions.declare(var, value)
        text = self.expressions.assigned(var, value)
        self.line(f"{const}{type} {variable_name(var.name)} = {text};")

    def _assign(self, statement: Assign) -> None:
        var, value = statement.var, statement.value
        name = variable_name(var.name)
        plain = var.type.prim.is_float or var.name in self.expressions.indices
        match value:
            case Binary(op, a, b) if plain and a == var and op in _COMPOUND:
                self.line(f"{name} {_COMPOUND[op]} {self.expressions.assigned(var, b)};")
            case _:
                self.line(f"{name} = {self.expressions.assigned(var, value)};")

    def _discard(self, name: str) -> None:
        """Silence the compiler about a name that is set and never read."""
        if name not in self._used:
            self.line(f"(void){variable_name(name)};")

    def _local(self, statement: Local) -> None:
        buffer = statement.buffer
        name, type = variable_name(buffer.name), scalar_type(buffer.prim)
        self.line(f"_Alignas(64) {type} {name}[{buffer.extent}];")
        self._discard(buffer.name)

    def _store(self, statement: Store) -> None:
        emitter, value, lanes = self.expressions, statement.value, statement.value.type.lanes
        name, index = variable_name(statement.buffer.name), emitter.index(statement.index)
        if lanes == 1:
            self.line(f"{name}[{index.text}] = {emitter.text(value)};")
            return
        place = name if index.text == "0" else f"{name} + {index.at(Level.PRODUCT)}"
        if statement.streaming:
            function = self.prelude.stream(value.type)
            self.line(f"{function}({place}, {emitter.text(value)});")
            return
        memory, text = emitter.stored(value)
        pointer = place if index.text == "0" else f"({place})"
        self.line(f"*({memory} *){pointer} = {text};")

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
        name = variable_name(loop.var.name)
        start, stop = self._bounds(loop)
        self._pragma(loop)
        step = f"++{name}" if loop.step == 1 else f"{name} += {loop.step}"
        self.line(f"for (int64_t {name} = {start}; {name} < {stop}; {step}) {{")
        self._nested(loop.body)

    def _bounds(self, loop: For) -> tuple[str, str]:
        if loop.kind is LoopKind.PARALLEL:
            return self._names["begin"], self._names["end"]
        start, stop = self.expressions.index(loop.start), self.expressions.index(loop.stop)
        if isinstance(loop.stop, (Const, Var)):
            return start.text, stop.at(Level.SHIFT)
        # Bounds are evaluated once, before the loop.
        limit = f"{variable_name(loop.var.name)}_stop"
        self.line(f"const int64_t {limit} = {stop.text};")
        return start.text, limit

    def _pragma(self, loop: For) -> None:
        if loop.kind is LoopKind.UNROLL:
            self.line(f"#pragma GCC unroll {_trip_count(loop)}")
        if loop.kind is LoopKind.SIMD:
            clauses = "".join(
                f" reduction({_REDUCTIONS[op]}:{variable_name(var.name)})"
                for var, op in loop.accumulators
            )
            self.line(f"#pragma omp simd{clauses}")

    # Calls

    def _fail(self, statement: Fail) -> None:
        self.prelude.records_faults = True
        self.line(f"{self._names['fault']}[2] = {self.expressions.text(statement.position)};")
        self.line(f"return STATUS_{statement.status.name};")

    def _external(self, statement: External) -> None:
        args = [self._argument(arg) for arg in statement.args]
        result = statement.result
        if result is None:
            self._call(f"{statement.symbol}(", args)
        elif result.name not in self._used:
            self._call(f"(void){statement.symbol}(", args)
        else:
            type = scalar_type(result.type.prim)
            self._call(f"const {type} {variable_name(result.name)} = {statement.symbol}(", args)

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
        args.append(self._names["fault"])
        status = self._names["status"]
        self._call(f"{status} = {function_name(kernel.name)}(", args)
        self._check_status(statement.origin)

    def _call(self, head: str, args: list[str]) -> None:
        self.lines += fit(head, args, ");", "  " * self._depth)

    def _check_status(self, origin: int) -> None:
        status, fault = self._names["status"], self._names["fault"]
        self.line(f"if ({status} != 0) {{")
        if origin < 0:
            self.line(f"  return {status};")
        else:
            record = self.prelude.record_fault()
            self.line(f"  return {record}({fault}, {status}, {origin});")
        self.line("}")

    def _atomic(self, statement: Atomic) -> None:
        index = self.expressions.index(statement.index).text
        place = f"&{variable_name(statement.buffer.name)}[{index}]"
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
            self.line(f"const {scalar_type(Prim.I64)} {variable_name(result.name)} = {call};")


def _trip_count(loop: For) -> int:
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        trips = -(-(int(loop.stop.value) - int(loop.start.value)) // loop.step)
        return max(1, min(trips, 65534))
    return _DYNAMIC_UNROLL
