"""Statements of the loop language as blocks of LLVM instructions."""

from __future__ import annotations

from typing import assert_never

from rlx.codegen.entry import can_fail, full_range
from rlx.codegen.llvm.expressions import ExpressionEmitter
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.spelling import memory_name, prim_name, type_name
from rlx.codegen.llvm.tile_registers import INTRINSICS
from rlx.codegen.llvm.writer import FunctionWriter
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
from rlx.codegen.loops.visit import addresses

BEGIN, END, FAULT = "%range.begin", "%range.end", "%fault.record"
"""Arguments that the emitter adds; a dot keeps them apart from the kernel's own names."""

_MOST_UNROLLED = 64
_VECTORIZE = '!"llvm.loop.vectorize.enable", i1 true'
_AS_WRITTEN = ['!"llvm.loop.vectorize.enable", i1 false', '!"llvm.loop.unroll.disable"']


class StatementEmitter(ExpressionEmitter):
    """Emits the body of one kernel."""

    def __init__(self, writer: FunctionWriter, machine: Machine, fault: str) -> None:
        super().__init__(writer)
        self.machine = machine
        self.fault = fault
        """The operand that points to the arena's header, for kernels that can fail."""
        self._accumulators: dict[str, BinaryOp] = {}

    # Statements, in the order of the grammar

    def block(self, body: Block) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: Stmt) -> None:
        match node:
            case Let():
                self.values[node.var.name] = self.expression(node.value)
            case Declare():
                self.declare(node)
            case Assign():
                self.assign(node)
            case Local():
                self.local(node.buffer)
            case Store():
                self.store(node)
            case For():
                self.loop(node)
            case While():
                self.while_loop(node)
            case If():
                self.branch(node)
            case Fail():
                self.fail(node)
            case External():
                self.external(node)
            case Invoke():
                self.invoke(node)
            case Atomic():
                self.atomic(node)
            case Prefetch():
                self.prefetch(node)
            case TileStep():
                self.tile_step(node)
            case Pause():
                self.pause()
            case Comment():
                pass
            case _:
                assert_never(node)

    def declare(self, node: Declare) -> None:
        kind, value = type_name(node.var.type), self.expression(node.value)
        slot = self.writer.alloca(node.var.name, kind)
        self.slots[node.var.name] = slot
        self.writer.write(f"store {kind} {value}, ptr {slot}")

    def assign(self, node: Assign) -> None:
        value = self._accumulated(node)
        slot = self.slots[node.var.name]
        self.writer.write(f"store {type_name(node.var.type)} {value}, ptr {slot}")

    def local(self, buffer: Buffer) -> None:
        kind = f"[{buffer.extent} x {memory_name(buffer.prim)}]"
        self.pointers[buffer.name] = self.writer.alloca(buffer.name, kind, 64)
        if self.access_group:
            self.private.add(buffer.name)

    def store(self, node: Store) -> None:
        prim, type = node.buffer.prim, node.value.type
        value = self.expression(node.value)
        pointer = self.element(node.buffer, node.index)
        moved = memory_name(prim, type.lanes)
        if prim is Prim.BOOL:
            value = self.writer.value(f"zext {type_name(type)} {value} to {moved}")
        suffix = f", align {prim.size}"
        if node.streaming:
            whole = min(64, prim.size * type.lanes)
            suffix = f", align {whole}, !nontemporal {self.writer.module.metadata('i32 1')}"
        suffix += self.group_of(node.buffer)
        self.writer.write(f"store {moved} {value}, ptr {pointer}{suffix}")

    def loop(self, node: For) -> None:
        match node.kind:
            case LoopKind.PARALLEL:
                self._counted(node, BEGIN, END, _AS_WRITTEN)
            case LoopKind.SIMD:
                self._simd(node)
            case LoopKind.UNROLL:
                self._unrolled(node)
            case LoopKind.SERIAL:
                self._bounded(node, _AS_WRITTEN)
            case _:
                assert_never(node.kind)

    def while_loop(self, node: While) -> None:
        head, body, end = self._labels("while", "head", "body", "end")
        self.writer.branch(head)
        self.writer.start(head)
        self.writer.branch_if(self.expression(node.condition), body, end)
        self.writer.start(body)
        self.block(node.body)
        self.writer.branch(head)
        self.writer.start(end)

    def branch(self, node: If) -> None:
        then, orelse, end = self._labels("if", "then", "else", "end")
        self.writer.branch_if(self.expression(node.condition), then, orelse)
        for label, body in ((then, node.then), (orelse, node.orelse)):
            self.writer.start(label)
            self.block(body)
            self.writer.branch(end)
        self.writer.start(end)

    def fail(self, node: Fail) -> None:
        self._record(2, self.expression(node.position))
        for word, detail in zip(DETAIL_WORDS, node.details, strict=False):
            self._record(word, self.expression(detail))
        self.writer.write(f"ret i32 {int(node.status)}")
        self.writer.start(self.writer.unique("after.failure"))

    def external(self, node: External) -> None:
        args = [self._argument(arg) for arg in node.args]
        result = "void" if node.result is None else type_name(node.result.type)
        signature = ", ".join(type for type, _ in args)
        operands = ", ".join(f"{type} {operand}" for type, operand in args)
        function = self._function(node, result, signature)
        call = f"call {result} {function}({operands})"
        if node.result is None:
            self.writer.write(call)
        else:
            self.values[node.result.name] = self.writer.value(call)

    def _function(self, node: External, result: str, signature: str) -> str:
        """Return the operand that is called: a symbol, or a pointer."""
        if node.address is not None:
            return self.writer.value(f"inttoptr i64 {self.expression(node.address)} to ptr")
        symbol = self.writer.module.symbols.get(node.symbol, node.symbol)
        if symbol in self.writer.module.slots:
            self.writer.module.declare_slot(symbol)
            return self.writer.value(f"load ptr, ptr @{symbol}")
        self.writer.module.declare(symbol, result, signature)
        return f"@{symbol}"

    def invoke(self, node: Invoke) -> None:
        name = node.kernel.name
        args = [f"ptr {self.element(address.buffer, address.index)}" for address in node.buffers]
        args += [f"{type_name(scalar.type)} {self.expression(scalar)}" for scalar in node.scalars]
        if node.kernel.parallel_loop is not None:
            bounds = node.bounds or full_range(node)
            args += [f"i64 {self.expression(bound)}" for bound in bounds]
        if not can_fail(node.kernel):
            self.writer.module.declare_kernel(name, "void", args)
            self.writer.write(f"call void @{name}({', '.join(args)})")
            return
        args.append(f"ptr {self.fault}")
        self.writer.module.declare_kernel(name, "i32", args)
        status = self.writer.value(f"call i32 @{name}({', '.join(args)})")
        self._return_failure(status, node.origin)

    def atomic(self, node: Atomic) -> None:
        pointer = self.element(node.buffer, node.index)
        operand = "" if node.value is None else self.expression(node.value)
        match node.op:
            case AtomicOp.STORE:
                self.writer.write(f"store atomic i64 {operand}, ptr {pointer} release, align 8")
            case AtomicOp.LOAD:
                self._bind(node.result, f"load atomic i64, ptr {pointer} acquire, align 8")
            case AtomicOp.ADD:
                self._bind(node.result, f"atomicrmw add ptr {pointer}, i64 {operand} acq_rel")
            case _:
                assert_never(node.op)

    def prefetch(self, node: Prefetch) -> None:
        """Ask for a line to read (0) that stays in all caches (3), of data (1)."""
        start, at = self.pointers[node.buffer.name], self.expression(node.index)
        kind = memory_name(node.buffer.prim)
        pointer = self.writer.value(f"getelementptr {kind}, ptr {start}, i64 {at}")
        self.writer.module.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
        self.writer.write(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def tile_step(self, node: TileStep) -> None:
        name = f"llvm.x86.{INTRINSICS[node.op]}"
        args = [f"i8 {number}" for number in node.tiles]
        args += [f"ptr {self.element(each.buffer, each.index)}" for each in addresses(node)]
        if node.stride is not None and node.address is not None:
            size = node.address.buffer.prim.size
            rows = self.writer.value(f"mul i64 {self.expression(node.stride)}, {size}")
            args.append(f"i64 {rows}")
        types = ", ".join(arg.split()[0] for arg in args)
        self.writer.module.declare(name, "void", types)
        self.writer.write(f"call void @{name}({', '.join(args)})")

    def pause(self) -> None:
        if self.machine.is_x86:
            self.writer.module.declare("llvm.x86.sse2.pause", "void", "")
            self.writer.write("call void @llvm.x86.sse2.pause()")

    # Loops

    def _simd(self, node: For) -> None:
        """Have LLVM vectorize a loop that the pass `vectorize` left."""
        self.writer.module.needs_vectorizer = True
        group = self.writer.module.distinct()
        outer, self.access_group = self.access_group, f", !llvm.access.group {group}"
        self._accumulators = {var.name: op for var, op in node.accumulators}
        hints = [_VECTORIZE, f'!"llvm.loop.parallel_accesses", {group}']
        self._bounded(node, hints)
        self.access_group, self._accumulators = outer, {}

    def _unrolled(self, node: For) -> None:
        """Repeat the body per iteration, so that scratch indexed by it can live in registers."""
        trips = _iterations(node)
        if trips is None or len(trips) > _MOST_UNROLLED:
            self._bounded(node, ['!"llvm.loop.unroll.enable"'])
        else:
            self._repeated(node, trips)

    def _bounded(self, node: For, hints: list[str]) -> None:
        trips = _iterations(node)
        if trips is not None and len(trips) <= 1:
            self._repeated(node, trips)
        else:
            start, stop = self.expression(node.start), self.expression(node.stop)
            self._counted(node, start, stop, hints)

    def _repeated(self, node: For, trips: range) -> None:
        for trip in trips:
            self.values[node.var.name] = str(trip)
            self.block(node.body)

    def _counted(self, node: For, start: str, stop: str, hints: list[str]) -> None:
        """Emit a rotated loop: a guard, then the body with the test at its end."""
        body, end = self._labels(node.var.name, "body", "end")
        writer, var = self.writer, f"%{self.writer.unique(node.var.name)}"
        before = writer.label
        enters = writer.value(f"icmp slt i64 {start}, {stop}")
        writer.branch_if(enters, body, end)
        writer.start(body)
        latch = self._labels(node.var.name, "latch")[0]
        writer.write(f"{var} = phi i64 [ {start}, %{before} ], [ {var}.next, %{latch} ]")
        self.values[node.var.name] = var
        self.block(node.body)
        writer.branch(latch)
        writer.start(latch)
        writer.write(f"{var}.next = add nsw i64 {var}, {node.step}")
        again = writer.value(f"icmp slt i64 {var}.next, {stop}")
        metadata = self._loop_metadata(hints) + self._frequency(node)
        writer.branch_if(again, body, end, metadata)
        writer.start(end)

    def _loop_metadata(self, hints: list[str]) -> str:
        module = self.writer.module
        nodes = [module.metadata(hint) for hint in ['!"llvm.loop.mustprogress"', *hints]]
        return f", !llvm.loop {module.distinct(', '.join(['{self}', *nodes]))}"

    def _frequency(self, node: For) -> str:
        """Say how often a loop runs: registers go to what runs most.

        LLVM holds an inner loop for thirty times as frequent as the one around it, and would keep
        the constants of a loop of two steps in registers that sums of a loop of hundreds need.
        """
        trips = _iterations(node)
        if trips is None:
            return ""
        weights = f'!"branch_weights", i32 {len(trips) - 1}, i32 1'
        return f", !prof {self.writer.module.metadata(weights)}"

    def _accumulated(self, node: Assign) -> str:
        """Evaluate an assignment; the update of an accumulator may be reassociated."""
        value = node.value
        op = self._accumulators.get(node.var.name)
        if isinstance(value, Binary) and value.op is op and node.var in (value.a, value.b):
            return self.binary(value, flags="reassoc ")
        return self.expression(value)

    # Parts

    def _argument(self, arg: Expr | Address) -> tuple[str, str]:
        """Return type, with the extension that the C ABI asks for, and operand."""
        if isinstance(arg, Address):
            return "ptr", self.element(arg.buffer, arg.index)
        prim = arg.type.prim
        extension = ""
        if not prim.is_float and prim.size < 4:
            extension = " signext" if prim.is_signed else " zeroext"
        return f"{prim_name(prim)}{extension}", self.expression(arg)

    def _return_failure(self, status: str, origin: int) -> None:
        failed, passed = self._labels("call", "failed", "passed")
        self.writer.branch_if(self.writer.value(f"icmp ne i32 {status}, 0"), failed, passed)
        self.writer.start(failed)
        if origin >= 0:
            self._record(0, self.writer.value(f"sext i32 {status} to i64"))
            self._record(1, str(origin))
        self.writer.write(f"ret i32 {status}")
        self.writer.start(passed)

    def _record(self, field: int, operand: str) -> None:
        """Store one field of the arena's header."""
        pointer = self.writer.value(f"getelementptr inbounds i64, ptr {self.fault}, i64 {field}")
        self.writer.write(f"store i64 {operand}, ptr {pointer}, align 8")

    def _bind(self, var: Var | None, instruction: str) -> None:
        value = self.writer.value(instruction)
        if var is not None:
            self.values[var.name] = value

    def _labels(self, base: str, *suffixes: str) -> list[str]:
        return [self.writer.unique(f"{base}.{suffix}") for suffix in suffixes]


def _iterations(node: For) -> range | None:
    """Return the values of a loop variable whose bounds are literals."""
    if isinstance(node.start, Const) and isinstance(node.stop, Const):
        return range(int(node.start.value), int(node.stop.value), node.step)
    return None
